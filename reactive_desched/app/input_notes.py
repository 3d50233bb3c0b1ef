"""Notes what reaches the controller besides the objects of its state, for a recording of it.

Each part that such an input passes through is wrapped here, and hands it to the recorder that runs,
if one does.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

from msgspec.structs import replace

from reactive_desched.app.config_reload import Configurable
from reactive_desched.controller.turn_clocks import TurnClocks
from reactive_desched.eviction.client import EvictionClient
from reactive_desched.model.evaluation import EvictionResult, Intent
from reactive_desched.model.evictors.soft_eviction import ANNOTATION
from reactive_desched.model.objects import PodKey
from reactive_desched.model.outcomes import (
    EvictionRequest,
    EvictionResponse,
    Outcome,
    PodFound,
    PodLookup,
    RequestTime,
)
from reactive_desched.policy.configuration import Configuration, calendar_flags
from reactive_desched.policy.scheduler_texts import with_texts
from reactive_desched.recording.items import (
    NO_TIME,
    ConfigurationInForce,
    EvictionAnswered,
    EvictionSettled,
    HistoryRead,
    InheritedEnd,
    InheritedEvictionEnded,
    Instant,
    Item,
    JobLookedAt,
    JobOrderEnded,
    JobStepEnded,
    LookedForWork,
    OrderGiven,
    PauseSet,
    PodLookedUp,
    ProcessBegan,
    RequestWritten,
    TaintRefused,
    Worked,
)
from reactive_desched.web.operator import Order

MakeItem = Callable[[Instant], Item]
"""Makes an item with the time at which it was noted; it is called later."""


class InputNotes:
    """Hands items to the recorder that runs; without one they are dropped.

    `process` keeps from when on this process counts, whether or not a recorder ran then. Each
    `now_s` is the moment by which the controller went, in monotonic seconds; what has none is noted
    in the block of the controller's clocks in which the controller has it.
    """

    def __init__(self) -> None:
        self._take: Callable[[MakeItem], None] | None = None
        self.process = ProcessBegan(NO_TIME, has_job_steps=True)

    @contextmanager
    def taken_by(self, take: Callable[[MakeItem], None]) -> Iterator[None]:
        """Hand the notes to a recorder while the block lasts."""
        self._take = take
        try:
            yield
        finally:
            self._take = None

    def note(self, item: Item) -> None:
        """Record an item that happens now, whatever time it has."""
        if self._take is not None:
            self._take(lambda at: replace(item, at=at))

    def limits_emptied(self, now_s: float) -> None:
        """Record that every limit begins without a token."""
        self._process_began(empty_from_s=now_s)

    def history_restored(self, now_s: float, history: HistoryRead | None) -> None:
        """Record that limits and memory have what the journal had; None where it is unreadable."""
        self._process_began(history=history, restored_s=now_s)

    def evictions_inherited(
        self, now_s: float, ended: Mapping[PodKey, Outcome], inherited: Iterable[PodKey]
    ) -> None:
        """Record which evictions an earlier process had left open, before any is evaluated."""
        ends = tuple(_inherited_end(now_s, pod, outcome) for pod, outcome in ended.items())
        self._process_began(ended=ends, inherited=tuple(inherited))

    def inherited_eviction_ended(self, now_s: float, pod: PodKey, outcome: Outcome) -> None:
        """Record how an eviction ended later that an earlier process had left open."""
        end = _inherited_end(now_s, pod, outcome)
        self.note(InheritedEvictionEnded(NO_TIME, end))
        self.process = self.process.with_end(end)

    def evaluation_began(self, now_s: float) -> None:
        """Record that subjects are evaluated from now on."""
        self._process_began(evaluates_from_s=now_s)

    def _process_began(self, **changes: Any) -> None:  # fields of the item
        self.process = replace(self.process, **changes)
        self.note(self.process)

    def worked(self, now_s: float, ended_after: int | None) -> None:
        """Record that what was due at a moment, in monotonic seconds, was evaluated."""
        if self._take is not None:
            self._take(partial(_worked, now_s, ended_after))

    def looked_for_work(self, now_s: float) -> None:
        """Record that nothing was due at a moment, in monotonic seconds."""
        if self._take is not None:
            self._take(lambda at: LookedForWork(_instant(now_s, at)))

    def eviction_requested(self, intent: Intent, request_id: str, is_sent: bool) -> None:  # noqa: FBT001 -- it is called by the place of its arguments
        """Record that the request for an eviction was written, and whether it is sent."""
        uid, is_observed = intent.pod.uid, intent.is_observed
        self.note(RequestWritten(NO_TIME, uid, request_id, is_sent, is_observed))

    def pause_set(self, name: str, reason: str) -> None:
        """Record a pause of the readiness, or its end where there is no reason."""
        self.note(PauseSet(NO_TIME, name, reason))

    def eviction_settled(self, result: EvictionResult) -> None:
        """Record how an eviction that was decided ended."""
        outcome = result.outcome
        self.note(
            EvictionSettled(
                NO_TIME,
                result.intent.pod.uid,
                outcome.result,
                outcome.reason,
                outcome.message,
                outcome.retry_after_s,
                result.request_id,
                result.sent_at,
                result.intent.is_observed,
            )
        )

    def job_looked_at(self, name: str, step: str) -> None:
        """Record that a migration job was looked at, and what is written of it next."""
        self.note(JobLookedAt(NO_TIME, name, step))

    def job_order_ended(self, pod: PodKey, error: str = "") -> None:
        """Record that the job of a pod was made, or why it could not be."""
        self.note(JobOrderEnded(NO_TIME, pod, error))

    def job_step_ended(self, name: str, error: str = "", *, is_written: bool = False) -> None:
        """Record the API server's answer to what was written of a job."""
        self.note(JobStepEnded(NO_TIME, name, error, is_written))

    def taint_refused(self, node: str, value: str | None) -> None:
        """Record that the API server refused the taint of a set."""
        self.note(TaintRefused(NO_TIME, node, value))

    def order_given(self, order: str, body: Mapping[str, Any]) -> None:
        """Record an order of a person, with the members of its body."""
        arguments = {name: str(value) for name, value in body.items()}
        self.note(OrderGiven(NO_TIME, order, arguments.pop("by", ""), arguments))

    def of_order(self, order: Order) -> Order:
        """Return an order that is recorded before it is carried out."""

        async def carry_out(body: Mapping[str, Any]) -> object:
            self.order_given(order.name, body)
            return await order.carry_out(body)

        return replace(order, carry_out=carry_out)


