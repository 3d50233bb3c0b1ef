"""The orders `pause` and `resume`, the pause file, and what a restart goes on with."""

import shutil
import threading
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from reactive_desched.app import pausing
from reactive_desched.app.pausing import FILE, BrakesAnswer, Pausing
from reactive_desched.controller.readiness import MANUAL, STARTUP
from reactive_desched.errors import ConfigError
from reactive_desched.model.brakes import STORM
from reactive_desched.policy.settings.brakes import BrakeSettings
from reactive_desched.testing.builders import node, pod
from tests.support.assembly_bench import TAINTED, ControllerBench
from tests.support.golden import Golden
from tests.support.recording_logger import RecordingLogger

pytestmark = pytest.mark.anyio


class Life:
    """A controller's life, with its pausing in a folder."""

    def __init__(self, folder: Path, pause_file: str = "", **settings: Any) -> None:
        self.bench = ControllerBench(**settings)
        self.log = RecordingLogger()
        self.folder = folder
        self.is_restored = False
        self.pausing = Pausing(self.bench.controller, self.bench.ledger, pause_file, self.log)
        self.bench.readiness.resume(STARTUP)

    async def restore(self) -> None:
        """Go on with what an earlier life kept in the folder."""
        self.is_restored = True
        await self.pausing.restore(self.folder)

    async def order(self, name: str, **body: object) -> BrakesAnswer:
        """Carry out an order, once what an earlier life kept is in force."""
        if not self.is_restored:
            await self.restore()
        [order] = [each for each in self.pausing.orders if each.name == name]
        answer = await order.carry_out(body)
        assert isinstance(answer, BrakesAnswer)
        return answer

    @property
    def pause(self) -> str:
        """What /readyz says of the pause."""
        self.bench.controller.pauses.check()
        return self.bench.readiness.pauses[MANUAL].reason


async def test_a_pause_by_command_is_kept_before_it_is_answered(tmp_path: Path) -> None:
    answer = await Life(tmp_path).order("pause", by="ann", reason="upgrade")

    assert answer.brakes == {MANUAL: "paused by ann: upgrade"}
    assert answer.not_kept == ""
    later = Life(tmp_path)
    await later.restore()
    assert later.pause == "paused by ann: upgrade"

    assert (await later.order("resume", by="bob")).brakes == {}
    last = Life(tmp_path)
    await last.restore()
    assert last.pause == ""


async def test_orders_are_answered_once_their_records_are_on_disk(tmp_path: Path) -> None:
    life = Life(tmp_path)
    ledger = life.bench.ledger
    counts = list[tuple[int, int]]()
    for name in ("pause", "resume"):
        await life.order(name, by="ann")
        counts.append((len(ledger.brakes), ledger.written_brakes))

    assert counts == [(1, 1), (2, 2)]


async def test_a_storm_is_kept_at_once_for_the_process_may_crash_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reactive_desched.app.pausing.POLL_INTERVAL_S", 3600)
    storm = BrakeSettings.model_validate({"zones": None, "pending": None, "storm": {"pods": 2}})
    life = Life(tmp_path, brakes=storm)
    pods = pod("web", on="n1"), pod("api", on="n1")
    await life.restore()
    async with life.bench.running(), anyio.create_task_group() as group:
        group.start_soon(life.pausing.run)
        life.bench.sync_and_resume(node("n1"), node("n2"), *pods)
        life.bench.deliver(TAINTED)
        with anyio.fail_after(20):
            while not (tmp_path / FILE).exists():  # noqa: ASYNC110 -- another thread writes it
                await anyio.sleep(0.01)
        group.cancel_scope.cancel()

    later = Life(tmp_path, brakes=storm)
    await later.restore()
    assert "2 pods were found within 60 s" in later.bench.controller.pauses.brake_messages()[STORM]

    assert (await later.order("pause", by="ann")).released == {}
    answer = await later.order("resume", by="bob")
    assert answer.brakes == {}
    assert answer.released[MANUAL] == "paused by ann"
    assert "2 pods were found" in answer.released[STORM]
    assert (await later.order("resume", by="bob")).released == {}


@pytest.mark.parametrize("error", [None, OSError(28, "No space left on device")])
async def test_a_storm_is_shown_once_it_was_tried_to_be_kept_and_holds_before_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError | None
) -> None:
    may_write = threading.Event()

    def write(path: Path, content: bytes) -> None:
        assert may_write.wait(20)
        if error is not None:
            raise error
        path.write_bytes(content)

    monkeypatch.setattr("reactive_desched.journal.atomic_files.replace", write)
    storm = BrakeSettings.model_validate({"zones": None, "pending": None, "storm": {"pods": 2}})
    life = Life(tmp_path, brakes=storm)
    controller = life.bench.controller
    await life.restore()
    async with life.bench.running(), anyio.create_task_group() as group:
        group.start_soon(life.pausing.run)
        life.bench.sync_and_resume(
            node("n1"), node("n2"), pod("web", on="n1"), pod("api", on="n1"), pod("db", on="n1")
        )
        life.bench.deliver(TAINTED)
        with anyio.fail_after(20):
            while not controller.pauses.saved_brakes().storm:  # noqa: ASYNC110 -- nobody says so
                await anyio.sleep(0.01)
        await anyio.sleep(0.05)
        evicted = len(life.bench.evicted_names)
        assert controller.pauses.brake_messages()[STORM] == ""
        assert not list(controller.gates.brakes.take_notices())

        may_write.set()
        with anyio.fail_after(20):
            while not controller.pauses.brake_messages()[STORM]:  # noqa: ASYNC110 -- another thread writes
                await anyio.sleep(0.01)
        assert (tmp_path / FILE).exists() is (error is None)
        assert len(life.bench.evicted_names) == evicted
        group.cancel_scope.cancel()


