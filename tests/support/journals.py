"""Journals as the controller leaves them: `write_journal(folder, some_events(100))`."""

import gzip
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from random import Random
from typing import Final, Literal, TypedDict

from reactive_desched.api import event as api
from reactive_desched.journal.event_builder import (
    Correlation,
    build_event,
    digest_id,
    journal_epoch,
    outcome_payload,
)
from reactive_desched.journal.records import (
    GENESIS,
    AnyEvent,
    EncodedEvent,
    JournalRecord,
    digest,
    encode,
    format_line,
)
from reactive_desched.journal.segments import GZIP_SUFFIX, Segment, segment_at
from reactive_desched.journal.signing.checkpointer import CheckpointContext, Checkpointer
from reactive_desched.journal.signing.signer import Ed25519Signer, open_signer
from reactive_desched.model.outcomes import (
    DRY_RUN_NOT_SENT,
    EVICTED_LATE,
    EVICTION_ACCEPTED,
    PDB_REFUSED_EVICTION,
    POD_GONE,
    POD_NOT_FOUND,
    SERVER_FAILED,
)

__all__ = [
    "SOURCE",
    "STARTED_AT",
    "correlation_of",
    "make_pod_event",
    "new_signer",
    "some_events",
    "write_journal",
]

STARTED_AT: Final = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
SOURCE: Final = "//kubernetes/descheduler/reactive-desched-0/01j9y3k2m4n6p8q0r2s4t6v8w0"
"""The source of the events and journals made here."""

_ENDINGS: Final = (
    (api.EVICTION_SUCCEEDED, EVICTION_ACCEPTED.outcome()),
    (
        api.EVICTION_REFUSED,
        PDB_REFUSED_EVICTION.outcome("PodDisruptionBudget web needs 2 healthy pods, and has 2"),
    ),
    (api.EVICTION_SUCCEEDED, POD_NOT_FOUND.outcome("the pod was deleted before the request")),
    (api.EVICTION_UNKNOWN, POD_GONE.outcome("no response within 30 s, and the pod is gone")),
    (api.EVICTION_DRY_RUN, DRY_RUN_NOT_SENT.outcome()),
    (api.EVICTION_REFUSED, SERVER_FAILED.outcome("500: Internal Server Error")),
)
_MOVED: Final = api.FollowUp(
    result="moved",
    finding_holds=False,
    ready_ms=4210,
    scheduled_ms=35,
    replacement=api.Replacement(name="web-6d4b75cb6d-x7k2p", node="n4", uid="uid-replacement"),
)
_REFUSALS: Final = (
    (
        api.DECISION_DEFER,
        api.Verdict(
            verdict="defer",
            gate="EvictionRateLimit",
            reason="EvictionRateLimited",
            message="the eviction rate limit of namespace shop has no token left",
        ),
    ),
    (
        api.DECISION_REFUSE,
        api.Verdict(
            verdict="refuse",
            gate="NodeFit",
            reason="NoOtherNodeFits",
            message="no other node fits the pod: 0/4 nodes are available: 4 Insufficient cpu",
        ),
    ),
)


def new_signer(directory: Path, source: str = SOURCE) -> Ed25519Signer:
    """Return the signer of a journal in this folder, whose key is made there."""
    directory.mkdir(parents=True, exist_ok=True)
    return open_signer(directory, "", source.removeprefix("//"))


def write_journal(
    directory: Path,
    events: Iterable[AnyEvent],
    *,
    per_segment: int = 1000,
    signer: Ed25519Signer | None = None,
    checkpoint_every: int = 1000,
    compress: bool = False,
    began: datetime = STARTED_AT,
    apart: timedelta = timedelta(seconds=1),
) -> list[JournalRecord]:
    """Write the events as a journal of this folder's own; return all its records in order.

    Each file holds a checkpoint and so many events after it, and a checkpoint after each
    `seal_every` events. With `compress` all files but the last are compressed. Records are
    written so far apart. Without a signer, the one of `new_signer`.
    """
    directory.mkdir(parents=True, exist_ok=True)
    writer = _JournalWriter(signer or new_signer(directory), checkpoint_every, began, apart)
    rest = iter(events)
    records: list[JournalRecord] = []
    files: list[Segment] = []
    batch = list(islice(rest, per_segment))
    while batch or not files:
        entries = writer.segment(batch)
        files.append(segment_at(directory, entries[0].seq))
        files[-1].path.write_bytes(b"".join(entry.raw + b"\n" for entry in entries))
        records += entries
        batch = list(islice(rest, per_segment))
    for one in files[:-1] if compress else ():
        _compress(one)
    return records


