"""Plays a drawn hour with the descheduler, without any, with a poller, and up to an eviction."""

from collections.abc import Callable
from functools import partial
from math import inf
from random import Random
from typing import Any, Final, Generic, NamedTuple, TypeVar

from reactive_desched.model.evaluation import Evaluation
from reactive_desched.model.findings import Finding
from reactive_desched.model.moves import MoveOrigin
from reactive_desched.model.node_scores import PACKING, ScoreRules
from reactive_desched.model.scheduler_profile import SchedulerProfile, SchedulerProfiles
from reactive_desched.plugins.duplicates import DuplicatesArgs, DuplicatesPlugin
from reactive_desched.plugins.high_node_utilization import (
    HighNodeUtilizationArgs,
    HighNodeUtilizationPlugin,
)
from reactive_desched.plugins.inter_pod_anti_affinity import (
    InterPodAntiAffinityArgs,
    InterPodAntiAffinityPlugin,
)
from reactive_desched.plugins.low_node_utilization import (
    LowNodeUtilizationArgs,
    LowNodeUtilizationPlugin,
)
from reactive_desched.plugins.node_affinity import NodeAffinityArgs, NodeAffinityPlugin
from reactive_desched.plugins.node_conditions import NodeConditionsArgs, NodeConditionsPlugin
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.plugins.topology_spread import TopologySpreadArgs, TopologySpreadPlugin
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.settings.guards import GuardSettings
from reactive_desched.policy.settings.moves import MoveSettings
from reactive_desched.sim.pods import node_of
from reactive_desched.testing.scenario import plugin_from_policy as made
from tests.courses.course import HOUR_S, Course, Happening, Hour
from tests.support.configurations import make_policy, make_profile_of
from tests.support.descheduled import DescheduledCluster

LATER_S: Final = (65.0, 130.0, 250.0)
"""So long after an eviction its reason is looked for again."""
AROUND_S: Final = 90.0
LONGER_S: Final = 30.0
"""So much longer than without the descheduler pods wait by chance: where they start anew."""
STEP_S: Final = 5.0
POLLED_S: Final = 300.0
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"  # a cordon asks for no drain
BOTH: Final = ["DoNotSchedule", "ScheduleAnyway"]
AFFINITIES: Final = [
    f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred")
]


def plugins(*, packs: bool) -> tuple[Any, ...]:
    """Return what a user enables who wants all that the descheduler can do without measured use.

    Pods are spread and nodes relieved, or nodes emptied where the scheduler packs pods.
    """
    both = (
        made(
            NodeTaintsPlugin,
            NodeTaintsArgs,
            includePreferNoSchedule=True,
            excludedTaints=[UNSCHEDULABLE],
        ),
        made(NodeAffinityPlugin, NodeAffinityArgs, nodeAffinityType=AFFINITIES),
        made(InterPodAntiAffinityPlugin, InterPodAntiAffinityArgs),
        made(TopologySpreadPlugin, TopologySpreadArgs, constraints=BOTH),
    )
    if packs:
        sick = {"conditions": [{"type": "Sick", "status": "True"}]}
        return (
            *both,
            made(NodeConditionsPlugin, NodeConditionsArgs, **sick),
            made(HighNodeUtilizationPlugin, HighNodeUtilizationArgs, thresholds={"cpu": 30}),
        )
    return (
        *both,
        made(DuplicatesPlugin, DuplicatesArgs),
        made(
            LowNodeUtilizationPlugin,
            LowNodeUtilizationArgs,
            thresholds={"cpu": 30},
            targetThresholds={"cpu": 60},
        ),
    )


C = TypeVar("C", bound=DescheduledCluster)


class Eviction(NamedTuple):
    """An eviction of an hour, in seconds from its start, and what happened shortly `around` it."""

    at_s: float
    pod: str
    app: str
    node: str
    plugin: str
    message: str
    around: tuple[Happening, ...] = ()

    def __str__(self) -> str:
        around = "; ".join(f"{h.at_s - self.at_s:+.1f} s {h.what} {h.args}" for h in self.around)
        eviction = f"{self.at_s:.1f} s {self.pod} of {self.node} by {self.plugin}"
        return f"{eviction}: {self.message} | {around}"


