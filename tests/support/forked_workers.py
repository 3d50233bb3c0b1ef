"""`pytest --forks N`: N processes, forked from the one that has collected the tests, run them.

A worker of pytest-xdist imports and collects all of them for itself, and sends six messages for
each. That took a tenth of the suite's CPU time.
"""

import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from itertools import groupby
from multiprocessing import Pipe, RawValue
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Final, Literal, NoReturn

import pytest

WAITING: Final = ("system", "examples", "bench")
"""Folders whose tests wait for processes more than they compute: these come first."""
PROPERTIES: Final = len(WAITING) + 1
"""The next group: tests with hypothesis, of which some take long. The last has all others."""

SLOW_S: Final = 0.5
"""From here on the start or the end of a test is worth a line among the slowest."""

REPORT_EVERY_S: Final = 0.5

Portion = list[int]
"""Tests that one process runs in a row, by their places in the collected list."""

_Phase = Literal["setup", "call", "teardown"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take how many processes run the tests."""
    parser.addoption("--forks", type=int, default=0, metavar="N", help="run the tests in N forks")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Have another process rewrite the asserts of the modules, from the last to the first.

    In a fresh clone that takes longer than all else of collecting them; here it is done by two.
    """
    pid = 0
    if session.config.option.forks and not (pid := os.fork()):
        with suppress(BaseException):
            _rewrite_from_the_last(session.config)
        os._exit(0)
    try:
        return (yield)
    finally:
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _rewrite_from_the_last(config: pytest.Config) -> None:
    skipped = tuple(map(os.path.abspath, config.option.ignore or ()))
    folders = (Path(arg) for arg in config.args if Path(arg).is_dir())
    paths = sorted(path.absolute() for each in folders for path in each.rglob("test_*.py"))
    for path in reversed(paths):
        rewritten = path.with_name("__pycache__").glob(f"{path.stem}.*-pytest-*.pyc")
        if not str(path).startswith(skipped) and not any(rewritten):
            with suppress(Exception, pytest.skip.Exception):  # collecting it raises that again
                import_module(".".join(path.relative_to(config.rootpath).with_suffix("").parts))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in forked processes; without the option, leave them to pytest."""
    number: int = session.config.option.forks
    if not number or session.config.option.collectonly or session.testsfailed:
        return None
    queue = _Queue(session.items)
    capture = session.config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()  # each process captures into files of its own
    workers: list[_Worker] = []
    try:
        while len(workers) < number:
            workers.append(_Worker(session, workers))
        _hand_out(session, queue, workers)
    finally:
        for worker in workers:
            worker.end()
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)
    return True


def _hand_out(session: pytest.Session, queue: "_Queue", workers: list["_Worker"]) -> None:
    """Give each process portions of the tests until there are none left, and report them."""
    hook = session.config.hook
    running = list(workers)
    while running:
        ready = wait([worker.connection for worker in running])
        for worker in [each for each in running if each.connection in ready]:
            if (message := worker.receive()) is None:
                running.remove(worker)
                if report := worker.report_of_its_crash(session.items):
                    hook.pytest_runtest_logreport(report=report)
                    queue.put_back(worker.unreported.values())
                    workers.append(_Worker(session, workers))
                    running.append(workers[-1])
                continue
            reports, wants_more = message
            for data in reports:
                report = hook.pytest_report_from_serializable(config=session.config, data=data)
                worker.unreported.pop(report.nodeid, None)
                hook.pytest_runtest_logreport(report=report)
            if wants_more:
                portion = queue.take(waits_first=worker.place % 2 == 0)
                if session.shouldfail or session.shouldstop:
                    portion = []
                worker.unreported |= {session.items[each].nodeid: each for each in portion}
                worker.connection.send(portion)


class _Queue:
    """The portions that no process has yet.

    Half of the processes begin with the tests that wait, which come one by one since some modules
    take minutes. The others begin with those that compute, a file at a time.
    """

    def __init__(self, items: list[pytest.Item]) -> None:
        places = sorted(range(len(items)), key=lambda place: _group(items[place]))
        waiting = [place for place in places if _group(items[place]) <= PROPERTIES]
        computing = places[len(waiting) :]
        computing.sort(key=lambda place: not _is_of_syntax_trees(items[place]))
        self._waiting = deque([place] for place in waiting)
        self._computing = deque(
            list(each) for _, each in groupby(computing, key=lambda place: _share(items[place]))
        )

    def take(self, *, waits_first: bool) -> Portion:
        """Return the next portion; an empty one if there are none left."""
        queues = self._waiting, self._computing
        for queue in queues if waits_first else reversed(queues):
            if queue:
                return queue.popleft()
        return []

    def put_back(self, unreported: Iterable[int]) -> None:
        """Take back tests of a process that has ended."""
        self._computing.appendleft(list(unreported))


def _group(item: pytest.Item) -> int:
    folder = item.path.parent.name
    if folder in WAITING:
        return WAITING.index(folder)
    if item.get_closest_marker("waits") is not None:
        return len(WAITING)
    return PROPERTIES if item.get_closest_marker("hypothesis") else PROPERTIES + 1


def _is_of_syntax_trees(item: pytest.Item) -> bool:
    return item.get_closest_marker("syntax_trees") is not None


def _share(item: pytest.Item) -> Path | str:
    """Return what the tests that one process runs in a row have in common."""
    return "syntax trees" if _is_of_syntax_trees(item) else item.path


class _Worker:
    """A forked process, and the connection on which it asks for tests and reports them."""

    def __init__(self, session: pytest.Session, earlier: list["_Worker"]) -> None:
        self.place = len(earlier)
        self.unreported: dict[str, int] = {}  # tests that it has, by node id, with their places
        self.connection, theirs = Pipe()
        self._running = RawValue("i", -1)  # the place of the test that it runs
        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = os.fork()
        if self._pid:
            theirs.close()
            return
        for one in (*earlier, self):  # else none of them would see that another end is closed
            one.connection.close()
        _work(session, theirs, self._running)

    def receive(self) -> tuple[list[dict[str, Any]], bool] | None:
        """Return reports, and whether it asks for tests; None if it has ended."""
        with suppress(EOFError, ConnectionResetError):
            message: tuple[list[dict[str, Any]], bool] = self.connection.recv()
            return message
        return None

    def report_of_its_crash(self, items: list[pytest.Item]) -> pytest.TestReport | None:
        """Return a failure of the test that the process was in when it ended, if it was in one."""
        _, status = os.waitpid(self._pid, 0)
        self._pid = 0
        if self._running.value == -1:
            return None
        item = items[self._running.value]
        self.unreported.pop(item.nodeid, None)
        said = f"its process ended: exit status {os.waitstatus_to_exitcode(status)}"
        return pytest.TestReport(item.nodeid, item.location, {}, "failed", said, "call")

    def end(self) -> None:
        """Interrupt the process if it still runs, and wait until it has ended."""
        self.connection.close()
        if self._pid:
            os.kill(self._pid, signal.SIGINT)
            os.waitpid(self._pid, 0)


def _work(session: pytest.Session, connection: "Connection[Any, Any]", running: Any) -> NoReturn:
    """Run tests until there are none left; in a process forked for it."""
    config = session.config
    status = 1
    try:
        config.pluginmanager.getplugin("capturemanager").start_global_capturing()
        reports = _Reports(config, connection)
        config.pluginmanager.register(reports)
        places = _asked_for(reports)
        place = next(places, -1)
        while place != -1:
            running.value = place
            following = next(places, -1)
            nextitem = session.items[following] if following != -1 else None
            item = session.items[place]
            config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
            place = following
        running.value = -1
        reports.send(wants_more=False)
        status = 0
    except (KeyboardInterrupt, EOFError, BrokenPipeError):  # the run is over
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        config.pluginmanager.getplugin("runner").pytest_sessionfinish(session=session)
    except BaseException:  # noqa: BLE001
        sys.__excepthook__(*sys.exc_info())
    finally:
        os._exit(status)


def _asked_for(reports: "_Reports") -> Iterator[int]:
    while portion := reports.send(wants_more=True):
        yield from portion


class _Reports:
    """Runs a test, and sends one report of it if it passes."""

    def __init__(self, config: pytest.Config, connection: "Connection[Any, Any]") -> None:
        self._config = config
        self._connection = connection
        self._unsent: list[object] = []
        self._sent_at = time.monotonic()

    def send(self, *, wants_more: bool) -> Portion:
        """Send what is not sent yet; return the tests to run if more are wanted."""
        self._connection.send((self._unsent, wants_more))
        self._unsent, self._sent_at = [], time.monotonic()
        return self._connection.recv() if wants_more else []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run a test, and note the reports of its phases that say something."""
        for report in _run(item, nextitem):
            if report.when == "call" or not report.passed or report.duration > SLOW_S:
                self._note(report)
        if time.monotonic() - self._sent_at > REPORT_EVERY_S:
            self.send(wants_more=False)
        return True

    def _note(self, report: pytest.TestReport) -> None:
        if report.passed:
            report.keywords = {}  # which only selections read, before a test runs
        hook = self._config.hook
        self._unsent.append(hook.pytest_report_to_serializable(config=self._config, report=report))


def _run(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[pytest.TestReport]:
    """Run a test as pytest does, and yield the reports of its phases."""
    setup = _run_phase(item, "setup", lambda: item.ihook.pytest_runtest_setup(item=item))
    yield setup
    if setup.passed:
        yield _run_phase(item, "call", lambda: item.ihook.pytest_runtest_call(item=item))
    yield _run_phase(
        item,
        "teardown",
        lambda: item.ihook.pytest_runtest_teardown(item=item, nextitem=nextitem),
    )
    if isinstance(item, pytest.Function):
        item.funcargs.clear()  # what fixtures made, the item would keep to the end


def _run_phase(item: pytest.Item, when: _Phase, phase: Callable[[], None]) -> pytest.TestReport:
    reraise = (pytest.exit.Exception, KeyboardInterrupt)
    call = pytest.CallInfo.from_call(phase, when=when, reraise=reraise)
    report: pytest.TestReport = item.ihook.pytest_runtest_makereport(item=item, call=call)
    return report
