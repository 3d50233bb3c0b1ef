"""`why` on files: the controller's own plugins and gates answer for one pod, node or workload."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from reactive_desched.cli import main
from reactive_desched.journal import history
from reactive_desched.journal.clocks import Moment
from reactive_desched.journal.history import History
from reactive_desched.model.disruptions import CAUSES, RememberedEnd
from reactive_desched.model.history import PastEviction, PastFollowUp
from reactive_desched.text.layout import TextLayout
from reactive_desched.why.text import answer_lines
from tests.support.golden import Golden

EVERY_PLUGIN = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: all
  pluginConfig:
  - {name: DefaultEvictor, args: {nodeFit: true, minReplicas: 2}}
  - {name: PodLifeTime, args: {maxPodLifeTimeSeconds: 86400}}
  - {name: RemovePodsHavingTooManyRestarts, args: {podRestartThreshold: 5}}
  - {name: RemovePodsViolatingNodeAffinity,
     args: {nodeAffinityType: [requiredDuringSchedulingIgnoredDuringExecution]}}
  - {name: LowNodeUtilization, args: {thresholds: {cpu: 20}, targetThresholds: {cpu: 50}}}
  - {name: RemovePodsViolatingNodeTaints, args: {excludedTaints: [quiet]}}
  plugins:
    deschedule:
      enabled: [PodLifeTime, RemoveFailedPods, RemovePodsHavingTooManyRestarts,
        RemovePodsViolatingNodeTaints, RemovePodsViolatingNodeAffinity,
        RemovePodsViolatingInterPodAntiAffinity]
    balance:
      enabled: [RemoveDuplicates, RemovePodsViolatingTopologySpreadConstraint, LowNodeUtilization]
- name: pack
  pluginConfig:
  - {name: HighNodeUtilization, args: {thresholds: {cpu: 20}}}
  - {name: LowNodeLoad, args: {lowThresholds: {cpu: 20}, highThresholds: {cpu: 50}}}
  plugins: {balance: {enabled: [HighNodeUtilization, LowNodeLoad]}}
"""


