"""Rounds of arbitration over whole clusters, against koordinator's rules written down once more.

The rules below are written from koordinator's documentation and know nothing of our code: a cluster
is its JSON, read by the same readers as a file for `plan`.
"""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import msgspec
import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types

from reactive_desched.model.migration_jobs import SkipGate
from reactive_desched.plan.arbitration_round import arbitrate_jobs
from reactive_desched.plan.input_objects import InputObject
from reactive_desched.plan.snapshot import SnapshotBuilder
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import load_sources
from reactive_desched.state.resources import WATCHED_KINDS

NOW = datetime(2026, 11, 21, 7, 39, 13, tzinfo=UTC)
NEVER = "2147483647"
EVICT = "descheduler.alpha.kubernetes.io/evict"
COST, DELETION_COST = (
    "scheduling.koordinator.sh/eviction-cost",
    "controller.kubernetes.io/pod-deletion-cost",
)
PASSED = "descheduler.koordinator.sh/passed-arbitration"

Object = dict[str, Any]  # a Kubernetes object, as JSON has it
Decided = tuple[str, str, str]  # the action, the pod, and the job


# --- the rules ---


class Round:
    """One round, by koordinator's rules; `results` are in the order in which they are given."""

    def __init__(self, args: Mapping[str, Any], objects: list[Object]) -> None:
        self.args = args
        self.pods = {key(it): it for it in objects if it["kind"] == "Pod"}
        self.jobs = [it for it in objects if it["kind"] == "PodMigrationJob"]
        self.above = {
            uid(it): it
            for it in objects
            if it["kind"] in ("ReplicaSet", "Deployment", "StatefulSet")
        }
        self.progress = [it for it in self.jobs if phase(it) == "Running" or has_passed(it)]
        self.results: list[Decided] = []
        waiting = [it for it in self.jobs if phase(it) in ("", "Pending") and not has_passed(it)]
        for job in self.in_order(waiting):
            pod = self.pod_of(job)
            if pod is None:
                self.progress.append(job)
                continue
            action = self.judge(pod)
            if action == "Evict":
                self.progress.append(job)
            self.results.append((action, pod["metadata"]["name"], job["metadata"]["name"]))

    def skips(self, gate: str) -> bool:
        return gate in self.args.get("skipEvictionGates", ())

    def pod_of(self, job: Object) -> Object | None:
        ref = job["spec"]["podRef"]
        return self.pods.get((ref["namespace"], ref["name"]))

    def in_order(self, jobs: list[Object]) -> list[Object]:
        jobs = sorted(jobs, key=lambda it: it["metadata"]["creationTimestamp"], reverse=True)
        with_pod = [it for it in jobs if self.pod_of(it) is not None]
        ranked = sorted(with_pod, key=lambda it: rank(self.pods[key_of_ref(it)]))
        jobs = [it for it in jobs if self.pod_of(it) is None] + ranked
        grouped: list[Object] = []
        for job in jobs:
            batch = self.batch_job(job)
            if job not in grouped:
                grouped += [job] + [
                    it for it in jobs if batch and self.batch_job(it) == batch and it is not job
                ]
        return sorted(grouped, key=lambda it: -self.moves_of(self.batch_job(it)))

    def batch_job(self, job: Object) -> str:
        pod = self.pod_of(job)
        owner = None if pod is None else controller(pod)
        return owner["uid"] if owner is not None and owner["kind"] == "Job" else ""

    def moves_of(self, batch: str) -> int:
        if not batch:
            return 0
        moving = [it for it in self.jobs if phase(it) == "Running" or is_marked(it)]
        owners = [
            it["metadata"].get("ownerReferences", ()) for it in map(self.pod_of, moving) if it
        ]
        return sum(any(each["uid"] == batch for each in those) for those in owners)

    def judge(self, pod: Object) -> str:
        if EVICT in notes(pod):
            return "Evict"
        if self.is_forbidden(pod):
            return "Refuse"
        return "Defer" if self.is_limited(pod) else "Evict"

    def is_forbidden(self, pod: Object) -> bool:
        args, spec, owners = self.args, pod["spec"], pod["metadata"].get("ownerReferences", [])
        spaces, name = args.get("namespaces", {}), pod["metadata"]["namespace"]
        if not self.skips("Namespaces") and (
            (spaces.get("include") and name not in spaces["include"])
            or name in spaces.get("exclude", ())
        ):
            return True
        if notes(pod).get(COST) == NEVER or any(it["kind"] == "DaemonSet" for it in owners):
            return True
        if "kubernetes.io/config.mirror" in notes(pod) or "deletionTimestamp" in pod["metadata"]:
            return True
        if notes(pod).get("kubernetes.io/config.source", "api") != "api":
            return True
        failed = pod["status"]["phase"] == "Failed"
        lets_bare = args.get("evictAllBarePods") or self.skips("BarePods")
        if not owners and not lets_bare and not (args.get("evictFailedBarePods") and failed):
            return True
        if self.is_important(spec.get("priority")) or self.holds_data(spec):
            return True
        wanted = args.get("labelSelector", {}).get("matchLabels", {})
        if not self.skips("LabelSelector") and wanted.items() - pod["metadata"]["labels"].items():
            return True
        return not self.skips("ExpectedReplicas") and self.is_too_small(pod)

    def is_important(self, priority: int | None) -> bool:
        args, threshold = self.args, self.args.get("priorityThreshold", {}).get("value")
        if not (args.get("evictSystemCriticalPods") or self.skips("SystemCritical")):
            if priority is not None and priority >= 2_000_000_000:
                return True
            is_on = threshold is not None and not self.skips("PriorityThreshold")
            if is_on and priority is not None and priority >= threshold:
                return True
        return False

    def holds_data(self, spec: Object) -> bool:
        args = self.args
        kinds = {kind for volume in spec.get("volumes", ()) for kind in volume}
        lets_local = args.get("evictLocalStoragePods") or self.skips("LocalStorage")
        if not lets_local and kinds & {"emptyDir", "hostPath"}:
            return True
        protects = args.get("ignorePvcPods") and not self.skips("PVC")
        return bool(protects) and "persistentVolumeClaim" in kinds

    def is_too_small(self, pod: Object) -> bool:
        if controller(pod) is None or self.args.get("skipCheckExpectedReplicas"):
            return False
        replicas, _ = self.workload(pod)
        limits = {self.limit(replicas, f"max{each}PerWorkload") for each in LIMITED}
        return replicas in {1, *limits}

    def workload(self, pod: Object) -> tuple[int, list[Object]]:
        owner = controller(pod)
        assert owner is not None
        found = self.above.get(owner["uid"])
        if found is None:
            return 0, []
        top = controller(found)
        if top is None:
            return found["spec"]["replicas"], self.pods_of({owner["uid"]})
        if (deployment := self.above.get(top["uid"])) is None:
            return 0, []
        sets = {
            uid(it) for it in self.above.values() if (controller(it) or {}).get("uid") == top["uid"]
        }
        return deployment["spec"]["replicas"], self.pods_of(sets)

    def pods_of(self, owners: set[str]) -> list[Object]:
        return [it for it in self.pods.values() if (controller(it) or {}).get("uid") in owners]

    def limit(self, replicas: int, name: str) -> int:
        written = self.args.get(name)
        if written is None:
            most = replicas // 10 if replicas > 10 else 2 if replicas >= 4 else 1
        else:
            share = isinstance(written, str)
            most = math.floor(int(written[:-1]) * replicas / 100) if share else written
            most = most or 1
        return min(most, replicas)

    def is_limited(self, pod: Object) -> bool:
        others = [it for it in self.progress if it["spec"]["podRef"].get("uid") != uid(pod)]
        space, node = pod["metadata"]["namespace"], pod["spec"].get("nodeName", "")
        on_node = {
            key_of_ref(it)
            for it in self.progress
            if (its := self.pod_of(it)) is not None
            and its["spec"].get("nodeName") == node
            and its is not pod
        }
        counts = (
            ("MaxMigratingGlobally", len(others), None),
            ("MaxMigratingPerNode", len(on_node), 2),
            (
                "MaxMigratingPerNamespace",
                sum(it["spec"]["podRef"]["namespace"] == space for it in others),
                None,
            ),
        )
        for gate, count, default in counts:
            most = self.args.get(gate[0].lower() + gate[1:], default)
            is_on = most is not None and most > 0 and not self.skips(gate)
            if is_on and not (gate == "MaxMigratingPerNode" and not node) and count >= most:
                return True
        return self.is_limited_by_workload(pod, others)

    def is_limited_by_workload(self, pod: Object, others: list[Object]) -> bool:
        owner = controller(pod)
        if owner is None:
            return False
        replicas, members = self.workload(pod)
        moving = {
            key(its)
            for it in others
            if (its := self.pod_of(it)) is not None
            and (controller(its) or {}).get("uid") == owner["uid"]
            and its["metadata"]["namespace"] == pod["metadata"]["namespace"]
        }
        most = self.limit(replicas, "maxMigratingPerWorkload")
        if moving and len(moving) >= most and not self.skips("MaxMigratingPerWorkload"):
            return True
        unavailable = moving | {key(it) for it in members if not is_available(it)}
        most = self.limit(replicas, "maxUnavailablePerWorkload")
        return len(unavailable) >= most and not self.skips("MaxUnavailablePerWorkload")