class LongerWait(NamedTuple):
    """A workload whose pods waited longer for nodes than without the descheduler."""

    app: str
    waited_s: float
    without_s: float

    def __str__(self) -> str:
        return f"{self.app} waited {self.waited_s:.0f} s, without {self.without_s:.0f} s"


class Judged(NamedTuple):
    """What came of an hour: those evictions are `passing` whose reason no sweep finds later.

    `futile` are moves whose replacement has the same finding again, `left` is what a sweep would
    still evict at its end.
    """

    evictions: tuple[Eviction, ...]
    passing: tuple[Eviction, ...]
    longer: tuple[LongerWait, ...]
    futile: tuple[MoveOrigin, ...]
    left: tuple[Finding, ...]
    with_us: "Figures"
    without: "Figures"
    polled: "Figures"


class Figures(NamedTuple):
    """Of hours: evictions, pods that a sweep would still evict, pod-seconds without a node.

    `pods` counts those that ran on a node, replacements included.
    """

    evictions: int = 0
    left: int = 0
    waited_s: float = 0.0
    pods: int = 0

    def __add__(self, other: Any) -> "Figures":
        return Figures(*map(sum, zip(self, other, strict=True)))


class Played(DescheduledCluster):
    """Evicts no more once `most` pods were evicted; the next one is `stopped_by`."""

    def __init__(self, hour: Hour, most: float = inf) -> None:
        self.evictions: list[Eviction] = []
        self.stopped_by: Eviction | None = None
        self._most = most
        self._began_s = hour.world.clock.now()
        guards, moves = GuardSettings(), MoveSettings()
        enabled = plugins(packs=hour.course.packs)
        super().__init__(hour.world, *enabled, guards=guards, moves=moves, nodeFit=True)
        if hour.course.packs and self.gates.node_fit is not None:
            profile = SchedulerProfile(scores=ScoreRules(allocation=PACKING))
            self.gates.node_fit.reconfigure(SchedulerProfiles({profile.name: profile}))

    def _work(self) -> None:
        if self.stopped_by is None:
            super()._work()

    def _evict(self, evaluation: Evaluation) -> None:
        if self.stopped_by is not None:
            return
        finding = evaluation.finding
        at_s = self.world.clock.now() - self._began_s
        own = Eviction(
            at_s,
            finding.pod.name,
            finding.pod.labels["app"],
            finding.pod.node,
            finding.plugin,
            finding.message,
        )
        if len(self.evictions) >= self._most:
            self.stopped_by = own
            return
        before = len(self.evicted)
        super()._evict(evaluation)
        if len(self.evicted) > before:
            self.evictions.append(own)


class Polled(DescheduledCluster):
    """Sweeps every five minutes and evicts what it finds then, as the SIG descheduler does."""

    def __init__(self, hour: Hour) -> None:
        self._sweeps_at_s = hour.world.clock.now() + Random(hour.course.seed).uniform(0, POLLED_S)
        super().__init__(hour.world, *plugins(packs=hour.course.packs), nodeFit=True)

    def _work(self) -> None:
        if self._now() < self._sweeps_at_s:
            return
        self._sweeps_at_s += POLLED_S
        for found in list(self.swept()):
            self.world.evict(found.pod.name)
            self.evicted.append(found.pod.name)


class Alone(DescheduledCluster):
    """Evicts nothing."""

    def __init__(self, hour: Hour) -> None:
        super().__init__(hour.world, *plugins(packs=hour.course.packs), nodeFit=True)

    def _work(self) -> None:
        pass


