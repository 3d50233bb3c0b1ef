"""What every test shares: the event loop of its async tests, and how hard hypothesis tries."""

import gc
import logging
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from functools import partial
from importlib import import_module
from itertools import chain, groupby
from pathlib import Path
from typing import Any, Literal

import hypothesis
import pytest
from hypothesis.internal.conjecture import providers  # HypothesisWorks/hypothesis#4627

from reactive_desched.app.run import loop_options
from reactive_desched.journal import disk

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

pytest_plugins = ["tests.support.golden"]

TMPFS = Path("/dev/shm")  # journals are synced to disk: on a RAM disk that is cheap

WAITING = ("system", "examples")
"""Folders whose tests wait for processes more than they compute: these come first."""
PROPERTIES = len(WAITING) + 1
"""The next group: tests with hypothesis, of which some take long. The last has all others."""

WAITS = "waits: waits for processes and real time more than it computes"
SYNTAX_TREES = "syntax_trees: reads the package's code; a worker parses it for all of these"
EXECUTED = "executed: the programs of a system test are new interpreters, not forked ones"
_Phase = Literal["setup", "call", "teardown"]

OBJECTS_BETWEEN_COLLECTIONS = 50_000
"""Instead of 700: tests build many small clusters, and looking through them took a twentieth."""

REAL_DISKS = ("audit", "examples", "journal", "sinks", "web")
"""Folders whose journals are written in real time, in which no disk stalls but on purpose."""
A_DISK_STALLS_AFTER_S = 60.0
"""There, instead of one second: no journal refuses a record because the machine is busy."""

