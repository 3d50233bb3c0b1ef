"""What the nodes that take pods have left while a plan moves pods to them.

`SharedRoom` counts as the SIG descheduler: all destinations are one big node. `BookedRoom` gives
each pod a destination of its own, and subtracts the capacity that earlier plans have promised.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Final

from reactive_desched.api.plugin import View
from reactive_desched.model.objects import Pod
from reactive_desched.model.resources import ResourceList, add_resources, is_extended
from reactive_desched.model.subjects import NodeSubject
from reactive_desched.model.taints import Taint, Tolerations, untolerated
from reactive_desched.model.utilization import NodeUse, Percentages, Thresholds, percentages
from reactive_desched.state.indexes.node_utilization import NodeUtilization

MAX_TRIED: Final = 64
"""So many of the emptiest destinations are tried for a pod; if none of them takes it, it stays."""


class SharedRoom:
    """The destinations as one big node, as they are when the plan begins; promises are not kept."""

    needs_fit = False

    def __init__(self, pool: NodeUtilization, view: View) -> None:
        self.pool = pool
        self.thresholds = pool.thresholds
        self.targets = pool.destination_names()
        self._view = view
        self._uses = dict(pool.destinations())
        self._left: dict[str, int] = {}
        self._taints: set[tuple[Taint, ...]] = set()
        self._tolerated: dict[Tolerations, bool] = {}

    def count(self) -> Iterator[NodeUse]:
        """Count what each destination has left; yield it then, since there may be thousands."""
        for use in self._uses.values():
            self._taints.add(use.node.taints)
            add_resources(self._left, left_on(use, self.thresholds))
            yield use

    @property
    def is_left(self) -> bool:
        """Whether something is left of every resource that a destination has."""
        return all(amount > 0 for amount in self._left.values())

    @property
    def is_promised(self) -> bool:
        """Whether something is kept for pods that were evicted earlier."""
        return False

    def allowed_on(self, use: NodeUse) -> dict[str, int]:
        """Return the amounts up to which a node is not overutilized, as the plan began."""
        return self.thresholds.allowed_on(use.node, use.used)

    def begin(self, source: NodeUse) -> tuple[dict[str, int], list[Pod]]:
        """Return what is used of a source, and its pods."""
        return dict(source.used), self._pods_on(source)

    def used_by(self, pod: Pod) -> ResourceList | None:
        """Return what a pod uses; None if that is not known."""
        return self.pool.used_by(pod)

    def admits(self, pod: Pod, amounts: ResourceList) -> bool:
        """Say whether a destination takes the pod, by its taints."""
        del amounts
        tolerations = pod.spec.tolerations
        found = self._tolerated.get(tolerations)
        if found is None:
            found = any(tolerates(tolerations, taints) for taints in self._taints)
            self._tolerated[tolerations] = found
        return found

    def take(self, amounts: ResourceList) -> None:
        """Count a pod that moves; it is the one admitted last."""
        subtract(self._left, amounts)

    def _pods_on(self, source: NodeUse) -> list[Pod]:
        node_and_pods = self._view.pods_of(NodeSubject(source.name))
        return [] if node_and_pods is None else list(node_and_pods[1])


class BookedRoom(SharedRoom):
    """Each pod needs a destination that stays within what is allowed there.

    A pod that is leaving already does not count as use of its node. What was promised to the
    replacements of evicted pods counts as used, and so do pods newer than a sample, which stay.
    """

    needs_fit = True

    def __init__(self, pool: NodeUtilization, view: View) -> None:
        super().__init__(pool, view)
        self._promised = {
            name: amounts
            for name, amounts in view.reserved_by_node().items()
            if name in self.targets
        }
        self._used: dict[str, dict[str, int]] = {}
        self._fullness: dict[str, float] = {}
        self._emptiest: list[tuple[float, str]] = []
        self._admitted = ""

    def count(self) -> Iterator[NodeUse]:
        """Count what each destination has left beside what is promised there."""
        for use in super().count():
            if (promised := self._promised.get(use.name)) is not None:
                counted = {r: amount for r, amount in promised.items() if r in self._left}
                subtract(self._left, counted)
                self._book(use.name, counted)
            heappush(self._emptiest, (_fullness(use.percent), use.name))
            yield use

    @property
    def is_left(self) -> bool:
        """Whether something is left of what every pod needs; of the rest, a pod's own is asked."""
        return all(amount > 0 for r, amount in self._left.items() if not is_extended(r))

    @property
    def is_promised(self) -> bool:
        """Whether something is kept for pods that were evicted earlier."""
        return bool(self._promised)

    def begin(self, source: NodeUse) -> tuple[dict[str, int], list[Pod]]:
        """Return what is used of a source by the pods that stay, and these pods."""
        used, staying = dict(source.used), []
        subtract(used, self.pool.left_since(source))
        for pod in self._pods_on(source):
            if self._view.is_leaving(pod):
                subtract(used, self.used_by(pod) or {})
            else:
                staying.append(pod)
        return used, staying

    def used_by(self, pod: Pod) -> ResourceList | None:
        """Return what a pod uses; None for one that came after the last sample of its node."""
        return None if self.pool.came_later(pod) else self.pool.used_by(pod)

    def admits(self, pod: Pod, amounts: ResourceList) -> bool:
        """Say whether a destination takes the pod and stays within what is allowed there."""
        if not super().admits(pod, amounts):
            return False
        tried: list[tuple[float, str]] = []
        self._admitted = ""
        while self._emptiest and len(tried) < MAX_TRIED and not self._admitted:
            fullness, name = heappop(self._emptiest)
            if (now := self._fullness.get(name, fullness)) != fullness:
                heappush(self._emptiest, (now, name))
                continue
            tried.append((fullness, name))
            if self._fits_on(self._uses[name], pod, amounts):
                self._admitted = name
        for entry in tried:
            heappush(self._emptiest, entry)
        return bool(self._admitted)

    def take(self, amounts: ResourceList) -> None:
        """Book the pod on the destination found for it."""
        super().take(amounts)
        self._book(self._admitted, amounts)

    def _fits_on(self, use: NodeUse, pod: Pod, amounts: ResourceList) -> bool:
        if not tolerates(pod.spec.tolerations, use.node.taints):
            return False
        used, allowed = self._used_on(use), self.allowed_on(use)
        return all(
            used.get(r, 0) + amount <= allowed.get(r, 0) for r, amount in amounts.items() if amount
        )

    def _used_on(self, use: NodeUse) -> dict[str, int]:
        used = self._used.get(use.name)
        if used is None:
            used = self._used[use.name] = dict(use.used)
            add_resources(used, self.pool.came_since(use))
        return used

    def _book(self, name: str, amounts: ResourceList) -> None:
        use = self._uses[name]
        used = self._used_on(use)
        add_resources(used, amounts)
        percent = percentages(used, use.node, use.percent)
        self._fullness[name] = _fullness(percent)


def left_on(use: NodeUse, thresholds: Thresholds) -> dict[str, int]:
    """Return what a node has left below its limits; negative where it is above one."""
    allowed = thresholds.allowed_on(use.node, use.used)
    return {resource: allowed[resource] - amount for resource, amount in use.used.items()}


def tolerates(tolerations: Tolerations, taints: tuple[Taint, ...]) -> bool:
    """Say whether upstream moves a pod to a node with these taints, of whatever effect.

    As upstream, a pod must have as many tolerations as the node has taints: one that tolerates
    everything does not help against two.
    """
    if len(tolerations) < len(taints):
        return False
    return next(untolerated(tolerations, taints), None) is None


def _fullness(percent: Percentages) -> float:
    return max(percent.values(), default=0.0)


def subtract(total: dict[str, int], amounts: ResourceList) -> None:
    """Subtract amounts of what there is in place, also below zero."""
    for resource, amount in amounts.items():
        if resource in total:
            total[resource] -= amount
