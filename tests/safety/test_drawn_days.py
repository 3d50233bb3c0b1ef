"""Days on which pods end in every way, in a drawn order, one after the other or at once.

What really ended each pod is seen in the simulator: by the part of it that wrote the end. The
record must name the same cause, also where another one comes at once, and watches bring the two in
any order. Of two that both came before the pod's deletion it may name either, as a deletion does
not say by whom. What a Job ended it ended, also where the Job is deleted in the same moment.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final
from unittest.mock import patch

import anyio
import pytest
from trio.testing import MockClock

from reactive_desched.api.event import DISRUPTION_OBSERVED, EVICTION_SUCCEEDED
from reactive_desched.controller.disruptions import UNEXPLAINED_S
from reactive_desched.journal.events import read_events
from reactive_desched.sim.conditions import find_condition
from reactive_desched.sim.controllers.daemon_sets import DaemonSets
from reactive_desched.sim.controllers.garbage import Garbage
from reactive_desched.sim.controllers.jobs import Jobs
from reactive_desched.sim.controllers.namespaces import Namespaces
from reactive_desched.sim.controllers.node_pressure import NodePressure
from reactive_desched.sim.controllers.node_shutdown import NodeShutdown
from reactive_desched.sim.controllers.pod_control import template_hash
from reactive_desched.sim.controllers.pod_gc import PodGarbage
from reactive_desched.sim.controllers.replica_sets import ReplicaSets
from reactive_desched.sim.controllers.stateful_sets import StatefulSets
from reactive_desched.sim.controllers.taint_eviction import TaintEviction
from reactive_desched.sim.deletion import DeleteOptions
from reactive_desched.sim.eviction import evict
from reactive_desched.sim.kubelet import Kubelets
from reactive_desched.sim.objects import Obj, labels_of, name_of, namespace_of
from reactive_desched.sim.pods import controller_of, node_of
from reactive_desched.sim.profiles import Pace
from reactive_desched.sim.scheduling.scheduler import Scheduler
from reactive_desched.sim.status import StatusError
from tests.safety.story import read_policy
from tests.safety.test_day_of_disruptions import EXPECTED, HOUR_S, OURS, POLICY, Day
from tests.safety.world import World, remove_quietly
from tests.support.trio_order import task_order

_CAUSES: Final = {
    Scheduler: "PreemptionByScheduler",
    TaintEviction: "DeletionByTaintManager",
    NodePressure: "TerminationByKubelet",
    NodeShutdown: "TerminationByKubelet",
    Kubelets: "TerminationByKubelet",
    PodGarbage: "DeletionByPodGC",
    Garbage: "OwnerGone",
    Namespaces: "NamespaceGone",
}
"""What the end of a pod is called that a part of the cluster wrote."""

AT_ONCE_S: Final = UNEXPLAINED_S + 0.5
"""Of two causes that come so soon after each other, and before the end of a pod, the record may
name either."""

_TOGETHER: Final = (("unmatched", "daemon"), ("unreachable", "autoscaled"))
"""Ends of which the second one takes the first one's cause away again."""


