"""The taints that programs set, by who sets them and takes them off, and who empties the node.

A descheduler that reacts in milliseconds meets every one of them: it would drain a node beside or
against the controller that closes it, or for what is over in seconds. So the settings of reactive
mode say for each group whether its taints count at all, and how long they must stand.
"""

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from msgspec import Struct

from reactive_desched.model.objects import Node
from reactive_desched.model.taints import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint

CONSOLIDATING: Final = "reactive-desched/consolidating"
"""The key of our own taint, see `model/consolidation.py`."""

MAKING_ROOM: Final = "reactive-desched/making-room"
"""The key of our own taint on a node where room is made for a pod, see `app/rooms.py`."""

CORDON: Final = "node.kubernetes.io/unschedulable"


class NodeMark(Struct, frozen=True, gc=False):
    """One such taint: who sets it, with which effect, and whether they evict the node's pods.

    `source` is where that is written; empty for what its owner's documentation says of its key.
    """

    set_by: str
    effect: str = NO_SCHEDULE
    empties: bool = True
    source: str = ""


class NodeMarkGroup(Struct, frozen=True, gc=False):
    """Taints that are decided on together: `name` is the field of the settings.

    The keys of `marks` are those of taints, or patterns with `*`. `passes` says that the program
    which sets such a taint takes it off by itself, mostly within minutes, and that the node's pods
    may stay meanwhile.
    """

    name: str
    nodes: str
    marks: Mapping[str, NodeMark]
    passes: bool = False


_AUTOSCALER: Final = "cluster-autoscaler"
_KARPENTER: Final = "Karpenter"
_TERMINATION_HANDLER: Final = NodeMark("the AWS node termination handler")
_KURED: Final = NodeMark(
    "kured, on each node that waits for its reboot", PREFER_NO_SCHEDULE, empties=False
)
_AKS_REPAIR: Final = NodeMark("AKS, which repairs or drains the node")
_STARTUP: Final = "what starts the node, known to cluster-autoscaler as a start-up taint"
_LEPTON: Final = "NVIDIA's Lepton"
_LIFECYCLE: Final = "Kubernetes, taint based evictions and taint nodes by condition"
_CA_FAQ: Final = "cluster-autoscaler, FAQ on start-up and status taints"
_LEPTON_DOCS: Final = "Lepton, taints and scheduling"
_GPU: Final = "NVIDIA/gpu-operator 2573"
_BY_PATTERN: Final = "by its name"


def _passing(set_by: str, source: str, effect: str = NO_SCHEDULE) -> NodeMark:
    return NodeMark(set_by, effect, empties=False, source=source)


def _pressure(of: str) -> NodeMark:
    set_by = f"the node lifecycle controller, while the kubelet relieves the node of {of} pressure"
    return _passing(set_by, "Kubernetes, node-pressure eviction")


def _csi(driver: str) -> NodeMark:
    set_by = f"an administrator, until {driver} takes it off once it is ready"
    return _passing(set_by, "kubernetes-sigs/aws-ebs-csi-driver 1949, 2492")


def _agent() -> NodeMark:
    return _passing("an agent of the node, until it is ready", _BY_PATTERN)


_DRBD: Final = _passing(
    "Piraeus' HA controller, until the volumes of the node have quorum again; "
    "it deletes the pods that suffer by itself",
    "piraeusdatastore/piraeus-ha-controller",
)


