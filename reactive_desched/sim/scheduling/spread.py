"""The filter behind topologySpreadConstraints with DoNotSchedule."""

from collections.abc import Iterable
from typing import Final

from reactive_desched.model.node_affinity import satisfies_required
from reactive_desched.model.taints import HARD_EFFECTS, untolerated
from reactive_desched.sim.scheduling.filters import Candidate, Check, Unresolvable
from reactive_desched.sim.scheduling.needs import PodNeeds, SpreadConstraint
from reactive_desched.sim.scheduling.scheduler_cache import NodeRoom, SchedulerCache

__all__ = ["pod_topology_spread", "takes_part"]

_UNEVEN: Final = "node(s) didn't match pod topology spread constraints"
_UNLABELLED: Final = Unresolvable(f"{_UNEVEN} (missing required label)")


def pod_topology_spread(pod: Candidate, picture: SchedulerCache) -> Check | None:
    """Keep the number of matching pods per domain within maxSkew of the emptiest domain."""
    constraints = [c for c in pod.needs.spread if c.is_hard]
    if not constraints:
        return None
    keys = [c.topology_key for c in constraints]
    rooms = [room for room in picture.rooms() if all(key in room.labels for key in keys)]
    tallies = [_Tally(c, pod, rooms, picture) for c in constraints]

    def check(room: NodeRoom) -> Iterable[str]:
        for tally in tallies:
            domain = room.labels.get(tally.key)
            if domain is None:
                return (_UNLABELLED,)
            if tally.is_uneven_with(domain):
                return (_UNEVEN,)
        return ()

    return check


class _Tally:
    """The number of matching pods in each domain of one constraint."""

    def __init__(
        self,
        constraint: SpreadConstraint,
        pod: Candidate,
        rooms: Iterable[NodeRoom],
        picture: SchedulerCache,
    ) -> None:
        self.key = constraint.topology_key
        self._max_skew = constraint.max_skew
        self._self = 1 if constraint.selects(pod.needs.labels) else 0
        self._counts: dict[str, int] = {}
        taking_part = [room for room in rooms if takes_part(room, constraint, pod.needs)]
        for room in taking_part:
            self._counts.setdefault(room.labels[self.key], 0)
        if not constraint.counts_no_pod:
            self._count(constraint, pod.namespace, taking_part, picture)
        enough = len(self._counts) >= constraint.min_domains
        self._least = min(self._counts.values(), default=0) if enough else 0

    def is_uneven_with(self, domain: str) -> bool:
        """Say whether one more pod in the domain would exceed the allowed skew."""
        return self._counts.get(domain, 0) + self._self - self._least > self._max_skew

    def _count(
        self,
        constraint: SpreadConstraint,
        namespace: str,
        rooms: Iterable[NodeRoom],
        picture: SchedulerCache,
    ) -> None:
        domains = {room.name: room.labels[self.key] for room in rooms}
        for group in picture.groups():
            if group.namespace != namespace or not constraint.selects(group.needs.labels):
                continue
            for node in group.on:
                if (domain := domains.get(node)) is not None:
                    self._counts[domain] += group.staying(node)


def takes_part(room: NodeRoom, constraint: SpreadConstraint, needs: PodNeeds) -> bool:
    """Apply the constraint's policies on which nodes make up its domains."""
    if constraint.honors_affinity and not satisfies_required(
        needs.node_selector, needs.node_affinity, room.name, room.labels
    ):
        return False
    if not constraint.honors_taints:
        return True
    left = untolerated(needs.tolerations, room.taints)
    return not any(taint.effect in HARD_EFFECTS for taint in left)