class Waits:
    """How long pods wait for a node, by workload, in pod-seconds."""

    def __init__(self) -> None:
        self.by_app: dict[str, float] = {}
        self.placed: set[str] = set()

    def look(self, hour: Hour, seconds: float) -> None:
        """Count who waits now as if for all of the last seconds."""
        for pod in hour.world.pods():
            if node_of(pod):
                self.placed.add(pod["metadata"]["uid"])
            else:
                app = pod["metadata"]["labels"]["app"]
                self.by_app[app] = self.by_app.get(app, 0.0) + seconds


class Playing(Generic[C]):
    """An hour under way, with what moves its pods."""

    def __init__(self, course: Course, made_for: Callable[[Hour], C]) -> None:
        self.hour, self.waits = Hour(course), Waits()
        self.hour.world.advance(60)
        self.cluster = made_for(self.hour)
        self.began_s = self._now()
        self._to_come = [(self.began_s + h.at_s, h) for h in course.happenings]

    def to(self, at_s: float) -> None:
        """Play up to a time, in seconds from the start."""
        while (now := self._now()) < (until := self.began_s + at_s):
            if self._to_come and self._to_come[0][0] <= now:
                self.hour.happen(self._to_come.pop(0)[1])
                continue
            seconds = min([until, now + STEP_S, *(due for due, _ in self._to_come[:1])]) - now
            self.cluster.run(seconds)
            if self.hour.course.scales:
                self.hour.autoscale()
            self.waits.look(self.hour, seconds)

    def all(self) -> "Playing[C]":
        """Play the whole hour."""
        self.to(HOUR_S)
        return self

    def figures(self) -> Figures:
        """Return what came of it by now."""
        left = len(self.cluster.found_by_sweep())
        waits = self.waits
        waited_s = sum(waits.by_app.values())
        return Figures(len(self.cluster.evicted), left, waited_s, len(waits.placed))

    def _now(self) -> float:
        return self.hour.world.clock.now()


def is_passing(course: Course, n: int, at_s: float) -> bool:
    """Say whether the reason of the n-th eviction, `at_s` into the hour, is soon found no more.

    The hour is played up to that eviction, and from there without any.
    """
    playing = Playing(course, partial(Played, most=n))
    playing.to(at_s + STEP_S)
    stopped_by = playing.cluster.stopped_by
    assert stopped_by is not None
    for later_s in LATER_S:
        playing.to(at_s + later_s)
        if _is_found(playing.cluster, stopped_by, packs=course.packs):
            return False
    return True


def _is_found(cluster: Played, eviction: Eviction, *, packs: bool) -> bool:
    """Say whether a sweep by the same plugin alone finds the pod, its node or its workload."""
    own = [each for each in plugins(packs=packs) if each.name == eviction.plugin]
    profile = make_profile_of("p", tuple(own), DefaultEvictorArgs.model_validate({"nodeFit": True}))
    return any(
        eviction.pod == found.pod.name
        or eviction.node == found.pod.node
        or found.pod.labels.get("app") == eviction.app
        for found in cluster.swept(make_policy((profile,)))
    )


def judged(course: Course, *, asks: bool) -> Judged:
    """Play an hour with and without the descheduler, and say what was passing."""
    played, alone = Playing(course, Played).all(), Playing(course, Alone).all()
    polled = Playing(course, Polled).all()
    cluster, waits, without = played.cluster, played.waits, alone.waits
    both = ((app, s, without.by_app.get(app, 0.0)) for app, s in waits.by_app.items())
    longer = tuple(LongerWait(*each) for each in both if each[1] > each[2] + LONGER_S)
    passing = []
    for n, each in enumerate(cluster.evictions):
        if asks and is_passing(course, n, each.at_s):
            around = (h for h in course.happenings if abs(h.at_s - each.at_s) <= AROUND_S)
            passing.append(each._replace(around=tuple(around)))
    return Judged(
        tuple(cluster.evictions),
        tuple(passing),
        longer,
        tuple(each.origin for each in cluster.ended if each.end.is_futile),
        tuple(cluster.swept()),
        played.figures(),
        alone.figures(),
        polled.figures(),
    )
