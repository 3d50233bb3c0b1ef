"""Stands for leader beside a running controller: the journal is open only while it leads."""

import socket
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Final

import anyio
import msgspec
from msgspec import Struct

from reactive_desched.api.event import LeaderChanged
from reactive_desched.app.components import Components
from reactive_desched.app.input_notes import InputNotes
from reactive_desched.app.options import Dependencies
from reactive_desched.app.recording import Recording
from reactive_desched.controller.controller import Controller
from reactive_desched.controller.readiness import STOPPING
from reactive_desched.election.elector import ElectionClock, ElectionTiming, LeaderElector
from reactive_desched.errors import JournalInUse, LeadershipLost
from reactive_desched.journal import atomic_files
from reactive_desched.journal.recorder import JournalRecorder
from reactive_desched.kube.client.leases import ApiLeaseClient
from reactive_desched.kube.client.session import Session, Transport
from reactive_desched.primitives.boottime import boottime
from reactive_desched.primitives.decode_errors import DECODE_ERRORS
from reactive_desched.telemetry.logs import Logger

JOURNAL_RETRY_S: Final = 0.25
"""How often a new leader tries a journal that the earlier leader has not closed yet."""

TERM_FILE: Final = "term.json"

OpenTerm = Callable[[Callable[[], float]], AbstractAsyncContextManager[Recording]]
"""Opens the journal, and lets the controller act while the block lasts.

At its end it asks how many seconds the evictions under way may take to end.
"""


class LastTerm(Struct, frozen=True):
    """The last term whose leader wrote to a journal: the Lease's leaseTransitions, and who led."""

    transitions: int
    holder: str


@asynccontextmanager
async def stand_for_leader(
    deps: Dependencies, session: Session, parts: Components, open_term: OpenTerm, drain_s: float
) -> AsyncIterator[None]:
    """Stand for leader while the block lasts, and act while this process leads.

    At the end the term is closed, and then the Lease is released. Raises LeadershipLost when the
    Lease was lost, and JournalError when this process leads and cannot open the journal. A Lease
    that was lost to another cluster's address ends nothing: a process that is started anew would
    stand for leader there.
    """
    elector = _build_elector(deps, session, parts)
    deps.metrics.register(elector)
    controller, cluster = parts.pipeline.controller, session.cluster
    campaign = Campaign(
        elector, controller, open_term, drain_s, deps.log, lambda: cluster.fault, parts.notes
    )
    try:
        async with anyio.create_task_group() as renewals:
            async with anyio.create_task_group() as terms:
                terms.start_soon(campaign.lead, renewals)
                try:
                    yield
                finally:
                    campaign.stop()
            renewals.cancel_scope.cancel()
    finally:
        if elector.is_leader:
            await elector.release()