LIMITED = ("Migrating", "Unavailable")


def key(item: Object) -> tuple[str, str]:
    return item["metadata"]["namespace"], item["metadata"]["name"]


def key_of_ref(job: Object) -> tuple[str, str]:
    return job["spec"]["podRef"]["namespace"], job["spec"]["podRef"]["name"]


def uid(item: Object) -> str:
    return str(item["metadata"]["uid"])


def notes(item: Object) -> Mapping[str, str]:
    found: Mapping[str, str] = item["metadata"].get("annotations", {})
    return found


def phase(job: Object) -> str:
    return str(job.get("status", {}).get("phase", ""))


def is_marked(job: Object) -> bool:
    return notes(job).get(PASSED) == "true"


def has_passed(job: Object) -> bool:
    return phase(job) in ("", "Pending") and is_marked(job)


def controller(item: Object) -> Object | None:
    owners = item["metadata"].get("ownerReferences", ())
    return next((each for each in owners if each.get("controller")), None)


def is_available(pod: Object) -> bool:
    is_ready = any(
        each["type"] == "Ready" and each["status"] == "True" for each in pod["status"]["conditions"]
    )
    has_ended = pod["status"]["phase"] in ("Succeeded", "Failed")
    return is_ready and not has_ended and "deletionTimestamp" not in pod["metadata"]


