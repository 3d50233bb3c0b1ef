"""The little of a record that readers choose and sort by, read without the rest."""

from typing import Final

import msgspec
from msgspec import Struct

from reactive_desched.api.event import PREFIX
from reactive_desched.errors import ConfigError


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


_decoder: Final = msgspec.json.Decoder(Summary)


def summary(raw: bytes) -> Summary | None:
    """Return the summary of a line; None when it is damaged."""
    try:
        return _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def short(type_: str) -> str:
    """Return a type without our prefix and its version."""
    return type_.removeprefix(PREFIX).rpartition(".v")[0] or type_


class Filter(Struct, frozen=True, gc=False, kw_only=True):
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
        return self == _EVERYTHING

    def wants(self, event: Summary) -> bool:
        """Say whether this event is wanted."""
        who, data = event.data.who, event.data
        return (
            (not self.types or _fits_type(event.type, self.types))
            and (not self.namespaces or who.namespace in self.namespaces)
            and (not self.nodes or who.node in self.nodes)
            and (not self.plugins or data.why.plugin in self.plugins)
            and (not self.outcomes or data.outcome.result in self.outcomes)
            and (not self.pods or not _names_of(who).isdisjoint(self.pods))
            and (not self.owners or any(_is_owner(one, self.owners) for one in who.owners))
        )


_EVERYTHING: Final = Filter()


def check_types(words: tuple[str, ...], known: tuple[str, ...]) -> None:
    """Raise ConfigError for a word that fits none of the known types."""
    for word in words:
        if not any(_fits_type(type_, (word,)) for type_ in known):
            names = ", ".join(sorted(map(short, known)))
            raise ConfigError(f"no type of event is called {word!r}; there are {names}")


def _fits_type(type_: str, words: tuple[str, ...]) -> bool:
    kind = short(type_)
    return any(word in (type_, kind) or kind.startswith(word + ".") for word in words)


def _names_of(who: WhoSummary) -> frozenset[str]:
    return frozenset({who.name, f"{who.namespace}/{who.name}", who.uid}) if who.uid else frozenset()


def _is_owner(owner: OwnerSummary, words: tuple[str, ...]) -> bool:
    return not {owner.name, f"{owner.kind}/{owner.name}", owner.uid}.isdisjoint(words)