class Campaign:
    """One candidate's way to a term, and through it.

    `drain_s` is how long evictions under way may take to end at a clean stop. After a loss they
    have less: the journal must be closed before the Lease may pass to another. `cluster_fault`
    returns why no request reaches the cluster for the rest of the process's life, empty else.
    """

    def __init__(
        self,
        elector: LeaderElector,
        controller: Controller,
        open_term: OpenTerm,
        drain_s: float,
        log: Logger,
        cluster_fault: Callable[[], str],
        notes: InputNotes,
    ) -> None:
        self._notes = notes
        self._cluster_fault = cluster_fault
        self._elector = elector
        self._controller = controller
        self._open_term = open_term
        self._drain_s = drain_s
        self._log = log
        self._acquiring = anyio.CancelScope()
        self._ending, self._stopped = anyio.Event(), anyio.Event()
        self._lost: LeadershipLost | None = None

    def stop(self) -> None:
        """End `lead`: at once while it waits for the Lease, else after the term is closed."""
        self._acquiring.cancel()
        self._ending.set()
        self._stopped.set()

    async def lead(self, renewals: anyio.abc.TaskGroup) -> None:
        """Wait for the Lease and act until `stop`; raises LeadershipLost when it was lost.

        Where no request can reach the cluster any more, a loss is waited out until `stop`.
        """
        with self._acquiring:
            await self._elector.acquire()
        if not self._elector.is_leader:
            return
        renewals.start_soon(self._keep)
        async with AsyncExitStack() as stack:
            recording = await self._open_journal(stack)
            if not self._ending.is_set():
                await self._act(recording)
        if self._lost is None:
            return
        if not self._cluster_fault():
            raise self._lost
        self._elector.stand_down()
        self._controller.readiness.resume(STOPPING)  # the term has ended, the process goes on
        await self._stopped.wait()

    async def _act(self, recording: Recording) -> None:
        """Act until the term ends."""
        elector, recorder = self._elector, recording.recorder
        try:
            await self._begin_term(recording.directory / TERM_FILE)
        except LeadershipLost as lost:
            self._lost = lost
            return
        self._record_leader(recorder, elector.identity, elector.previous_holder)
        await self._ending.wait()
        self._record_leader(recorder, "", elector.identity)

    def _record_leader(self, recorder: JournalRecorder, holder: str, previous: str) -> None:
        """Write down which process acts from now on; an empty holder: none that is known."""
        changes = self._elector.transitions
        data = LeaderChanged(holder=holder, previous=previous, transitions=changes)
        recorder.record(data, "leader", version=str(changes), cause="lease")

    async def _begin_term(self, file: Path) -> None:
        """Act from now on; as if every limit were used up where this journal lacks the last term.

        The term is noted before anything is evicted, so that a journal that has some of its
        evictions says so.
        """
        elector = self._elector
        last = await anyio.to_thread.run_sync(_read_last_term, file)
        if elector.transitions and (last is None or last.transitions != elector.transitions - 1):
            self._log.warning(
                "the journal has no record of the last leader's evictions: limits count as used up",
                before=elector.previous_holder or "unknown",
            )
            with self._controller.clocks.still() as now_s:
                self._controller.begin_without_history()
                self._notes.limits_emptied(now_s)
        content = msgspec.json.encode(LastTerm(elector.transitions, elector.identity))
        try:
            await anyio.to_thread.run_sync(atomic_files.replace, file, content)
        except OSError as error:
            text = "cannot note the term: the next leader begins as if limits were used up"
            self._log.warning(text, message=f"{file}: {error.strerror or error}")
        await elector.begin_term()

    async def _keep(self) -> None:
        """Renew the Lease; when it is lost, have the term end in order."""
        try:
            await self._elector.keep()
        except LeadershipLost as lost:
            self._lost = lost
            self._log.warning("the controller stopped leading", message=str(lost))
            self._ending.set()

    async def _open_journal(self, stack: AsyncExitStack) -> Recording:
        """Open the journal; the earlier leader may still be closing it."""
        while True:
            try:
                return await stack.enter_async_context(self._open_term(self._drain_limit_s))
            except JournalInUse as error:
                if not self._elector.wait_for_journal(str(error)):
                    raise
                await anyio.sleep(JOURNAL_RETRY_S)

    def _drain_limit_s(self) -> float:
        return self._drain_s if self._lost is None else self._elector.timing.drain_s


def _read_last_term(file: Path) -> LastTerm | None:
    """Return the last term of a journal; None where it is not known."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=LastTerm)
    except (OSError, *DECODE_ERRORS):
        return None


def _build_elector(deps: Dependencies, session: Transport, parts: Components) -> LeaderElector:
    config = deps.configuration.settings.leader_election
    timing = ElectionTiming(config.lease_duration_s, config.renew_deadline_s, config.retry_period_s)
    leases = ApiLeaseClient(
        session,
        config.resource_namespace,
        config.resource_name,
        timeout_s=timing.request_timeout_s,
    )
    return LeaderElector(
        leases,
        f"{socket.gethostname()}_{uuid.uuid4()}",
        timing,
        parts.pipeline.controller.pauses.leadership,
        clock=ElectionClock(boottime, time.time),
        rng=Random(),  # noqa: S311 -- spreads retries, no secret
        log=deps.log,
        end_process_at=deps.open_kill_timer(deps.log),
    )
