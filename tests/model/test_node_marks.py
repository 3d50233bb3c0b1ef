import pytest

from reactive_desched.model.node_marks import (
    NODE_MARK_GROUPS,
    find_mark,
    is_being_emptied,
    is_system_label,
)
from reactive_desched.testing.builders import node


@pytest.mark.parametrize(
    ("key", "group"),
    [
        ("node.kubernetes.io/unschedulable", "cordonedNodes"),
        ("ToBeDeletedByClusterAutoscaler", "scaledDownNodes"),
        ("medik8s.io/drain", "maintenanceNodes"),
        ("node.kubernetes.io/memory-pressure", "pressureNodes"),
        ("node.kubernetes.io/disk-pressure", "pressureNodes"),
        ("node.kubernetes.io/pid-pressure", "pressureNodes"),
        ("node.kubernetes.io/network-unavailable", "unreadyNodes"),
        ("node.kubernetes.io/not-ready", "unreadyNodes"),
        ("node.cloudprovider.kubernetes.io/uninitialized", "unreadyNodes"),
        ("node.cluster.x-k8s.io/uninitialized", "unreadyNodes"),
        ("karpenter.sh/unregistered", "startingNodes"),
        ("startup-taint.cluster-autoscaler.kubernetes.io/node-initializer", "startingNodes"),
        ("ignore-taint.cluster-autoscaler.kubernetes.io/cilium-agent-not-ready", "startingNodes"),
        ("readiness.k8s.io/acme.com/network-unavailable", "startingNodes"),
        ("node.gardener.cloud/critical-components-not-ready", "startingNodes"),
        ("node.cilium.io/agent-not-ready", "agentNodes"),
        ("projectcalico.org/node-not-ready", "agentNodes"),
        ("ebs.csi.aws.com/agent-not-ready", "agentNodes"),
        ("disk.csi.azure.com/agent-not-ready", "agentNodes"),
        ("cni.istio.io/not-ready", "agentNodes"),
        ("stratos.sh/not-ready", "agentNodes"),
        ("agent.example.com/NotReady", "agentNodes"),
        ("nvidia.com/gpu-driver-upgrade", "agentNodes"),
        ("amd-gpu-driver-upgrade", "agentNodes"),
        ("node.deckhouse.io/csi-not-bootstrapped", "startingNodes"),
        ("st4ck.io/gpu-validating", "startingNodes"),
        ("example.com/kubelet-restarting", "startingNodes"),
        ("example.com/node-joining", "startingNodes"),
        ("example.com/warming-up", "startingNodes"),
        ("cloud.example.com/gpu-provisioning", "startingNodes"),
        ("example.com/node-draining", "maintenanceNodes"),
        ("aci-containers-host/unavailable", "agentNodes"),
        ("drbd.linbit.com/lost-quorum", "agentNodes"),
        ("vxflexos.podmon.storage.dell.com", "agentNodes"),
        ("example.com/upgrade-in-progress", "agentNodes"),
    ],
)
def test_a_taint_of_a_program_belongs_to_the_group_of_who_takes_it_off(
    key: str, group: str
) -> None:
    found = find_mark(key)

    assert found is not None
    assert found[0].name == group


@pytest.mark.parametrize(
    "key",
    [
        "team",
        "dedicated",
        "maintenance",
        "nvidia.com/gpu",
        "node-role.kubernetes.io/control-plane",
        "kubernetes.azure.com/scalesetpriority",
        "example.com/ready",
        "example.com/deprovisioning",
    ],
)
def test_a_taint_that_a_person_sets_or_that_stays_belongs_to_none(key: str) -> None:
    assert find_mark(key) is None


def test_what_passes_by_itself_says_where_that_is_written_and_empties_no_node() -> None:
    for group in NODE_MARK_GROUPS:
        if group.passes:
            assert all(mark.source and not mark.empties for mark in group.marks.values())


@pytest.mark.parametrize(
    ("key", "is_system"),
    [
        ("feature.node.kubernetes.io/cpu-cpuid.AVX512F", True),
        ("nvidia.com/gpu.present", True),
        ("topology.kubernetes.io/zone", True),
        ("topology.ebs.csi.aws.com/zone", True),
        ("kubernetes.io/arch", True),
        ("kubevirt.io/schedulable", True),
        ("cpu-feature.node.kubevirt.io/vmx", True),
        ("example.com/agent-state", True),
        ("node-role.kubernetes.io/worker", False),
        ("disk", False),
        ("example.com/pool", False),
    ],
)
def test_labels_that_programs_set_are_known_by_their_prefix(key: str, is_system: bool) -> None:  # noqa: FBT001 -- a row
    assert is_system_label(key) is is_system


@pytest.mark.parametrize("key", ["medik8s.io/drain", "example.com/node-draining"])
def test_a_node_that_something_drains_is_no_place_for_a_pod(key: str) -> None:
    assert is_being_emptied(node("n1", f"{key}:NoSchedule"))
    assert not is_being_emptied(node("n1", "example.com/drained-of-water:NoSchedule"))
