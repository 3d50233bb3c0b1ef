"""What every test shares: the event loop of its async tests, and how hard hypothesis tries."""

import os
import signal
from typing import Any

import hypothesis
import pytest

# No deadlines: a slow machine is not a wrong answer. CI tries more examples, the same each time;
# everybody else explores.
hypothesis.settings.register_profile("here", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, max_examples=200)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "here")

VIRTUAL_TIME = "virtual_time: on trio, with a clock that jumps ahead whenever every task sleeps"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", VIRTUAL_TIME)
    _let_children_be_interrupted()


def _let_children_be_interrupted() -> None:
    """Restore SIGINT, which a shell has ignored by what it starts in the background.

    The programs that tests start would inherit that, and ignore the SIGINT that tests send.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Choose asyncio, or what the mark `virtual_time` says."""
    if request.node.get_closest_marker("virtual_time") is None:
        return "asyncio", {}
    from trio.testing import MockClock

    return "trio", {"clock": MockClock(autojump_threshold=0)}


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes by their argument, since workers that collect a second apart must agree.

    The default name of bytes is the bytes, and a compressed file's hold the time it was made.
    """
    return argname if isinstance(val, bytes) else None
