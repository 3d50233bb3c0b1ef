"""The simulated cluster behind the API server: every controller, driven by one clock."""

import logging
import math
import random
from collections.abc import Callable
from typing import Final, TypeVar

import anyio
import anyio.lowlevel
from msgspec import Struct

from reactive_desched.errors import ReactiveDeschedError
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.sim.clock import VirtualClock
from reactive_desched.sim.controllers.claims import Claims
from reactive_desched.sim.controllers.controller import ANY_OTHER, Controller
from reactive_desched.sim.controllers.cron_jobs import CronJobs
from reactive_desched.sim.controllers.custom_resources import CustomResources
from reactive_desched.sim.controllers.daemon_sets import DaemonSets
from reactive_desched.sim.controllers.deployments import Deployments
from reactive_desched.sim.controllers.disruption import DisruptionBudgets
from reactive_desched.sim.controllers.endpoint_slices import EndpointSlices
from reactive_desched.sim.controllers.evacuation import Evacuation
from reactive_desched.sim.controllers.event_expiry import EventExpiry
from reactive_desched.sim.controllers.garbage import Garbage
from reactive_desched.sim.controllers.horizontal_autoscalers import HorizontalAutoscalers
from reactive_desched.sim.controllers.jobs import Jobs
from reactive_desched.sim.controllers.namespaces import Namespaces
from reactive_desched.sim.controllers.node_lifecycle import NodeLifecycle
from reactive_desched.sim.controllers.node_pressure import NodePressure
from reactive_desched.sim.controllers.node_shutdown import NodeShutdown
from reactive_desched.sim.controllers.pod_control import PodControl
from reactive_desched.sim.controllers.pod_gc import PodGarbage
from reactive_desched.sim.controllers.quota_use import QuotaUse
from reactive_desched.sim.controllers.replica_sets import ReplicaSets
from reactive_desched.sim.controllers.stale_disruption import StaleDisruption
from reactive_desched.sim.controllers.stateful_sets import StatefulSets
from reactive_desched.sim.controllers.taint_eviction import TaintEviction
from reactive_desched.sim.heartbeats import Heartbeats
from reactive_desched.sim.index import PodIndex
from reactive_desched.sim.kubelet import Kubelets
from reactive_desched.sim.node_agents import NodeAgents
from reactive_desched.sim.node_switch import switch
from reactive_desched.sim.profiles import Pace
from reactive_desched.sim.resources import RESOURCES
from reactive_desched.sim.scheduling.scheduler import Scheduler
from reactive_desched.sim.scheduling.scores import LEAST_ALLOCATED
from reactive_desched.sim.store import Event, Store
from reactive_desched.sim.usage import SimulatedUsage

__all__ = ["MOST_ENDED_PODS", "ClusterOptions", "NeverSettlesError", "SimCluster"]

T = TypeVar("T")

_MOST_ROUNDS: Final = 10_000
MOST_ENDED_PODS: Final = 12_500
"""The default of kube-controller-manager."""


class NeverSettlesError(ReactiveDeschedError):
    """The controllers keep each other busy without time passing: a bug in one of them."""


class ClusterOptions(Struct, frozen=True):
    """The behaviour of the simulated cluster."""

    pace: Pace = Pace()
    heartbeats: bool = False
    """Whether nodes renew their Leases every ten seconds; costs a write per node each time."""
    node_agents: bool = False
    """Whether koordinator's agents report what each node uses every minute."""
    random_ties: bool = False
    """Whether the scheduler picks among equally good nodes by chance, not by name."""
    records_starts: bool = False
    """Whether kubelets write Events of containers that start; costs three writes for each."""
    scoring: str = LEAST_ALLOCATED
    """The scoring strategy of the scheduler: LeastAllocated spreads pods, MostAllocated packs."""
    most_ended_pods: int = MOST_ENDED_PODS
    """How many pods that ended are left (`--terminated-pod-gc-threshold`)."""
    tolerant: bool = False
    """Whether a controller that trips over a malformed object is logged and goes on with the
    next; if not its exception reaches the caller that wrote or stepped."""


