"""A small cluster and the kube-scheduler's filters over it, in few words."""

from collections.abc import Callable, Iterable

import pytest
from msgspec.structs import replace

from reactive_desched.fit.filters import Diagnosis
from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.ledger.eviction import Eviction
from reactive_desched.model.decisions import CapacityHint
from reactive_desched.model.labels import EVERYTHING
from reactive_desched.model.objects import ClusterObject, Pod
from reactive_desched.model.outcomes import Outcome
from reactive_desched.model.scheduler_profile import DEFAULT_PROFILES
from reactive_desched.model.wakes import WakeOn
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.testing.builders import node
from tests.support.all_nodes import fitting_nodes
from tests.support.evictions import decide


class Place:
    """A cluster with a scheduler-strength fit that follows it; `now` is the monotonic clock."""

    def __init__(self, *things: ClusterObject) -> None:
        self.now = 0.0
        self.state = ClusterState()
        self.view = ClusterView(self.state, lambda: 0)
        profiles = replace(DEFAULT_PROFILES, watches_devices=True)
        self.fit = SchedulerNodeFit(self.view, lambda: self.now, profiles)
        self.evictions: dict[str, Eviction] = {}
        self.put(*things)

    def put(self, *things: ClusterObject) -> None:
        """Let objects appear or change."""
        for thing in things:
            self.fit.apply_changes(self.state.upsert(thing), self.now)

    def remove(self, *things: ClusterObject) -> None:
        """Let objects vanish."""
        for thing in things:
            self.fit.apply_changes(self.state.remove(thing), self.now)

    def fitting(self, pod: Pod) -> set[str]:
        """Name the nodes other than its own that fit a pod."""
        return fitting_nodes(self.fit, pod) - {pod.node}

    def why_not(self, pod: Pod) -> dict[str, int]:
        """Count why the nodes other than its own do not fit a pod."""
        if self.fit.find_other_node(pod, EVERYTHING) is not None:
            return {}
        return _by_message(self.fit.diagnose_other_nodes(pod, EVERYTHING).diagnosis)

    def let_go(self, pod: Pod) -> str | None:
        """Find a node for a pod and let it go there."""
        found = self.fit.find_other_node(pod, EVERYTHING)
        if found is not None:
            self.evictions[pod.uid] = decide(self.fit, pod, self.now)
        return found

    def end(self, pod: Pod, result: str) -> None:
        """Let the eviction of a pod have its outcome."""
        eviction, outcome = self.evictions[pod.uid], Outcome(result)
        eviction.end(outcome, self.now)
        self.fit.ended(eviction, outcome)

    def replace(self, pod: Pod, replacement: Pod) -> None:
        """Let the replacement of an evicted pod be bound."""
        self.put(replacement)
        self.fit.replaced(self.evictions[pod.uid], replacement)

    def all_hints(self) -> list[CapacityHint]:
        """Take the steps that are left, and the hints of all."""
        hints = list(self.fit.take_capacity_hints())
        while self.fit.has_more_hints:
            hints += self.fit.take_capacity_hints()
        return hints

    def park(self, pod: Pod) -> set[WakeOn]:
        """Find no node for a pod; returns what it waits for."""
        assert self.fit.find_other_node(pod, EVERYTHING) is None
        wakes = set(self.fit.diagnose_other_nodes(pod, EVERYTHING).wake_on)
        self.all_hints()
        return wakes


@pytest.fixture
def place() -> type[Place]:
    return Place


@pytest.fixture
def kept_off() -> Callable[[Pod, Iterable[ClusterObject]], str | None]:
    """Say what keeps a pod of n1 off n2, the only other node; None where nothing does."""

    def ask(pod: Pod, things: Iterable[ClusterObject]) -> str | None:
        here = Place(node("n1"), *things, pod)
        reasons = here.why_not(pod)
        assert here.fitting(pod) == (set() if reasons else {"n2"})
        assert list(reasons.values()) == [1] * bool(reasons)
        return next(iter(reasons), None)

    return ask


def _by_message(diagnosis: Diagnosis) -> dict[str, int]:
    return {reason.message: count for reason, count in diagnosis.reasons.items()}
