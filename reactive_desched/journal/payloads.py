"""Converts findings, decisions and outcomes to the payloads of events."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from reactive_desched.api.event import (
    DECISION_DEFER,
    DECISION_EVICT,
    DECISION_REFUSE,
    EVICTION_DRY_RUN,
    EVICTION_REFUSED,
    EVICTION_SUCCEEDED,
    EVICTION_UNKNOWN,
    Cause,
    Ending,
    FollowUp,
    Owner,
    PolicyFile,
    Replacement,
    Verdict,
    What,
    Who,
    Why,
)
from reactive_desched.model.clock_pair import ClockPair
from reactive_desched.model.decisions import Decision, Defer, Evict, Refuse
from reactive_desched.model.evaluation import DecisionContext
from reactive_desched.model.eviction_options import BY_EVICTION, EVICTION, EvictionOptions
from reactive_desched.model.evictor_table import EVICTORS, evictor_named
from reactive_desched.model.moves import MoveEnd
from reactive_desched.model.objects import OwnerReference, Pod
from reactive_desched.model.outcomes import DRY_RUN, EVICTED, UNKNOWN, Outcome
from reactive_desched.primitives.bounded_text import truncate
from reactive_desched.telemetry.logs import REDACTED, blank_secrets

_EVICTOR_OF: Final = {each.action: each.name for each in EVICTORS.values()}

_OUTCOME_TYPES: Final[Mapping[str, str]] = {
    EVICTED: EVICTION_SUCCEEDED,
    DRY_RUN: EVICTION_DRY_RUN,
    UNKNOWN: EVICTION_UNKNOWN,
}

MAX_SAFE_INTEGER: Final = 2**53 - 1
"""Larger numbers are written as text: a reader with double precision would round them."""


MAX_POLICY_BYTES: Final = 48 * 1024
"""A longer file of the policy is recorded by its digest: a record has a bound."""

_URL: Final = re.compile(
    r"(?i)\b(https?://)(?:[^\s/@'\"]*@)?([^\s/?#'\",}\]]+)(?:[/?#][^\s'\",}\]]+)?"
)


def _safe_json_value(value: int | str) -> int | str:
    """Return a value that every JSON reader reads alike: RFC 8785, section 3.2.2.3."""
    if isinstance(value, str):
        return truncate(value)
    return value if abs(value) <= MAX_SAFE_INTEGER else str(value)


def _without_path(url: re.Match[str]) -> str:
    address = f"{url[1]}{url[2]}"
    return url[0] if address == url[0] else f"{address}/{REDACTED}"


def policy_file_payload(
    name: str, sha256: str, text: str, *, size: int = 0, path: str = ""
) -> PolicyFile:
    """Return a file of the policy; URLs are cut after the host, as the rest may be secret."""
    shown = without_secrets(text)
    if len(shown.encode(errors="replace")) > MAX_POLICY_BYTES:
        shown = ""
    return PolicyFile(
        name=truncate(name), path=truncate(path), sha256=sha256, size=size, text=shown
    )


def without_secrets(text: str) -> str:
    """Return the text of a file of the policy as a record holds it."""
    return blank_secrets(_URL.sub(_without_path, text))


def who_payload(pod: Pod, owners: Iterable[OwnerReference], zone: str) -> Who:
    """Return a pod with its owners and zone."""
    return Who(
        name=pod.name,
        namespace=pod.namespace,
        node=pod.node,
        owners=tuple(
            [Owner(api_version=o.api_version, kind=o.kind, name=o.name, uid=o.uid) for o in owners]
        ),
        template_hash=pod.template_hash,
        uid=pod.uid,
        zone=zone,
    )


def why_payload(context: DecisionContext, revision: str) -> Why:
    """Return the plugin, its message and its numbers."""
    finding = context.finding
    numbers = {name: _safe_json_value(value) for name, value in finding.details.items()}
    return Why(
        message=truncate(finding.message),
        numbers=numbers,
        plugin=finding.plugin,
        policy_revision=revision,
        profile=context.profile,
    )


def trigger_payload(context: DecisionContext) -> Cause:
    """Return the change that led to the judgement."""
    trigger = context.trigger
    return Cause(
        change=trigger.change, object=trigger.object_name, resource_version=trigger.resource_version
    )


def trigger_id(context: DecisionContext) -> str:
    """Return an id of that change; "start" when there is none."""
    trigger = context.trigger
    return "/".join([part for part in (str(trigger), trigger.resource_version) if part]) or "start"


def action_payload(options: EvictionOptions = BY_EVICTION) -> What:
    """Return the action."""
    action = evictor_named(options.evictor).action
    return What(action=action, grace_period_seconds=options.grace_period_s)


def evictor_of(what: What) -> str:
    """Return the evictor of a recorded action; one that a later version wrote is an eviction."""
    return _EVICTOR_OF.get(what.action, EVICTION)


def partition_key(context: DecisionContext) -> str:
    """Return the key within which events are ordered: the topmost owner's uid, or the pod's."""
    return context.owners[-1].uid if context.owners else context.finding.pod.uid


def pod_subject(pod: Pod) -> str:
    """Return NAMESPACE/NAME of the pod."""
    return f"{pod.namespace}/{pod.name}"


def decision_payload(decision: Decision, clocks: ClockPair) -> tuple[str, Verdict]:
    """Return the type of a decision's event, and its payload."""
    match decision:
        case Evict():
            return DECISION_EVICT, Verdict(verdict="evict")
        case Defer():
            return DECISION_DEFER, _blocked("defer", decision, clocks)
        case Refuse():
            return DECISION_REFUSE, _blocked("refuse", decision, clocks)


def _blocked(verdict: str, decision: Defer | Refuse, clocks: ClockPair) -> Verdict:
    message = truncate(decision.record(clocks))
    return Verdict(verdict=verdict, gate=decision.gate, message=message, reason=decision.reason)


def outcome_payload(outcome: Outcome, took_ms: int | None) -> Ending:
    """Return the outcome of an eviction; `took_ms` is None when the start is not known."""
    message = truncate(outcome.message)
    return Ending(result=outcome.result, message=message, reason=outcome.reason, took_ms=took_ms)


def follow_up_payload(end: MoveEnd) -> FollowUp:
    """Return the data of the record that follows up an eviction."""
    replacement = (
        Replacement(name=end.replacement, node=end.node, uid=end.replacement_uid)
        if end.replacement_uid
        else None
    )
    return FollowUp(
        result=end.result,
        finding_holds=end.finding_holds,
        message=end.message,
        ready_ms=_milliseconds(end.ready_s),
        replacement=replacement,
        scheduled_ms=_milliseconds(end.scheduled_s),
    )


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def outcome_event_type(outcome: Outcome) -> str:
    """Return the type of the event with this outcome."""
    return _OUTCOME_TYPES.get(outcome.result, EVICTION_REFUSED)
