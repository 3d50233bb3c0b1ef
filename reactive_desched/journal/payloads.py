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
from reactive_desched.model.accounts import Account
from reactive_desched.model.decisions import Decision, Defer, Evict, Refuse
from reactive_desched.model.objects import Pod
from reactive_desched.model.outcomes import EVICTED, REHEARSED, UNKNOWN, Outcome

EVICT: Final = "evict"

LONGEST_TEXT: Final = 4096
"""Longer texts are cut, and say so: no reason may make a record too long for the journal."""

_ENDS: Final[Mapping[str, str]] = {
    EVICTED: EVICTION_SUCCEEDED,
    REHEARSED: EVICTION_REHEARSED,
    UNKNOWN: EVICTION_UNKNOWN,
}

LARGEST_NUMBER: Final = 2**53 - 1
"""Larger numbers are written as text: a reader that counts in doubles would change them."""


def bounded(text: str, most: int = LONGEST_TEXT) -> str:
    """Return the text, cut if it has more characters."""
    if len(text) <= most:
        return text
    return f"{text[:most]}… ({len(text) - most} more characters)"


def _figure(value: int | str) -> int | str:
    """Return what every reader of JSON understands alike: RFC 8785, section 3.2.2.3."""
    if isinstance(value, str):
        return bounded(value)
    return value if abs(value) <= LARGEST_NUMBER else str(value)


def who(account: Account) -> Who:
    """Tell of the pod."""
    pod = account.finding.pod
    return Who(
        name=pod.name,
        namespace=pod.namespace,
        node=pod.node,
        owners=tuple(
            [
                Owner(api_version=o.api_version, kind=o.kind, name=o.name, uid=o.uid)
                for o in account.owners
            ]
        ),
        uid=pod.uid,
        zone=account.zone,
    )


def why(account: Account, revision: str) -> Why:
    """Tell of the opinion."""
    finding = account.finding
    numbers = {name: _figure(value) for name, value in finding.numbers.items()}
    return Why(
        numbers=numbers,
        plugin=finding.plugin,
        policy_revision=revision,
        profile=account.profile,
        reason=bounded(finding.reason),
    )


def cause(account: Account) -> Cause:
    """Tell of the change that made us look."""
    trigger = account.trigger
    return Cause(
        change=trigger.change, object=trigger.about, resource_version=trigger.resource_version
    )


def cause_id(account: Account) -> str:
    """Return an id of that change, as far as a change has one."""
    trigger = account.trigger
    return "/".join(part for part in (str(trigger), trigger.resource_version) if part) or "start"


def what(grace_period_s: int | None = None) -> What:
    """Tell of the action."""
    return What(action=EVICT, grace_period_seconds=grace_period_s)


def partition_key(account: Account) -> str:
    """Return where order holds: the topmost owner, else the pod itself."""
    return account.owners[-1].uid if account.owners else account.finding.pod.uid


def subject(pod: Pod) -> str:
    """Name the pod as people do."""
    return f"{pod.namespace}/{pod.name}"


def verdict(decision: Decision) -> tuple[str, Verdict]:
    """Return the type of a decision's event, and what it says."""
    match decision:
        case Evict():
            return DECISION_EVICT, Verdict(verdict=EVICT)
        case Defer(gate=gate, reason=reason):
            return DECISION_DEFER, Verdict(verdict="defer", gate=gate, reason=bounded(reason))
        case Refuse(gate=gate, reason=reason, detail=detail):
            said, more = bounded(reason), bounded(detail)
            return DECISION_REFUSE, Verdict(verdict="refuse", gate=gate, reason=said, detail=more)


def ending(outcome: Outcome, took_ms: int | None) -> Ending:
    """Tell what came of an eviction."""
    return Ending(result=outcome.result, detail=bounded(outcome.detail), took_ms=took_ms)


def ending_type(outcome: Outcome) -> str:
    """Return the type of the event that ends an eviction like this."""
    return _ENDS.get(outcome.result, EVICTION_REFUSED)