def some_events(
    count: int, *, pods: int = 8, seed: int = 0, began: datetime = STARTED_AT, source: str = SOURCE
) -> list[AnyEvent]:
    """Return so many events of every type, about 1.1 kB each: cases of some pods, told in order.

    The first is a policy that was loaded; every eviction.requested within has its ending, if the
    count leaves room for it. The same arguments make the same events.
    """
    return list(islice(_EventGenerator(Random(seed), pods, began, source).events(), count))


def correlation_of(pod: api.Who, case: str) -> Correlation:
    """Return what the events of a pod's case share."""
    key = pod.owners[-1].uid if pod.owners else pod.uid
    return Correlation(case, f"{pod.namespace}/{pod.name}", key)


def make_pod_event(
    type_: str, case: Correlation, time: datetime, data: api.EventData, id_: str, cause: str
) -> AnyEvent:
    """Return an event about a pod with these ids."""
    return build_event(SOURCE, type_, case, time, data, id_=id_, causation_id=cause)


_UNTIL = datetime(2026, 12, 24, 18, tzinfo=UTC)


class _PodEventFields(TypedDict):
    """What every event about a pod says, as `api.PodData`."""

    mode: Literal["live", "dry_run"]
    trigger: api.Cause
    what: api.What
    who: api.Who
    why: api.Why


class _JournalWriter:
    def __init__(
        self, signer: Ed25519Signer, seal_every: int, began: datetime, apart: timedelta
    ) -> None:
        self._source = f"//{signer.origin}"
        self._now, self._apart = began, apart
        self._checkpoint_every = seal_every
        self._checkpointer = Checkpointer(
            signer,
            every_records=seal_every,
            every_s=60,
            clock=lambda: self._now,
            monotonic=lambda: 0.0,
        )
        self._seq, self._prev = 0, GENESIS

    def segment(self, events: Sequence[AnyEvent]) -> list[JournalRecord]:
        """Return a file's records."""
        entries = [self._checkpoint()]
        for number, event in enumerate(events, 1):
            entries.append(self._line(encode(event)))
            if number % self._checkpoint_every == 0:
                entries.append(self._checkpoint())
        return entries

    def _checkpoint(self) -> JournalRecord:
        return self._line(
            self._checkpointer.encode_checkpoint(
                self._source, self._seq, self._prev, CheckpointContext()
            )
        )

    def _line(self, body: EncodedEvent) -> JournalRecord:
        self._now += self._apart
        self._seq += 1
        recorded = self._now.isoformat(timespec="microseconds").replace("+00:00", "Z")
        raw = format_line(body, self._prev, recorded, self._seq)
        self._prev = digest(raw)
        return JournalRecord(self._seq, raw)


