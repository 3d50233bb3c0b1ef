"""Lines of every type, as a journal holds them."""

from pathlib import Path

import pytest

from tests.support.journals import some_events, write_journal


@pytest.fixture(scope="session")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Return a whole journal's lines, without their ends: every type, several times."""
    folder: Path = tmp_path_factory.mktemp("journal")
    return [entry.raw for entry in write_journal(folder, some_events(200), per_segment=50)]
