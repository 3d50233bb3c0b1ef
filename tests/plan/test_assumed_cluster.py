"""What a preview of the controller assumes of the cluster, and what it says of its own end."""

import json
from typing import Any

from reactive_desched.plan.mode import PlanMode, RunBounds
from reactive_desched.plan.report import PlannedDecision, PlanReport
from reactive_desched.plan.text import TextStyle, lines

SETTINGS = "---\napiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"
PACED = "budgets: {warmUp: null, cluster: {evictions: 1, per: 1m, burst: 1}}\n"
UNPACED = (
    "budgets: {warmUp: null, cluster: null, zone: null, node: null, namespace: null, owner: null, "
    "plugin: null}\nmoves: {maxMoving: {owner: 100%}, cooldown: 0s, nodeCooldown: 0s}\n"
)
POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: all
  pluginConfig:
  - name: DefaultEvictor
    args:
      podProtections: {defaultDisabled: [DaemonSetPods, FailedBarePods]}
  plugins:
    deschedule: {enabled: [RemovePodsViolatingNodeTaints, RemoveFailedPods]}
"""


def preview(world: Any, *things: Any, settings: str = UNPACED, **bounds: Any) -> PlanReport:
    """Preview the controller on these objects."""
    cluster = world.file(world.listed(things))
    more = {"policy": POLICY + SETTINGS + settings, "bounds": RunBounds(**bounds)}
    report: PlanReport = world.look(cluster, mode=PlanMode.RUN, **more)
    return report


def evictions(report: PlanReport) -> list[PlannedDecision]:
    return [each for each in report.decisions if each.action == "Evict"]


def places(report: PlanReport) -> dict[str, str | None]:
    return {each.pod.name: each.replacement_node for each in evictions(report)}


def with_room(node: Any, pods: int) -> Any:
    node["status"]["allocatable"]["pods"] = str(pods)
    return node


def owned_by(pod: Any, kind: str, name: str) -> Any:
    pod["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": True}
    ]
    return pod


def test_a_daemonsets_pod_comes_back_to_its_node(world: Any) -> None:
    agent = owned_by(world.pod("agent"), "DaemonSet", "agent")

    report = preview(world, world.node("n1", "gpu"), world.node("n2"), agent, max_evictions=1)

    assert places(report) == {"agent": "n1"}


def test_a_replacement_comes_to_the_node_with_the_fewest_siblings(world: Any) -> None:
    nodes = (world.node("n1", "gpu"), world.node("n2"), world.node("n3"))

    for sibling_on, expected in (("n2", "n3"), ("n3", "n2")):
        others = (owned_by(world.pod(f"o{n}", on=expected), "ReplicaSet", "o") for n in range(5))
        report = preview(world, *nodes, world.pod("a"), world.pod("b", on=sibling_on), *others)

        assert places(report) == {"a": expected}


def test_no_replacement_comes_to_a_node_that_is_not_ready(world: Any) -> None:
    lost = world.node("n2", ready="Unknown")

    report = preview(world, world.node("n1", "gpu"), lost, world.node("n3"), world.pod("a"))

    assert places(report) == {"a": "n3"}


def test_nothing_takes_the_place_of_a_pod_that_has_failed(world: Any) -> None:
    report = preview(world, world.node("n1"), world.node("n2"), world.pod("a", phase="Failed"))

    assert places(report) == {"a": None}


def test_the_scheduler_places_the_replacement_of_a_higher_priority_first(world: Any) -> None:
    low, high = world.pod("low"), world.pod("urgent")
    low["spec"]["priority"], high["spec"]["priority"] = 0, 1000
    for pod, owner in ((low, "rs-low"), (high, "rs-high")):
        owned_by(pod, "ReplicaSet", owner)
    leaves = owned_by(world.pod("old", on="n2", space="old"), "ReplicaSet", "rs-old")
    leaves["metadata"]["creationTimestamp"] = "2026-05-01T01:00:00Z"
    policy = POLICY.replace(
        "  plugins:",
        "  - name: PodLifeTime\n"
        "    args: {maxPodLifeTimeSeconds: 3600, namespaces: {include: [old]}}\n  plugins:",
    ).replace("RemoveFailedPods", "PodLifeTime")
    things = (world.node("n1", "gpu"), with_room(world.node("n2"), 1), low, high, leaves)
    settings = UNPACED + "guards: {minPodAge: 0s}\nbrakes: {pending: null}\n"

    report = world.look(
        world.file(world.listed(things)), policy=policy + SETTINGS + settings, mode=PlanMode.RUN
    )

    assert places(report) == {"low": None, "urgent": "n2", "old": None}


def test_a_budget_whose_status_is_outdated_refuses_in_a_sweep_and_its_preview(world: Any) -> None:
    budget: dict[str, Any] = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "shop", "uid": "pdb", "generation": 2},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"observedGeneration": 1, "disruptionsAllowed": 1, "expectedPods": 1},
    }
    pod = world.pod("a")
    pod["metadata"]["labels"] = {"app": "web"}
    pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    cluster = world.file(world.listed([world.node("n1", "gpu"), world.node("n2"), pod, budget]))

    assert world.gone(cluster, mode=PlanMode.ONCE) == []
    budget["status"]["observedGeneration"] = 2
    cluster = world.file(world.listed([world.node("n1", "gpu"), world.node("n2"), pod, budget]))
    assert world.gone(cluster, mode=PlanMode.ONCE) == ["shop/a"]


def test_a_preview_ends_at_its_horizon_and_says_what_delayed_and_what_waits(world: Any) -> None:
    pods = [world.pod(name) for name in ("a", "b", "c")]
    for number, pod in enumerate(pods):
        owned_by(pod, "ReplicaSet", f"rs-{number}")

    report = preview(
        world, world.node("n1", "gpu"), world.node("n2"), *pods, settings=PACED, horizon_s=90.0
    )

    assert report.preview is not None
    assert (report.preview.ended, report.preview.ended_after_seconds) == (
        "the horizon is reached",
        90.0,
    )
    first, second = evictions(report)
    assert first.delayed_by == ()
    assert second.in_seconds is not None
    assert 55 < second.in_seconds < 65
    assert [each.gate for each in second.delayed_by] == ["EvictionRateLimit"]
    (waiting,) = (each for each in report.decisions if each.action != "Evict")
    assert waiting.retry_in_seconds is not None
    assert 90 < waiting.retry_in_seconds < 125


def test_replacements_that_fit_nowhere_engage_the_brake_on_pending_pods(world: Any) -> None:
    pods = [owned_by(world.pod(f"p{n}"), "ReplicaSet", f"rs-{n}") for n in range(8)]
    things = (world.node("n1", "gpu"), with_room(world.node("n2"), 2), *pods)
    brake = "brakes: {pending: {pods: 3, percent: 1, after: 30s}}\n"

    free = preview(world, *things, settings=PACED + UNPACED.splitlines(keepends=True)[1])
    braked = preview(world, *things, settings=PACED + UNPACED.splitlines(keepends=True)[1] + brake)

    assert len(evictions(free)) == 8
    assert [each.replacement_node for each in evictions(braked)] == ["n2", "n2", None, None, None]
    assert {each.reason for each in braked.decisions if each.action != "Evict"} == {
        "TooManyPodsPending"
    }


def test_what_was_decided_before_a_brake_engaged_is_cancelled(world: Any) -> None:
    pods = [owned_by(world.pod(f"p{n}"), "ReplicaSet", f"rs-{n}") for n in range(8)]
    things = (world.node("n1", "gpu"), with_room(world.node("n2"), 1), *pods)
    one_by_one = UNPACED + "evictions: {maxInFlight: 1}\n"
    brake = "brakes: {pending: {pods: 3, percent: 1, after: 0s}}\n"

    free = preview(world, *things, settings=one_by_one)
    braked = preview(world, *things, settings=one_by_one + brake)

    assert len(evictions(free)) == 8
    assert [each.replacement_node for each in evictions(braked)] == ["n2", None, None, None]


def asking_for(cpu: int, pod: Any) -> Any:
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": str(cpu)}}
    return pod


def tolerating(taint: str, pod: Any) -> Any:
    pod["spec"]["tolerations"] = [{"key": taint, "operator": "Exists"}]
    return pod


def test_a_replacement_comes_to_the_emptiest_node_whatever_the_controller_reserved(
    world: Any,
) -> None:
    fits = POLICY.replace("    args:\n", "    args:\n      nodeFit: true\n")
    last = asking_for(4, tolerating("x", owned_by(world.pod("db-0"), "StatefulSet", "db")))
    for full, reserved in (("n2", "n3"), ("n3", "n2")):
        leaves = tolerating("y", owned_by(world.pod("old", on=full), "ReplicaSet", "rs-old"))
        stays = asking_for(3, owned_by(world.pod("stays", on=reserved), "ReplicaSet", "rs-stays"))
        nodes = (world.node("n1", "gpu"), world.node(full, "x"), world.node(reserved))
        things = (*nodes, world.node("n4", "y"), last, asking_for(8, leaves), stays)
        settings = UNPACED + "guards: {disabled: [SingleReplicas]}\n"
        cluster = world.file(world.listed(things))

        report = world.look(cluster, policy=fits + SETTINGS + settings, mode=PlanMode.RUN)

        assert places(report) == {"db-0": full, "old": "n4"}


PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def preferring(pod: Any, weight: int, **labels: str) -> Any:
    [(key, value)] = labels.items()
    match = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    terms = [{"weight": weight, "preference": match}]
    pod["spec"].setdefault("affinity", {})["nodeAffinity"] = {PREFERRED: terms}
    return pod


def near(pod: Any, kind: str, app: str) -> Any:
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": app}},
    }
    terms = [{"weight": 100, "podAffinityTerm": term}]
    pod["spec"].setdefault("affinity", {})[kind] = {PREFERRED: terms}
    return pod


def labelled(pod: Any, app: str) -> Any:
    pod["metadata"]["labels"] = {"app": app}
    return pod


def softly_tainted(node: Any) -> Any:
    node["spec"]["taints"] = [{"key": "soft", "effect": "PreferNoSchedule"}]
    return node


def test_a_replacement_comes_to_the_node_that_it_prefers(world: Any) -> None:
    for liked, other in (("n2", "n3"), ("n3", "n2")):
        nodes = (world.node("n1", "gpu"), world.node(liked, pool="spot"), world.node(other))
        full = asking_for(6, owned_by(world.pod("full", on=liked), "ReplicaSet", "rs-full"))

        report = preview(world, *nodes, full, preferring(world.pod("a"), 1, pool="spot"))

        assert places(report) == {"a": liked}


def test_a_soft_taint_weighs_more_than_preferred_node_affinity(world: Any) -> None:
    nodes = (world.node("n1", "gpu"), softly_tainted(world.node("n2", pool="spot")))

    report = preview(world, *nodes, world.node("n3"), preferring(world.pod("a"), 100, pool="spot"))

    assert places(report) == {"a": "n3"}


def test_a_replacement_comes_near_the_pods_that_it_prefers_and_those_that_prefer_it(
    world: Any,
) -> None:
    nodes = (world.node("n1", "gpu"), world.node("n2"), world.node("n3"))
    for there, elsewhere in (("n2", "n3"), ("n3", "n2")):
        other = owned_by(labelled(world.pod("other", on=there), "other"), "ReplicaSet", "rs-other")
        mover = labelled(world.pod("a"), "a")

        for drawn, by, place in (
            (near(labelled(world.pod("a"), "a"), "podAffinity", "other"), other, there),
            (near(labelled(world.pod("a"), "a"), "podAntiAffinity", "other"), other, elsewhere),
            (mover, near(dict(other, spec=dict(other["spec"])), "podAffinity", "a"), there),
            (mover, near(dict(other, spec=dict(other["spec"])), "podAntiAffinity", "a"), elsewhere),
        ):
            assert places(preview(world, *nodes, drawn, by)) == {"a": place}


def test_a_replacement_is_spread_by_its_soft_constraint(world: Any) -> None:
    nodes = (
        world.node("n1", "gpu"),
        world.node("n2", zone="a"),
        world.node("n3", zone="a"),
        world.node("n4", zone="b"),
    )
    mover, sibling = labelled(world.pod("a"), "a"), labelled(world.pod("b", on="n2"), "a")
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
    mover["spec"]["topologySpreadConstraints"] = [constraint]
    busy = asking_for(6, owned_by(world.pod("busy", on="n4"), "ReplicaSet", "rs-busy"))

    assert places(preview(world, *nodes, mover, sibling, busy)) == {"a": "n4"}
    mover["spec"].pop("topologySpreadConstraints")
    assert places(preview(world, *nodes, mover, sibling, busy)) == {"a": "n3"}


def with_gpus(node: Any) -> Any:
    node["status"]["allocatable"]["example.com/gpu"] = "8"
    return node


def asking_for_gpus(number: int, pod: Any) -> Any:
    requests = {"cpu": "1", "example.com/gpu": str(number)}
    pod["spec"]["containers"][0]["resources"] = {"requests": requests}
    return pod


def test_where_a_policy_packs_by_a_resource_so_does_the_scheduler(world: Any) -> None:
    policy = POLICY.replace(
        "    deschedule: {enabled: [RemovePodsViolatingNodeTaints, RemoveFailedPods]}",
        "    balance: {enabled: [HighNodeUtilization]}",
    ).replace(
        "  plugins:",
        "  - {name: HighNodeUtilization, args: {thresholds: {example.com/gpu: 40}}}\n  plugins:",
    )
    nodes = with_gpus(world.node("n1")), with_gpus(world.node("n2")), with_gpus(world.node("n3"))
    things = (
        asking_for_gpus(2, owned_by(world.pod("a"), "ReplicaSet", "rs-a")),
        asking_for(5, owned_by(world.pod("busy"), "DaemonSet", "agent")),
        asking_for_gpus(6, owned_by(world.pod("b", on="n2"), "ReplicaSet", "rs-b")),
    )

    report = world.look(
        world.file(world.listed([*nodes, *things])),
        policy=policy + SETTINGS + UNPACED,
        mode=PlanMode.RUN,
    )

    moved = {name: place for name, place in places(report).items() if name.startswith("a")}
    assert moved == {"a": "n2"}
    assert report.preview is not None
    assert report.preview.packed_resources == ("example.com/gpu",)
    assert "the kube-scheduler packs nodes by example.com/gpu" in "\n".join(
        lines(report, TextStyle())
    )


def test_other_policies_spread_pods_as_by_default(world: Any) -> None:
    report = preview(world, world.node("n1", "gpu"), world.node("n2"), world.pod("a"))

    assert report.preview is not None
    assert report.preview.packed_resources == ()
    assert "packs nodes" not in "\n".join(lines(report, TextStyle()))


def test_where_another_plugin_spreads_pods_the_scheduler_packs_no_nodes(world: Any) -> None:
    """n1 is at 87.5 % of its cpu, n2 at 25 %, n3 at 12.5 %: both of these are hardly used."""
    policy = POLICY.replace(
        "    deschedule: {enabled: [RemovePodsViolatingNodeTaints, RemoveFailedPods]}",
        "    balance: {enabled: [LowNodeUtilization, HighNodeUtilization]}",
    ).replace(
        "  plugins:",
        "  - name: LowNodeUtilization\n"
        "    args: {thresholds: {cpu: 40}, targetThresholds: {cpu: 80}}\n"
        "  - {name: HighNodeUtilization, args: {thresholds: {cpu: 1}}}\n"
        "  plugins:",
    )
    things = [
        asking_for(cpu, owned_by(world.pod(name, on=on), "ReplicaSet", f"rs-{name}"))
        for name, on, cpu in (("a", "n1", 1), ("big", "n1", 6), ("b", "n2", 2), ("c", "n3", 1))
    ]
    things[1]["metadata"]["annotations"] = {"reactive-desched/do-not-evict": "true"}

    report = world.look(
        world.file(world.listed([*map(world.node, ("n1", "n2", "n3")), *things])),
        policy=policy + SETTINGS + UNPACED,
        mode=PlanMode.RUN,
    )

    assert places(report) == {"a": "n3"}


def test_a_preview_asks_no_server_and_takes_the_service_to_be_well(world: Any) -> None:
    check = {"name": "errors", "prometheus": {"url": "http://127.0.0.1:1", "query": "errors > 5"}}
    settings = f"{UNPACED}brakes: {json.dumps({'health': [check]})}\n"

    report = preview(
        world, world.node("n1", "gpu"), world.node("n2"), world.pod("web"), settings=settings
    )

    assert places(report) == {"web": "n2"}


def test_a_preview_judges_the_moves_that_it_assumes(world: Any) -> None:
    """For that no server is asked; of eight pods the last ones wait, as each took too long."""
    check = {"name": "own", "moves": {"last": 5, "readyWithin": "30s"}, "releaseAfter": "3h"}
    held = f"brakes: {json.dumps({'health': [check]})}\n"
    pods = [owned_by(world.pod(f"p{n}"), "ReplicaSet", f"rs-{n}") for n in range(8)]
    things = world.node("n1", "gpu"), world.node("n2"), *pods

    for ready_after_s, count in ((10, 8), (45, 5)):
        report = preview(world, *things, settings=PACED + held, ready_after_s=ready_after_s)

        assert len(places(report)) == count
