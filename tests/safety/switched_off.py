"""`pytest -p tests.safety.switched_off --switched-off NAME`: play tests without one rule."""

from contextlib import ExitStack

import pytest

from tests.safety.mutations import MUTATIONS, mutated

_mutation = ExitStack()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the name of a mutation."""
    parser.addoption("--switched-off", choices=list(MUTATIONS), required=True)


def pytest_configure(config: pytest.Config) -> None:
    """Switch the rule off before any test is read."""
    _mutation.enter_context(mutated(config.getoption("--switched-off")))


def pytest_unconfigure() -> None:
    """Switch the rule on again."""
    _mutation.close()
