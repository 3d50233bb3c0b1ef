"""From the pipeline's nouns to the words of events: no rule here, only who says what."""

from collections.abc import Mapping
from typing import Final

from reactive_desched.api.event import (
    DECISION_DEFER,
    DECISION_EVICT,
    DECISION_REFUSE,
    EVICTION_REFUSED,
    EVICTION_REHEARSED,
    EVICTION_SUCCEEDED,
    EVICTION_UNKNOWN,
    Cause,
    Ending,
    Owner,
    Verdict,
    What,
    Who,
    Why,
)
from reactive_desched.model.accounts import DecisionContext
from reactive_desched.model.decisions import Decision, Defer, Evict, Refuse
from reactive_desched.model.objects import Pod
from reactive_desched.model.outcomes import DRY_RUN, EVICTED, UNKNOWN, Outcome

EVICT: Final = "evict"

MAX_TEXT_CHARS: Final = 4096
"""Longer texts are cut, and say so: no reason may make a record too long for the journal."""

_OUTCOME_TYPES: Final[Mapping[str, str]] = {
    EVICTED: EVICTION_SUCCEEDED,
    DRY_RUN: EVICTION_REHEARSED,
    UNKNOWN: EVICTION_UNKNOWN,
}

MAX_SAFE_INTEGER: Final = 2**53 - 1
"""Larger numbers are written as text: a reader that counts in doubles would change them."""


def truncate(text: str, limit: int = MAX_TEXT_CHARS) -> str:
    """Return the text, cut if it has more characters."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit} more characters)"


def _safe_json_value(value: int | str) -> int | str:
    """Return what every reader of JSON understands alike: RFC 8785, section 3.2.2.3."""
    if isinstance(value, str):
        return truncate(value)
    return value if abs(value) <= MAX_SAFE_INTEGER else str(value)


def who_payload(context: DecisionContext) -> Who:
    """Tell of the pod."""
    pod = context.finding.pod
    return Who(
        name=pod.name,
        namespace=pod.namespace,
        node=pod.node,
        owners=tuple(
            [
                Owner(api_version=o.api_version, kind=o.kind, name=o.name, uid=o.uid)
                for o in context.owners
            ]
        ),
        uid=pod.uid,
        zone=context.zone,
    )


def why_payload(context: DecisionContext, revision: str) -> Why:
    """Tell of the opinion."""
    finding = context.finding
    numbers = {name: _safe_json_value(value) for name, value in finding.details.items()}
    return Why(
        numbers=numbers,
        plugin=finding.plugin,
        policy_revision=revision,
        profile=context.profile,
        reason=truncate(finding.message),
    )


def trigger_payload(context: DecisionContext) -> Cause:
    """Tell of the change that made us look."""
    trigger = context.trigger
    return Cause(
        change=trigger.change, object=trigger.object_name, resource_version=trigger.resource_version
    )


def trigger_id(context: DecisionContext) -> str:
    """Return an id of that change, as far as a change has one."""
    trigger = context.trigger
    return "/".join(part for part in (str(trigger), trigger.resource_version) if part) or "start"


def action_payload(grace_period_s: int | None = None) -> What:
    """Tell of the action."""
    return What(action=EVICT, grace_period_seconds=grace_period_s)


def partition_key(context: DecisionContext) -> str:
    """Return where order holds: the topmost owner, else the pod itself."""
    return context.owners[-1].uid if context.owners else context.finding.pod.uid


def pod_subject(pod: Pod) -> str:
    """Name the pod as people do."""
    return f"{pod.namespace}/{pod.name}"


def decision_payload(decision: Decision) -> tuple[str, Verdict]:
    """Return the type of a decision's event, and what it says."""
    match decision:
        case Evict():
            return DECISION_EVICT, Verdict(verdict=EVICT)
        case Defer(gate=gate, message=reason):
            return DECISION_DEFER, Verdict(verdict="defer", gate=gate, reason=truncate(reason))
        case Refuse(gate=gate, message=reason, detail=detail):
            bounded_reason, bounded_detail = truncate(reason), truncate(detail)
            return DECISION_REFUSE, Verdict(
                verdict="refuse", gate=gate, reason=bounded_reason, detail=bounded_detail
            )


def outcome_payload(outcome: Outcome, took_ms: int | None) -> Ending:
    """Tell what came of an eviction."""
    return Ending(result=outcome.result, detail=truncate(outcome.message), took_ms=took_ms)


def outcome_event_type(outcome: Outcome) -> str:
    """Return the type of the event that ends an eviction like this."""
    return _OUTCOME_TYPES.get(outcome.result, EVICTION_REFUSED)
