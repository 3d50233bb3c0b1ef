"""Records one at a time, as sinks get them: `entry(EVICTION_SUCCEEDED, ended("evicted"))`."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, Literal

from reactive_desched.api import event as api
from reactive_desched.journal.envelope import Story, envelope
from reactive_desched.journal.records import GENESIS, Entry, encode, line
from tests.support.journals import BEGAN, SOURCE

__all__ = ["WEB", "decided", "ended", "entry", "evictions"]

Mode = Literal["live", "dry-run"]

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
    type_: str, data: api.Data, seq: int = 1, *, time: datetime = BEGAN, id_: str = ""
) -> Entry:
    """Return the record of this event."""
    story = Story("case-1", "shop/web", "uid-top")
    id_ = id_ or f"case-1.{seq}"
    event = envelope(SOURCE, type_, story, time, data, id_=id_, cause="node/n1")
    return Entry(seq, line(encode(event), GENESIS, "2026-03-29T01:30:01.000000Z", seq))


def evictions(count: int, first: int = 1) -> list[Entry]:
    """Return so many records of pods that were evicted, in order."""
    return list(_evictions(count, first))


def ended(
    result: str, detail: str = "", *, who: api.Who = WEB, mode: Mode = "live"
) -> api.EvictionEnded:
    """Say that the eviction of a pod came to this."""
    outcome = api.Ending(result=result, detail=detail)
    return api.EvictionEnded(attempt=1, outcome=outcome, **_about(who, mode))


def decided(
    verdict: str, gate: str = "", reason: str = "", *, detail: str = "", mode: Mode = "live"
) -> api.DecisionMade:
    """Say what the gates said on a pod."""
    said = api.Verdict(verdict=verdict, gate=gate, reason=reason, detail=detail)
    return api.DecisionMade(decision=said, **_about(WEB, mode))


def _evictions(count: int, first: int) -> Iterator[Entry]:
    for seq in range(first, first + count):
        yield entry(api.EVICTION_SUCCEEDED, ended("evicted"), seq)


def _about(who: api.Who, mode: Mode) -> dict[str, Any]:  # the fields of PodData
    return {
        "mode": mode,
        "trigger": api.Cause(change="NodeTaintsChanged", object="node n1", resource_version="7"),
        "what": api.What(action="evict"),
        "who": who,
        "why": api.Why(
            numbers={},
            plugin="RemovePodsViolatingNodeTaints",
            policy_revision="3f9a1c07",
            profile="day",
            reason="does not tolerate gpu",
        ),
    }