NODE_MARK_GROUPS: Final = (
    NodeMarkGroup(
        "cordonedNodes",
        "cordoned nodes",
        {CORDON: NodeMark("`kubectl cordon`, through the node controller", empties=False)},
    ),
    NodeMarkGroup(
        "scaledDownNodes",
        "nodes that an autoscaler removes",
        {
            "ToBeDeletedByClusterAutoscaler": NodeMark(_AUTOSCALER),
            "DeletionCandidateOfClusterAutoscaler": NodeMark(
                _AUTOSCALER, PREFER_NO_SCHEDULE, empties=False
            ),
            "karpenter.sh/disrupted": NodeMark(_KARPENTER),
            "karpenter.sh/disruption": NodeMark(f"{_KARPENTER} before version 1"),
            CONSOLIDATING: NodeMark(
                "the plugins ConsolidateNodes, CustomPriority and KeepNodesFree",
                PREFER_NO_SCHEDULE,
                empties=False,
            ),
            MAKING_ROOM: NodeMark(
                "the plugin MakeRoomForPending", PREFER_NO_SCHEDULE, empties=False
            ),
        },
    ),
    NodeMarkGroup(
        "maintenanceNodes",
        "nodes that are shut down or repaired",
        {
            "node.kubernetes.io/out-of-service": NodeMark(
                "an administrator or a remediation operator, for a node that is down", NO_EXECUTE
            ),
            "node.cloudprovider.kubernetes.io/shutdown": NodeMark("the cloud controller manager"),
            "medik8s.io/drain": NodeMark("the node maintenance operator of medik8s"),
            "medik8s.io/remediation": NodeMark("the remediation of medik8s", NO_EXECUTE),
            "kubevirt.io/drain": NodeMark(
                "an administrator, for KubeVirt to move virtual machines"
            ),
            "node.cluster.x-k8s.io/outdated-revision": NodeMark(
                "Cluster API, while machines are replaced", PREFER_NO_SCHEDULE
            ),
            "deployment.machine.sapcloud.io/prefer-no-schedule": NodeMark(
                "Gardener's machine controller, while machines are replaced", PREFER_NO_SCHEDULE
            ),
            "UpdateInProgress": NodeMark(
                "OpenShift's machine config operator, on each node that is to be updated",
                PREFER_NO_SCHEDULE,
                empties=False,
            ),
            "kured.dev/kured-node-reboot": _KURED,
            "weave.works/kured-node-reboot": _KURED,
            "cloud.google.com/impending-node-termination": NodeMark("GKE"),
            "remediator.kubernetes.azure.com/unschedulable": _AKS_REPAIR,
            "remediator.aks.microsoft.com/unschedulable": _AKS_REPAIR,
            "aws-node-termination-handler/spot-itn": _TERMINATION_HANDLER,
            "aws-node-termination-handler/scheduled-maintenance": _TERMINATION_HANDLER,
            "aws-node-termination-handler/asg-lifecycle-termination": _TERMINATION_HANDLER,
            "aws-node-termination-handler/rebalance-recommendation": _TERMINATION_HANDLER,
            "*draining": NodeMark("what drains the node", source=_BY_PATTERN),
        },
    ),
    NodeMarkGroup(
        "pressureNodes",
        "nodes under pressure",
        {
            "node.kubernetes.io/memory-pressure": _pressure("memory"),
            "node.kubernetes.io/disk-pressure": _pressure("disk"),
            "node.kubernetes.io/pid-pressure": _pressure("process ids"),
        },
        passes=True,
    ),
    NodeMarkGroup(
        "unreadyNodes",
        "nodes that are not ready",
        {
            "node.kubernetes.io/not-ready": _passing("the node lifecycle controller", _LIFECYCLE),
            "node.kubernetes.io/unreachable": _passing("the node lifecycle controller", _LIFECYCLE),
            "node.kubernetes.io/network-unavailable": _passing(
                "the node lifecycle controller, until the network of the node is set up", _LIFECYCLE
            ),
            "node.cloudprovider.kubernetes.io/uninitialized": _passing(
                "the kubelet, until the cloud controller manager has initialized the node",
                "Kubernetes, cloud controller manager administration",
            ),
            "node.cluster.x-k8s.io/uninitialized": _passing(
                "the kubelet, until Cluster API has labelled the node",
                "Cluster API, bootstrap provider contract",
            ),
            "node.alpha.kubernetes.io/notReady-workload": _passing(
                "kube-node-ready-controller, while system pods of the node are not ready",
                "mikkeloscar/kube-node-ready-controller",
            ),
        },
        passes=True,
    ),
    NodeMarkGroup(
        "startingNodes",
        "nodes that start",
        {
            "karpenter.sh/unregistered": _passing(
                _KARPENTER, "Karpenter, known ephemeral taints", NO_EXECUTE
            ),
            "startup-taint.cluster-autoscaler.kubernetes.io/*": _passing(_STARTUP, _CA_FAQ),
            "ignore-taint.cluster-autoscaler.kubernetes.io/*": _passing(_STARTUP, _CA_FAQ),
            "status-taint.cluster-autoscaler.kubernetes.io/*": _passing(
                "what watches the state of the node, known to cluster-autoscaler", _CA_FAQ
            ),
            "readiness.k8s.io/*": _passing(
                "the node readiness controller, while a condition of its rule is not met",
                "Kubernetes blog, 2026-02-03",
            ),
            "node.gardener.cloud/critical-components-not-ready": _passing(
                "Gardener, until its critical pods on the node run",
                "Gardener, readiness of shoot worker nodes",
            ),
            "node.lepton.ai/unregistered": _passing(_LEPTON, _LEPTON_DOCS),
            "node.lepton.ai/initialized": _passing(_LEPTON, _LEPTON_DOCS),
            "node.lepton.ai/acceptance-verifying": _passing(_LEPTON, _LEPTON_DOCS),
            "skyhook.nvidia.com": _passing(
                "NVIDIA's Skyhook, until its packages are applied", "NVIDIA/skyhook 102"
            ),
            "*uninitialized": _passing("what initializes the node", _BY_PATTERN),
            "*not-initialized": _passing("what initializes the node", _BY_PATTERN),
            "*initializing": _passing("what initializes the node", _BY_PATTERN),
            "*bootstrapping": _passing("what initializes the node", _BY_PATTERN),
            "*not-bootstrapped": _passing("what initializes the node", _BY_PATTERN),
            "*/provisioning": _passing("what initializes the node", _BY_PATTERN),
            "*-provisioning": _passing("what initializes the node", _BY_PATTERN),
            "*joining": _passing("what initializes the node", _BY_PATTERN),
            "*warming-up": _passing("what prepares the node", _BY_PATTERN),
            "*warmup": _passing("what prepares the node", _BY_PATTERN),
            "*validating": _passing("what initializes the node", _BY_PATTERN),
            "*not-configured": _passing("what initializes the node", _BY_PATTERN),
            "*unregistered": _passing("what registers the node", _BY_PATTERN),
            "*not-registered": _passing("what registers the node", _BY_PATTERN),
            "*starting": _passing("what starts or restarts the node", _BY_PATTERN),
            "*rebooting": _passing("what starts or restarts the node", _BY_PATTERN),
            "*startup-taint*": _passing("what prepares the node", _BY_PATTERN),
        },
        passes=True,
    ),
    NodeMarkGroup(
        "agentNodes",
        "nodes with an agent that is not ready",
        {
            "node.cilium.io/agent-not-ready": _passing(
                "Cilium, while its agent starts or restarts", "Cilium, taint effects"
            ),
            "node.cilium.io/*": _passing("Cilium", "Cilium, taint effects"),
            "*projectcalico.org/*": _passing(
                "Calico and its operator", "projectcalico/calico 11985"
            ),
            "ebs.csi.aws.com/agent-not-ready": _csi("the EBS CSI driver"),
            "efs.csi.aws.com/agent-not-ready": _csi("the EFS CSI driver"),
            "fsx.csi.aws.com/agent-not-ready": _csi("the FSx CSI driver"),
            "cni.istio.io/not-ready": _passing(
                "an administrator, until Istio takes it off once its CNI agent is ready",
                "Istio, node untaint controller",
            ),
            "nidhogg.uswitch.com/*": _passing(
                "Nidhogg, until the pods of a DaemonSet on the node are ready", "pelotech/nidhogg"
            ),
            "drbd.linbit.com/lost-quorum": _DRBD,
            "drbd.linbit.com/force-io-error": _DRBD,
            "*.podmon.storage.dell.com": _passing(
                "Dell's CSM Resiliency, until the node reaches its storage again; "
                "it ends the pods that suffer by itself",
                "dell/csm 160",
            ),
            "*gpu-driver*": _passing(
                "the operator of the devices, while a driver is installed or upgraded", _GPU
            ),
            "*driver-upgrade*": _passing(
                "the operator of the devices, while a driver is installed or upgraded", _GPU
            ),
            "*not-ready": _agent(),
            "*notready": _agent(),
            "*not-ready-*": _agent(),
            "*unready": _agent(),
            "*not-running": _agent(),
            "*not-installed": _agent(),
            "*not-available": _agent(),
            "*unavailable": _agent(),
            "*upgrading": _agent(),
            "*updating": _agent(),
            "*-in-progress": _agent(),
        },
        passes=True,
    ),
)
"""Every group, in the order in which a key is looked for; a key itself comes before a pattern."""

