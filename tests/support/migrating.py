"""A cluster whose API server has migration jobs, in memory and on virtual time."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Final, Self

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from reactive_desched.app.input_notes import InputNotes
from reactive_desched.app.migration import MigrationRunner
from reactive_desched.errors import RequestRejected
from reactive_desched.migration.actions import (
    Action,
    CreatePlaceholder,
    CreateReservation,
    DeleteJob,
    DeletePlaceholder,
    DeleteReservation,
    PassArbitration,
    SetReservationOrder,
    SetStatus,
)
from reactive_desched.migration.admission import NewJob
from reactive_desched.migration.answers import JobAnswers
from reactive_desched.migration.migrations import Migrations
from reactive_desched.migration.step_records import MigrationSteps
from reactive_desched.model.changes import Change
from reactive_desched.model.history import PastEviction
from reactive_desched.model.kube_events import KubeEvent
from reactive_desched.model.migration_jobs import (
    PLACEHOLDER_FOR,
    PLACEHOLDER_FOR_KIND,
    PLACEHOLDER_OF,
    MigrationJob,
    MigrationStep,
    Phase,
    PodReference,
)
from reactive_desched.model.objects import (
    ClusterObject,
    OwnerReference,
    Pod,
    PodStatus,
)
from reactive_desched.model.outcomes import (
    BY_EVICTION_API,
    EVICTED,
    FAILED,
    Accepted,
    EffectUnknown,
    EvictionRequest,
    EvictionResponse,
    Outcome,
    PodFound,
    PodLookup,
    PodNotFound,
)
from reactive_desched.model.reservations import Reservation, ReservationPhase
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.policy import AnyPlugin
from reactive_desched.policy.settings.migration import MigrationJobSettings
from reactive_desched.primitives.token_bucket import TokenRate
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.testing.builders import READY
from tests.support.flow import FakeEdgesController, FakeEvictor
from tests.support.recording_logger import RecordingLogger

EFFECT_TIMEOUT_S: Final = 38.0
"""So long an eviction request of an earlier process may still arrive."""


class JobServer:
    """The API server's copy of the jobs, and the pods that it evicts; it outlives controllers.

    A write that names an old version is refused. While `is_down`, every write fails; the next
    `lost_answers` writes are carried out, and their answers lost. An eviction ends `ends_after_s`
    later with the pod's deletion; where `replaces`, its controller then makes another pod. It is
    answered after `answers_after_s`, which may be after the pod is gone.
    `on_write` is called after each write of a job, and `on_eviction` with each pod whose eviction
    is accepted. Each request passes `on_request` twice: with "before" and its name before it is
    carried out, with "after" and its name before it is answered.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, MigrationJob] = {}
        self.pods: dict[str, Pod] = {}
        self.evictions: list[str] = []
        self.history: list[tuple[str, Phase, str]] = []
        self.is_down = False
        self.has_room = True
        self.free_node = "n3"
        self.makes_after_s = 0.005
        self.placeholders: list[str] = []
        self.reservations: dict[str, Reservation] = {}
        self.made_without_node: set[str] = set()
        self.ends_after_s = 2.0
        self.answers_after_s = 0.0
        self.replaces = False
        self.lost_answers = 0
        self.on_write: Callable[[], None] = lambda: None
        self.on_eviction: Callable[[Pod], None] = lambda _: None
        self.on_request: Callable[[str], Awaitable[None]] = _pass
        self._version = 100

    def put(self, job: MigrationJob) -> MigrationJob:
        """Store a job as it is now."""
        self._version += 1
        before = self.jobs.get(job.name)
        self.jobs[job.name] = job = replace(job, resource_version=self._version)
        if before is None or before.status != job.status:
            self.history.append((job.name, job.phase, job.status.reason))
        if before is None and self._waits_for_node(job):
            self.made_without_node.add(job.name)
        self.on_write()
        return job

    def _waits_for_node(self, job: MigrationJob) -> bool:
        pod = next((each for each in self.pods.values() if each.name == job.pod.name), None)
        return pod is not None and not pod.node

    def loses_answer(self) -> bool:
        """Say whether the answer to this request is lost, and count it."""
        is_lost = self.lost_answers > 0
        self.lost_answers -= is_lost
        return is_lost

    async def create(self, order: NewJob) -> MigrationJob:
        """Make a job."""
        await anyio.sleep(self.makes_after_s)
        if self.is_down:
            raise RequestRejected("503: the server is down", retryable=True)
        pod = PodReference(order.pod.namespace, order.pod.name, order.pod.uid)
        return self.put(
            MigrationJob(
                name=order.name,
                uid=f"job-{order.name}-{self._version}",
                pod=pod,
                created_s=int(anyio.current_time()),
                ttl_s=300.0,
                trigger=order.trigger,
                cause=order.cause,
            )
        )

    async def carry_out(self, step: Action) -> MigrationJob | None:
        """Write a step, as the API server does."""
        await anyio.sleep(0.005)
        if self.is_down:
            raise RequestRejected("503: the server is down", retryable=True)
        stored = self.jobs.get(step.job.name)
        if stored is None or stored.uid != step.job.uid:
            return None
        match step:
            case DeleteJob():
                del self.jobs[stored.name]
                return None
            case _ if stored.resource_version != step.job.resource_version:
                return None
            case PassArbitration(_, uid):
                return self.put(replace(stored, has_passed=True, pod=replace(stored.pod, uid=uid)))
            case SetStatus(_, status):
                return self.put(replace(stored, status=status))
            case CreateReservation():
                return self.put(replace(stored, reservation=stored.reservation or stored.uid))
            case _:
                return stored


