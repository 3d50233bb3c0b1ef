"""Reads only the members of a record that readers filter and sort by."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from reactive_desched.api.reason_codes import REASON_CODES
from reactive_desched.errors import ConfigError
from reactive_desched.model.disruptions import CAUSES
from reactive_desched.model.event_types import short_type, type_names
from reactive_desched.model.outcomes import RESULTS
from reactive_desched.primitives.decode_errors import DECODE_ERRORS
from reactive_desched.primitives.hints import did_you_mean, not_one_of, quote
from reactive_desched.text.workloads import key_of_name, workload_key, workload_words


class OwnerSummary(Struct, frozen=True, gc=False):
    """An owner of the pod."""

    kind: str = ""
    name: str = ""
    uid: str = ""


class PodSummary(Struct, frozen=True, gc=False):
    """The pod."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    node: str = ""
    owners: tuple[OwnerSummary, ...] = ()

    @property
    def workload(self) -> str:
        """The topmost owner as NAMESPACE/KIND/NAME; of a bare pod, the pod itself."""
        if not self.owners:
            return workload_key("Pod", self.namespace, self.name)
        top = self.owners[-1]
        return workload_key(top.kind, self.namespace, top.name)


class FindingSummary(Struct, frozen=True, gc=False):
    """The plugin that made a finding."""

    plugin: str = ""
    profile: str = ""
    message: str = ""


class DecisionSummary(Struct, frozen=True, gc=False):
    """The gates' decision."""

    verdict: str = ""
    gate: str = ""
    reason: str = ""
    message: str = ""


class OutcomeSummary(Struct, frozen=True, gc=False):
    """The outcome of an intent."""

    result: str = ""
    reason: str = ""
    message: str = ""


class DataSummary(Struct, frozen=True, gc=False):
    """The parts of data, each empty where a type has none of it."""

    mode: str = ""
    who: PodSummary = PodSummary()
    why: FindingSummary = FindingSummary()
    decision: DecisionSummary = DecisionSummary()
    outcome: OutcomeSummary = OutcomeSummary()
    cause: str = ""

    @property
    def reason(self) -> str:
        """The reason code of the decision or outcome, or what ended the pod; no event has two."""
        return self.decision.reason or self.outcome.reason or self.cause


class EventSummary(Struct, frozen=True, gc=False):
    """An event, as far as lists and filters care; `time` is RFC 3339 in UTC."""

    id: str
    type: str
    time: str
    sequence: str
    subject: str = ""
    partitionkey: str = ""
    correlationid: str = ""
    causationid: str = ""
    data: DataSummary = DataSummary()

    @property
    def seq(self) -> int:
        """The place in the journal."""
        return int(self.sequence)

    @property
    def kind(self) -> str:
        """The type without our prefix and without its version, such as eviction.succeeded."""
        return short_type(self.type)

    def field_values(self, field: str) -> Collection[str]:
        """Return the event's values that this field of a filter is compared with."""
        return _FIELD_VALUES[field](self)


_decoder: Final = msgspec.json.Decoder(EventSummary)


def parse_summary(raw: bytes) -> EventSummary | None:
    """Return the summary of a line; None when it is damaged."""
    try:
        return _decoder.decode(raw)
    except DECODE_ERRORS:
        return None


class Filterable(Protocol):
    """The members that an EventFilter reads: of a summary of a record, or of the record itself."""

    def field_values(self, field: str) -> Collection[str]:
        """Return the values of the event that this field of a Filter is compared with."""
        ...


