"""Policies that people wrote: `run` refuses those that the check refuses, and runs the others.

Each that a release of upstream runs plans and reacts here, too: for two minutes, in a cluster in
which every plugin finds something.
"""

import json
from copy import deepcopy
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final

import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types

from reactive_desched.cli import main
from reactive_desched.plan.command import build_report
from reactive_desched.plan.inputs import PlanOptions
from reactive_desched.plan.progress import Progress
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.load import load_runnable
from reactive_desched.sim.objects import Obj, name_of
from reactive_desched.sim.profiles import PREFIX
from tests.support.descheduled import DescheduledCluster
from tests.support.golden import Golden
from tests.support.sim_world import HOSTNAME, ZONE, SimulatedCluster
from tests.support.wild_policies import FOLDER, Judged, collection, runs_upstream

TEN_DAYS_S, TWO_MINUTES_S = 864_000, 120
KINDS: Final = {
    "nodes": ("v1", "Node"),
    "pods": ("v1", "Pod"),
    "namespaces": ("v1", "Namespace"),
    "priorityclasses": ("scheduling.k8s.io/v1", "PriorityClass"),
}


@pytest.mark.parametrize("lenient", [False, True], ids=["strict", "lenient"])
@pytest.mark.parametrize("entry", tuple(collection()))
def test_the_check_fails_for_exactly_the_policies_that_run_refuses(
    entry: Judged,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    golden: Golden,
    *,
    lenient: bool,
) -> None:
    policy, flags = str(FOLDER / entry["file"]), ["--lenient-policy"] if lenient else []
    no_cluster = golden(path=tmp_path / "none") + "\n"

    checked = main(["policy", "check", policy, *flags])
    said = capsys.readouterr().out
    where = ["--kubeconfig", str(tmp_path / "none"), "--listen", "127.0.0.1:0"]
    run = ["run", "--policy", policy, *where, *flags]
    assert main(run) == 2
    refusal = capsys.readouterr().err

    assert checked == (0 if no_cluster in refusal else 2)
    errors = [line for line in said.splitlines() if " error: " in line]
    assert bool(errors) == bool(checked)
    if checked:
        assert [line for line in refusal.splitlines() if " error: " in line] == errors


@pytest.mark.parametrize(
    "entry", [each for each in collection() if each.marks or runs_upstream(each.values[0])]
)
def test_what_upstream_runs_plans_and_reacts_here(entry: Judged, tmp_path: Path) -> None:
    policy = FOLDER / entry["file"]
    configuration = load_runnable([policy], plugin_registry(), lenient=True)
    enabled = {each.name for profile in configuration.policy.profiles for each in profile.plugins}
    world = deepcopy(crooked_cluster())
    for profile in configuration.policy.profiles:
        if name := profile.evictor.priority_threshold.name:
            world.store.create("priorityclasses", {"metadata": {"name": name}, "value": 1_000_000})

    assert planned(policy, world, tmp_path) <= enabled
    cluster = DescheduledCluster(world, config=configuration).run(TWO_MINUTES_S)
    assert {each.finding.plugin for each in cluster.evaluations} <= enabled
    idle = sum("the profile does nothing" in each for each in entry.get("without_effect", ()))
    assert (not enabled) == (idle == len(configuration.policy.profiles))


NOT_HERE = (
    "LowNodeLoad",
    "DrainNodes",
    "RemovePodsViolatingDeviceTaints",
    "RemovePodsViolatingNodeConditions",
    "ConsolidateNodes",
    "KeepNodesFree",
    "MakeRoomForPending",
    "ScaleDownBinPack",
)
"""Goes by koordinator's measurements, or, the last one, ranks pods and evicts none; the others are
ours, and find nothing where nobody asks for a drain or reports a condition, or in a sweep, which
writes no taint and nominates no pod."""