class SimCluster:
    """Owns the controllers of one store.

    In virtual time call `settle` and `advance`; in real time run `run` in a task of its own,
    beside the API server that shares the store.
    """

    def __init__(
        self, store: Store, rng: random.Random, options: ClusterOptions | None = None
    ) -> None:
        self.store = store
        options = options or ClusterOptions()
        self._tolerant = options.tolerant
        self.index = PodIndex()
        self.scheduler = Scheduler(
            store, self.index, rng if options.random_ties else None, options.scoring
        )
        self._controllers = self._made(rng, options)
        self._watchers: dict[str, list[Controller]] = {}
        for controller in self._controllers:
            for resource in sorted(controller.watches):
                self._watchers.setdefault(resource, []).append(controller)
        self._of_others = self._watchers.pop(ANY_OTHER, [])
        for kind in RESOURCES:
            self._watchers.setdefault(kind, [])
        self._stirred = Wakeup()
        self._replay()
        self._unsubscribe = store.subscribe(self._observe)

    def close(self) -> None:
        """Stop listening to the store; the objects stay."""
        self._unsubscribe()

    def next_due(self) -> float | None:
        """Return the earliest moment at which any controller has work, or None."""
        moments = [due for part in self._controllers if (due := part.due()) is not None]
        return min(moments, default=None)

    def settle(self) -> None:
        """Work until nothing is due at the clock's present moment.

        Raises NeverSettlesError when that takes more than 10,000 rounds.
        """
        now = self.store.clock.now()
        for _ in range(_MOST_ROUNDS):
            busy = self._busy(now)
            if not busy:
                return
            for part in busy:
                self._guarded(part, part.step, now)
        names = ", ".join(type(part).__name__ for part in self._busy(now))
        raise NeverSettlesError(f"after {_MOST_ROUNDS} rounds these still have work: {names}")

    def advance(self, seconds: float) -> None:
        """Let virtual time pass, doing all work at the moment it is due.

        Raises TypeError when the store runs on another clock.
        """
        clock = self.store.clock
        if not isinstance(clock, VirtualClock):
            raise TypeError("only a VirtualClock can be advanced; use run() for real time")
        end = clock.now() + seconds
        self.settle()
        while (due := self.next_due()) is not None and due <= end:
            clock.advance(max(0.0, due - clock.now()))
            self.settle()
        clock.advance(max(0.0, end - clock.now()))

    async def run(self) -> None:
        """Work in real time until cancelled; others get their turn after every batch."""
        while True:
            now = self.store.clock.now()
            for part in self._busy(now):
                self._guarded(part, part.step, now)
                await anyio.lowlevel.checkpoint()
            due = self.next_due()
            if due is None or due > self.store.clock.now():
                await self._wait_until(due)

    def stop_node(self, name: str) -> None:
        """Switch a node's kubelet off: it falls silent and its pods freeze."""
        switch(self.store, name, on=False)

    def start_node(self, name: str) -> None:
        """Switch a node's kubelet on again."""
        switch(self.store, name, on=True)

    def _made(self, rng: random.Random, options: ClusterOptions) -> list[Controller]:
        store, index = self.store, self.index

        def pods(component: str) -> PodControl:
            return PodControl(store, rng, component)

        parts: list[Controller] = [
            Deployments(store, index),
            ReplicaSets(store, index, pods("replicaset-controller")),
            ReplicaSets(
                store, index, pods("replication-controller"), resource="replicationcontrollers"
            ),
            StatefulSets(store, index, pods("statefulset-controller")),
            DaemonSets(store, index, pods("daemonset-controller")),
            Jobs(store, index, pods("job-controller")),
            CronJobs(store),
            HorizontalAutoscalers(store),
            Claims(store),
            EndpointSlices(store),
            NodeLifecycle(store, index),
            TaintEviction(store, index),
            self.scheduler,
            Kubelets(store, index, rng, options.pace, records_starts=options.records_starts),
            NodePressure(store, index),
            NodeShutdown(store, index),
            QuotaUse(store),
            DisruptionBudgets(store),
            StaleDisruption(store),
            PodGarbage(store, index, options.most_ended_pods),
            Evacuation(store),
            Garbage(store),
            CustomResources(store),
            Namespaces(store),
            EventExpiry(store),
        ]
        if options.heartbeats:
            parts.append(Heartbeats(store))
        if options.node_agents:
            parts.append(NodeAgents(store, SimulatedUsage(store, self.index)))
        return parts

    def _busy(self, now: float) -> list[Controller]:
        return [part for part in self._controllers if _is_due(part, now)]

    def _replay(self) -> None:
        """Send the controllers what exists already, nodes before the pods on them."""
        first = ("namespaces", "nodes")
        rest = sorted(set(self._watchers) - set(first))
        for resource in (*first, *rest):
            for obj in self.store.list(resource):
                self._observe(Event("ADDED", resource, obj, None, self.store.rv))

    def _observe(self, event: Event) -> None:
        if event.resource == "pods":
            self.index.observe(event)
        for part in self._watchers.get(event.resource, self._of_others):
            self._guarded(part, part.observe, event)
        self._stirred.notify()

    def _guarded(self, part: Controller, act: Callable[[T], None], given: T) -> None:
        """Let a controller act; if it may fail, what it was doing is dropped and logged."""
        if not self._tolerant:
            act(given)
            return
        try:
            act(given)
        except Exception:  # the server must outlive whatever clients store in it
            logging.getLogger(__name__).exception("%s gave up on an object", type(part).__name__)

    async def _wait_until(self, due: float | None) -> None:
        wait = math.inf if due is None else max(0.0, due - self.store.clock.now())
        with anyio.move_on_after(wait):
            await self._stirred.wait()


def _is_due(part: Controller, now: float) -> bool:
    due = part.due()
    return due is not None and due <= now
