"""A new text is in force or refused as a whole, and either way somebody hears of it."""

import errno
from pathlib import Path

import anyio
import pytest

from reactive_desched.app.config_reload import restart_needed
from reactive_desched.policy.settings.reactive_settings import ReactiveSettings
from tests.support.golden import Golden
from tests.support.reloading_bench import HEAD, SETTINGS, ReloaderBench, policy_text

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "policy.yaml"
    made.write_text(policy_text("first"))
    return made


async def test_a_changed_policy_is_in_force_two_seconds_later_and_says_so(path: Path) -> None:
    async with ReloaderBench(path).running() as bench:
        first = bench.active.policy.revision
        bench.write(policy_text("second"))
        await anyio.sleep(2.1)

    assert bench.names == ["second"]
    revision = bench.active.policy.revision
    assert revision != first
    assert bench.active.status_message() == f"revision {revision} of {path}"
    (line,) = bench.logger.lines
    assert (line.level, line.event) == ("info", "the policy was reloaded")
    assert line.values == {"policy": str(path), "revision": revision, "before": first}
    assert bench.notifications == [("reloaded", (str(path), revision))]
    assert 'policy_reloads_total{result="ok"} 1.0' in bench.exposition
    assert f'digest="{revision}"' in bench.exposition


async def test_a_bad_text_keeps_what_is_in_force_and_every_problem_is_named(path: Path) -> None:
    async with ReloaderBench(path).running() as bench:
        revision = bench.active.policy.revision
        bench.write(policy_text("second", "nodeSelectr: a=b\nmaxNoOfPodsToEvictTotal: many\n"))
        await anyio.sleep(5)

    assert bench.configs == []
    assert bench.active.policy.revision == revision
    first, second = bench.active.problems
    assert first.startswith(f"{path}:3:1: nodeSelectr: ")
    assert "nodeSelector" in first
    assert second.startswith(f"{path}:4:")
    assert bench.warnings == ["the new policy was rejected", first, second]
    assert bench.logger.lines[0].values == {"kept": revision, "problems": 2}
    note = f"kept revision {revision}: file rejected: {first}"
    assert bench.active.status_message() == note
    assert bench.notifications == [("rejected", (str(path), (first, second)))]
    assert 'policy_reloads_total{result="rejected"} 1.0' in bench.exposition
    assert "policy_kept 1.0" in bench.exposition


async def test_a_bad_text_is_reported_once_and_another_one_again(path: Path) -> None:
    async with ReloaderBench(path).running() as bench:
        bench.write("no: policy\n")
        await anyio.sleep(30)
        assert len(bench.notifications) == 1
        bench.write("{")
        await anyio.sleep(30)

    assert [kind for kind, _ in bench.notifications] == ["rejected", "rejected"]


@pytest.mark.parametrize(
    "lack", [OSError(errno.EMFILE, "Too many open files"), MemoryError()], ids=["files", "memory"]
)
async def test_a_text_for_which_the_process_lacks_something_is_read_again(
    path: Path, lack: Exception
) -> None:
    def raise_lack() -> None:
        raise lack

    async with ReloaderBench(path).running() as bench:
        bench.before_read = raise_lack
        bench.write(policy_text("second"))
        await anyio.sleep(30)
        assert (bench.names, bench.active.problems) == ([], ())
        bench.before_read = lambda: None
        await anyio.sleep(3)

    assert bench.names == ["second"]
    told = [line for line in bench.logger.lines if line.event == "the policy cannot be read now"]
    assert len(told) == 1


@pytest.mark.parametrize(
    ("again", "adopted", "said"),
    [
        ("first", [], "the policy is valid again"),
        ("second", ["second"], "the policy was reloaded"),
    ],
    ids=["as it was", "newer"],
)
async def test_all_is_well_again_when_the_text_is(
    path: Path, again: str, adopted: list[str], said: str
) -> None:
    async with ReloaderBench(path).running() as bench:
        bench.write("{")
        await anyio.sleep(3)
        assert bench.active.problems
        bench.write(policy_text(again))
        await anyio.sleep(3)

    assert bench.active.problems == ()
    assert bench.names == adopted
    assert "policy_kept 0.0" in bench.exposition
    assert bench.active.status_message().startswith("revision ")
    assert bench.logger.lines[-1].event == said