class NotedEvictionClient(EvictionClient):
    """Sends requests by another client, and notes what the API server answers.

    `caught_up` returns when the watches show what happened before its call.
    """

    def __init__(
        self,
        client: EvictionClient,
        notes: InputNotes,
        clock: Callable[[], float] = time.monotonic,
        caught_up: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        self._client = client
        self._notes = notes
        self._clock = clock
        self._caught_up = caught_up or client.caught_up
        self.effect_timeout_s = client.effect_timeout_s

    async def caught_up(self) -> bool:
        """Return when what happened before this call shows in the state, or will not for long."""
        return await self._caught_up()

    async def evict(self, request: EvictionRequest) -> EvictionResponse:
        """Ask the API server to evict the pod."""
        sent_s = self._clock()
        response = await self._client.evict(request)
        self._notes.note(
            EvictionAnswered(
                NO_TIME, request.namespace, request.name, request.uid, response, sent_s
            )
        )
        return response

    def now(self) -> RequestTime:
        """Return when a request is sent that is sent now."""
        return self._client.now()

    async def get_pod(self, namespace: str, name: str) -> PodLookup:
        """Read the pod that has this name now; raises ClusterError when it cannot be read."""
        lookup = await self._client.get_pod(namespace, name)
        self._notes.note(PodLookedUp(NO_TIME, namespace, name, _kept(lookup)))
        return lookup


def _worked(now_s: float, ended_after: int | None, noted: Instant) -> Worked:
    """Return the item with the moment as of which subjects were evaluated: it is noted later."""
    return Worked(_instant(now_s, noted), ended_after=ended_after)


def _instant(now_s: float, noted: Instant) -> Instant:
    """Return a moment in monotonic seconds by the clocks that it was noted by."""
    return Instant(noted.wall_s - noted.monotonic_s + now_s, now_s)


def _inherited_end(now_s: float, pod: PodKey, outcome: Outcome) -> InheritedEnd:
    about = outcome.result, outcome.reason, outcome.message, outcome.retry_after_s
    return InheritedEnd(pod, *about, now_s)


def _kept(lookup: PodLookup) -> PodLookup:
    """Return a pod with no more of its annotations than an evictor reads: others may be secret."""
    if not isinstance(lookup, PodFound):
        return lookup
    read = {key: said for key, said in lookup.annotations.items() if key == ANNOTATION}
    return replace(lookup, annotations=read)


class ConfigurableAtAMoment(Configurable, Protocol):
    """A part that takes each configuration, and the clocks by which it does."""

    @property
    def clocks(self) -> TurnClocks:
        """The clocks that stand still meanwhile."""
        ...


class NotedConfigurable:
    """Has another part take each configuration, and notes that it is in force."""

    def __init__(self, part: ConfigurableAtAMoment, notes: InputNotes, *, dry_run: bool) -> None:
        self._part = part
        self._notes = notes
        self._dry_run = dry_run

    def reconfigure(self, config: Configuration) -> None:
        """Apply another configuration."""
        with self._part.clocks.still():
            self._part.reconfigure(config)
            self._notes.note(in_force(NO_TIME, config, dry_run=self._dry_run))


def in_force(at: Instant, configuration: Configuration, *, dry_run: bool) -> ConfigurationInForce:
    """Return a configuration as a recording has it."""
    texts = [with_texts(each, configuration.scheduler_texts) for each in configuration.sources]
    policy = configuration.policy
    flags = {"nodeSelector": str(policy.node_selector) if policy.node_selector.requirements else ""}
    if dry_run:
        flags["dryRun"] = "true"
    return ConfigurationInForce(
        at,
        texts[0] if texts else "",
        texts[1] if len(texts) > 1 else "",
        policy.revision,
        policy.source,
        {name: value for name, value in flags.items() if value}
        | calendar_flags(configuration.calendars),
    )