async def _pass(_: str) -> None:
    """Let a request pass."""


class EvictionEndpoint(FakeEvictor):
    """Evicts the server's pods: an accepted eviction ends with the pod's deletion."""

    def __init__(self, server: JobServer) -> None:
        super().__init__()
        self._server = server
        self.accepted: list[str] = []
        self.has_accepted = Wakeup()

    async def _answer(self, request: EvictionRequest) -> EvictionResponse:
        await self._server.on_request("before Eviction")
        response = await super()._answer(request)
        pod = self._server.pods.get(request.uid)
        if isinstance(response, Accepted) and pod is not None:
            self._server.on_eviction(pod)
            self._server.evictions.append(request.name)
            self.accepted.append(request.uid)
            self.has_accepted.notify()
            await anyio.sleep(self._server.answers_after_s)
            await self._server.on_request("after Eviction")
            if self._server.loses_answer():
                return EffectUnknown("the connection broke")
        return response

    async def get_pod(self, namespace: str, name: str) -> PodLookup:
        """Read a pod of the server; one whose eviction was accepted is terminating."""
        await anyio.lowlevel.checkpoint()
        for pod in self._server.pods.values():
            if (pod.namespace, pod.name) == (namespace, name):
                evicted = name in self._server.evictions
                mark = BY_EVICTION_API if evicted else ""
                return PodFound(pod.uid, pod.is_terminating or evicted, disruption=mark)
        return PodNotFound()


