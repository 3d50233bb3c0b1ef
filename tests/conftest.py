"""What every test shares: the event loop of its async tests, and how hard hypothesis tries."""

import gc
import logging
import os
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis.internal.conjecture import providers  # HypothesisWorks/hypothesis#4627

from reactive_desched.app.run import loop_options

# No deadlines, nor a check of how fast examples are drawn: a slow machine is not a wrong answer.
# The default tier is small and the same each time; `make test-deep` draws many more examples, other
# ones in each run.
PATIENT = hypothesis.settings(
    deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile("default", PATIENT, derandomize=True, max_examples=16)
hypothesis.settings.register_profile(
    "deep", PATIENT, max_examples=int(os.environ.get("EXAMPLES", "500"))
)
IS_DEEP = os.environ.get("TIER") == "deep"
hypothesis.settings.load_profile("deep" if IS_DEEP else "default")

pytest_plugins = ["tests.support.forked_workers", "tests.support.golden"]

TMPFS = Path("/dev/shm")  # journals are synced to disk: on a RAM disk that is cheap

WAITS = "waits: waits for processes and real time more than it computes"
SYNTAX_TREES = "syntax_trees: reads the package's code; a worker parses it for all of these"
EXECUTED = "executed: the programs of a system test are new interpreters, not forked ones"
VIRTUAL_TIME = "virtual_time: on trio, with a clock that jumps ahead whenever every task sleeps"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", EXECUTED)
    config.addinivalue_line("markers", VIRTUAL_TIME)
    config.addinivalue_line("markers", SYNTAX_TREES)
    config.addinivalue_line("markers", WAITS)
    _let_children_be_interrupted()
    os.environ["SSL_CERT_FILE"] = os.devnull  # no test trusts what this machine does
    os.environ["LANGUAGE"] = "C"  # else argparse looks for translations of each of its words
    if not IS_DEEP:
        _draw_no_constants_of_the_code()
    if config.option.basetemp is None and os.access(TMPFS, os.W_OK):
        folder = tempfile.mkdtemp(prefix="reactive-desched-tests-", dir=TMPFS)
        config.add_cleanup(partial(shutil.rmtree, folder, ignore_errors=True))
        os.environ["PYTEST_DEBUG_TEMPROOT"] = folder


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Keep what is collected, which stays to the end, from the garbage collector.

    Ten thousand tests and the modules they import are most of a worker's objects: walking them
    again and again took a tenth of the suite's CPU.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        _end_it_in_time(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Name the exceptions of a group in the summary, which is all that CI may show of a failure."""
    report = yield
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None and call.excinfo and isinstance(call.excinfo.value, BaseExceptionGroup):
        causes = (repr(each.__cause__ or each) for each in call.excinfo.value.exceptions)
        crash.message = f"{crash.message}: {'; '.join(causes)}"
    return report


def _end_it_in_time(item: pytest.Item) -> None:
    """Have a test on an event loop that hangs end its worker at its time limit, with its name.

    uvloop swallows what the signal of pytest-timeout raises: such a test would hang for ever.
    """
    if item.get_closest_marker("anyio") is not None:
        its = item.get_closest_marker("timeout")
        limit = {"timeout": its.args[0]} if its is not None and its.args else {}
        item.add_marker(pytest.mark.timeout(**limit, method="thread"), append=False)


def _draw_no_constants_of_the_code() -> None:
    """Have hypothesis draw the same examples whatever else is loaded, and read no source for it.

    It would parse all modules of ours in each worker, and now and then draw a constant that
    stands there: other ones with each change of the code. Hypothesis has no setting for it
    (HypothesisWorks/hypothesis#4627), so pyproject.toml bounds its version.
    """
    providers._get_local_constants = lambda: providers._local_constants


def _let_children_be_interrupted() -> None:
    """Restore SIGINT, which a shell has ignored by what it starts in the background.

    The programs that tests start would inherit that, and ignore the SIGINT that tests send.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Choose what the mark `virtual_time` says, or the loop that `run` uses.

    `EVENT_LOOP=asyncio` chooses asyncio's own: that of the other commands, and of `run` without
    uvloop.
    """
    if request.node.get_closest_marker("virtual_time") is None:
        return "asyncio", {} if os.environ.get("EVENT_LOOP") == "asyncio" else loop_options()
    from trio.testing import MockClock

    return "trio", {"clock": MockClock(autojump_threshold=0)}


@pytest.fixture(autouse=True)
def root_logger_kept() -> Iterator[None]:
    """Undo what a command that a test ran in this process set up: its stream is closed by now."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes by their argument, since workers that collect a second apart must agree.

    The default name of bytes is the bytes, and a compressed file's hold the time it was made.
    """
    return argname if isinstance(val, bytes) else None