SLOW_S = 0.5
"""From here on the start or the end of a test is worth a line among the slowest."""
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
        config.option.basetemp = f"{folder}/tests"
        # The examples of hypothesis have folders of their own, in workers and programs, too.
        os.environ["TMPDIR"] = tempfile.tempdir = folder


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Keep what is collected, which stays to the end, from the garbage collector.

    Ten thousand tests and the modules they import are most of a worker's objects: walking them
    again and again took a tenth of the suite's CPU.
    """
    gc.disable()
    try:
        _import_own_share(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, 20, 100)
        gc.enable()


def _import_own_share(config: pytest.Config) -> None:
    """Import a part of the test modules, in each worker another one.

    In a fresh clone rewriting the asserts of a module takes longer than all else of collecting
    it. Workers that import all modules in the same order rewrite each of them at the same time;
    so they find the others' shares as bytecode.
    """
    number, workers = _worker(config)
    if workers == 1:
        return
    skipped = tuple(map(os.path.abspath, config.option.ignore or ()))
    named = [Path(arg.partition("::")[0]).absolute() for arg in config.args]
    paths = sorted(
        path
        for each in named
        for path in (each.rglob("test_*.py") if each.is_dir() else [each])
        if not str(path).startswith(skipped)
    )
    for path in paths[number::workers]:
        module = ".".join(path.relative_to(config.rootpath).with_suffix("").parts)
        with suppress(Exception, pytest.skip.Exception):  # collecting it raises that again
            import_module(module)


@pytest.hookimpl(trylast=True)  # after hypothesis marks its tests
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let most of the workers begin with the tests that wait, and all end with short ones.

    Each worker begins with its part of the list, and at its end takes from the others' parts. In
    the order of their names, one worker would come to all tests that wait for processes, while
    the others compete for the processors at first and leave them idle in the end.
    """
    for item in items:
        _end_it_in_time(item)
    _, workers = _worker(config)
    if workers == 1:
        return
    parts: list[list[pytest.Item]] = [[] for _ in range(workers)]
    for group, of_group in groupby(sorted(items, key=_group), key=_group):
        if group < PROPERTIES:  # one by one, since some modules take minutes
            for place, item in enumerate(of_group):
                parts[place % max(1, workers * 2 // 3)].append(item)
        else:
            for _, together in groupby(sorted(of_group, key=_comes_late), key=_share):
                min(parts, key=len).extend(together)
    items[:] = chain.from_iterable(_as_long_as_distributed(parts))


def _as_long_as_distributed(parts: list[list[pytest.Item]]) -> list[list[pytest.Item]]:
    """Move tests from the ends of long parts to those of short ones.

    pytest-xdist gives each worker as many tests. Were a part shorter, its worker would get the
    beginning of the next part too, and run those tests, which wait, at the very end.
    """
    left, surplus = sum(map(len, parts)), list[pytest.Item]()
    sizes = []
    for workers in range(len(parts), 0, -1):
        sizes.append(left // workers)
        left -= sizes[-1]
    for part, size in zip(parts, sizes, strict=True):
        surplus += part[size:]
        del part[size:]
    for part, size in zip(parts, sizes, strict=True):
        wanted = size - len(part)
        part.extend(surplus[:wanted])
        del surplus[:wanted]
    return parts


def _group(item: pytest.Item) -> int:
    folder = item.path.parent.name
    if folder in WAITING:
        return WAITING.index(folder)
    if item.get_closest_marker("waits") is not None:
        return len(WAITING)
    return PROPERTIES if item.get_closest_marker("hypothesis") else PROPERTIES + 1


def _is_of_syntax_trees(item: pytest.Item) -> bool:
    return item.get_closest_marker("syntax_trees") is not None


def _comes_late(item: pytest.Item) -> bool:
    return not _is_of_syntax_trees(item)  # which are many seconds in one


def _share(item: pytest.Item) -> Path | str:
    """Return what the tests that one worker runs have in common."""
    return "syntax trees" if _is_of_syntax_trees(item) else item.path


def _worker(config: pytest.Config) -> tuple[int, int]:
    """Return the number of this worker of pytest-xdist, and how many there are."""
    its: dict[str, Any] = getattr(config, "workerinput", {"workerid": "gw0", "workercount": 1})
    return int(its["workerid"].removeprefix("gw")), int(its["workercount"])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Send one report of a test that passes, not six messages, from a worker of pytest-xdist.

    Sending, reading and counting them takes longer than most tests.
    """
    if not hasattr(item.config, "workerinput"):
        return None
    for report in _run(item, nextitem):
        if report.when == "call" or not report.passed or report.duration > SLOW_S:
            if report.passed:
                report.keywords = {}  # which only selections read, before a test runs
            item.ihook.pytest_runtest_logreport(report=report)
    return True


def _run(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[pytest.TestReport]:
    """Run a test as pytest does, and yield the reports of its phases."""
    setup = _run_phase(item, "setup", lambda: item.ihook.pytest_runtest_setup(item=item))
    yield setup
    if setup.passed:
        yield _run_phase(item, "call", lambda: item.ihook.pytest_runtest_call(item=item))
    following = None if item.session.shouldfail or item.session.shouldstop else nextitem
    yield _run_phase(
        item,
        "teardown",
        lambda: item.ihook.pytest_runtest_teardown(item=item, nextitem=following),
    )
    if isinstance(item, pytest.Function):
        item.funcargs.clear()  # what fixtures made, the item would keep to the end


def _run_phase(item: pytest.Item, when: _Phase, phase: Callable[[], None]) -> pytest.TestReport:
    reraise = (pytest.exit.Exception, KeyboardInterrupt)
    call = pytest.CallInfo.from_call(phase, when=when, reraise=reraise)
    report: pytest.TestReport = item.ihook.pytest_runtest_makereport(item=item, call=call)
    return report


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


@pytest.fixture(autouse=True, scope="module")
def patient_disks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let a write take long on a busy machine; stories have the second of the program."""
    with pytest.MonkeyPatch.context() as patch:
        if request.path.parent.name in REAL_DISKS:
            patch.setattr(disk, "STALLED_AFTER_S", A_DISK_STALLS_AFTER_S)
        yield


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
