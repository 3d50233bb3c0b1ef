"""The rules by which the controller's evictor differs from the SIG descheduler's.

A sweep meets a pod that is leaving, or a value of an annotation, as upstream reads them. The
controller reacts to every change, so it asks how many pods stay, and what a person has written.
"""

from collections.abc import Callable, Collection

from reactive_desched.gate.filters import EvictorRules, ReplicaCount, ReplicaRule
from reactive_desched.gate.workloads import WITHOUT_REPLICAS
from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.model.opt_outs import evict_wish, is_set
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.living_replicas import LivingReplicas
from reactive_desched.state.indexes.owners import ReplicaCounts
from reactive_desched.text.counts import format_count


def controller_rules(in_flight: Callable[[Pod], Collection[PodKey]]) -> EvictorRules:
    """Return the rules of the controller.

    `in_flight` returns the pods of a pod's controller whose eviction was decided and that the
    cluster state shows as if they stayed.
    """
    replicas = ReplicaRule(count_living, (LivingReplicas, ReplicaCounts), in_flight)
    return EvictorRules(evict_wish, is_set, replicas)


def count_living(pod: Pod, view: ClusterView, leaving: Collection[PodKey]) -> ReplicaCount:
    """Count the pods of a pod's owner that stay, and no more than the owner wants.

    Of a Ready pod the Ready ones count, as they are what is left when it goes; the pods of a Job do
    not stand in for each other, so all that have not ended count. A pod that has ended serves no
    more: of it every pod counts, as upstream.
    """
    owner, replicas = pod.owners[0], view.index(LivingReplicas)
    if pod.has_ended:
        every = view.index(ReplicaCounts).count(owner.uid)
        return ReplicaCount(every, f"has {format_count(every, 'pod')}")
    only_ready = pod.status.is_ready and owner.kind not in WITHOUT_REPLICAS
    count = replicas.ready if only_ready else replicas.living
    there = count(pod.namespace, owner.uid)
    known = filter(None, map(view.pod, leaving))
    there -= sum(1 for other in known if other.status.is_ready or not only_ready)
    wanted = replicas.wanted(owner.uid)
    if wanted is not None and wanted < there:
        return ReplicaCount(wanted, f"wants {format_count(wanted, 'pod')}")
    noun = "Ready pod" if only_ready else "pod"
    return ReplicaCount(there, f"has {format_count(there, noun)} that will stay")
