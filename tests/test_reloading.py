import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio.testing

from reactive_desched.assembly import Plan
from reactive_desched.metrics import Metrics
from reactive_desched.planning import plan, registry
from reactive_desched.policy.load import load
from reactive_desched.policy.settings import ReactiveSettings
from reactive_desched.reloading import (
    Files,
    InForce,
    Prepared,
    Reloader,
    Texts,
    fingerprint,
    restart_needed,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Run on virtual time: the clock jumps ahead whenever every task sleeps."""
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


HEAD = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n"
SETTINGS = "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"


def policy(name: str, more: str = "") -> str:
    return (
        f"{HEAD}{more}profiles:\n- name: {name}\n"
        "  plugins: {deschedule: {enabled: [RemovePodsViolatingNodeTaints]}}\n"
    )


def write(path: Path, text: str) -> None:
    path.write_text(text)


def remove(path: Path) -> None:
    path.unlink()


class Bench:
    """A reloader over files of a test, and everything it said and did."""

    def __init__(self, *paths: Path) -> None:
        self.paths = tuple(map(str, paths))
        self.reads = 0
        self.before_read: Callable[[], None] = lambda: None
        self.while_read: Callable[[], None] = lambda: None
        self.plans: list[Plan] = []
        self.told: list[tuple[str, Any]] = []
        self.lines: list[tuple[str, str, dict[str, Any]]] = []
        begun_with = fingerprint(self.paths)
        self.in_force = InForce(self._prepare().configuration)
        self.metrics = Metrics()
        self.reloader = Reloader(
            self, begun_with, self.in_force, self.plans.append, self, self.metrics, self
        )
        self.reads = 0

    def _prepare(self) -> Prepared:
        self.before_read()
        self.reads += 1
        configuration = load(self.paths, registry())
        self.while_read()
        return Prepared(configuration, plan(configuration.policy, configuration.settings))

    # as a source: without threads, which know no virtual time

    async def texts(self) -> Texts:
        await anyio.lowlevel.checkpoint()
        return fingerprint(self.paths)

    async def read(self) -> Prepared:
        await anyio.lowlevel.checkpoint()
        return self._prepare()

    # as an audience

    def policy_loaded(self, source: str, revision: str) -> None:
        self.told.append(("reloaded", (source, revision)))

    def policy_rejected(self, source: str, problems: tuple[str, ...]) -> None:
        self.told.append(("rejected", (source, problems)))

    # as a log

    def debug(self, event: str, **values: Any) -> None:  # as structlog
        self.lines.append(("debug", event, values))

    def info(self, event: str, **values: Any) -> None:  # as structlog
        self.lines.append(("info", event, values))

    def warning(self, event: str, **values: Any) -> None:  # as structlog
        self.lines.append(("warning", event, values))

    @property
    def names(self) -> list[str]:
        """Name the profile of every plan that was adopted."""
        return [plan.profiles[0].name for plan in self.plans]

    @property
    def warnings(self) -> list[str]:
        return [event for level, event, _ in self.lines if level == "warning"]

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Bench"]:
        async with anyio.create_task_group() as group:
            group.start_soon(self.reloader.run)
            yield self
            group.cancel_scope.cancel()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "policy.yaml"
    made.write_text(policy("first"))
    return made


async def test_a_changed_policy_is_in_force_two_seconds_later_and_says_so(path: Path) -> None:
    async with Bench(path).running() as bench:
        first = bench.in_force.policy.revision
        write(path, policy("second"))
        await anyio.sleep(2.1)

    assert bench.names == ["second"]
    revision = bench.in_force.policy.revision
    assert revision != first
    assert bench.in_force.note() == f"revision {revision} of {path}"
    assert bench.lines == [
        (
            "info",
            "policy reloaded",
            {"policy": str(path), "revision": revision, "before": first},
        )
    ]
    assert bench.told == [("reloaded", (str(path), revision))]
    exposed = bench.metrics.exposition("")[0].decode()
    assert 'policy_reloads_total{result="ok"} 1.0' in exposed
    assert f'digest="{revision}"' in exposed


async def test_files_that_stay_as_they_are_are_not_even_read(path: Path) -> None:
    async with Bench(path).running() as bench:
        await anyio.sleep(5)
        os.utime(path, (1, 1))
        write(path, policy("first"))
        await anyio.sleep(5)

    assert (bench.reads, bench.plans, bench.lines) == (0, [], [])


async def test_a_change_that_keeps_size_and_time_is_seen(path: Path) -> None:
    async with Bench(path).running() as bench:
        before = os.stat(path)  # noqa: PTH116 -- pathlib's must not be called here
        write(path, policy("other"))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        after = os.stat(path)  # noqa: PTH116 -- as above
        assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
        await anyio.sleep(3)

    assert bench.names == ["other"]


async def test_a_bad_text_keeps_what_is_in_force_and_every_problem_is_named(path: Path) -> None:
    async with Bench(path).running() as bench:
        revision = bench.in_force.policy.revision
        write(path, policy("second", "nodeSelectr: a=b\nmaxNoOfPodsToEvictTotal: many\n"))
        await anyio.sleep(5)

    assert bench.plans == []
    assert bench.in_force.policy.revision == revision
    first, second = bench.in_force.refused
    assert first.startswith(f"{path}:3:1: nodeSelectr: ")
    assert "nodeSelector" in first
    assert second.startswith(f"{path}:4:")
    assert bench.warnings == ["policy rejected", first, second]
    assert bench.lines[0][2] == {"kept": revision, "problems": 2}
    note = f"kept revision {revision}: file rejected: {first}"
    assert bench.in_force.note() == note
    assert bench.told == [("rejected", (str(path), (first, second)))]
    exposed = bench.metrics.exposition("")[0].decode()
    assert 'policy_reloads_total{result="rejected"} 1.0' in exposed
    assert "policy_kept 1.0" in exposed


async def test_a_bad_text_is_told_once_and_another_one_again(path: Path) -> None:
    async with Bench(path).running() as bench:
        write(path, "no: policy\n")
        await anyio.sleep(30)
        assert len(bench.told) == 1
        write(path, "{")
        await anyio.sleep(30)

    assert [kind for kind, _ in bench.told] == ["rejected", "rejected"]


@pytest.mark.parametrize("again", ["first", "second"], ids=["as it was", "newer"])
async def test_all_is_well_again_when_the_text_is(path: Path, again: str) -> None:
    async with Bench(path).running() as bench:
        write(path, "{")
        await anyio.sleep(3)
        assert bench.in_force.refused
        write(path, policy(again))
        await anyio.sleep(3)

    assert bench.in_force.refused == ()
    assert bench.names == ([] if again == "first" else ["second"])
    assert "policy_kept 0.0" in bench.metrics.exposition("")[0].decode()
    assert bench.in_force.note().startswith("revision ")
    assert bench.lines[-1][1] in ("policy file is good again", "policy reloaded")


async def test_the_newest_good_text_is_the_one_to_come_back_to(path: Path) -> None:
    async with Bench(path).running() as bench:
        for text in (policy("second"), "{", policy("second"), policy("first")):
            write(path, text)
            await anyio.sleep(3)

    assert bench.names == ["second", "first"]


async def test_the_same_bad_text_after_a_good_one_is_refused_again(path: Path) -> None:
    async with Bench(path).running() as bench:
        for text in ("{", policy("first"), "{"):
            write(path, text)
            await anyio.sleep(3)

    assert bench.in_force.refused
    assert [kind for kind, _ in bench.told] == ["rejected", "rejected"]


async def test_a_text_is_not_judged_while_it_is_being_written(path: Path) -> None:
    whole = policy("second", "nodeSelector: pool=a\n")
    async with Bench(path).running() as bench:
        for length in range(len(HEAD), len(whole), 9):  # many of these are policies of their own
            write(path, whole[:length])
            await anyio.sleep(1)
        assert (bench.plans, bench.told) == ([], [])
        write(path, whole)
        await anyio.sleep(2.1)

    assert bench.names == ["second"]
    assert str(bench.plans[0].selects) == "pool in (a)"


async def test_a_text_that_changes_while_it_is_read_is_read_again(path: Path) -> None:
    async with Bench(path).running() as bench:
        bench.while_read = lambda: write(path, policy("third"))
        write(path, policy("second"))
        await anyio.sleep(10)

    assert bench.names == ["third"]
    assert bench.told[0][0] == "reloaded"


async def test_a_file_that_is_missing_for_a_moment_is_waited_for(path: Path) -> None:
    async with Bench(path).running() as bench:
        await anyio.sleep(0.5)
        remove(path)
        await anyio.sleep(1)
        write(path, policy("second"))
        await anyio.sleep(2.1)

    assert bench.names == ["second"]
    assert [kind for kind, _ in bench.told] == ["reloaded"]


async def test_a_file_that_stays_away_is_told_and_the_policy_stays(path: Path) -> None:
    async with Bench(path).running() as bench:
        remove(path)
        await anyio.sleep(5)
        assert (
            "cannot be read: No such file or directory; check the path"
            in (bench.in_force.refused[0])
        )
        write(path, policy("first"))
        await anyio.sleep(3)

    assert bench.in_force.refused == ()
    assert bench.plans == []


async def test_an_editor_that_renames_over_the_file_is_followed(path: Path) -> None:
    async with Bench(path).running() as bench:
        for name in ("second", "third"):
            new = path.with_suffix(".tmp")
            new.write_text(policy(name))
            new.replace(path)
            await anyio.sleep(3)

    assert bench.names == ["second", "third"]


def publish(volume: Path, number: int, **texts: str) -> None:
    """Do as the kubelet does with a ConfigMap: a new folder, and one symlink swapped."""
    folder = volume / f"..{number}"
    folder.mkdir()
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
    link = volume / "..data_tmp"
    link.symlink_to(folder.name)
    link.replace(volume / "..data")


async def test_a_config_map_that_swaps_its_symlink_changes_all_its_files_at_once(
    tmp_path: Path,
) -> None:
    paths = [tmp_path / "policy.yaml", tmp_path / "settings.yaml"]
    publish(tmp_path, 1, policy=policy("first"), settings=SETTINGS + "debounce: {quiet: 1s}\n")
    for one in paths:
        one.symlink_to(f"..data/{one.name}")
    async with Bench(*paths).running() as bench:
        publish(tmp_path, 2, policy=policy("2nd"), settings=SETTINGS + "debounce: {quiet: 2s}\n")
        await anyio.sleep(3)
        assert bench.names == ["2nd"]
        assert bench.plans[0].pause("any").quiet_s == 2

        publish(tmp_path, 3, policy=policy("3rd"), settings=SETTINGS + "debounce: {quiet: x}\n")
        await anyio.sleep(3)
        assert bench.names == ["2nd"]
        assert bench.in_force.configuration.settings.debounce.quiet_s == 2
        assert "settings.yaml" in bench.in_force.refused[0]


async def test_settings_alone_are_taken_too(path: Path, tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text(SETTINGS)
    async with Bench(path, settings).running() as bench:
        settings.write_text(f"{SETTINGS}budgets: {{cluster: null}}\n")
        await anyio.sleep(3)

    assert bench.plans[0].rates["cluster"] is None


async def test_what_needs_a_restart_is_named_and_all_else_is_taken(
    path: Path, tmp_path: Path
) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text(SETTINGS)
    async with Bench(path, settings).running() as bench:
        settings.write_text(
            f"{SETTINGS}journal: {{directory: /elsewhere}}\nclient: {{burst: 7}}\n"
            "debounce: {quiet: 3s}\n"
        )
        await anyio.sleep(3)
        settings.write_text(f"{SETTINGS}client: {{burst: 7}}\n")
        await anyio.sleep(3)

    assert [values for _, event, values in bench.lines if event == "a restart is needed"] == [
        {"field": "client.burst", "in_force": "100", "written": "7"},
        {"field": "journal.directory", "in_force": "", "written": "/elsewhere"},
        {"field": "client.burst", "in_force": "100", "written": "7"},
    ]
    assert bench.plans[0].pause("any").quiet_s == 3


async def test_warnings_of_a_new_policy_are_told(path: Path) -> None:
    async with Bench(path).running() as bench:
        write(path, f"{HEAD}profiles: []\n")
        await anyio.sleep(3)

    assert len(bench.plans) == 1
    [warning] = bench.warnings
    assert "there are no profiles" in warning


async def test_whatever_breaks_while_reading_does_not_end_the_controller(path: Path) -> None:
    def breaks() -> None:
        raise RecursionError("too deep")

    async with Bench(path).running() as bench:
        bench.before_read = breaks
        write(path, policy("second"))
        await anyio.sleep(3)
        assert bench.in_force.refused == ("cannot be read: RecursionError('too deep')",)

        bench.before_read = lambda: None
        write(path, policy("third"))
        await anyio.sleep(3)

    assert bench.names == ["third"]


async def test_what_changed_between_reading_at_the_start_and_the_first_look_is_taken(
    path: Path,
) -> None:
    bench = Bench(path)
    write(path, policy("second"))
    async with bench.running():
        await anyio.sleep(3)

    assert bench.names == ["second"]


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    assert fingerprint((str(pipe), str(tmp_path))) == ("no file", "no file")


def test_settings_are_named_as_they_are_written() -> None:
    new = ReactiveSettings.model_validate(
        {
            "client": {"connectTimeout": "1s"},
            "evictions": {"maxInFlight": 7, "retry": {"initial": "1s"}},
            "debounce": {"quiet": "2s"},
        }
    )

    fields = [kept["field"] for kept in restart_needed(ReactiveSettings(), new)]
    assert fields == ["client.connectTimeout", "evictions.maxInFlight"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_files_are_read_in_a_thread(path: Path) -> None:
    import threading

    threads = []

    def read() -> Prepared:
        threads.append(threading.current_thread())
        configuration = load([path], registry())
        return Prepared(configuration, plan(configuration.policy, configuration.settings))

    files = Files((str(path),), read)

    assert await files.texts() == fingerprint((str(path),))
    assert (await files.read()).configuration.policy.profiles[0].name == "first"
    assert threads != [threading.main_thread()]