def test_every_plugin_that_people_enable_has_something_to_do_in_that_cluster(
    tmp_path: Path,
) -> None:
    plugins = {name: spec for name, spec in plugin_registry().items() if name not in NOT_HERE}
    args = {
        "CustomPriority": {
            "evictionOrder": [
                {"name": name, "nodeSelector": {"matchLabels": {ZONE: name}}} for name in "ac"
            ]
        },
        "FragmentationAware": {"imbalanceThreshold": 0.0, "minImprovementThreshold": 0.0},
        "HighNodeUtilization": {"thresholds": {"cpu": 20}},
        "LowNodeUtilization": {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}},
        "PodLifeTime": {"maxPodLifeTimeSeconds": 604800},
        "RemovePodsHavingTooManyRestarts": {"podRestartThreshold": 100},
        "RemovePodsViolatingNodeAffinity": {
            "nodeAffinityType": ["requiredDuringSchedulingIgnoredDuringExecution"]
        },
    }
    profiles = [
        {
            "name": name,
            "pluginConfig": [{"name": name, "args": args.get(name, {})}],
            "plugins": {point: {"enabled": [name]} for point in spec.points},
        }
        for name, spec in plugins.items()
    ]
    head = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}
    found = set()
    for profile in profiles:
        policy = tmp_path / "policy.yaml"
        policy.write_text(yaml.safe_dump({**head, "profiles": [profile]}))
        found |= planned(policy, crooked_cluster(), tmp_path)

    assert found == plugins.keys()


@cache
def crooked_cluster() -> SimulatedCluster:
    """Build a cluster in which every plugin finds something, ten days old; copy it to change it."""
    world = SimulatedCluster().nodes("n1/a", "n2/a", "n3/b", labels={"disk": "ssd"})
    zonal = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    hermit = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"noisy": "yes"}}}
    alone = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [hermit]}}
    ssd = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    required = {"nodeSelectorTerms": [ssd]}
    on_ssd = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    world.deployment("web", 6, cpu="500m", memory="1Gi", topologySpreadConstraints=[zonal])
    world.deployment("db", 8, cpu="750m", memory="1Gi")
    world.deployment("picky", 2, affinity=on_ssd)
    world.deployment("loop", 2)
    world.deployment("quiet", 2, affinity=alone)
    world.advance(60).nodes("n4/c", "n5/c", labels={"disk": "ssd"})
    world.deployment("late", 1, cpu="100m", nodeSelector={ZONE: "c"})
    fails = {f"{PREFIX}profile": "fail", f"{PREFIX}run-seconds": f"{TEN_DAYS_S / 2}"}
    world.deployment("short", 1, annotations=fails)
    world.advance(TEN_DAYS_S)

    change(world, "nodes", "n3", spec={"taints": [{"key": "gpu", "effect": "NoSchedule"}]})
    for name in ("n1", "n2", "n3"):
        labels = {HOSTNAME: name, ZONE: world.get("nodes", name)["metadata"]["labels"][ZONE]}
        change(world, "nodes", name, metadata={"labels": labels})
    for name in world.names("db"):
        change(world, "pods", name, metadata={"labels": {"app": "db", "noisy": "yes"}})
    for pod in world.pods("loop"):
        [status] = pod["status"]["containerStatuses"]
        statuses = [{**status, "restartCount": 500}]
        change(world, "pods", name_of(pod), status={"containerStatuses": statuses})
    return world


def change(world: SimulatedCluster, resource: str, name: str, **parts: Obj) -> None:
    """Set members of an object's metadata, spec and status."""
    namespace = "default" if resource == "pods" else ""
    for part, members in parts.items():

        def changed(obj: Obj, part: str = part, members: Obj = members) -> Obj:
            return {**obj, part: {**obj[part], **members}}

        subresource = "status" if part == "status" else ""
        world.store.modify(resource, namespace, name, changed, subresource=subresource)


def planned(policy: Path, world: SimulatedCluster, folder: Path) -> set[str]:
    """Run `plan` on the cluster as it is, and name the plugins that would evict a pod."""
    items = [
        {"apiVersion": api_version, "kind": kind, **obj}
        for resource, (api_version, kind) in KINDS.items()
        for obj in world.store.list(resource)
    ]
    cluster = folder / "cluster.json"
    cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    now = datetime.fromtimestamp(world.clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    options = PlanOptions(policy=str(policy), files=(str(cluster),), now=now, lenient=True)
    report = build_report(options, Progress())
    return {each.plugin for each in report.decisions if each.action == "Evict"}