async def test_a_pause_that_cannot_be_kept_holds_and_says_so(tmp_path: Path) -> None:
    life = Life(tmp_path / "missing")

    answer = await life.order("pause", by="ann")

    assert answer.brakes == {MANUAL: "paused by ann"}
    assert "No such file" in answer.not_kept


@pytest.mark.parametrize("content", [b"", b"{", b'{"pause": 7}'])
async def test_a_file_that_cannot_be_read_may_hold_a_pause(
    tmp_path: Path, content: bytes, golden: Golden
) -> None:
    (tmp_path / FILE).write_bytes(content)
    life = Life(tmp_path)
    await life.restore()

    assert golden() in life.pause
    assert (await life.order("resume", by="ann")).brakes == {}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"forSeconds": 0}, id="no time"),
        pytest.param({"forSeconds": 1e12}, id="too long a time"),
        pytest.param({"forSeconds": "1h"}, id="a text"),
        pytest.param({"until": "tomorrow"}, id="an unknown member"),
        pytest.param({"by": "a" * 201}, id="too long a name"),
    ],
)
async def test_a_wrong_order_is_refused(tmp_path: Path, body: dict[str, object]) -> None:
    life = Life(tmp_path)
    [member] = body
    with pytest.raises(ConfigError, match=member):  # the message names what is wrong
        await life.order("pause", **body)

    assert life.pause == ""


async def test_the_pause_file_is_followed(tmp_path: Path) -> None:
    file = tmp_path / "paused"
    life = Life(tmp_path, str(file))
    await life.restore()
    assert life.pause == ""

    async with anyio.create_task_group() as group:
        group.start_soon(life.pausing.run)
        for content, expected in (("upgrade", "paused by the pause file: upgrade"), ("false", "")):
            file.write_text(content)
            with anyio.fail_after(20):
                while life.pause != expected:  # noqa: ASYNC110 -- the file is polled
                    await anyio.sleep(0.1)
        group.cancel_scope.cancel()


def mount(volume: Path, version: str, keys: dict[str, str]) -> None:
    """Show a ConfigMap's keys in a volume as the kubelet does: all at once, by one symlink."""
    (volume / f"..{version}").mkdir(parents=True)
    for key, text in keys.items():
        (volume / f"..{version}" / key).write_text(text)
    (volume / "..data_tmp").symlink_to(f"..{version}")
    before = (volume / "..data").resolve()
    (volume / "..data_tmp").rename(volume / "..data")
    for key in keys:
        if not (volume / key).is_symlink():
            (volume / key).symlink_to(f"..data/{key}")
    for path in volume.iterdir():
        if path.is_symlink() and not path.exists():
            path.unlink()
    if before.name != "..data":
        shutil.rmtree(before)


async def test_the_key_of_a_mounted_config_map_pauses_while_it_is_there(tmp_path: Path) -> None:
    volume = tmp_path / "config"
    mount(volume, "2026_11_23_01", {"policy.yaml": ""})
    life = Life(tmp_path, str(volume / "paused"))
    await life.restore()
    assert life.pause == ""

    upgrade = "paused by the pause file: network upgrade"
    versions = (
        ({"policy.yaml": "", "paused": "network upgrade\n"}, upgrade),
        ({"policy.yaml": "a: b", "paused": "network upgrade\n"}, upgrade),
        ({"policy.yaml": "a: b"}, ""),
    )
    async with anyio.create_task_group() as group:
        group.start_soon(life.pausing.run)
        for number, (keys, expected) in enumerate(versions, 2):
            mount(volume, f"2026_11_23_0{number}", keys)
            with anyio.fail_after(20):
                while life.pause != expected:  # noqa: ASYNC110 -- the file is polled
                    await anyio.sleep(0.1)
        group.cancel_scope.cancel()


async def test_a_pause_file_that_is_there_at_the_start_counts_at_once(tmp_path: Path) -> None:
    (tmp_path / "paused").write_text("true")
    life = Life(tmp_path, str(tmp_path / "paused"))
    await life.restore()

    assert life.pause == "paused by the pause file"


async def test_a_pause_file_that_cannot_be_read_pauses(tmp_path: Path) -> None:
    life = Life(tmp_path, str(tmp_path))
    await life.restore()

    assert "Is a directory" in life.pause


async def test_a_pause_before_the_journal_is_open_holds_at_once_and_is_kept_when_it_opens(
    tmp_path: Path,
) -> None:
    earlier = Life(tmp_path)
    await earlier.order("pause", by="ann", reason="earlier")
    life = Life(tmp_path)
    life.is_restored = True  # by the task group below
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(life.order, "pause", by="bob", reason="now"))
        await anyio.wait_all_tasks_blocked()
        assert life.pause == "paused by bob: now"
        assert msgspec.json.decode((tmp_path / FILE).read_bytes())["pause"]["by"] == "ann"
        await life.restore()

    assert life.pause == "paused by bob: now"
    assert msgspec.json.decode((tmp_path / FILE).read_bytes())["pause"]["by"] == "bob"


async def test_a_pause_while_no_journal_opens_holds_and_says_that_it_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.setattr(pausing, "RESTORE_WAIT_S", 0.01)
    life = Life(tmp_path)
    life.is_restored = True  # it never is

    answer = await life.order("pause", by="ann")

    assert answer.brakes == {MANUAL: "paused by ann"}
    assert answer.not_kept == golden()