class _EventGenerator:
    """Tells one case after the other."""

    def __init__(self, rng: Random, pods: int, began: datetime, source: str) -> None:
        self._rng = rng
        self._source = source
        self._now = began
        self._epoch = journal_epoch(source)
        self._pods = [_pod(number) for number in range(max(1, pods))]
        self._event_count = 0

    def events(self) -> Iterator[AnyEvent]:
        """Yield events without end."""
        yield from self._controller_events()
        while True:
            for who in self._pods:
                yield from self._case_events(who)
            yield from self._operator_events()
            yield from self._others_events(self._pods[-1])
            yield from self._controller_events()

    def _case_events(self, who: api.Who) -> Iterator[AnyEvent]:
        """Yield a finding, its verdict and, in half of the cases, an eviction and its end."""
        self._event_count += 1
        case = digest_id(self._source, who.uid, str(self._event_count))
        make_event = self._event_factory(correlation_of(who, case))
        about = _about(who, self._event_count, self._rng)
        yield make_event(api.FINDING_MADE, api.FindingMade(**about))
        if self._event_count % 2:
            yield from self._eviction(make_event, about)
            return
        type_, decision = _REFUSALS[self._event_count // 2 % len(_REFUSALS)]
        yield make_event(type_, api.DecisionMade(decision=decision, **about))

    def _eviction(
        self, make_event: Callable[[str, api.EventData], AnyEvent], about: _PodEventFields
    ) -> Iterator[AnyEvent]:
        type_, outcome = _ENDINGS[self._event_count // 2 % len(_ENDINGS)]
        if type_ == api.EVICTION_DRY_RUN:
            about = {**about, "mode": api.MODE_DRY_RUN}
        verdict = api.Verdict(verdict="evict")
        yield make_event(api.DECISION_EVICT, api.DecisionMade(decision=verdict, **about))
        yield make_event(api.EVICTION_REQUESTED, api.EvictionRequested(attempt=1, **about))
        payload = outcome_payload(outcome, self._rng.randrange(3, 900))
        yield make_event(type_, api.EvictionEnded(attempt=1, outcome=payload, **about))
        if type_ == api.EVICTION_SUCCEEDED:
            data = api.EvictionFollowedUp(attempt=1, follow_up=_MOVED, **about)
            yield make_event(api.EVICTION_FOLLOWED_UP, data)

    def _controller_events(self) -> Iterator[AnyEvent]:
        """Yield what the controller says of itself."""
        make_event = self._event_factory(Correlation(self._epoch, "journal", self._epoch))
        where, revision = "policy.yaml", f"{self._event_count:08x}"
        yield make_event(
            api.POLICY_LOADED,
            api.PolicyLoaded(
                cluster="prod",
                cluster_uid="7f0c1a52-5e5e-4c55-9d0d-2f6d5d1c9a11",
                files=(api.PolicyFile(name=where, sha256=revision * 8, text="profiles: []"),),
                mode=api.MODE_LIVE,
                revision=revision,
                source=where,
                version="0.5.0",
            ),
        )
        problems = ("policy.yaml:12:7: profiles[0]: there is no plugin called `PodLifetime`",)
        yield make_event(
            api.POLICY_REJECTED,
            api.PolicyRejected(kept=revision, problems=problems, source=where),
        )
        yield make_event(
            api.LEADER_CHANGED,
            api.LeaderChanged(
                holder="reactive-desched-0",
                previous="reactive-desched-1",
                transitions=self._event_count,
            ),
        )
        yield make_event(
            api.JOURNAL_RESUMED,
            api.JournalResumed(down_ms=5300, message="No space left on device", refused=2),
        )
        yield make_event(api.JOURNAL_LOST, api.JournalLost(first=3, last=9, sink="kafka"))
        yield make_event(
            api.EPOCH_BEGAN,
            api.EpochBegan(
                previous=self._source, message="the source of its last record is unknown"
            ),
        )

    def _operator_events(self) -> Iterator[AnyEvent]:
        """Yield what brakes and people did."""
        make_event = self._event_factory(Correlation(self._epoch, "journal", self._epoch))
        yield make_event(
            api.BRAKE_ENGAGED,
            api.BrakeEngaged(
                brake="manual",
                by="ann@desk",
                message="maintenance",
                mode=api.MODE_LIVE,
                scope="cluster",
                until=_UNTIL,
            ),
        )
        yield make_event(
            api.BRAKE_RELEASED,
            api.BrakeReleased(brake="storm", message="quiet", mode=api.MODE_LIVE, scope="cluster"),
        )
        yield make_event(
            api.EVALUATION_REQUESTED,
            api.EvaluationRequested(by="ada@laptop", message="an upgrade", scope="node n7"),
        )
        for type_, kind in (
            (api.PROPOSALS_APPROVED, api.ProposalsApproved),
            (api.PROPOSALS_REJECTED, api.ProposalsRejected),
        ):
            yield make_event(
                type_,
                kind(
                    by="ada@laptop",
                    message="change 4711",
                    proposals=("3f9a01bc", "77aa01c2"),
                    scope="group 0c1d2e3f",
                    until=_UNTIL,
                ),
            )
        yield make_event(
            api.NODE_DRAINED,
            api.NodeDrained(node="n7", node_uid="uid-n7", message="ada: a new kernel"),
        )
        yield make_event(
            api.CONSOLIDATION_BEGUN,
            api.ConsolidationBegun(node="n7", node_uid="uid-n7", pods=3),
        )
        yield make_event(
            api.CONSOLIDATION_ENDED,
            api.ConsolidationEnded(
                node="n7",
                node_uid="uid-n7",
                result="empty",
                message="no pod is left that had to leave",
            ),
        )
        yield make_event(
            api.DELETION_COSTS_WRITTEN,
            api.DeletionCostsWritten(
                profile="p",
                plugin="ScaleDownBinPack",
                pods=2,
                left=1,
                costs=("shop/web-1 0", "shop/web-2 1"),
            ),
        )
        yield make_event(
            api.ROOM_BEGUN,
            api.RoomBegun(waiting="shop/web-9", waiting_uid="uid-9", node="n7", pods=2),
        )
        yield make_event(
            api.ROOM_ENDED,
            api.RoomEnded(waiting="shop/web-9", waiting_uid="uid-9", node="n7", result="bound"),
        )
        yield make_event(
            api.FUTILE_CLEARED,
            api.FutileCleared(
                by="ada@laptop",
                cleared=1,
                message="more room",
                owner="shop/Deployment/web",
                owner_uid="uid-top",
            ),
        )

    def _others_events(self, who: api.Who) -> Iterator[AnyEvent]:
        """Yield what became of a pod later, and what is no eviction."""
        case = digest_id(self._source, who.uid, "others", str(self._event_count))
        make_event = self._event_factory(correlation_of(who, case))
        job = api.ObjectReference(
            api_version="scheduling.koordinator.sh/v1alpha1",
            kind="PodMigrationJob",
            name="migrate-web",
            uid="uid-job",
        )
        made = api.MigrationCarriedOut(
            action="create", job="migrate-web", object=job, result="done", who=who
        )
        yield make_event(api.MIGRATION_CARRIED_OUT, made)
        about = _about(who, self._event_count, self._rng)
        outcome = outcome_payload(EVICTED_LATE.outcome("evicted after that outcome"), None)
        data = api.EvictionCorrected(attempt=1, corrects="earlier", outcome=outcome, **about)
        yield make_event(api.EVICTION_CORRECTED, data)
        ended = api.ProposalEnded(plugin="PodLifeTime", profile="day", proposal="3f9a01bc", who=who)
        yield make_event(api.PROPOSAL_ENDED, ended)
        yield make_event(
            api.DISRUPTION_OBSERVED,
            api.DisruptionObserved(
                cause="PreemptionByScheduler",
                message="the scheduler preempts it for a pod of higher priority",
                since=_UNTIL,
                who=who,
            ),
        )

    def _event_factory(self, story: Correlation) -> Callable[[str, api.EventData], AnyEvent]:
        """Return what makes the case's next event, caused by the one before."""
        cause = f"node/n1@{self._event_count}"

        def tell(type_: str, data: api.EventData) -> AnyEvent:
            nonlocal cause
            self._now += timedelta(milliseconds=self._rng.randrange(1, 400))
            id_ = digest_id(story.id, type_, str(self._event_count))
            event = build_event(
                self._source, type_, story, self._now, data, id_=id_, causation_id=cause
            )
            cause = id_
            return event

        return tell


def _pod(number: int) -> api.Who:
    name = ("web", "cart", "zahlung-übersicht", "db")[number % 4]
    kind = "StatefulSet" if name == "db" else "ReplicaSet"
    owner = api.Owner(
        api_version="apps/v1", kind=kind, name=f"{name}-6d4b75cb6d", uid=_uid("set", name)
    )
    top = api.Owner(api_version="apps/v1", kind="Deployment", name=name, uid=_uid("top", name))
    return api.Who(
        name=f"{name}-6d4b75cb6d-{number:05}",
        namespace=("shop", "bank")[number // 4 % 2],
        node=f"n{number % 3 + 1}",
        owners=(owner,) if kind == "StatefulSet" else (owner, top),
        template_hash="6d4b75cb6d",
        uid=_uid("pod", str(number)),
        zone=("north", "south", "")[number % 3],
    )


def _about(who: api.Who, number: int, rng: Random) -> _PodEventFields:
    node = who.node
    plugin, change, reason = (
        (
            "RemovePodsViolatingNodeTaints",
            "NodeTaintsChanged",
            f"does not tolerate gpu=true:NoSchedule on {node}",
        ),
        ("RemovePodsHavingTooManyRestarts", "PodRestarted", "its containers restarted 124 times"),
        ("PodLifeTime", "PodAged", "it is older than 86400 s"),
    )[number % 3]
    version = str(rng.randrange(10_000, 99_999))
    return {
        "mode": api.MODE_LIVE,
        "trigger": api.Cause(change=change, object=f"node {node}", resource_version=version),
        "what": api.What(action="evict", grace_period_seconds=30 if number % 5 else None),
        "who": who,
        "why": api.Why(
            message=reason,
            numbers={"restarts": rng.randrange(500), "threshold": 100, "taint": "gpu=true"},
            plugin=plugin,
            policy_revision="3f9a1c07",
            profile="default",
        ),
    }


def _uid(*parts: str) -> str:
    digits = digest("/".join(parts).encode())
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))


def _compress(segment: Segment) -> None:
    raw = segment.path.read_bytes()
    segment.path.with_name(segment.path.name + GZIP_SUFFIX).write_bytes(gzip.compress(raw, mtime=0))
    segment.path.unlink()