class Truth:
    """The causes of the ends of pods, by uid, as the simulator wrote them."""

    def __init__(self, world: World) -> None:
        self.causes: dict[str, str] = {}
        self.ended_s: dict[str, float] = {}
        self.versions: dict[str, int] = {}
        self.apps: dict[str, str] = {}
        self._world = world
        self._acting: list[object] = []

    def act(self, plain: Callable[..., None], part: object, action: Any, given: Any) -> None:
        """Let a part of the cluster act."""
        self._acting.append(part)
        try:
            plain(part, action, given)
        finally:
            self._acting.pop()

    def commit(
        self, plain: Callable[..., Obj], what: str, resource: str, obj: Obj, previous: Obj | None
    ) -> Obj:
        """Note an end that is written."""
        if resource == "pods" and _ends(what, obj):
            uid = obj["metadata"]["uid"]
            if uid not in self.causes:
                self.causes[uid] = self._cause(obj)
                self.ended_s[uid] = anyio.current_time()
                self.versions[uid] = self._world.store.rv
                self.apps[uid] = labels_of(obj)["app"]
        return plain(what, resource, obj, previous)

    def answer(self, plain: Callable[..., Any], request: Any, fault: str, life: int) -> Any:
        """Note an eviction of our own."""
        before = request.uid in self.causes
        response = plain(request, fault, life)
        if request.uid in self.causes and not before:
            self.causes[request.uid] = OURS
        return response

    def _cause(self, pod: Obj) -> str:
        if not self._acting:
            mark = find_condition(pod, "DisruptionTarget")
            return "Deleted" if mark is None else str(mark["reason"])
        part = self._acting[-1]
        if isinstance(part, ReplicaSets):
            return self._of_replica_set(pod)
        if isinstance(part, StatefulSets):
            return self._of_stateful_set(pod)
        if isinstance(part, Jobs):
            return self._of_job(pod)
        if isinstance(part, DaemonSets):
            return self._of_daemon_set(pod)
        return _CAUSES[type(part)]

    def _of_replica_set(self, pod: Obj) -> str:
        owner = controller_of(pod)
        assert owner is not None, "a ReplicaSet deletes its own pods"
        home = namespace_of(pod)
        found = self._world.store.get("replicasets", home, owner["name"])
        if found is None:  # deleted in the same moment
            return "ScaledDown"
        above = controller_of(found)
        if above is None:
            return "ScaledDown"
        deployment = self._world.store.get("deployments", home, above["name"])
        if deployment is None:  # deleted in the same moment
            return "ScaledDown"
        wanted = template_hash(deployment["spec"]["template"])
        return "ScaledDown" if labels_of(pod)["pod-template-hash"] == wanted else "RolledOut"

    def _of_job(self, pod: Obj) -> str:
        owner = controller_of(pod)
        assert owner is not None, "a Job deletes its own pods"
        found = self._world.store.get("jobs", namespace_of(pod), owner["name"])
        assert found is not None, "it has not gone yet"
        return "JobEnded" if found["spec"]["parallelism"] else "ScaledDown"

    def _of_daemon_set(self, pod: Obj) -> str:
        owner = controller_of(pod)
        assert owner is not None, "a DaemonSet deletes its own pods"
        found = self._world.store.get("daemonsets", namespace_of(pod), owner["name"])
        assert found is not None, "it has not gone yet"
        wanted = template_hash(found["spec"]["template"])
        is_outdated = labels_of(pod)["controller-revision-hash"] != wanted
        return "RolledOut" if is_outdated else "ScaledDown"

    def _of_stateful_set(self, pod: Obj) -> str:
        owner = controller_of(pod)
        assert owner is not None, "a StatefulSet deletes its own pods"
        found = self._world.store.get("statefulsets", namespace_of(pod), owner["name"])
        assert found is not None, "it has not gone yet"
        ordinal = int(name_of(pod).rpartition("-")[2])
        return "RolledOut" if ordinal < found["spec"]["replicas"] else "ScaledDown"


def _ends(what: str, pod: Obj) -> bool:
    """Say whether a pod on a node is deleted or marked, unless its containers had ended before."""
    if not node_of(pod):
        return False
    mark = find_condition(pod, "DisruptionTarget")
    is_marked = mark is not None and mark["status"] == "True"
    if is_marked:
        return True
    has_ended = pod["status"].get("phase") in ("Failed", "Succeeded")
    return not has_ended and (what == "DELETED" or "deletionTimestamp" in pod["metadata"])


