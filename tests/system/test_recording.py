"""A controller records what it sees and what it is answered, and the record of it is read back."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from reactive_desched.api.event import EVICTION_SUCCEEDED
from reactive_desched.cli import main
from reactive_desched.journal.events import read_events
from reactive_desched.model.outcomes import Accepted
from reactive_desched.recording.frames import RECORDING_FOLDER
from reactive_desched.recording.items import (
    ConfigurationInForce,
    Damage,
    EvictionAnswered,
    Item,
    OrderGiven,
    PauseSet,
    PictureBegun,
    PictureEnded,
    TermChanged,
)
from reactive_desched.recording.reader import read_items, state_at
from reactive_desched.recording.segments import recording_paths
from tests.support.limits import UNLIMITED
from tests.system.conftest import wait_until

NODE = "node-1"
ItemT = TypeVar("ItemT", bound=Item)


@pytest.fixture
def settings() -> str:
    return f"recording: {{enabled: true}}\n{UNLIMITED}"


def fail_on_damage(damage: Damage) -> None:
    raise AssertionError(str(damage))


def of_type(items: list[Item], kind: type[ItemT]) -> list[ItemT]:
    return [item for item in items if isinstance(item, kind)]


def test_what_decided_is_recorded_beside_the_journal(
    cluster: Any,
    controller: Callable[..., Any],
    policy: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    journal = tmp_path / "journal"
    program = controller("--log-format", "json")
    program.wait_for("what the controller sees is recorded")
    movable = {uid for uid, kind in cluster.pods_on(NODE).items() if kind != "DaemonSet"}
    assert movable
    assert main(["pause", "--server", program.url, "--reason", "upgrade", "--by", "ann"]) == 0
    cluster.taint(NODE, "gpu")
    assert main(["resume", "--server", program.url, "--by", "bob"]) == 0
    program.wait_until(lambda: not movable & set(cluster.pods_on(NODE)))
    left = f"{policy.read_text(encoding='utf-8')}debounce: {{quiet: 60ms}}\n"
    policy.write_text(left.replace("debounce: {quiet: 50ms}\n", ""), encoding="utf-8")
    program.wait_for('"the policy was reloaded"')
    assert program.stop() == 0

    evicted = [
        event.data.who.uid for event in read_events(journal) if event.type == EVICTION_SUCCEEDED
    ]
    items = list(read_items(recording_paths(journal / RECORDING_FOLDER), fail_on_damage))
    begun = of_type(items, PictureBegun)
    assert {each.cluster for each in begun} == {"kubeconfig"}, "as its context is called"
    assert all(each.cluster_uid for each in begun)
    answers = of_type(items, EvictionAnswered)
    assert sorted(each.uid for each in answers) == sorted(evicted)
    assert {type(each.response) for each in answers} == {Accepted}
    orders = of_type(items, OrderGiven)
    assert [(each.order, each.who) for each in orders] == [("pause", "ann"), ("resume", "bob")]
    assert orders[0].arguments == {"reason": "upgrade"}
    manual = [each.reason for each in of_type(items, PauseSet) if each.name == "manual"]
    assert manual == ["", "paused by ann: upgrade", ""]
    configured = of_type(items, ConfigurationInForce)
    assert ["quiet: 60ms" in each.policy for each in configured] == [False, True]
    assert [each.leads for each in of_type(items, TermChanged)] == [True]

    state, _ = state_at(journal / RECORDING_FOLDER, answers[-1].at.wall_s, fail_on_damage)
    assert state.objects["nodes"][NODE].taints  # type: ignore[attr-defined]  # it is a Node
    capsys.readouterr()
    assert main(["audit", "verify", "--journal", str(journal)]) == 0


def test_a_recording_goes_on_after_a_kill(
    cluster: Any, controller: Callable[..., Any], tmp_path: Path
) -> None:
    folder = tmp_path / "journal" / RECORDING_FOLDER
    program = controller("--log-format", "json")
    program.wait_for("what the controller sees is recorded")
    program.stop(signal.SIGKILL)
    cluster.taint(NODE, "gpu")
    program = controller("--log-format", "json")
    program.wait_for("what the controller sees is recorded")
    wait_until(lambda: len(recording_paths(folder)) > 1 or None, program)
    assert program.stop() == 0

    items = list(read_items(recording_paths(folder), fail_on_damage))
    pictures = of_type(items, PictureBegun)
    assert [each.is_continued for each in pictures] == [False, False]
    last = of_type(items, PictureEnded)[-1]
    state, _ = state_at(folder, last.at.wall_s, fail_on_damage)
    assert state.objects["nodes"][NODE].taints  # type: ignore[attr-defined]  # it is a Node
