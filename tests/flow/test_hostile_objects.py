"""Whatever an object of a watched kind holds, the process goes on, and the next object counts."""

import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any, Final

import anyio
import trio.testing
from hypothesis import example, given
from hypothesis import strategies as st

from reactive_desched.errors import Malformed
from reactive_desched.journal.event_builder import who_payload, why_payload
from reactive_desched.kube.codec import make_codecs
from reactive_desched.model.evaluation import DecisionContext
from reactive_desched.plugins.consolidate_nodes import (
    ConsolidateNodesArgs,
    ConsolidateNodesPlugin,
)
from reactive_desched.plugins.duplicates import DuplicatesArgs, DuplicatesPlugin
from reactive_desched.plugins.failed_pods import FailedPodsArgs, FailedPodsPlugin
from reactive_desched.plugins.high_node_utilization import (
    HighNodeUtilizationArgs,
    HighNodeUtilizationPlugin,
)
from reactive_desched.plugins.inter_pod_anti_affinity import (
    InterPodAntiAffinityArgs,
    InterPodAntiAffinityPlugin,
)
from reactive_desched.plugins.make_room_for_pending import (
    MakeRoomForPendingArgs,
    MakeRoomForPendingPlugin,
)
from reactive_desched.plugins.node_affinity import REQUIRED, NodeAffinityArgs, NodeAffinityPlugin
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.plugins.too_many_restarts import TooManyRestartsArgs, TooManyRestartsPlugin
from reactive_desched.plugins.topology_spread import TopologySpreadArgs, TopologySpreadPlugin
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.policy import AnyPlugin
from reactive_desched.policy.settings.guards import GuardSettings
from reactive_desched.policy.settings.migration import MigrationJobSettings
from reactive_desched.recording.items import Instant, ObjectFound
from reactive_desched.recording.rows import RowWriter
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.testing.builders import node, pod
from tests.support.flow import FakeEdgesController

JSON = dict[str, Any]  # any JSON object
TIME: Final = "2026-01-01T00:00:00Z"
OWNER: Final = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "name": "rs",
    "uid": "rs1",
    "controller": True,
}
SELECTOR: Final = {
    "matchLabels": {"app": "web"},
    "matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}],
}
TERM: Final = {"topologyKey": "zone", "labelSelector": SELECTOR, "namespaces": ["shop"]}
TERMS: Final = {
    "requiredDuringSchedulingIgnoredDuringExecution": [TERM],
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": TERM}],
}
NODE_TERM: Final = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}


def metadata(name: str, **more: Any) -> JSON:
    return {
        "name": name,
        "namespace": "shop",
        "uid": f"uid-{name}",
        "resourceVersion": "7",
        "generation": 1,
        "labels": {"app": "web", "zone": "a"},
        "annotations": {"reactive-desched.io/do-not-evict": "false"},
        "creationTimestamp": TIME,
        **more,
    }


