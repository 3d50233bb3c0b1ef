"""Evictions with all that comes of them, told as events: `Story().eviction(60, "failed")`."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from reactive_desched.api import event as api
from reactive_desched.journal.event_builder import Correlation
from reactive_desched.journal.records import AnyEvent
from reactive_desched.model import outcomes
from tests.support.journals import correlation_of, make_pod_event, write_journal

__all__ = ["BEGAN", "HOSTILE", "Story", "moved", "who"]

BEGAN: Final = datetime(2026, 5, 1, tzinfo=UTC)
OWN: Final = Correlation("epoch", "journal", "epoch")
HOSTILE: Final = "x|y`z`*b*_i_<script>alert(1)</script>[a](http://evil.example)&amp;#1@me\\|\u202e"


def who(workload: int = 0, *, namespace: str = "shop", name: str = "web") -> api.Who:
    owner = api.Owner(api_version="apps/v1", kind="Deployment", name=name, uid=f"uid-{workload}")
    return api.Who(
        name=f"{name}-{workload}",
        namespace=namespace,
        node=f"n{workload % 3}",
        owners=(owner,) if workload % 4 else (),
        uid=f"pod-{namespace}-{name}-{workload}",
        zone="",
    )


class Story:
    """Events of pods and of the controller, each at a time after the beginning."""

    def __init__(self) -> None:
        self._events: list[tuple[float, int, AnyEvent]] = []
        self._ids = 0

    def tell(self, type_: str, at_s: float, data: Any, case: Correlation, **ids: str) -> None:
        self._ids += 1
        time = BEGAN + timedelta(seconds=at_s)
        id_, cause = ids.get("id_", f"id-{self._ids}"), ids.get("cause", "cause")
        event = make_pod_event(type_, case, time, data, id_, cause)
        self._events.append((at_s, self._ids, event))

    def own(self, type_: str, at_s: float, data: Any) -> None:
        self.tell(type_, at_s, data, OWN)

    def eviction(
        self,
        at_s: float = 0.0,
        result: str | None = outcomes.EVICTED,
        *,
        pod: api.Who | None = None,
        plugin: str = "PodLifeTime",
        waits: Sequence[tuple[str, float]] = (),
        follow_up: api.FollowUp | None = None,
        reason: str = "",
    ) -> None:
        """Tell one case: gates that defer it for so long, a request, its outcome, its follow-up."""
        self._ids += 1
        case = f"case-{self._ids}"
        pod = pod or who()
        mode = "dry_run" if result == outcomes.DRY_RUN else "live"
        about: Any = {
            "mode": mode,
            "trigger": api.Cause(change="PodAged", object="", resource_version=""),
            "what": api.What(action="evict"),
            "who": pod,
            "why": api.Why(
                message="old", numbers={}, plugin=plugin, policy_revision="1", profile="p"
            ),
        }
        correlation = correlation_of(pod, case)
        self.tell(api.FINDING_MADE, at_s, api.FindingMade(**about), correlation)
        for gate, wait_s in waits:
            verdict = api.Verdict(verdict="defer", gate=gate, reason=f"{gate}Reason", message="m")
            type_ = api.DECISION_REFUSE if gate == "NodeFit" else api.DECISION_DEFER
            self.tell(type_, at_s, api.DecisionMade(decision=verdict, **about), correlation)
            at_s += wait_s
        if result is None:
            return
        agreed = api.DecisionMade(decision=api.Verdict(verdict="evict"), **about)
        self.tell(api.DECISION_EVICT, at_s, agreed, correlation)
        requested, ended = f"{case}.requested.1", f"{case}.outcome.1"
        request = api.EvictionRequested(attempt=1, **about)
        self.tell(api.EVICTION_REQUESTED, at_s, request, correlation, id_=requested)
        if result == "open":
            return
        ending = api.Ending(result=result, reason=reason)
        self.tell(
            _TYPES.get(result, api.EVICTION_REFUSED),
            at_s + 1,
            api.EvictionEnded(attempt=1, outcome=ending, **about),
            correlation,
            id_=ended,
            cause=requested,
        )
        if follow_up is not None:
            data = api.EvictionFollowedUp(attempt=1, follow_up=follow_up, **about)
            ready_s = (follow_up.ready_ms or 0) / 1000
            type_ = api.EVICTION_FOLLOWED_UP
            self.tell(type_, at_s + 1 + ready_s, data, correlation, cause=ended)

    def events(self) -> list[AnyEvent]:
        return [event for _, _, event in sorted(self._events, key=lambda each: each[:2])]

    def write(self, directory: Path, **how: Any) -> None:
        write_journal(directory, self.events(), began=BEGAN, **how)


_TYPES = {
    outcomes.EVICTED: api.EVICTION_SUCCEEDED,
    outcomes.NOT_FOUND: api.EVICTION_SUCCEEDED,
    outcomes.UNKNOWN: api.EVICTION_UNKNOWN,
    outcomes.DRY_RUN: api.EVICTION_DRY_RUN,
}


def moved(ready_ms: int = 4000, *, holds: bool | None = False, result: str = "moved") -> Any:
    return api.FollowUp(result=result, ready_ms=ready_ms, finding_holds=holds)
