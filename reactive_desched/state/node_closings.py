"""Keeps when nodes were closed: one that is replaced or restarted is often followed by others."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from reactive_desched.model.node_drains import drain_leaves
from reactive_desched.model.node_marks import has_emptying_mark
from reactive_desched.model.objects import Node, Pod, PodKey
from reactive_desched.model.taints import Taint

CLOSINGS_KEPT_S: Final = 2 * 3600.0
MAX_CLOSINGS: Final = 1000
"""So many closings are kept; beyond that the first one is forgotten, and a row seems shorter."""
UNDONE_WITHIN_S: Final = 60.0
"""A node that is opened again so soon was closed by mistake."""


class NodeClosings:
    """Keeps which nodes were closed within the last two hours, the first one first.

    A node closes where it is cordoned, marked by what removes or repairs it, or deleted before
    that, and has pods other than those of DaemonSets. One that is opened again within a minute did
    not. `clock` gives monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._closed: deque[tuple[str, float]] = deque(maxlen=MAX_CLOSINGS)

    @property
    def times(self) -> tuple[tuple[str, float], ...]:
        """Return which nodes were closed, and when, in monotonic seconds."""
        return tuple(self._closed)

    def restore(self, times: Iterable[tuple[str, float]]) -> None:
        """Begin with what another process saw; what that saw later than now counts from now."""
        now = self._clock()
        self._closed = deque(((name, min(now, at_s)) for name, at_s in times), MAX_CLOSINGS)

    def follow(self, old: Node | None, new: Node | None, pods: Mapping[PodKey, Pod]) -> None:
        """Follow a node that changed, or is gone, with its pods of before."""
        if old is None or (new is not None and _marks(new) == _marks(old)):
            return  # most changes of a node are of something else
        if (is_closed := new is None or _is_closed(new)) == _is_closed(old):
            return
        now = self._clock()
        if not is_closed:
            self._undo(old.name, now - UNDONE_WITHIN_S)
        elif not all(map(drain_leaves, pods.values())):
            self._closed.append((old.name, now))
            while self._closed[0][1] < now - CLOSINGS_KEPT_S:
                self._closed.popleft()

    def ages_s(self) -> Iterator[float]:
        """Yield how long ago nodes were closed, the last one first."""
        now = self._clock()
        return (now - at_s for _, at_s in reversed(self._closed))

    def _undo(self, name: str, since_s: float) -> None:
        for n in reversed(range(len(self._closed))):
            closed, at_s = self._closed[n]
            if at_s < since_s:
                return
            if closed == name:
                del self._closed[n]
                return


def _marks(node: Node) -> tuple[bool, tuple[Taint, ...]]:
    return node.unschedulable, node.taints


def _is_closed(node: Node) -> bool:
    return node.unschedulable or has_emptying_mark(node)