def cost(pod: Object, name: str) -> int:
    written = notes(pod).get(name, "0")
    is_number = written.removeprefix("-").isdecimal()
    return int(written) if is_number and not written.startswith("0") else 0


def rank(pod: Object) -> tuple[Any, ...]:
    labels, priority = pod["metadata"]["labels"], pod["spec"].get("priority")
    by_number = (
        (range(9000, 10000), "koord-prod"),
        (range(7000, 8000), "koord-mid"),
        (range(5000, 6000), "koord-batch"),
        (range(3000, 4000), "koord-free"),
    )
    quality = labels.get("koordinator.sh/qosClass") or QOS_OF[pod["status"]["qosClass"]]
    named = labels.get("koordinator.sh/priority-class") or next(
        (each for those, each in by_number if priority is not None and priority in those),
        "koord-batch" if quality == "BE" else "koord-prod",
    )
    created = datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
    return (
        CLASSES.index(named),
        priority or 0,
        ("BestEffort", "Burstable", "Guaranteed").index(pod["status"]["qosClass"]),
        QUALITIES.index(quality),
        cost(pod, DELETION_COST),
        cost(pod, COST),
        -created.timestamp(),
    )


QOS_OF = {"BestEffort": "BE", "Burstable": "LS", "Guaranteed": "LSR"}


