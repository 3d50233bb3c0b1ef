"""Which configuration each side of `policy diff` has: what no file says is what was in force."""

import json
from pathlib import Path

import pytest

from reactive_desched.cli import main
from reactive_desched.recording.items import ConfigurationInForce, Item, NothingChanged
from reactive_desched.recording.recording_file import write_recording
from reactive_desched.testing.builders import node, pod
from tests.policy_diff.test_world import START_S, at, changed, picture

NODES = [node(f"n{n}", labels={"pool": pool}) for n, pool in enumerate(("web", "web", "gpu"))]
PODS = [pod(f"on-n{n}", on=f"n{n}", created=START_S - 3600) for n in (0, 2)]
TAINTS = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
{selector}profiles:
- name: p
  plugins: {{deschedule: {{enabled: [RemovePodsViolatingNodeTaints]}}}}
"""
SETTINGS = """\
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
debounce: {quiet: 0s, maxWait: 1s}
guards: {disabled: [SingleReplicas, UnreadyWorkloads, Rollouts], minPodAge: MINIMUM,
  minReadyTime: 0s, standingTimes: {otherTaints: 0s, nodeLabels: 0s}}
budgets: {cluster: null, zone: null, node: null, namespace: null, owner: null, plugin: null,
  warmUp: null}
"""
QUICK, SLOW = SETTINGS.replace("MINIMUM", "0s"), SETTINGS.replace("MINIMUM", "90m")
PLAIN, WEB = TAINTS.format(selector=""), TAINTS.format(selector="nodeSelector: pool=web\n")


def record(folder: Path, policy: str, settings: str = "", selector: str = "") -> Path:
    """Record a cluster of two nodes with a pod each that are tainted later."""
    flags = {"nodeSelector": selector} if selector else {}
    items: list[Item] = list(picture(*NODES, *PODS))
    items.insert(1, ConfigurationInForce(at(0), policy, settings, flags=flags))
    for n, pool in ((0, "web"), (2, "gpu")):
        items.append(changed(100, node(f"n{n}", "gpu:NoSchedule", labels={"pool": pool})))
    items.append(NothingChanged(at(600)))
    path = folder / "week.rdrec"
    with path.open("wb") as file:
        write_recording(iter(items), file)
    return path


def moved(
    recording: Path, capsys: pytest.CaptureFixture[str], *files: Path
) -> tuple[list[str], list[str]]:
    """Return the pods that only the old side moves, and those that only the new side does."""
    given = ["policy", "diff", *map(str, files), "--recording", str(recording), "-o", "json"]
    assert main(given) == 0
    report = json.loads(capsys.readouterr().out)
    old, new = ([each["pod"] for each in report[side]] for side in ("onlyOld", "onlyNew"))
    return old, new


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_the_node_selector_of_the_command_line_counts_for_both_sides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = record(tmp_path, PLAIN, QUICK, selector="pool=web")
    new = write(tmp_path, "new.yaml", PLAIN + "# the same\n")
    slow = write(tmp_path, "slow.yaml", SLOW)

    assert moved(recording, capsys, new) == ([], [])
    assert moved(recording, capsys, slow) == (["on-n0"], [])


def test_a_node_selector_of_the_new_policy_counts_before_that_of_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = record(tmp_path, PLAIN, QUICK, selector="pool=web")
    new = write(tmp_path, "new.yaml", TAINTS.format(selector="nodeSelector: pool\n"))

    assert moved(recording, capsys, new) == ([], ["on-n2"])


def test_a_new_policy_has_not_the_node_selector_of_the_recorded_policy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A recording has the selector in force among the flags, wherever it was written."""
    recording = record(tmp_path, WEB, QUICK, selector="pool in (web)")
    new = write(tmp_path, "new.yaml", PLAIN)

    assert moved(recording, capsys, new) == ([], ["on-n2"])


def test_an_edit_that_takes_the_command_lines_selector_over_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = record(tmp_path, PLAIN, QUICK, selector="pool=web")
    new = write(tmp_path, "new.yaml", WEB)

    assert moved(recording, capsys, new) == ([], [])


@pytest.mark.parametrize(
    "recorded",
    [(PLAIN, QUICK), (f"{PLAIN}---\n{QUICK}", ""), (f"{QUICK}---\n{PLAIN}", "")],
    ids=["in a file of their own", "behind the policy", "before the policy"],
)
def test_a_new_policy_alone_has_the_recorded_settings(
    recorded: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the default settings no pod here would go."""
    recording = record(tmp_path, *recorded, selector="pool=web")
    new = write(tmp_path, "new.yaml", TAINTS.format(selector="nodeSelector: pool\n"))

    assert moved(recording, capsys, new) == ([], ["on-n2"])


@pytest.mark.parametrize(
    "recorded",
    [(PLAIN, SLOW), (f"{PLAIN}---\n{SLOW}", ""), (f"{SLOW}---\n{PLAIN}", "")],
    ids=["in a file of their own", "behind the policy", "before the policy"],
)
def test_new_settings_alone_take_the_place_of_the_recorded_ones(
    recorded: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = record(tmp_path, *recorded)
    new = write(tmp_path, "new.yaml", QUICK)

    assert moved(recording, capsys, new) == ([], ["on-n0", "on-n2"])


def test_an_age_counts_back_from_the_last_item_of_an_exported_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The nodes are tainted 100 s after the beginning, and the recording ends after 600 s."""
    recording = record(tmp_path, PLAIN, SLOW)
    new = write(tmp_path, "new.yaml", QUICK)
    given = ["policy", "diff", str(new), "--recording", str(recording), "-o", "json"]

    assert main([*given, "--until", "9m"]) == 0
    early = json.loads(capsys.readouterr().out)
    assert main([*given, "--until", "8m"]) == 0
    later = json.loads(capsys.readouterr().out)

    assert early["onlyNew"] == []
    assert [each["pod"] for each in later["onlyNew"]] == ["on-n0", "on-n2"]