_BY_KEY: Final = {
    key: group for group in reversed(NODE_MARK_GROUPS) for key in group.marks if "*" not in key
}
_BY_PATTERN_OF_KEY: Final = tuple(
    (key, group) for group in NODE_MARK_GROUPS for key in group.marks if "*" in key
)


@lru_cache(maxsize=1024)  # asked for each finding; a cluster has a few keys
def find_mark(key: str) -> tuple[NodeMarkGroup, NodeMark] | None:
    """Return the group of a taint's key and what is known of it; None for any other key."""
    if (group := _BY_KEY.get(key)) is not None:
        return group, group.marks[key]
    lowered = key.lower()
    for pattern, group in _BY_PATTERN_OF_KEY:
        if fnmatchcase(lowered, pattern):
            return group, group.marks[pattern]
    return None


SYSTEM_LABELS: Final[Mapping[str, str]] = {
    "feature.node.kubernetes.io/*": "node feature discovery (node-feature-discovery 1752, 2408)",
    "*.feature.node.kubernetes.io/*": "node feature discovery",
    "nvidia.com/*": "GPU feature discovery (NVIDIA/k8s-device-plugin 796)",
    "amd.com/*": "AMD's node labeller",
    "*.amd.com/*": "AMD's node labeller",
    "gpu.intel.com/*": "Intel's device plugins",
    "kubernetes.io/*": "the kubelet",
    "beta.kubernetes.io/*": "the kubelet",
    "node.kubernetes.io/*": "the kubelet and the cloud controller manager",
    "topology.kubernetes.io/*": "the cloud controller manager",
    "failure-domain.beta.kubernetes.io/*": "the cloud controller manager",
    "topology.*": "storage drivers, through the kubelet",
    "karpenter.sh/*": "Karpenter",
    "karpenter.k8s.aws/*": "Karpenter",
    "eks.amazonaws.com/*": "EKS",
    "cloud.google.com/*": "GKE",
    "kubernetes.azure.com/*": "AKS",
    "kubevirt.io/*": "KubeVirt's handler of the node",
    "*.node.kubevirt.io/*": "KubeVirt's node labeller",
}
"""The labels that programs set on nodes, by pattern, with who sets them; when a node registers
again, or the program restarts, they are gone for a while and come back."""


