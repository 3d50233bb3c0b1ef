"""Nobody who could leave is left waiting: whatever opens a node to a pod is news for it."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.model.changes import Change
from reactive_desched.model.labels import EVERYTHING
from reactive_desched.model.objects import (
    HOSTNAME_LABEL,
    ZONE_LABEL,
    Pod,
    TopologySpreadConstraint,
)
from reactive_desched.model.scheduler_profile import (
    DEFAULT_PROFILES,
    SchedulerProfile,
    SchedulerProfiles,
)
from reactive_desched.model.wakes import WakeOn, WakeOnCapacity
from reactive_desched.state.cluster import ClusterState, ClusterView
from tests.support.small_clusters import RandomCluster


class Waiting:
    """Follows a cluster; every pod that fits nowhere waits until something is news for it."""

    def __init__(self, profiles: SchedulerProfiles = DEFAULT_PROFILES) -> None:
        self.profiles = profiles
        self.state = ClusterState()
        self.view = ClusterView(self.state, lambda: 0)
        self.fit = SchedulerNodeFit(self.view, lambda: 0, profiles)
        self.waiting: dict[str, dict[str, tuple[WakeOn, ...]]] = {"elsewhere": {}, "anywhere": {}}

    def take(self, changes: Iterable[Change]) -> None:
        self.fit.apply_changes(changes, 0.0)
        self.hear(
            {
                kind.fulfilled_by(change)
                for change in changes
                for kind in WakeOn.__subclasses__()
                if kind is not WakeOnCapacity and type(change) in kind.changes
            }
        )

    def hear(self, told: set[WakeOn]) -> None:
        """Let all who are told something wait no more."""
        rooms = list(self.fit.take_capacity_hints())
        for waiting in self.waiting.values():
            for uid, wanted in list(waiting.items()):
                beside = self.node_of(uid)
                helped = {room.wake for room in rooms if not beside or room.exclude_node != beside}
                if not (told | helped).isdisjoint(wanted):
                    del waiting[uid]

    def node_of(self, uid: str) -> str:
        pod = self.view.pod(uid)
        return "" if pod is None else pod.node

    def check(self) -> None:
        """Fail when a pod that waits would fit; let all others who fit nowhere wait."""
        anew = SchedulerNodeFit(self.view, lambda: 0, self.profiles)
        for uid in self.view.pods():
            pod = self.view.pod(uid)
            assert pod is not None
            if pod.is_active and not pod.is_terminating:
                self.look(pod, anew)
        self.fit.take_capacity_hints()  # a node was found: a hint this test ignores

    def look(self, pod: Pod, anew: SchedulerNodeFit) -> None:
        waiting = self.waiting["elsewhere"]
        if pod.uid in waiting:
            assert anew.find_other_node(pod, EVERYTHING) is None, f"{pod} was not told"
        elif self.fit.find_other_node(pod, EVERYTHING) is None:
            waiting[pod.uid] = self.fit.diagnose_other_nodes(pod, EVERYTHING).wake_on
        waiting = self.waiting["anywhere"]
        if pod.uid in waiting:
            assert anew.find_any_node(pod) is None, f"{pod} was not told of anything"
        elif self.fit.find_any_node(pod) is None:
            waiting[pod.uid] = self.fit.diagnose_any_node(pod).wake_on


@given(st.data(), st.integers(8, 30))
def test_a_waiting_pod_gets_a_hint_before_a_node_fits(data: st.DataObject, steps: int) -> None:
    waiting, clusters = Waiting(), RandomCluster()
    for _ in range(steps):
        waiting.take(clusters.change(data, waiting.state))
        waiting.check()


HARD_DEFAULTS = SchedulerProfile(
    default_constraints=(
        TopologySpreadConstraint(1, HOSTNAME_LABEL),
        TopologySpreadConstraint(1, ZONE_LABEL, min_domains=2, node_taints_policy="Honor"),
    )
)


@given(st.data(), st.integers(8, 30))
def test_so_does_one_that_hard_default_constraints_keep_where_it_is(
    data: st.DataObject, steps: int
) -> None:
    waiting = Waiting(SchedulerProfiles({HARD_DEFAULTS.name: HARD_DEFAULTS}))
    clusters = RandomCluster()
    for _ in range(steps):
        waiting.take(clusters.change(data, waiting.state))
        waiting.check()
