"""The pods that wait for a node, each by itself or as many of a gang as have to run together."""

from collections.abc import Generator, Sequence
from typing import Final

from msgspec import Struct

from reactive_desched.api.plugin import View
from reactive_desched.model.findings import LOOKS_PER_SLICE
from reactive_desched.model.gangs import Gang
from reactive_desched.model.objects import Pod
from reactive_desched.model.resources import CPU, MEMORY
from reactive_desched.state.indexes.gangs import Gangs
from reactive_desched.state.indexes.unschedulable_pods import UnschedulablePods

MAX_GANG: Final = 100
"""For a gang that lacks more pods no room is made: so many nominations are too many to keep."""


class PodsToPlace(Struct, frozen=True):
    """Pods of which so many as are needed get room together, the first ones first.

    `since_s` is since when so many wait, in seconds since the epoch. Without a gang it is one pod.
    """

    pods: tuple[Pod, ...]
    needed: int
    since_s: int
    gang: Gang | None = None

    def __str__(self) -> str:
        return str(self.pods[0]) if self.gang is None else self.gang.title

    @property
    def namespace(self) -> str:
        """Return the namespace of them all."""
        return self.pods[0].namespace

    @property
    def priority(self) -> int:
        """Return the highest priority of one of them."""
        return max(pod.spec.priority or 0 for pod in self.pods)

    @property
    def kind(self) -> object:
        """Return what is the same where the same nodes have room."""
        return kind_of(self.pods[0]) if self.gang is None else self.gang


class Incomplete(Struct, frozen=True):
    """A gang of which fewer pods are there than have to run together, or too many lack."""

    why: str


def kind_of(pod: Pod) -> object:
    """Return what is the same for pods for which the same nodes have room."""
    return pod.namespace, id(pod.spec), id(pod.labels), pod.pvc_names


def waiting_pods(view: View) -> Generator[None, None, list[PodsToPlace]]:
    """Return all that wait, in steps; a gang is left out that is not complete."""
    found: list[PodsToPlace] = []
    index = view.index(Gangs)
    gangs: dict[Gang, list[tuple[Pod, int]]] = {}
    for looked, (pod, since_s) in enumerate(view.index(UnschedulablePods).pods()):
        if looked % LOOKS_PER_SLICE == LOOKS_PER_SLICE - 1:
            yield
        if (gang := index.of(pod)) is None:
            found.append(PodsToPlace((pod,), 1, since_s))
        else:
            gangs.setdefault(gang, []).append((pod, since_s))
    for gang, members in gangs.items():
        waiting = waiting_of(gang, members, view)
        if not isinstance(waiting, Incomplete):
            found += waiting
        yield
    return found


def waiting_of(
    gang: Gang, members: Sequence[tuple[Pod, int]], view: View
) -> list[PodsToPlace] | Incomplete:
    """Return how the pods of a gang wait of which these are unschedulable, since when.

    Where as many run as have to, each of the others waits by itself. Where it is not known how many
    have to, all that wait are needed.
    """
    gangs = view.index(Gangs)
    running = len(gangs.pods_of(gang))
    quorum = gangs.quorum(gang, (pod for pod, _ in members))
    needed = len(members) if quorum is None else quorum - running
    if needed <= 0:
        return [PodsToPlace((pod,), 1, since_s) for pod, since_s in members]
    if needed > len(members):
        return Incomplete(
            f"it is one of {gang.title}, of which {quorum} have to run together: {running} run, "
            f"and the scheduler finds no node for {len(members)}"
        )
    if needed > MAX_GANG:
        return Incomplete(
            f"it is one of {gang.title}, of which {needed} more have to run together, and room is "
            f"made for {MAX_GANG} at most"
        )
    pods = tuple(sorted((pod for pod, _ in members), key=_largest_first))
    since_s = sorted(since_s for _, since_s in members)[needed - 1]
    return [PodsToPlace(pods, needed, since_s, gang)]


def _largest_first(pod: Pod) -> tuple[int, int, int, int, str]:
    requests = pod.spec.requests
    devices = sum(amount for name, amount in requests.items() if "/" in name)
    sizes = devices, requests.get(CPU, 0), requests.get(MEMORY, 0)
    return -(pod.spec.priority or 0), -sizes[0], -sizes[1], -sizes[2], pod.name