async def test_the_newest_good_text_is_the_one_to_come_back_to(path: Path) -> None:
    async with ReloaderBench(path).running() as bench:
        for text in (policy_text("second"), "{", policy_text("second"), policy_text("first")):
            bench.write(text)
            await anyio.sleep(3)

    assert bench.names == ["second", "first"]


async def test_the_same_bad_text_after_a_good_one_is_refused_again(path: Path) -> None:
    async with ReloaderBench(path).running() as bench:
        for text in ("{", policy_text("first"), "{"):
            bench.write(text)
            await anyio.sleep(3)

    assert bench.active.problems
    assert [kind for kind, _ in bench.notifications] == ["rejected", "rejected"]


async def test_settings_alone_are_taken_too(path: Path, tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text(SETTINGS)
    async with ReloaderBench(path, settings).running() as bench:
        settings.write_text(f"{SETTINGS}budgets: {{cluster: null}}\n")
        await anyio.sleep(3)

    assert bench.configs[0].settings.budgets.cluster is None


async def test_what_needs_a_restart_is_named_and_all_else_is_taken(
    path: Path, tmp_path: Path
) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text(SETTINGS)
    async with ReloaderBench(path, settings).running() as bench:
        settings.write_text(
            f"{SETTINGS}journal: {{directory: /elsewhere}}\nclient: {{burst: 7}}\n"
            "debounce: {quiet: 3s}\n"
        )
        await anyio.sleep(3)
        settings.write_text(f"{SETTINGS}client: {{burst: 7}}\n")
        await anyio.sleep(3)

    assert bench.logger.values_of("a restart is needed") == [
        {"field": "client.burst", "in_force": "100", "written": "7"},
        {"field": "journal.directory", "in_force": "", "written": "/elsewhere"},
        {"field": "client.burst", "in_force": "100", "written": "7"},
    ]
    assert bench.configs[0].settings.debounce.quiet_s == 3


async def test_warnings_of_a_new_policy_are_reported(path: Path) -> None:
    async with ReloaderBench(path).running() as bench:
        bench.write(f"{HEAD}profiles: []\n")
        await anyio.sleep(3)

    assert len(bench.configs) == 1
    [warning] = bench.warnings
    assert "there are no profiles" in warning


async def test_whatever_breaks_while_reading_does_not_end_the_controller(path: Path) -> None:
    def breaks() -> None:
        raise RecursionError("too deep")

    async with ReloaderBench(path).running() as bench:
        bench.before_read = breaks
        bench.write(policy_text("second"))
        await anyio.sleep(3)
        assert bench.active.problems == ("cannot be read: RecursionError('too deep')",)

        bench.before_read = lambda: None
        bench.write(policy_text("third"))
        await anyio.sleep(3)

    assert bench.names == ["third"]


def test_settings_are_named_as_they_are_written() -> None:
    new = ReactiveSettings.model_validate(
        {
            "client": {"connectTimeout": "1s"},
            "evictions": {"maxInFlight": 7, "retry": {"initial": "1s"}},
            "debounce": {"quiet": "2s"},
        }
    )

    fields = [kept["field"] for kept in restart_needed(ReactiveSettings(), new)]
    assert fields == ["evictions.maxInFlight", "client.connectTimeout"]


async def test_reading_that_does_not_end_is_named_once_with_its_place_and_the_remedy(
    path: Path, golden: Golden
) -> None:
    async with ReloaderBench(path).running() as bench:
        bench.reading_s = 1_000
        bench.write(policy_text("second"))
        await anyio.sleep(55)
        assert bench.warnings == []
        await anyio.sleep(100)
        [problem] = bench.active.problems
        assert problem == golden()
        assert bench.warnings == ["the new policy was rejected", problem]
        await anyio.sleep(1_000)

    assert bench.names == ["second"]
    assert bench.active.problems == ()
