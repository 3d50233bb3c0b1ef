from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.example_programs import EXAMPLES, ExamplePrograms


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[ExamplePrograms]:
    """Starts examples; all have ended when the test has."""
    with ExamplePrograms(tmp_path) as programs:
        yield programs


@pytest.fixture
def examples() -> Path:
    """The folder of the examples."""
    return EXAMPLES