VALID: Final[dict[str, JSON]] = {
    "pods": {
        "metadata": metadata(
            "hostile",
            ownerReferences=[OWNER],
            annotations={
                "descheduler.alpha.kubernetes.io/evict": "true",
                "batch.kubernetes.io/job-index-failure-count": "1",
                "controller.kubernetes.io/pod-deletion-cost": "1",
                "scheduling.koordinator.sh/eviction-cost": "1",
                "scheduling.volcano.sh/group-name": "g",
                "pod-group-name": "g",
            },
        ),
        "spec": {
            "nodeName": "n1",
            "schedulerName": "s",
            "priority": 1,
            "restartPolicy": "Never",
            "nodeSelector": {"zone": "a"},
            "tolerations": [{"key": "a", "operator": "Gt", "value": "5", "effect": "NoSchedule"}],
            "affinity": {
                "podAffinity": TERMS,
                "podAntiAffinity": TERMS,
                "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [NODE_TERM]}},
            },
            "topologySpreadConstraints": [
                {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "minDomains": 1, **TERM}
            ],
            "overhead": {"cpu": "1m"},
            "containers": [
                {
                    "name": "c",
                    "image": "i",
                    "resources": {"requests": {"cpu": "1m"}, "limits": {"memory": "1Gi"}},
                    "ports": [{"hostPort": 80, "protocol": "TCP", "hostIP": "::"}],
                }
            ],
            "volumes": [{"persistentVolumeClaim": {"claimName": "data"}}, {"emptyDir": {}}],
        },
        "status": {
            "phase": "Running",
            "reason": "r",
            "qosClass": "Burstable",
            "startTime": TIME,
            "nominatedNodeName": "n1",
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "r", "lastTransitionTime": TIME}
            ],
            "containerStatuses": [
                {
                    "name": "c",
                    "restartCount": 9,
                    "state": {"terminated": {"reason": "Error", "exitCode": 1}},
                    "allocatedResources": {"cpu": "2m"},
                }
            ],
        },
    },
    "nodes": {
        "metadata": metadata(
            "n3",
            annotations={
                "node.koordinator.sh/raw-allocatable": '{"cpu":"4"}',
                "node.koordinator.sh/reservation": '{"reservedCPUs":"0-1"}',
            },
        ),
        "spec": {
            "unschedulable": False,
            "taints": [{"key": "k", "effect": "NoSchedule", "value": "v", "timeAdded": TIME}],
        },
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": TIME}],
        },
    },
    "namespaces": {"metadata": metadata("shop")},
    "poddisruptionbudgets": {
        "metadata": metadata("pdb"),
        "spec": {"selector": SELECTOR, "unhealthyPodEvictionPolicy": "AlwaysAllow"},
        "status": {"disruptionsAllowed": 1, "currentHealthy": 1, "disruptedPods": {"a": TIME}},
    },
    "replicasets": {"metadata": metadata("rs", uid="rs1", ownerReferences=[OWNER])},
    "jobs": {
        "metadata": metadata("job", ownerReferences=[OWNER]),
        "spec": {
            "backoffLimit": 6,
            "completions": 1,
            "activeDeadlineSeconds": 9,
            "podFailurePolicy": {
                "rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]}}]
            },
        },
        "status": {"failed": 1, "startTime": TIME, "uncountedTerminatedPods": {"failed": ["u"]}},
    },
    "deployments": {
        "metadata": metadata("web"),
        "spec": {"replicas": 3},
        "status": {"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3},
    },
    "statefulsets": {
        "metadata": metadata("db"),
        "spec": {
            "replicas": 3,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}},
        },
        "status": {"observedGeneration": 1, "updatedReplicas": 1, "updateRevision": "r"},
    },
    "persistentvolumeclaims": {
        "metadata": metadata("data"),
        "spec": {"storageClassName": "s", "volumeName": "pv", "accessModes": ["ReadWriteOnce"]},
        "status": {"phase": "Bound"},
    },
    "persistentvolumes": {
        "metadata": metadata("pv"),
        "spec": {
            "csi": {"driver": "d", "volumeHandle": "h"},
            "claimRef": {"namespace": "shop", "name": "data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [NODE_TERM]}},
        },
    },
    "csinodes": {
        "metadata": metadata("n1"),
        "spec": {"drivers": [{"name": "d", "allocatable": {"count": 5}}]},
    },
    "priorityclasses": {"metadata": metadata("high"), "value": 5},
    "nodemetrics": {
        "metadata": metadata("n1"),
        "status": {
            "updateTime": TIME,
            "nodeMetric": {"systemUsage": {"resources": {"cpu": "1", "memory": "1Gi"}}},
            "podsMetric": [
                {"namespace": "shop", "name": "hostile", "podUsage": {"resources": {"cpu": "1"}}}
            ],
        },
    },
    "podmigrationjobs": {
        "metadata": metadata(
            "job",
            labels={"koordinator.sh/evict-policy": "Delete"},
            annotations={"scheduling.koordinator.sh/passed-arbitration": "true"},
        ),
        "spec": {
            "podRef": {"namespace": "shop", "name": "hostile", "uid": "uid-hostile"},
            "mode": "ReservationFirst",
            "ttl": "5m",
            "deleteOptions": {"gracePeriodSeconds": 5, "propagationPolicy": "Background"},
            "reservationOptions": {"reservationRef": {"name": "r"}},
        },
        "status": {
            "phase": "Running",
            "reason": "r",
            "message": "m",
            "nodeName": "n1",
            "podRef": {"namespace": "shop", "name": "next"},
            "conditions": [
                {"type": "Eviction", "status": "True", "reason": "r", "lastTransitionTime": TIME}
            ],
        },
    },
    "reservations": {
        "metadata": metadata("r"),
        "spec": {"owners": [{"object": {"name": "a"}, "labelSelector": SELECTOR}]},
        "status": {
            "phase": "Available",
            "nodeName": "n1",
            "allocatable": {"cpu": "1"},
            "currentOwners": [{"namespace": "shop", "name": "a", "uid": "b"}],
            "conditions": [{"type": "Scheduled", "status": "True", "reason": "Scheduled"}],
        },
    },
}
HOSTILE: Final[st.SearchStrategy[Any]] = st.sampled_from(
    [
        *("x" * 300_000, "\u001b[31m\u0000\u0007", "\u202e\u009b2J", "<script>|`*", "", "ключ"),
        *("9" * 5_000, "1e30", "-1", "NaN", "1" * 60 + "Ei", "1e999999", "9999-12-31T23:59:59Z"),
        *("a\nb\u2028\u0085", "\uff11\uff12", "1e400", "-0", "9e99Ei", "99999-01-01T00:00:00Z"),
        *("0001-01-01T00:00:00Z", "2026-01-01T00:00:00+23:59", "0/0", "[", "{}"),
        *(10**30, -(10**30), 2**63, -1, 0, 1e308, 0.1, True, False, None, [], {}, [[]], {"": ""}),
        ["x"] * 40_000,
        {f"k{number}": "v" for number in range(20_000)},
        [{"key": f"k{number}", "operator": "Exists"} for number in range(10_000)],
        [[[[[[[[[[]]]]]]]]]],
    ]
)


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to each member of an object."""
    members = value.items() if isinstance(value, dict) else enumerate(value)
    for key, member in members:
        yield (*at, key)
        if isinstance(member, (dict, list)):
            yield from places(member, (*at, key))


@st.composite
def hostile_objects(
    draw: st.DrawFn, valid: Sequence[tuple[str, JSON]] = tuple(VALID.items())
) -> tuple[str, JSON]:
    """Draw one of these objects, one or two members of which hold what nobody expects."""
    resource, made = draw(st.sampled_from(valid))
    obj = deepcopy(made)
    ways = list(places(made))
    for _ in range(draw(st.integers(1, 2))):
        *way, last = draw(st.sampled_from(ways))
        holder: Any = obj
        try:
            for key in way:
                holder = holder[key]
            holder[last] = draw(HOSTILE)
        except (TypeError, KeyError, IndexError):
            continue  # what was there is no holder any more
    return resource, obj


def waiting(name: str) -> JSON:
    """Return a pod for which the scheduler finds no node."""
    pod: JSON = deepcopy(VALID["pods"])
    pod["metadata"] |= {"name": name, "uid": f"uid-{name}"}
    del pod["metadata"]["annotations"]["scheduling.volcano.sh/group-name"]
    del pod["metadata"]["annotations"]["pod-group-name"]
    pod["spec"] = {each: pod["spec"][each] for each in ("containers", "tolerations", "priority")}
    said = {"reason": "Unschedulable", "message": "m", "lastTransitionTime": TIME}
    unscheduled = {"type": "PodScheduled", "status": "False", **said}
    pod["status"] = {"phase": "Pending", "conditions": [unscheduled], "nominatedNodeName": "n2"}
    return pod


CONCERNED_BY_SETS: Final = (
    ("pods", waiting("waits")),
    ("pods", waiting("waits-too")),
    ("pods", VALID["pods"]),
    ("nodes", VALID["nodes"]),
    ("reservations", VALID["reservations"]),
    ("podmigrationjobs", VALID["podmigrationjobs"]),
)
"""Pods that wait, one of a gang, and what takes or keeps places."""

RULES: Final = (
    NodeTaintsPlugin(NodeTaintsArgs()),
    NodeAffinityPlugin(NodeAffinityArgs.model_validate({"nodeAffinityType": (REQUIRED,)})),
    InterPodAntiAffinityPlugin(InterPodAntiAffinityArgs()),
    TopologySpreadPlugin(TopologySpreadArgs()),
    DuplicatesPlugin(DuplicatesArgs()),
    FailedPodsPlugin(FailedPodsArgs()),
    TooManyRestartsPlugin(TooManyRestartsArgs(pod_restart_threshold=5)),
)
SETS: Final = (
    NodeTaintsPlugin(NodeTaintsArgs()),
    MakeRoomForPendingPlugin(MakeRoomForPendingArgs(wait=1.0)),
    ConsolidateNodesPlugin(ConsolidateNodesArgs()),
    HighNodeUtilizationPlugin(HighNodeUtilizationArgs.model_validate({"thresholds": {"cpu": 50}})),
)


async def _run(
    hostile: list[tuple[str, JSON]],
    plugins: Sequence[AnyPlugin] = RULES,
    guards: GuardSettings = GuardSettings(),  # noqa: B008 -- frozen
) -> list[str]:
    args = DefaultEvictorArgs.model_validate({"nodeFit": True})
    flow = FakeEdgesController(
        *plugins,
        evictor_args=args,
        guards=guards,
        migration=MigrationJobSettings.model_validate({"schedulerNames": ("s",)}),
    )
    recorded = RowWriter()
    codecs = make_codecs(InternTables(reads_all=False), flow.controller.state)
    async with flow.running():
        flow.sync_and_resume(node("n1"), node("n2"), pod("web", on="n2"))
        for resource, obj in hostile:
            for type_ in ("ADDED", "MODIFIED"):
                line = json.dumps({"type": type_, "object": obj}).encode()
                try:
                    event = codecs[resource].decode_event(line)
                except Malformed as error:
                    assert len(str(error)) < 3_000  # noqa: PT017 -- what is said has a length
                    break
                assert event.object is not None
                recorded.add(ObjectFound(Instant(0.0, 0.0), resource, event.object))
                recorded.take()
                flow.handlers[resource].upsert(event.object)
                await anyio.sleep(1)
        flow.deliver(node("n1"), node("n4"), node("n2", "gpu:NoSchedule"))
        await anyio.sleep(3600)
        for finding in flow.controller.evaluator.queue.pending():
            decision = finding.decision
            context = DecisionContext(decision.finding, "p")
            why_payload(context, "r"), who_payload(decision.finding.pod, (), "z")
            assert len(decision.message) < 5_000
            assert decision.message.isprintable()
        assert not flow.controller.evaluator.faults.standing()
    return flow.evicted_names


def asking_for_the_most() -> JSON:
    """Return a pod that asks for as many cores as the API server lets it write."""
    obj = deepcopy(VALID["pods"])
    obj["spec"]["containers"][0]["resources"]["requests"]["cpu"] = str(2**63 - 1)
    return obj


@example([("pods", asking_for_the_most())])
@given(st.lists(hostile_objects(), min_size=1, max_size=4))
def test_whatever_objects_hold_the_process_goes_on_and_the_next_object_counts(
    hostile: list[tuple[str, JSON]],
) -> None:
    clock = trio.testing.MockClock(autojump_threshold=0)

    evicted = anyio.run(_run, hostile, backend="trio", backend_options={"clock": clock})

    assert "web" in evicted


@given(st.lists(hostile_objects(CONCERNED_BY_SETS), min_size=1, max_size=4))
def test_whatever_objects_hold_plans_of_several_moves_go_on_and_others_leave(
    hostile: list[tuple[str, JSON]],
) -> None:
    clock = trio.testing.MockClock(autojump_threshold=0)
    together = GuardSettings.model_validate({"gangs": "together"})

    evicted = anyio.run(
        _run, hostile, SETS, together, backend="trio", backend_options={"clock": clock}
    )

    assert "web" in evicted
