"""A pod sits on a node whose taints it does not tolerate."""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from typing import Self

from msgspec.structs import replace
from pydantic import Field, model_validator

from reactive_desched.api.args import exclusive_errors, raise_field_errors
from reactive_desched.api.index import Index
from reactive_desched.api.plugin import PodPlugin, View
from reactive_desched.api.scope import ScopedArgs
from reactive_desched.model.changes import (
    Change,
    NodeAdded,
    NodeTaintsChanged,
    PodBound,
    PodLabelsChanged,
    PodSpecChanged,
    Resynced,
)
from reactive_desched.model.findings import Finding
from reactive_desched.model.node_marks import find_mark
from reactive_desched.model.objects import Node, Pod
from reactive_desched.model.subjects import NodeOrPod
from reactive_desched.model.taints import (
    NO_SCHEDULE,
    PREFER_NO_SCHEDULE,
    Taint,
    count_untolerated,
    soft_taints,
    untolerated,
)
from reactive_desched.state.indexes.pod_attraction import PodAttraction
from reactive_desched.state.indexes.replica_places import ReplicaPlaces
from reactive_desched.state.indexes.soft_taints import SoftTaints, SoftTaintsChanged


class NodeTaintsArgs(ScopedArgs):
    """Arguments: the taints that count; a list entry is a key or key=value."""

    include_prefer_no_schedule: bool = Field(
        default=False, description="Also act on PreferNoSchedule taints."
    )
    excluded_taints: tuple[str, ...] | None = Field(
        default=None, description="Taints to leave alone."
    )
    included_taints: tuple[str, ...] | None = Field(
        default=None, description="The only taints to act on; an empty list means none at all."
    )

    @model_validator(mode="after")
    def _validate_exclusive(self) -> Self:
        names = "includedTaints and excludedTaints"
        raise_field_errors(exclusive_errors(names, self.included_taints, self.excluded_taints))
        return self