STATE_LABELS: Final[Mapping[str, str]] = {
    "kubevirt.io/schedulable": "KubeVirt's handler of the node, false while it or the kubelet "
    "restarts (kubevirt 11843)",
    "nvidia.com/gpu.deploy.*": "NVIDIA's GPU operator, paused while a driver is upgraded",
    "*.state": "by its name",
    "*-state": "by its name",
    "*/state": "by its name",
    "*ready": "by its name",
    "*schedulable": "by its name",
    "*initialized": "by its name",
}
"""The labels by whose value an agent says in which state it or the node is, by pattern: another
value passes as well."""


@lru_cache(maxsize=1024)
def is_system_label(key: str) -> bool:
    """Say whether a program keeps this label of nodes, so that it comes back by itself."""
    return any(fnmatchcase(key, pattern) for pattern in SYSTEM_LABELS) or is_state_label(key)


@lru_cache(maxsize=1024)
def is_state_label(key: str) -> bool:
    """Say whether an agent says by this label's value in which state it is, so that it passes."""
    return any(fnmatchcase(key, pattern) for pattern in STATE_LABELS)


class TaintRule(Struct, frozen=True, gc=False):
    """Says whether taints of one key are a reason to evict, and after which time on a node."""

    counts: bool = True
    standing_s: float = 0.0


COUNTS_AT_ONCE: Final = TaintRule()


class ReasonRules(Struct, frozen=True):
    """The reasons to evict in this mode, and how long each must last.

    `taint` answers for a taint's key. `label_s` is for a label that a node lacks, or has with
    another value, `system_label_s` for one that programs set and the node lacks, and `ready_s` is
    how long a node that came back must be Ready before the restarts of its pods count. A state of a
    pod that is not Ready must last for `pod_state_s`, and a label of a pod that forbids another
    one's place for `pod_label_s`. A node that
    is not Ready, or lost its topology label, is waited for `absent_s`. A node must be
    used too much, or too little, for `use_s` by what its pods request. By default everything counts
    at once, as in a sweep.
    """

    taint: Callable[[str], TaintRule] = lambda _: COUNTS_AT_ONCE
    label_s: float = 0.0
    system_label_s: float = 0.0
    ready_s: float = 0.0
    absent_s: float = 0.0
    use_s: float = 0.0
    pod_state_s: float = 0.0
    pod_label_s: float = 0.0


def is_being_emptied(node: Node) -> bool:
    """Say whether a node is being deleted, or bears the taint of a program that empties it.

    It is no place for a pod whatever the pod tolerates: the pod would have to leave again at once.
    """
    return node.is_terminating or has_emptying_mark(node)


def has_emptying_mark(node: Node) -> bool:
    """Say whether a node bears the taint of a program that empties it."""
    marks = (find_mark(taint.key) for taint in node.taints)
    return any(found is not None and found[1].empties for found in marks)


def taint_of(key: str, mark: NodeMark) -> Taint:
    """Return a mark as the taint that stands on a node."""
    return Taint(key, mark.effect)