class MigratingController:
    """One process over a `JobServer`, which outlives it; findings of `plugins` make jobs."""

    def __init__(
        self,
        server: JobServer,
        settings: MigrationJobSettings | None = None,
        *plugins: AnyPlugin,
        limits: Mapping[str, int | None] | None = None,
        rates: Mapping[str, TokenRate | None] | None = None,
        evictor_args: DefaultEvictorArgs | None = None,
    ) -> None:
        self.server = server
        self.evictor = EvictionEndpoint(server)
        self.fed = FakeEdgesController(
            *plugins,
            evictor_args=evictor_args,
            migration=settings or MigrationJobSettings(),
            evictor=self.evictor,
            makes_jobs=bool(plugins),
            limits=limits,
            rates=rates,
        )
        self.events: list[KubeEvent] = []
        self.steps: list[MigrationStep] = []
        self.kept_places: list[CreatePlaceholder] = []
        migrations = self.fed.controller.migrations
        assert migrations is not None
        self.migrations: Migrations = migrations
        steps = MigrationSteps(self.fed.controller.view, self.steps.append)
        self.runner = MigrationRunner(
            migrations,
            self,
            self.fed.deliver,
            JobAnswers(migrations, self._announce, steps),
            lambda: self.fed.controller.evaluator.started,
            self.events.append,
            InputNotes(),
            RecordingLogger(),
        )

    @asynccontextmanager
    async def running(
        self, *objects: ClusterObject, past: Iterable[str] = (), pending: Iterable[str] = ()
    ) -> AsyncIterator[Self]:
        """Run on the objects and on what the server has, after evictions of an earlier process.

        The intents of those that are `pending` have no outcome: each pod is read at the start, and
        again when the request can no longer arrive.
        """
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            await tasks.start(self.fed.pipeline.evictions.run)
            tasks.start_soon(self.fed.pipeline.worker.run)
            tasks.start_soon(self._delete_evicted, tasks)
            is_open = {"ended_s": None, "result": ""}
            evictions = [_past(uid) for uid in past]
            evictions += [replace(_past(uid), **is_open) for uid in pending]
            for each in evictions:
                self.fed.intent_store.adopt(each.request_id, each.pod_name)
            self.fed.controller.restore(evictions)
            for uid in pending:
                self.fed.controller.inherit_eviction(uid)
                is_known = uid in self.server.evictions
                tasks.start_soon(self._end_pending, uid, 0 if is_known else EFFECT_TIMEOUT_S)
            self.fed.sync_and_resume(
                *objects,
                *self.server.pods.values(),
                *self.server.jobs.values(),
                *self.server.reservations.values(),
            )
            for pod in self.server.pods.values():
                if pod.name in self.server.evictions:
                    tasks.start_soon(self._let_go, pod.uid)
                elif not pod.node:
                    tasks.start_soon(self._bind, pod)
            for kept in self.server.reservations.values():
                tasks.start_soon(self._schedule, kept.name)
            tasks.start_soon(self.runner.run)
            yield self
            tasks.cancel_scope.cancel()

    async def _end_pending(self, uid: str, after_s: float) -> None:
        await anyio.sleep(after_s)
        is_evicted = uid in self.server.evictions
        outcome = Outcome(EVICTED if is_evicted else FAILED)
        self.fed.controller.end_inherited_eviction(uid, outcome)

    async def create(self, order: NewJob) -> MigrationJob:
        """Make a job."""
        await self.server.on_request("before NewJob")
        made = await self.server.create(order)
        await self.server.on_request("after NewJob")
        if self.server.loses_answer():
            self.fed.deliver(made)
            raise RequestRejected("the connection broke", retryable=True)
        return made

    async def carry_out(self, step: Action) -> MigrationJob | None:
        """Write a step, and make or delete the placeholder that it is about."""
        await self.server.on_request(f"before {type(step).__name__}")
        written = await self.server.carry_out(step)
        match step:
            case DeleteJob(job):
                self.fed.delete(job)
            case CreatePlaceholder(job, pod):
                self.kept_places.append(step)
                self._tasks.start_soon(self._place, job, pod)
            case DeletePlaceholder(_, placeholder, _) if placeholder.uid in self.server.pods:
                self.delete_pod(self.server.pods[placeholder.uid])
            case CreateReservation(job, _) if written is not None:
                self._tasks.start_soon(self._reserve, job)
            case SetReservationOrder(_, kept):
                self.reserve(replace(kept, has_order=True))
            case DeleteReservation(_, kept):
                del self.server.reservations[kept.name]
                self.fed.delete(kept)
        await self.server.on_request(f"after {type(step).__name__}")
        if self.server.loses_answer():
            if written is not None:
                self.fed.deliver(written)
            raise RequestRejected("the connection broke", retryable=True)
        return written

    def reserve(self, kept: Reservation) -> None:
        """Store a Reservation as it is now."""
        self.server.reservations[kept.name] = kept
        self.fed.deliver(kept)

    async def _reserve(self, job: MigrationJob) -> None:
        """Let a Reservation appear, and half a second later be Available, where there is room."""
        if job.uid in self.server.reservations:
            return
        self.reserve(Reservation(name=job.uid, uid=job.uid, is_ours=True, has_order=True))
        await self._schedule(job.uid)

    async def _schedule(self, name: str) -> None:
        """Let a Reservation that waits be Available half a second later, where there is room."""
        await anyio.sleep(0.5)
        made = self.server.reservations.get(name)
        if made is not None and made.is_pending and self.server.has_room:
            self.reserve(available(made, self.server.free_node))

    async def bind(self, kept: str, replacement: Pod) -> None:
        """Let a pod take the place of a Reservation, and a second later be Ready."""
        self.server.pods[replacement.uid] = replacement
        self.fed.deliver(replacement)
        taken_by = PodReference(replacement.namespace, replacement.name, replacement.uid)
        made = self.server.reservations[kept]
        self.reserve(replace(made, phase=ReservationPhase.SUCCEEDED, taken_by=taken_by))
        await anyio.sleep(1)
        self.fed.deliver(replace(replacement, status=READY))

    async def _place(self, job: MigrationJob, pod: Pod) -> None:
        """Let a placeholder appear, and half a second later have a node, where one has room."""
        made = placeholder_of(job, pod)
        if (earlier := self.server.placeholders.count(made.name)) > 0:
            made = replace(made, uid=f"{made.name}-{earlier}")
        if (
            made.name in {each.name for each in self.server.pods.values()}
            or job.name not in self.server.jobs
        ):
            return  # without its owner it is collected as garbage at once
        self.server.pods[made.uid] = made
        self.server.placeholders.append(made.name)
        self.fed.deliver(made)
        await self._bind(made)

    async def _bind(self, pod: Pod) -> None:
        """Let a pod have a node half a second later, as soon as one has room."""
        await anyio.sleep(0.5)
        while not self.server.has_room:  # noqa: ASYNC110 -- tests set it at any time
            await anyio.sleep(0.5)
        if pod.uid not in self.server.pods:
            return
        bound = replace(pod, node=self.server.free_node, status=READY)
        kept = (name for name, each in self.server.reservations.items() if each.keeps_room)
        if PLACEHOLDER_OF not in pod.labels and (name := next(kept, "")):
            await self.bind(name, bound)
        else:
            self.server.pods[pod.uid] = bound
            self.fed.deliver(bound)

    def _announce(self, change: Change) -> None:
        if self.fed.controller.apply((change,)):
            self.fed.pipeline.worker.wake()

    async def make(self, job: MigrationJob) -> None:
        """Create a job, as a person does, and let half a second pass."""
        self.fed.deliver(self.server.put(job))
        await anyio.sleep(0.5)

    def edit(self, name: str, **fields: object) -> None:
        """Change a job, as a person does."""
        self.fed.deliver(self.server.put(replace(self.server.jobs[name], **fields)))

    def delete_job(self, name: str) -> None:
        """Let a job be gone, and what it owns."""
        self.fed.delete(job := self.server.jobs.pop(name))
        for pod in tuple(self.server.pods.values()):
            if any(owner.uid == job.uid for owner in pod.owners):
                self.delete_pod(pod)

    def delete_pod(self, pod: Pod) -> None:
        """Let a pod be gone; its controller replaces it, where there are such."""
        self.server.pods.pop(pod.uid, None)
        self.fed.delete(pod)
        if self.server.replaces and PLACEHOLDER_OF not in pod.labels:
            self._tasks.start_soon(self._replace, pod)

    async def _replace(self, pod: Pod) -> None:
        name = f"{pod.name}x"
        new = replace(pod, name=name, uid=name, node="", status=PodStatus(), deletion_s=None)
        self.server.pods[new.uid] = new
        self.fed.deliver(new)
        await self._bind(new)

    async def _delete_evicted(self, tasks: TaskGroup) -> None:
        while True:
            while self.evictor.accepted:
                tasks.start_soon(self._let_go, self.evictor.accepted.pop(0))
            await self.evictor.has_accepted.wait()

    async def _let_go(self, uid: str) -> None:
        if (pod := self.server.pods.get(uid)) is None:
            return  # another deleted it meanwhile
        self.server.pods[uid] = leaving = replace(pod, deletion_s=1)
        await anyio.sleep(0.2)
        self.fed.deliver(leaving)
        await anyio.sleep(self.server.ends_after_s)
        if uid in self.server.pods:
            self.delete_pod(leaving)


