"""Records one at a time, as sinks get them: `entry(EVICTION_SUCCEEDED, ended("evicted"))`."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, Literal

from reactive_desched.api import event as api
from reactive_desched.journal.event_builder import Correlation, build_event
from reactive_desched.journal.records import GENESIS, JournalRecord, encode, format_line
from tests.support.journals import SOURCE, STARTED_AT

__all__ = [
    "WEB",
    "decision_data",
    "entry",
    "eviction_entries",
    "finding_data",
    "followed_up_data",
    "outcome_data",
]

Mode = Literal["live", "dry_run"]
REASONS = {"evicted": "EvictionAccepted", "dry_run": "DryRun", "failed": "ServerError"}

WEB: Final = api.Who(
    name="web",
    namespace="shop",
    node="n1",
    owners=(
        api.Owner(api_version="apps/v1", kind="ReplicaSet", name="web-6d4b", uid="uid-set"),
        api.Owner(api_version="apps/v1", kind="Deployment", name="web", uid="uid-top"),
    ),
    uid="uid-1",
    zone="north",
)
"""A pod of a Deployment."""


def entry(
    type_: str, data: api.EventData, seq: int = 1, *, time: datetime = STARTED_AT, id_: str = ""
) -> JournalRecord:
    """Return the record of this event."""
    story = Correlation("case-1", "shop/web", "uid-top")
    id_ = id_ or f"case-1.{seq}"
    event = build_event(SOURCE, type_, story, time, data, id_=id_, causation_id="node/n1")
    return JournalRecord(
        seq, format_line(encode(event), GENESIS, "2026-03-29T01:30:01.000000Z", seq)
    )


def eviction_entries(count: int, first: int = 1) -> list[JournalRecord]:
    """Return so many records of pods that were evicted, in order."""
    return list(_evictions(count, first))


def outcome_data(
    result: str, message: str = "", *, pod: api.Who = WEB, mode: Mode = "live"
) -> api.EvictionEnded:
    """Return the data of an eviction with this result."""
    outcome = api.Ending(result=result, message=message, reason=REASONS.get(result, ""))
    return api.EvictionEnded(attempt=1, outcome=outcome, **_pod_data(pod, mode))


def decision_data(
    verdict: str, gate: str = "", reason: str = "", message: str = "", *, mode: Mode = "live"
) -> api.DecisionMade:
    """Return the data of a decision on a pod."""
    decision = api.Verdict(verdict=verdict, gate=gate, reason=reason, message=message)
    return api.DecisionMade(decision=decision, **_pod_data(WEB, mode))


def finding_data(*, mode: Mode = "live") -> api.FindingMade:
    """Return the data of a finding of a pod."""
    return api.FindingMade(**_pod_data(WEB, mode))


def followed_up_data(result: str) -> api.EvictionFollowedUp:
    """Return the data of a replacement, six seconds after the eviction."""
    replacement = None
    if result not in ("not_replaced", "owner_gone"):
        replacement = api.Replacement(name="web-2", node="n2", uid="uid-2")
    follow_up = api.FollowUp(result=result, ready_ms=6_000, replacement=replacement)
    return api.EvictionFollowedUp(attempt=1, follow_up=follow_up, **_pod_data(WEB, "live"))


def _evictions(count: int, first: int) -> Iterator[JournalRecord]:
    for seq in range(first, first + count):
        yield entry(api.EVICTION_SUCCEEDED, outcome_data("evicted"), seq)


def _pod_data(who: api.Who, mode: Mode) -> dict[str, Any]:  # the fields of PodData
    return {
        "mode": mode,
        "trigger": api.Cause(change="NodeTaintsChanged", object="node n1", resource_version="7"),
        "what": api.What(action="evict"),
        "who": who,
        "why": api.Why(
            message="does not tolerate gpu",
            numbers={},
            plugin="RemovePodsViolatingNodeTaints",
            policy_revision="3f9a1c07",
            profile="day",
        ),
    }