class EventFilter(Struct, frozen=True, kw_only=True, dict=True):
    """A filter of events: for each field that is not empty, one of its words must match.

    A type fits as eviction.succeeded, as its family (eviction), or in full. An owner fits by name,
    KIND/NAME, KIND NAMESPACE/NAME, NAMESPACE/KIND/NAME or uid, anywhere in the chain. A pod fits by
    name, NAMESPACE/NAME or uid. A reason is the code of a decision or an outcome, or the cause of a
    disruption. In each word but a type, * stands for any text and ? for one character.
    """

    types: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def owner_words(self) -> tuple[str, ...]:
        """The words for owners, with NAMESPACE/KIND/NAME in place of KIND NAMESPACE/NAME."""
        return tuple(map(key_of_name, self.owners))

    @property
    def is_empty(self) -> bool:
        """Say whether everything is wanted."""
        return not self._criteria

    def matches(self, event: Filterable) -> bool:
        """Say whether this event is wanted."""
        for (
            field,
            accepted,
            pattern,
        ) in self._criteria:  # many clients ask: all() takes twice as long
            values = event.field_values(field)
            if accepted.isdisjoint(values) and not (
                pattern and any(map(pattern.fullmatch, values))
            ):
                return False
        return True

    @cached_property
    def _criteria(self) -> "tuple[tuple[str, frozenset[str], re.Pattern[str] | None], ...]":
        given = {field: getattr(self, field) for field in self.__struct_fields__}
        fields = (given | {"owners": self.owner_words}).items()
        return tuple(
            (field, frozenset(words), _any_pattern(words)) for field, words in fields if words
        )


def is_pattern(word: str) -> bool:
    """Return whether a word of a filter is a pattern: it has * or ? in it."""
    return "*" in word or "?" in word


def _any_pattern(words: tuple[str, ...]) -> "re.Pattern[str] | None":
    """Return what matches a text that fits one of the patterns among the words.

    The key of a workload, NAMESPACE/KIND/NAME, fits no pattern with fewer slashes.
    """
    patterns = [
        ("" if word.count("/") > 1 else "(?!(?:.*/){2})")
        + re.escape(word).replace(r"\*", ".*").replace(r"\?", ".")
        for word in words
        if is_pattern(word)
    ]
    return re.compile("|".join(patterns), re.DOTALL) if patterns else None


def check_outcomes(outcomes: tuple[str, ...]) -> None:
    """Raise ConfigError for a word that is no outcome and no pattern."""
    for outcome in outcomes:
        if outcome not in RESULTS and not is_pattern(outcome):
            raise ConfigError(f"outcome {not_one_of(outcome, sorted(RESULTS))}")


def check_reasons(codes: Iterable[str]) -> None:
    """Raise ConfigError for a code of no gate, outcome or disruption.

    A pattern may mean an older one.
    """
    known = sorted({*REASON_CODES, *CAUSES})
    for code in codes:
        if code not in known and not is_pattern(code):
            meant = did_you_mean(code, known)
            unknown = f"{quote(code)} is unknown; {meant}" if meant else not_one_of(code, known)
            raise ConfigError(f"reason {unknown}; for one of another version, write '{code}*'")


def check_types(types: tuple[str, ...], known_types: tuple[str, ...]) -> None:
    """Raise ConfigError for a word that fits none of the known types."""
    for type_name in types:
        if not any(type_name in type_names(type_) for type_ in known_types):
            names = sorted({short_type(name) for each in known_types for name in type_names(each)})
            raise ConfigError(f"type {not_one_of(type_name, names)}")


def _pod_names(event: EventSummary) -> tuple[str, ...]:
    who = event.data.who
    return (who.name, f"{who.namespace}/{who.name}", who.uid) if who.uid else ()


def _owner_names(event: EventSummary) -> list[str]:
    who = event.data.who
    return [
        word
        for one in who.owners
        for word in workload_words(one.kind, who.namespace, one.name, one.uid)
    ]


_FIELD_VALUES: Final[Mapping[str, Callable[[EventSummary], Collection[str]]]] = {
    "types": lambda event: type_names(event.type),
    "namespaces": lambda event: (event.data.who.namespace,),
    "owners": _owner_names,
    "pods": _pod_names,
    "nodes": lambda event: (event.data.who.node,),
    "plugins": lambda event: (event.data.why.plugin,),
    "outcomes": lambda event: (event.data.outcome.result,),
    "reasons": lambda event: (event.data.reason,),
}
"""How an event is called in each field of a Filter."""