@pytest.fixture
def why(world: Any, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Ask about a cluster; returns the answer as JSON, or as text with `table=True`."""

    def ask(*words: str, things: Any = None, policy: str = "", table: bool = False) -> Any:
        if policy:
            world.policy.write_text(policy, encoding="utf-8")
        objects = world.small() if things is None else things
        for each in objects:
            each["metadata"]["creationTimestamp"] = "2026-05-01T11:00:00Z"
        path = world.file(world.listed(objects))
        given = ("--policy", str(world.policy), "-f", path, "--now", "2026-05-01T12:00:00Z")
        assert main(["why", *words, *given, *(() if table else ("-o", "json"))]) == 0
        out = capsys.readouterr().out
        return out if table else json.loads(out)

    return ask


def answers(found: Any) -> dict[str, tuple[str, str]]:
    return {each["plugin"]: (each["answer"], each["message"]) for each in found["plugins"]}


def gates(found: Any, profile: int = 0) -> dict[str, str]:
    return {each["gate"]: each.get("reason", "") for each in found["profiles"][profile]["gates"]}


def test_every_plugin_says_what_it_sees_of_a_pod_with_which_nothing_is_wrong(
    world: Any, why: Callable[..., Any], golden: Golden
) -> None:
    pod = world.pod("a")
    pod["metadata"]["labels"] = {"app": "web"}
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    pod["spec"]["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
    things = [
        *(world.node("n1", "quiet", zone="z1"), world.node("n2", zone="z2")),
        *(pod, world.pod("b", on="n2")),
    ]
    found = why("shop/a", things=things, policy=EVERY_PLUGIN)
    assert (found["state"], found["reason"]) == ("stays", "")
    given = answers(found)
    assert {answer for answer, _ in given.values()} == {"nothing found"}
    load, (spread, used) = (
        given.pop("LowNodeLoad")[1],
        (
            given.pop(name)[1]
            for name in ("RemovePodsViolatingTopologySpreadConstraint", "LowNodeUtilization")
        ),
    )
    assert spread == golden("topology spread")
    assert used == golden("low node utilization")
    assert load.startswith(golden("low node load") + " ")
    assert {plugin: message for plugin, (_, message) in given.items()} == {
        "PodLifeTime": "is 1h old, the limit is 1d",
        "RemoveFailedPods": "the pod is Running",
        "RemovePodsHavingTooManyRestarts": "restarted 0 times, the limit is 5",
        "RemovePodsViolatingNodeTaints": golden("taint"),
        "RemovePodsViolatingNodeAffinity": golden("node affinity"),
        "RemovePodsViolatingInterPodAntiAffinity": golden("anti-affinity"),
        "RemoveDuplicates": golden("duplicates"),
        "HighNodeUtilization": golden("high node utilization"),
    }


def test_a_pod_that_waits_names_the_gate_the_setting_and_when_it_is_evaluated_again(
    why: Callable[..., Any],
    golden: Golden,
) -> None:
    """Of the two pods of a tainted node one may leave now: the rates warm up."""
    states = {name: why(f"shop/{name}") for name in "ab"}
    by_state = {found["state"]: found for found in states.values()}
    assert set(by_state) == {"evicting", "waits"}
    waits = by_state["waits"]
    [profile] = waits["profiles"]
    rejected = [each for each in profile["gates"] if not each["passes"]]
    assert rejected[0]["reason"] == waits["reason"] != ""
    assert not profile["assumed"]
    assert rejected[0].get("until") or rejected[0]["waitsFor"]
    assert waits["setting"] == rejected[0]["setting"] != ""
    assert waits["waitsFor"] == rejected[0].get("waitsFor", [])
    evicting = by_state["evicting"]
    assert (evicting["setting"], evicting["waitsFor"]) == ("", [])
    [finding] = [each for each in waits["plugins"] if each["answer"] == "finding"]
    assert finding["until"] > finding["since"]
    assert answers(waits)["RemovePodsViolatingNodeTaints"][0] == "finding"
    assert profile["nodes"] == golden()
    assert gates(by_state["evicting"])["InFlight"] == "EvictionInProgress"


SCORED_BY_MINE = """\
---
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
scheduler:
  config:
  - profiles:
    - plugins: {score: {enabled: [{name: Mine}]}}
"""


def test_the_profile_is_named_and_no_node_is_first_where_its_scores_are_not_known(
    world: Any, why: Callable[..., Any], golden: Golden
) -> None:
    things = [world.node("n1"), world.node("n2"), world.pod("a")]
    found = why("shop/a", things=things, policy=EVERY_PLUGIN + SCORED_BY_MINE)

    assert found["profiles"][0]["nodes"] == golden()


def test_gates_are_asked_what_they_would_say_of_a_pod_with_which_nothing_is_wrong(
    world: Any, why: Callable[..., Any]
) -> None:
    things = [world.node("n1"), world.node("n2", "gpu"), world.pod("a")]
    found = why("shop/a", things=things, policy=EVERY_PLUGIN)
    assert [each["assumed"] for each in found["profiles"]] == [True, True]
    assert gates(found)["MinReplicas"] == "MinReplicas"
    assert gates(found)["NodeFit"] == "NoOtherNodeFits"
    assert gates(found, 1)["DefaultEvictor"] == ""  # the other profile has no minReplicas
    assert found["profiles"][0]["nodes"].startswith("0/1 nodes are available: 1 node(s) had untol")


@pytest.mark.parametrize(
    ("on", "reason"), [(None, "PodNotScheduled"), ("n4", "NodeNotReady"), ("n9", "NodeNotFound")]
)
def test_a_pod_that_no_plugin_judges_says_why(
    world: Any, why: Callable[..., Any], on: str | None, reason: str
) -> None:
    things = [*world.small(), world.node("n4", ready="False"), world.pod("x", on=on)]
    found = why("shop/x", things=things)
    assert (found["state"], found["reason"], found["profiles"]) == ("not looked at", reason, [])
    assert {answer for answer, _ in answers(found).values()} == {"not looked at"}


def test_a_plugin_that_leaves_a_pod_out_speaks_for_itself_alone(
    world: Any, why: Callable[..., Any]
) -> None:
    """Another plugin judges completed pods, or those of this namespace."""
    limited = EVERY_PLUGIN.replace("{maxPod", "{namespaces: {exclude: [shop]}, maxPod")
    found = answers(why("shop/x", things=[*world.small(), world.pod("x")], policy=limited))
    assert {name for name, (answer, _) in found.items() if answer == "not looked at"} == {
        "PodLifeTime"
    }
    assert found["PodLifeTime"][1].endswith("that it is limited to")
    failed = [*world.small(), world.pod("x", phase="Failed")]
    found = answers(why("shop/x", things=failed, policy=EVERY_PLUGIN))
    assert found["RemoveFailedPods"][0] == "finding"
    assert found["RemoveDuplicates"][0] == "not looked at"
    assert "the plugin judges no" in found["RemoveDuplicates"][1]


def test_a_node_and_a_workload_list_the_state_of_each_of_their_pods(
    why: Callable[..., Any],
) -> None:
    node = why("--node", "n1")
    assert (node["total"], node["taints"]) == (2, ["gpu:NoSchedule"])
    assert node["states"] == {"evicting": 1, "waits": 1}
    owner = why("--owner", "shop/ReplicaSet/web")
    assert (owner["total"], owner["moving"]) == (3, 1)
    assert owner["states"] == {"evicting": 1, "waits": 1, "stays": 1}
    assert why("--owner", "rs-web") == owner


def test_the_text_says_the_state_first_and_leaves_out_nothing(
    why: Callable[..., Any], golden: Golden
) -> None:
    lines = why("shop/c", table=True).splitlines()
    assert lines[0] == "pod       shop/c on n2, Running, 1h old, of ReplicaSet shop/web"
    assert lines[1] == golden("state")
    text = "\n".join(lines)
    assert "n2 has no taint" in text
    assert golden("gates") in text
    assert "pass: InFlight, LargePods, DefaultEvictor, " in text
    texts = [why(f"shop/{name}", table=True).splitlines() for name in "ab"]
    [waits] = [lines for lines in texts if lines[1].startswith("state     waits (")]
    assert waits[-1].startswith("docs      `reactive-desched policy explain ")
    node = why("--node", "n1", table=True).splitlines()
    assert node[0] == "node      n1, 2 pods, gpu:NoSchedule"
    assert any("shop/a" in line for line in node)


def test_what_comes_next_is_said_of_the_decision_and_not_of_the_gates_as_they_are_by_now(
    why: Callable[..., Any],
) -> None:
    """Between evaluations another limit may be the first one that has no token left."""
    [waits] = [found for found in (why(f"shop/{name}") for name in "ab") if found["setting"]]
    for gate in waits["profiles"][0]["gates"]:
        gate.update(setting="budgets.namespace", waitsFor=["the end of an outage"])
    now = datetime(2026, 5, 1, 12, tzinfo=UTC)
    [line] = [each for each in answer_lines(waits, now, TextLayout()) if each.startswith("next")]
    assert line.endswith(f"; setting {waits['setting']} would change it")
    assert "outage" not in line


@pytest.mark.parametrize("setting", ["budgets.node", "brakes.storm"])
def test_while_all_evictions_are_held_a_limit_is_not_said_to_be_what_a_pod_waits_for(
    why: Callable[..., Any], setting: str, golden: Golden
) -> None:
    [waits] = [found for found in (why(f"shop/{name}") for name in "ab") if found["setting"]]
    waits |= {"paused": "storm: 100 pods were found within 60 s", "setting": setting}
    for plugin in waits["plugins"]:
        plugin.pop("until", None)
    for gate in waits["profiles"][0]["gates"]:
        gate.pop("until", None)
    now = datetime(2026, 5, 1, 12, tzinfo=UTC)
    [line] = [each for each in answer_lines(waits, now, TextLayout()) if each.startswith("next")]
    assert line == golden()


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["shop/aa"], id="shop/aa"),
        pytest.param(["shop/web"], id="shop/web"),
        pytest.param(["pod", "a", "b"], id="pod a b"),
        pytest.param(["--node", "m1"], id="--node m1"),
        pytest.param(["--owner", "shop/Deployment/web"], id="--owner shop/Deployment/web"),
        pytest.param(["a", "-n", "shop/x"], id="a -n shop/x"),
        pytest.param(["shop/a", "-n", "shop"], id="shop/a -n shop"),
        pytest.param(["--node", "n1", "-n", "shop"], id="--node n1 -n shop"),
    ],
)
def test_a_wrong_question_names_the_place_and_the_remedy(
    world: Any, capsys: pytest.CaptureFixture[str], words: list[str], golden: Golden
) -> None:
    path = world.file(world.listed(world.small()))
    assert main(["why", *words, "--policy", str(world.policy), "-f", path]) == 2
    assert golden() in capsys.readouterr().err


def test_every_guard_that_holds_a_pod_is_named_and_not_only_the_first(
    world: Any, why: Callable[..., Any], golden: Golden
) -> None:
    """The taint is new, and what claims devices would not leave for an old one either."""
    things = world.small()
    del things[0]["spec"]["taints"][0]["timeAdded"]
    [pod] = [each for each in things if each["metadata"]["name"] == "a"]
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "gpu"}]

    found = why("shop/a", things=things)

    assert found["reason"] == "ChangedTooRecently"
    assert found["summary"] == golden()
    reasons = [each.get("reason", "") for each in found["profiles"][0]["gates"]]
    assert [reason for reason in reasons if reason][:2] == ["ChangedTooRecently", "ClaimsDevices"]


def test_of_several_pods_each_has_its_answer(why: Callable[..., Any]) -> None:
    assert [each["name"] for each in why("shop/a", "shop/c")] == ["a", "c"]
    assert why("shop/a", "shop/c", table=True).count("\nstate ") == 2


def test_yaml_says_what_json_says(
    world: Any, why: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    expected = why("shop/a")

    text = why("shop/a", "-o", "yaml", table=True)

    assert msgspec.yaml.decode(text) == expected


def test_flags_of_a_snapshot_need_a_policy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "shop/a", "-f", "x.json"]) == 2
    assert "-f needs --policy" in capsys.readouterr().err


def test_the_evictions_of_a_journal_count(
    why: Callable[..., Any], world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(_: Path, now: Moment, *, counts_for_s: float) -> History:
        assert counts_for_s > 100
        ended_s = now.time_s - 100
        past = PastEviction(
            "r1", ended_s, "uid-z", "shop", "z", "n1", ended_s=ended_s, result="evicted"
        )
        return History((past,))

    monkeypatch.setattr(history, "read_history", read)
    policy = world.policy.read_text(encoding="utf-8")
    limited = policy.replace("profiles:", "maxNoOfPodsToEvictTotal: 1\nprofiles:")

    fresh = {why(f"shop/{name}", policy=limited)["state"] for name in "ab"}
    restarted = [why(f"shop/{name}", "--journal", "there", policy=limited) for name in "ab"]

    assert fresh == {"evicting", "waits"}
    assert {found["state"] for found in restarted} == {"waits"}


@pytest.mark.parametrize(
    "words", [("shop/a",), ("pod", "a", "-n", "shop"), ("pod/a", "-n", "shop")]
)
def test_a_pod_is_named_as_kubectl_names_it(why: Callable[..., Any], words: tuple[str]) -> None:
    assert why(*words)["name"] == "a"


@pytest.mark.parametrize(
    "follow_up",
    [
        None,
        PastFollowUp(0.0, "moved", "n3", False, "uid-y"),
        PastFollowUp(0.0, "returned", "n1", True, "uid-y"),
        PastFollowUp(0.0, "not_replaced"),
    ],
    ids=["awaited", "moved", "returned", "not replaced"],
)
def test_of_a_pod_that_was_evicted_and_is_gone_it_says_what_became_of_it(
    why: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    follow_up: PastFollowUp | None,
    golden: Golden,
) -> None:
    def read(_: Path, now: Moment, *, counts_for_s: float) -> History:
        ended_s = now.time_s - 10
        past = PastEviction(
            *("r1", ended_s, "uid-z", "shop", "z", "n1"),
            owner_uid="rs-web",
            owner_kind="ReplicaSet",
            owner_name="web",
            replacing_uid="rs-web",
            replacing_kind="ReplicaSet",
            plugin="PodLifeTime",
            ended_s=ended_s,
            result="evicted",
            follow_up=follow_up and structs.replace(follow_up, ended_s=ended_s + 5),
        )
        return History((past,))

    monkeypatch.setattr(history, "read_history", read)

    found, by_uid = (why(name, "--journal", "there") for name in ("shop/z", "uid-z"))
    lines = why("shop/z", "--journal", "there", table=True).splitlines()

    assert found == by_uid
    assert (found["state"], found["phase"], found["node"]) == ("moved", "Gone", "n1")
    assert found["summary"] == f"PodLifeTime had it evicted from n1; {golden('became')}"
    assert lines[0] == "pod       shop/z, gone from n1, of ReplicaSet shop/web"
    assert lines[1] == f"state     moved: {found['summary']}"
    assert lines[2] == golden.shared("next")


@pytest.mark.parametrize("cause", ["PreemptionByScheduler", "Deleted"])
def test_of_a_pod_that_something_else_took_it_says_what_took_it(
    why: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, cause: str, golden: Golden
) -> None:
    def read(_: Path, now: Moment, *, counts_for_s: float) -> History:
        text = CAUSES[cause]
        owner = "Deployment/web"
        end = RememberedEnd("uid-z", "shop", "z", "n1", owner, cause, text, now.time_s - 10)
        return History(ends=(end,))

    monkeypatch.setattr(history, "read_history", read)

    found, by_uid = (why(name, "--journal", "there") for name in ("shop/z", "uid-z"))
    lines = why("shop/z", "--journal", "there", table=True).splitlines()

    assert found == by_uid
    assert (found["state"], found["phase"], found["node"]) == ("taken", "Gone", "n1")
    assert found["summary"].startswith(f"{cause} at ")
    assert found["summary"].endswith(f": {CAUSES[cause]}")
    assert lines[0] == "pod       shop/z, gone from n1, of Deployment shop/web"
    assert lines[1] == f"state     taken: {found['summary']}"
    assert lines[2] == golden.shared("next")


LOW = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
maxNoOfPodsToEvictPerNode: 0
profiles:
- name: all
  pluginConfig:
  - {name: LowNodeUtilization, args: {thresholds: {cpu: 20}, targetThresholds: {cpu: 50}}}
  plugins: {balance: {enabled: [LowNodeUtilization]}}
"""


def busy(world: Any, *taints: str) -> list[Any]:
    """A node with seven pods, half a CPU each, of its four CPUs, and one without any."""
    nodes = world.node("hot"), world.node("cool", *taints)
    for each in nodes:
        each["status"]["allocatable"] = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    pods = [world.pod(f"w{number}", on="hot") for number in range(7)]
    for pod in pods:
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "500m"}}
    return [*nodes, *pods]


def test_what_keeps_a_pod_on_an_overutilized_node_is_its_state(
    world: Any, why: Callable[..., Any], golden: Golden
) -> None:
    found = why("shop/w6", things=busy(world, "dedicated"), policy=LOW)

    assert (found["state"], found["summary"]) == ("stays", golden())
    assert found["summary"].partition(", and ")[2] in answers(found)["LowNodeUtilization"][1]
    cool = why("--node", "cool", things=busy(world, "dedicated"))
    assert cool["summary"].partition("; ")[2] == golden("the node")
    node = why("--node", "hot", things=busy(world, "dedicated"))
    (listed,) = {each["summary"] for each in node["pods"]}
    assert listed == golden()


def test_a_pod_whose_turn_has_not_come_names_the_one_that_waits(
    world: Any, why: Callable[..., Any], golden: Golden
) -> None:
    found = why("--node", "hot", things=busy(world), policy=LOW)
    states = {each["name"]: (each["state"], each["summary"]) for each in found["pods"]}
    (waits,) = (name for name, (state, _) in states.items() if state == "waits")

    (summary,) = {summary for state, summary in states.values() if state == "stays"}
    assert summary == golden(waits=waits)