class NodeTaintsPlugin(PodPlugin[NodeTaintsArgs]):
    """Pods that fail to tolerate a relevant NoSchedule taint; NoExecute is the cluster's own.

    In reactive mode a taint must last to be a reason. A taint of a person's own key counts once it
    has stood for 25 s (`guards.standingTimes.otherTaints`, or `byTaint` for a key of yours); one
    that is removed and set again, or gets another value, begins anew. What systems set and take
    off by themselves does not count: memory, disk and pid pressure, nodes that are not ready or
    start, agents of the network, of storage or of devices that are not ready; nor do the taints of
    cordons, autoscalers and maintenance. The settings make those of a group count, such as by
    `guards.pressureNodes: drain`; a taint that `includedTaints` names counts in any case, and
    like all of them after its standing time. A sweep evicts for all of them at once.
    For a PreferNoSchedule taint a pod leaves only if a node with fewer of those that it does not
    tolerate has room: elsewhere it would be no better off. A sweep does not ask.
    The taints `node.kubernetes.io/not-ready` and `node.kubernetes.io/unreachable` count only while
    the node's Ready condition agrees (False, or Unknown): they lag behind when a node comes back.
    """

    name = "RemovePodsViolatingNodeTaints"
    reacts_to = (
        Resynced,
        NodeAdded,
        NodeTaintsChanged,
        SoftTaintsChanged,
        PodBound,
        PodLabelsChanged,
        PodSpecChanged,
    )

    def __init__(self, args: NodeTaintsArgs) -> None:
        super().__init__(args)
        self.asks_node_fit = args.include_prefer_no_schedule

    @property
    def required_indexes(self) -> Iterable[tuple[type[Index], Hashable]]:
        """The nodes with fewer taints, and what the guard `ScoredElsewhere` reads."""
        if self.args.include_prefer_no_schedule:
            yield from ((kind, None) for kind in (SoftTaints, ReplicaPlaces, PodAttraction))

    def subjects(self, change: Change, view: View) -> Iterable[NodeOrPod]:
        """Name the node or the pods the change is about; no pod new to a node without taints."""
        if isinstance(change, PodBound):
            found = view.pod_and_node(change.pod.uid)
            if found is not None and not found[1].taints:
                return ()
        return super().subjects(change, view)

    def judge(self, subject: NodeOrPod, view: View) -> Iterator[Finding]:
        """Flag every pod that fails to tolerate one of the relevant taints."""
        if (node_and_pods := view.pods_of(subject)) is None:
            return
        node, pods = node_and_pods
        waits = self._waits(node, view)
        hard_first = sorted(waits, key=lambda taint: (taint.effect != NO_SCHEDULE, waits[taint]))
        for pod, taint in self._intolerant(pods, hard_first):
            found = _finding(pod, taint, node, view.now_s + waits[taint] if waits[taint] else 0.0)
            if taint.effect == NO_SCHEDULE:
                yield found
                continue
            tolerations = pod.spec.tolerations
            soft = count_untolerated(tolerations, soft_taints(node.taints))
            if better := view.index(SoftTaints).nodes_with_fewer(soft, tolerations):
                yield replace(
                    found, needs_fit=True, targets=better, by_score=True, place_rank=-soft
                )

    def sweep(self, view: View) -> Iterator[list[Finding]]:
        """Flag pods for each kind of taint alike, and the first one of the node, as upstream."""
        for subject in self.subjects(Resynced(), view):
            if (node_and_pods := view.pods_of(subject)) is not None:
                node, pods = node_and_pods
                found = self._intolerant(pods, self._waits(node, view))
                yield [_finding(pod, taint, node) for pod, taint in found]

    def _waits(self, node: Node, view: View) -> dict[Taint, float]:
        """Return the relevant taints of a node, each with the seconds until it counts."""
        return {
            taint: view.taint_wait_s(node, taint)
            for taint in node.confirmed_taints
            if self.acts_on(taint, view.taint_counts)
        }

    def _intolerant(
        self, pods: Iterable[Pod], taints: Collection[Taint]
    ) -> Iterator[tuple[Pod, Taint]]:
        """Pair each intolerant pod that the arguments cover with its first taint."""
        for pod, taint in first_untolerated(pods, taints) if taints else ():
            if self.args.covers(pod):
                yield pod, taint

    def describe(self, pod: Pod, view: View) -> str:
        """Name the taints of the node: those the pod tolerates, and those that do not count."""
        if (found := view.pod_and_node(pod.uid)) is None:
            return ""
        node = found[1]
        if not node.taints:
            return f"{node.name} has no taint"
        texts = (f"{taint} {self._standing_of(taint, pod, node, view)}" for taint in node.taints)
        return f"{node.name}: {'; '.join(texts)}"

    def _standing_of(self, taint: Taint, pod: Pod, node: Node, view: View) -> str:
        """Say why a taint is no reason to evict a pod, or that the pod tolerates it."""
        if taint not in node.confirmed_taints:
            return "does not count: the node's Ready condition disagrees"
        if self.acts_on(taint, view.taint_counts):
            if count_untolerated(pod.spec.tolerations, (taint,)):
                return "is no reason: no other node has fewer PreferNoSchedule taints"
            return "is tolerated"
        if not self.acts_on(taint, lambda _: True):
            return f"does not count: {self._left_by_args(taint)}"
        if (found := find_mark(taint.key)) is None:
            return "does not count here"
        group, mark = found
        return f"does not count (guards.{group.name}: leave): it is set by {mark.set_by}"

    def _left_by_args(self, taint: Taint) -> str:
        """Say which of the arguments leaves a taint alone, or that its effect does."""
        if taint.effect == PREFER_NO_SCHEDULE and not self.args.include_prefer_no_schedule:
            return "includePreferNoSchedule is not set"
        if taint.effect not in (NO_SCHEDULE, PREFER_NO_SCHEDULE):
            return f"{taint.effect} is the cluster's own"
        return "excludedTaints names it" if self.args.excluded_taints else "includedTaints does not"

    def acts_on(self, taint: Taint, counts: Callable[[Taint], bool]) -> bool:
        """Say whether pods that do not tolerate a taint are flagged.

        `counts` says whether taints of this key count in the mode that runs; one that the arguments
        include by name counts always.
        """
        args = self.args
        if taint.effect != NO_SCHEDULE and not (
            args.include_prefer_no_schedule and taint.effect == PREFER_NO_SCHEDULE
        ):
            return False
        if args.excluded_taints and _is_listed(taint, args.excluded_taints):
            return False
        if args.included_taints is not None:
            return _is_listed(taint, args.included_taints)
        return counts(taint)


def first_untolerated(pods: Iterable[Pod], taints: Iterable[Taint]) -> Iterator[tuple[Pod, Taint]]:
    """Pair each intolerant pod with its first taint; siblings share tolerations and the answer."""
    cache: dict[int, Taint | None] = {}
    for pod in pods:
        tolerations = pod.spec.tolerations
        if (key := id(tolerations)) not in cache:
            cache[key] = next(untolerated(tolerations, taints), None)
        if (taint := cache[key]) is not None:
            yield pod, taint


def _finding(pod: Pod, taint: Taint, node: Node, counts_from_s: float = 0.0) -> Finding:
    return Finding(
        pod,
        NodeTaintsPlugin.name,
        f"does not tolerate {taint} on {node.name}",
        details={"taintKey": taint.key, "taintValue": taint.value, "taintEffect": taint.effect},
        counts_from_s=counts_from_s,
    )


def _is_listed(taint: Taint, entries: Iterable[str]) -> bool:
    with_value = f"{taint.key}={taint.value}" if taint.value else taint.key
    return any(entry in (taint.key, with_value) for entry in entries)