class DrawnDay(Day):
    """The ends of a day in another order, some of them at once, some pods struck twice."""

    def __init__(self, world: World, rng: Random) -> None:
        super().__init__(world, rng)
        self.strikes: dict[str, tuple[float, int, str]] = {}
        """The second way in which the pods of a workload were ended, and when and behind which
        version that began."""

    async def play_day(self) -> None:
        """End the pods of each workload in its way, and now and then in a second one."""
        await anyio.sleep(HOUR_S)
        second = {after for _, after in _TOGETHER}
        apps = [app for app in EXPECTED if app not in second]
        self.rng.shuffle(apps)
        for app in apps:
            await self._end(app)
            for before, after in _TOGETHER:
                if app == before:
                    await anyio.sleep(HOUR_S)
                    await self._end(after)
        await anyio.sleep(HOUR_S)

    async def _end(self, app: str) -> None:
        world = self.world
        world.watch_delay_s = self.rng.choice((0.002, 0.05, 0.2))
        getattr(self, f"end_{app.replace('-', '_')}")()
        await anyio.sleep(self.rng.choice((0.0, 0.001, 0.1, 1.5)))
        if app not in sum(_TOGETHER, ()) and self.rng.random() < 0.5:
            at = anyio.current_time(), world.store.rv
            self.strikes[app] = (*at, self._strike(app))
        await anyio.sleep(self.rng.choice((0.0, 0.5, 3.0, 60.0, 1800.0)))

    def _strike(self, app: str) -> str:
        """End the pods of a workload in a second way, which may be too late; return the cause."""
        store = self.world.store
        pods = [pod for pod in store.list("pods") if labels_of(pod).get("app") == app]
        is_deployed = store.get("deployments", "default", app) is not None
        match self.rng.randrange(7):
            case 1:
                for pod in pods:
                    with suppress(StatusError):
                        evict(store, namespace_of(pod), name_of(pod), DeleteOptions())
                return "EvictionByEvictionAPI"
            case 2:
                resource = "jobs" if app.startswith("job") else "deployments"
                remove_quietly(store, resource, "default", app)
                return "OwnerGone"
            case 6 if is_deployed or app.startswith("job"):
                resource = "jobs" if app.startswith("job") else "deployments"
                options = DeleteOptions(propagation_policy="Foreground")
                with suppress(StatusError):
                    store.delete(resource, "default", app, options)
                return "OwnerGone"
            case 3 if any(node_of(pod) == app for pod in pods):
                remove_quietly(store, "nodes", "", app)
                return "DeletionByPodGC"
            case 4 if store.get("nodes", "", app) is not None:
                self._taint_node(app, "broken:NoExecute")
                return "DeletionByTaintManager"
            case 5 if is_deployed:
                self._edit(app, replicas=0)
                return "ScaledDown"
        for pod in pods:
            remove_quietly(store, "pods", namespace_of(pod), name_of(pod))
        return "Deleted"


async def live_through(folder: Path, seed: int, days: list[tuple[DrawnDay, Truth]]) -> None:
    """Let a drawn day pass."""
    world = World(folder, read_policy(POLICY), Random(seed), Pace())
    seen = Truth(world)
    day = DrawnDay(world, Random(seed))
    days.append((day, seen))
    with (
        patch.object(world.cluster, "_guarded", partial(seen.act, world.cluster._guarded)),
        patch.object(world.store, "_commit", partial(seen.commit, world.store._commit)),
        patch.object(world, "_answer", partial(seen.answer, world._answer)),
    ):
        await world.live(day.prepare, day.play_day)


def recorded_causes(folder: Path) -> dict[str, list[str]]:
    """Return what the record says of the ends of pods, by uid."""
    causes: dict[str, list[str]] = {}
    for event in read_events(folder):
        if event.type == DISRUPTION_OBSERVED:
            causes.setdefault(event.data.who.uid, []).append(event.data.cause)
        elif event.type == EVICTION_SUCCEEDED:
            causes.setdefault(event.data.who.uid, []).append(OURS)
    return causes


def with_either(causes: dict[str, list[str]], day: DrawnDay, seen: Truth) -> dict[str, list[str]]:
    """Return causes, the true one in place of another that came at once with it."""
    found = {}
    for uid, named in causes.items():
        app = seen.apps.get(uid, "")
        struck_s, version, cause = day.strikes.get(app, (-HOUR_S, 0, ""))
        is_at_once = abs(
            seen.ended_s.get(uid, 0.0) - struck_s
        ) < AT_ONCE_S and version <= seen.versions.get(uid, 0)
        may_be = {cause, EXPECTED[app]} if is_at_once else set[str]()
        if seen.causes.get(uid) == "JobEnded":
            may_be.discard("OwnerGone")
        found[uid] = [seen.causes[uid] if each in may_be else each for each in named]
    return found


@pytest.mark.parametrize("seed", range(6))
def test_the_record_names_what_really_ended_each_pod(tmp_path: Path, seed: int) -> None:
    task_order().seed(seed)
    days: list[tuple[DrawnDay, Truth]] = []
    clock = MockClock(autojump_threshold=0)
    anyio.run(
        partial(live_through, tmp_path, seed, days),
        backend="trio",
        backend_options={"clock": clock},
    )

    ((day, seen),) = days
    recorded = with_either(recorded_causes(tmp_path), day, seen)
    assert recorded == {uid: [cause] for uid, cause in seen.causes.items()}
    assert len(set(seen.causes.values())) > 8