# --- clusters ---

NAMESPACES, NODES = ("shop", "media"), ("n1", "n2", "n3")
USUAL = ("rs", "rs", "deployment", "deployment", "stateful")
WORKLOADS = (*USUAL, *USUAL, "gone", "batch", "batch", "bare", "daemon")
CLASSES = ("koord-free", "koord-batch", "koord-mid", "koord-prod")
QUALITIES = ("BE", "LS", "LSR", "LSE")


def stamp(seconds_ago: int) -> str:
    return (NOW - timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


def owned_by(kind: str, name: str, group: str = "apps/v1") -> Object:
    return {"kind": kind, "name": name, "uid": name, "controller": True, "apiVersion": group}


def owner(kind: str, name: str, space: str, replicas: int, above: Object | None = None) -> Object:
    metadata: Object = {"name": name, "namespace": space, "uid": name}
    if above is not None:
        metadata["ownerReferences"] = [above]
    labels = {"matchLabels": {"app": name}}
    spec = {"replicas": replicas, "selector": labels, "template": {}, "serviceName": name}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


class Maker:
    """Makes clusters and arguments at random: mostly usual ones, in which limits decide."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def rarely(self) -> bool:
        return self.random.random() < 0.06

    def pod(self, name: str, space: str, owners: list[Object]) -> Object:
        """Make a pod, which rarely has something that matters."""
        choice, metadata = self.random.choice, self.metadata(name, space)
        if owners:
            metadata["ownerReferences"] = owners
        if self.rarely():
            metadata |= {"deletionTimestamp": stamp(5), "deletionGracePeriodSeconds": 30}
        quality = choice(("BestEffort", "Burstable", "Guaranteed"))
        amounts = {"cpu": "100m", "memory": "64Mi"}
        resources = {
            "BestEffort": {},
            "Burstable": {"requests": amounts},
            "Guaranteed": {"requests": amounts, "limits": amounts},
        }[quality]
        spec: Object = {
            "nodeName": choice(NODES),
            "containers": [{"name": "c", "image": "i", "resources": resources}],
        }
        if self.rarely():
            volume: Object = choice(
                (
                    {"emptyDir": {}},
                    {"hostPath": {"path": "/x"}},
                    {"persistentVolumeClaim": {"claimName": "c"}},
                )
            )
            spec["volumes"] = [{"name": "v", **volume}]
        usual = (None, 0, 0, 50, 3500, 5559, 7000)
        priority = choice((9999, 2_000_000_000)) if self.rarely() else choice(usual)
        if priority is not None:
            spec["priority"] = priority
        conditions = [{"type": "Ready", "status": choice(["True"] * 40 + ["False"])}]
        running = "Failed" if self.rarely() else "Running"
        status = {"phase": running, "qosClass": quality, "conditions": conditions}
        kind = {"apiVersion": "v1", "kind": "Pod"}
        return {**kind, "metadata": metadata, "spec": spec, "status": status}

    def metadata(self, name: str, space: str) -> Object:
        """Make the metadata of a pod; few of the costs are numbers, or never."""
        choice = self.random.choice
        annotations, labels = {}, {"app": "a", "tier": choice("xxxy")}
        if self.random.random() < 0.2:
            cost = NEVER if self.rarely() else choice(("-5", "0", "7", "07", "+7", "x", "12"))
            annotations[choice((COST, DELETION_COST))] = cost
        if self.rarely():
            note = choice((EVICT, EVICT, "kubernetes.io/config.mirror"))
            annotations[note] = choice(("", "true"))
        if self.rarely():
            labels["koordinator.sh/priority-class"] = choice(CLASSES)
        if self.rarely():
            labels["koordinator.sh/qosClass"] = choice(QUALITIES)
        return {
            "name": name,
            "namespace": space,
            "uid": f"uid-{name}",
            "creationTimestamp": stamp(self.random.randint(60, 90)),
            "labels": labels,
            "annotations": annotations,
        }

    def workload(self, name: str) -> list[Object]:
        """Make a workload with its pods; their number is mostly, not always, what is wanted."""
        kind, space = self.random.choice(WORKLOADS), self.random.choice(NAMESPACES)
        count = self.random.choice((1, 3, 5, 9, 11, 14, 21))
        replicas = max(0, count + self.random.choice((0, 0, 0, 1, -1, 8)))
        made: list[Object] = []
        own = [owned_by("ReplicaSet", name)]
        match kind:
            case "rs":
                made = [owner("ReplicaSet", name, space, replicas)]
            case "stateful":
                made = [owner("StatefulSet", name, space, replicas)]
                own = [owned_by("StatefulSet", name)]
            case "bare":
                own = []
            case "batch":
                own = [owned_by("Job", name, "batch/v1")]
            case "daemon":
                own = [owned_by("DaemonSet", name)]
            case "deployment":
                above = owned_by("Deployment", name)
                made = [owner("Deployment", name, space, replicas)]
                made += [owner("ReplicaSet", f"{name}-{each}", space, 1, above) for each in "ab"]
                own, other = ([owned_by("ReplicaSet", f"{name}-{each}")] for each in "ab")
                made += [self.pod(f"{name}-o{each}", space, other) for each in range(3)]
        pods = [self.pod(f"{name}-p{each}", space, own) for each in range(count)]
        for pod in pods if kind == "batch" else ():  # else a round never comes to their order
            if self.random.random() < 0.5:
                pod["metadata"]["annotations"][EVICT] = ""
        return made + pods

    def job(self, number: int, pod: tuple[str, str]) -> Object:
        """Make a job that waits, runs, or has ended."""
        space, name = pod
        reference = {"namespace": space, "name": name}
        if not self.rarely():
            reference["uid"] = f"uid-{name}"
        waiting = ("", "", "", "", "", "", "", "Pending")
        phase = self.random.choice((*waiting, "Running", "Succeeded", "Failed"))
        passed = phase in ("Running", "Succeeded") or self.rarely()
        return {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "PodMigrationJob",
            "metadata": {
                "name": f"job-{number}",
                "uid": f"job-{number}",
                "creationTimestamp": stamp(number),
                "annotations": {PASSED: "true"} if passed else {},
            },
            "spec": {"podRef": reference, "mode": "EvictDirectly", "ttl": "5m0s"},
            **({"status": {"phase": phase}} if phase else {}),
        }

    def cluster(self) -> list[Object]:
        """Make a cluster with jobs, sometimes several for a pod, or one for none."""
        node = {"apiVersion": "v1", "kind": "Node", "status": {}}
        objects = [{**node, "metadata": {"name": each, "uid": each}} for each in NODES]
        for number in range(self.random.randint(1, 5)):
            objects += self.workload(f"w{number}")
        # Of a kind of which nothing is given a preview cannot say what is missing.
        objects += [
            owner(each, f"idle-{each}", "media", 3) for each in ("ReplicaSet", "Deployment")
        ]
        there = [key(it) for it in objects if it["kind"] == "Pod"]
        named = self.random.sample(there, min(len(there), self.random.randint(5, 25)))
        named += [*self.random.choices(named, k=8), ("shop", "no-such-pod"), ("media", "nor-this")]
        return objects + [self.job(number, pod) for number, pod in enumerate(named)]

    def arguments(self) -> Object:
        """Make arguments, of which few are written."""
        choice = self.random.choice
        counts = (0, 1, 2, 4, 6, 8, 10)
        shares = (-1, 0, 1, 2, 3, 6, "0%", "5%", "10%", "25%", "33%", "50%", "80%", "99%")
        may_be = {
            "maxMigratingGlobally": (0.3, counts),
            "maxMigratingPerNode": (0.9, (0, 0, 1, 2, 3, 5)),
            "maxMigratingPerNamespace": (0.3, counts),
            "maxMigratingPerWorkload": (0.5, shares),
            "maxUnavailablePerWorkload": (0.5, shares),
            "skipCheckExpectedReplicas": (0.2, (True,)),
            "evictFailedBarePods": (0.1, (True,)),
            "evictAllBarePods": (0.1, (True,)),
            "evictLocalStoragePods": (0.1, (True,)),
            "evictSystemCriticalPods": (0.1, (True,)),
            "ignorePvcPods": (0.2, (True,)),
            "priorityThreshold": (0.2, ({"value": 3500}, {"value": 8000})),
            "labelSelector": (0.1, ({"matchLabels": {"tier": "x"}},)),
            "namespaces": (0.1, ({"include": ["shop"]}, {"exclude": ["shop"]})),
        }
        args: Object
        if self.random.random() < 0.5:  # else one rule is often hidden by another
            named = self.random.sample(sorted(may_be), 2)
            args = {"maxMigratingPerNode": 0} | {each: choice(may_be[each][1]) for each in named}
        else:
            args = {
                name: choice(values)
                for name, (share, values) in may_be.items()
                if self.random.random() < share
            }
        if self.random.random() < 0.3:
            skipped = choice(sorted(NARROW))
            args |= NARROW[skipped]
            others = self.random.sample([each.value for each in SkipGate], choice((0, 2)))
            args["skipEvictionGates"] = [skipped, *others]
        return args


OPEN: Object = {"maxMigratingPerNode": 0}
NARROW: Mapping[str, Object] = {
    "MaxMigratingGlobally": {"maxMigratingGlobally": 1},
    "MaxMigratingPerNode": {"maxMigratingPerNode": 1},
    "MaxMigratingPerNamespace": {"maxMigratingPerNamespace": 1},
    "MaxMigratingPerWorkload": OPEN
    | {"maxMigratingPerWorkload": 1, "maxUnavailablePerWorkload": "80%"},
    "MaxUnavailablePerWorkload": OPEN
    | {"maxUnavailablePerWorkload": 1, "maxMigratingPerWorkload": "80%"},
    "ExpectedReplicas": OPEN | {"maxMigratingPerWorkload": "100%"},
    "PVC": {"ignorePvcPods": True},
    "PriorityThreshold": {"priorityThreshold": {"value": 50}},
    "LabelSelector": {"labelSelector": {"matchLabels": {"tier": "x"}}},
    "Namespaces": {"namespaces": {"exclude": ["shop"]}},
}
"""Arguments of which a gate leaves one out, so written that this would decide."""


def decided(args: Mapping[str, Any], objects: list[Object]) -> list[Decided]:
    """Decide as `plan` does on a file with these objects and a policy with these arguments."""
    profile = {
        "name": "default",
        "pluginConfig": [
            {
                "name": "MigrationController",
                "args": {"defaultJobMode": "EvictDirectly", **args},
            }
        ],
        "plugins": {"evict": {"enabled": ["MigrationController"]}},
    }
    policy = {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerPolicy",
        "profiles": [profile],
    }
    configuration = load_sources([SourceText(yaml.safe_dump(policy), "p.yaml")], plugin_registry())
    builder = SnapshotBuilder(set(WATCHED_KINDS))
    for item in objects:
        raw = msgspec.Raw(json.dumps(item).encode())
        builder.add_input(InputObject(item["kind"], item["apiVersion"], raw), "case")
    snapshot = builder.build()
    assert snapshot.is_complete, snapshot.unreadable
    found = arbitrate_jobs(configuration, snapshot, NOW.timestamp())
    return [(each.action, each.pod.name, each.finding.split()[1]) for each in found]


@pytest.mark.parametrize("seed", range(60))
def test_a_round_decides_by_koordinators_rules(seed: int) -> None:
    maker = Maker(seed)
    args, objects = maker.arguments(), maker.cluster()

    found, expected = decided(args, objects), Round(args, objects).results

    assert sorted(found) == sorted(expected), args
    assert evicted(found) == evicted(expected), args


def evicted(decisions: list[Decided]) -> list[Decided]:
    """Return the decisions that let a pod go, in order."""
    return [each for each in decisions if each[0] == "Evict"]