def available(made: Reservation, on: str = "n3") -> Reservation:
    """Return a Reservation that has a node."""
    return replace(
        made, phase=ReservationPhase.AVAILABLE, node=on, is_scheduled=True, unschedulable=""
    )


def placeholder_of(job: MigrationJob, pod: Pod) -> Pod:
    """Return the placeholder of a job on a pod, without a node yet."""
    owner = pod.owners[0]
    labels = {
        PLACEHOLDER_OF: job.uid,
        PLACEHOLDER_FOR: owner.uid,
        PLACEHOLDER_FOR_KIND: owner.kind,
    }
    name = f"placeholder-{job.uid}"
    owners = (OwnerReference("PodMigrationJob", job.name, job.uid),)
    return Pod(pod.namespace, name, name, labels=labels, owners=owners, spec=pod.spec)


def job_on(pod: Pod, /, name: str = "", **fields: object) -> MigrationJob:
    """Return a job on a pod as a person writes it: without a uid, made now."""
    reference = PodReference(pod.namespace, pod.name)
    job = MigrationJob(
        name=name or pod.name,
        uid=f"job-{name or pod.name}",
        pod=reference,
        created_s=int(anyio.current_time()),
        ttl_s=300.0,
    )
    return replace(job, **fields)


def _past(uid: str) -> PastEviction:
    return PastEviction(f"past-{uid}", 0.0, uid, "default", uid, "n1", ended_s=0.0, result=EVICTED)
