"""Finds what may speak for a pod by annotation, and the answers to proposals that are given so."""

from collections.abc import Iterator
from typing import Protocol

from msgspec import Struct

from reactive_desched.model.approvals import ANSWER, MAX_APPROVED_S, parse_answer
from reactive_desched.model.objects import (
    DaemonSet,
    Deployment,
    IntermediateOwner,
    Job,
    Namespace,
    Pod,
    ReplicaSet,
    Workload,
)
from reactive_desched.model.wakes import WakeOn, WakeOnNamespace, WakeOnPod, WakeOnWorkload
from reactive_desched.policy.settings.proposals import AnnotatedKind, ProposalSettings
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.owners import OwnerIndex
from reactive_desched.text.times import format_second


class _Annotated(Protocol):
    @property
    def do_not_evict(self) -> str | None: ...

    @property
    def answer(self) -> str | None: ...


class Carrier(Struct, frozen=True):
    """An object that may speak for a pod: the pod, one of its controllers, or its namespace.

    `annotations` is None where the object is not known; `wake` is that of its change.
    """

    kind: AnnotatedKind
    name: str
    annotations: _Annotated | None
    wake: WakeOn


def carriers(pod: Pod, view: ClusterView) -> Iterator[Carrier]:
    """Yield what may carry our annotations for a pod, nearest first.

    A Deployment copies its annotations to its ReplicaSets and never takes them away again, so a
    ReplicaSet counts only where the Deployment is not known.
    """
    yield Carrier("pod", f"pod {pod}", pod.annotations, WakeOnPod(pod.uid))
    found: dict[str, IntermediateOwner | Workload] = {}
    chain = view.index(OwnerIndex).chain(pod)
    for owner in chain:
        if (known := _owner(owner.uid, view)) is not None:
            if isinstance(known, Deployment):
                found.clear()
            found[owner.uid] = known
    for owner in chain:
        name = owner.named(pod.namespace)
        yield Carrier("workload", name, found.get(owner.uid), WakeOnWorkload(owner.uid))
    namespace = view.store(Namespace).get(pod.namespace)
    wake = WakeOnNamespace(pod.namespace)
    yield Carrier("namespace", f"namespace {pod.namespace}", namespace, wake)


def _owner(uid: str, view: ClusterView) -> IntermediateOwner | Workload | None:
    store = view.store
    between = store(ReplicaSet).get(uid) or store(Job).get(uid)
    return between or view.workload(uid) or store(DaemonSet).get(uid)


class AnnotatedAnswer(Struct, frozen=True):
    """The answer of the object of this name to every proposal of its pods, which holds now.

    `until_s` is seconds since the epoch. One with a `fault` is not understood: it approves nothing.
    """

    name: str
    approves: bool
    until_s: float
    reason: str
    fault: str = ""

    @property
    def by(self) -> str:
        """The name of the object: the API server does not say who wrote its annotation."""
        return f"the annotation of {self.name}"


class AnnotatedAnswers:
    """The answers that pods, workloads and namespaces give by annotation, where settings ask them.

    Of a pod, its controllers and its namespace the nearest one decides whose answer holds; one
    whose time is over says nothing any more.
    """

    def __init__(self, view: ClusterView, settings: ProposalSettings) -> None:
        self._view = view
        self._asked = frozenset(settings.annotations_of)

    def reconfigure(self, settings: ProposalSettings) -> None:
        """Ask other kinds of objects."""
        self._asked = frozenset(settings.annotations_of)

    @property
    def now_s(self) -> float:
        """The time of day, in seconds since the epoch."""
        return self._view.now_s

    def of(self, pod: Pod) -> AnnotatedAnswer | None:
        """Return the answer to proposals of a pod that holds now, or is not understood."""
        for carrier in self._carriers(pod):
            text = None if carrier.annotations is None else carrier.annotations.answer
            if text is not None and (answer := self._read(carrier.name, text)) is not None:
                return answer
        return None

    def wakes(self, pod: Pod) -> tuple[WakeOn, ...]:
        """Return the wakes of what may give another answer."""
        return tuple(each.wake for each in self._carriers(pod))

    def _carriers(self, pod: Pod) -> Iterator[Carrier]:
        if self._asked:
            yield from (each for each in carriers(pod, self._view) if each.kind in self._asked)

    def _read(self, name: str, text: str) -> AnnotatedAnswer | None:
        now_s = self._view.now_s
        if (written := parse_answer(text)) is None:
            fault = f"{name} has the annotation {ANSWER}, which is not `approve until TIME REASON`"
        elif written.until_s <= now_s:
            return None
        elif written.approves and written.until_s > now_s + MAX_APPROVED_S:
            end = format_second(written.until_s)
            fault = f"{name} approves until {end}, which is more than 31 days"
        else:
            return AnnotatedAnswer(name, written.approves, written.until_s, written.reason)
        return AnnotatedAnswer(name, approves=False, until_s=0.0, reason="", fault=fault)
