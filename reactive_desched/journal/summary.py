"""The little of a record that readers choose and sort by, read without the rest."""

from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from reactive_desched.errors import ConfigError
from reactive_desched.model.event_types import names_of, short
from reactive_desched.primitives.decode_errors import UNDECODABLE


class OwnerSummary(Struct, frozen=True, gc=False):
    """An owner of the pod."""

    kind: str = ""
    name: str = ""
    uid: str = ""


class WhoSummary(Struct, frozen=True, gc=False):
    """The pod."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    node: str = ""
    owners: tuple[OwnerSummary, ...] = ()


class WhySummary(Struct, frozen=True, gc=False):
    """Whose opinion it was."""

    plugin: str = ""
    profile: str = ""
    reason: str = ""


class VerdictSummary(Struct, frozen=True, gc=False):
    """What the gates said."""

    verdict: str = ""
    gate: str = ""
    reason: str = ""
    detail: str = ""


class EndingSummary(Struct, frozen=True, gc=False):
    """What came of it."""

    result: str = ""
    detail: str = ""


class DataSummary(Struct, frozen=True, gc=False):
    """The parts of data, each empty where a type has none of it."""

    mode: str = ""
    who: WhoSummary = WhoSummary()
    why: WhySummary = WhySummary()
    decision: VerdictSummary = VerdictSummary()
    outcome: EndingSummary = EndingSummary()


class Summary(Struct, frozen=True, gc=False):
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
        return short(self.type)

    def names(self, field: str) -> Collection[str]:
        """Return what the event goes by in this field of a Filter."""
        return _NAMES[field](self)


_decoder: Final = msgspec.json.Decoder(Summary)


def summary(raw: bytes) -> Summary | None:
    """Return the summary of a line; None when it is damaged."""
    try:
        return _decoder.decode(raw)
    except UNDECODABLE:
        return None


class Named(Protocol):
    """What a Filter is asked about: a Summary, or somebody who remembers what it said."""

    def names(self, field: str) -> Collection[str]:
        """Return what the event goes by in this field of a Filter."""
        ...


class Filter(Struct, frozen=True, kw_only=True, dict=True):
    """Which events are wanted: for each field that is not empty, one of its words must fit.

    A type fits as eviction.succeeded, as its family (eviction), or in full. An owner fits by name,
    KIND/NAME or uid, anywhere in the chain. A pod fits by name, NAMESPACE/NAME or uid.
    """

    types: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Say whether everything is wanted."""
        return not self._asked

    def wants(self, event: Named) -> bool:
        """Say whether this event is wanted."""
        for field, words in self._asked:  # noqa: SIM110  # many clients ask: all() takes twice as long
            if words.isdisjoint(event.names(field)):
                return False
        return True

    @cached_property
    def _asked(self) -> tuple[tuple[str, frozenset[str]], ...]:
        chosen = ((field, getattr(self, field)) for field in self.__struct_fields__)
        return tuple((field, frozenset(words)) for field, words in chosen if words)


def check_types(words: tuple[str, ...], known: tuple[str, ...]) -> None:
    """Raise ConfigError for a word that fits none of the known types."""
    for word in words:
        if not any(word in names_of(type_) for type_ in known):
            names = ", ".join(sorted(map(short, known)))
            raise ConfigError(f"no type of event is called {word!r}; there are {names}")


def _names_of_pod(event: Summary) -> tuple[str, ...]:
    who = event.data.who
    return (who.name, f"{who.namespace}/{who.name}", who.uid) if who.uid else ()


def _names_of_owners(event: Summary) -> list[str]:
    owners = event.data.who.owners
    return [name for one in owners for name in (one.name, f"{one.kind}/{one.name}", one.uid)]


_NAMES: Final[Mapping[str, Callable[[Summary], Collection[str]]]] = {
    "types": lambda event: names_of(event.type),
    "namespaces": lambda event: (event.data.who.namespace,),
    "owners": _names_of_owners,
    "pods": _names_of_pod,
    "nodes": lambda event: (event.data.who.node,),
    "plugins": lambda event: (event.data.why.plugin,),
    "outcomes": lambda event: (event.data.outcome.result,),
}
"""How an event is called in each field of a Filter."""
