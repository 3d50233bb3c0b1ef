"""Node selectors and node affinity, as component-helpers' nodeaffinity reads them."""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from msgspec import Struct

from reactive_desched.model.labels import Labels, Requirement

NAME_FIELD: Final = "metadata.name"
"""The only field of a node that a term can be about."""


class NodeSelectorTerm(Struct, frozen=True, gc=False, rename="camel"):
    """One alternative: every expression and every field must hold; an empty term never does."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()
    usable: bool = True
    """Whether the term has parts and parses; found out once, when the term is made."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "usable", self._validate())

    def matches(self, name: str, labels: Labels) -> bool:
        """Say whether a node of this name and these labels satisfies the term."""
        if not self.usable:
            return False
        for part in self.match_expressions:
            if not part.matches(labels):
                return False
        return not self.match_fields or all(
            part.matches({NAME_FIELD: name}) for part in self.match_fields
        )

    def _validate(self) -> bool:
        return bool(self.match_expressions or self.match_fields) and (
            all(part.validation_error() is None for part in self.match_expressions)
            and all(
                part.key == NAME_FIELD
                and part.operator in ("In", "NotIn")
                and len(part.values) == 1
                for part in self.match_fields
            )
        )

    def label_keys(self) -> Iterable[str]:
        """Name the labels this term reads."""
        return (part.key for part in self.match_expressions)


class NodeSelector(Struct, frozen=True, gc=False, rename="camel"):
    """Alternatives joined by OR; none at all matches no node."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()

    def matches(self, name: str, labels: Labels) -> bool:
        """Say whether any term is satisfied."""
        for term in self.node_selector_terms:  # noqa: SIM110 -- any() costs twice as much here
            if term.matches(name, labels):
                return True
        return False

    def is_malformed(self) -> bool:
        """Say whether a term has parts that do not parse, which the API server rejects."""
        return any(
            not term.usable and bool(term.match_expressions or term.match_fields)
            for term in self.node_selector_terms
        )


class PreferredTerm(Struct, frozen=True, gc=False):
    """A preferred term with a weight of 1 to 100."""

    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(Struct, frozen=True, gc=False):
    """A pod's required and preferred node affinity."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[PreferredTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


def satisfies_required(
    selector: Labels, affinity: NodeAffinity | None, name: str, labels: Labels
) -> bool:
    """Say whether a node meets nodeSelector and required node affinity, both where present."""
    for key, value in selector.items():
        if labels.get(key) != value:
            return False
    if affinity is None or affinity.required is None:
        return True
    return affinity.required.matches(name, labels)


def label_keys(selector: Labels, affinity: NodeAffinity | None) -> set[str]:
    """Name the labels of nodes that nodeSelector and node affinity read."""
    keys = {*selector}
    if affinity is not None:
        required = () if affinity.required is None else affinity.required.node_selector_terms
        for term in (*required, *(each.preference for each in affinity.preferred)):
            keys.update(term.label_keys())
    return keys


def mismatch_wait_s(
    selector: Labels,
    affinity: NodeAffinity,
    name: str,
    labels: Labels,
    wait_s: Callable[[str], float],
) -> float:
    """Return for how long a violation of what is required must still last to be a reason.

    `wait_s` answers for one label. A term that fails in several labels has failed since the first
    of them did; the affinity as a whole, since the last of its terms did.
    """
    waits = [wait_s(key) for key, value in selector.items() if labels.get(key) != value]
    if affinity.required is not None and not affinity.required.matches(name, labels):
        terms = affinity.required.node_selector_terms
        waits.append(max((_term_wait_s(term, labels, wait_s) for term in terms), default=0.0))
    return min(waits, default=0.0)


def missed_preference_wait_s(
    terms: Iterable[PreferredTerm], name: str, labels: Labels, wait_s: Callable[[str], float]
) -> float:
    """Return for how long the preferred terms that a node misses must still be missed to count."""
    missed = (term.preference for term in terms if not term.preference.matches(name, labels))
    return max((_term_wait_s(term, labels, wait_s) for term in missed), default=0.0)


def _term_wait_s(term: NodeSelectorTerm, labels: Labels, wait_s: Callable[[str], float]) -> float:
    failing = [part.key for part in term.match_expressions if not part.matches(labels)]
    return min(map(wait_s, failing), default=0.0)


def preferred_weight(terms: Iterable[PreferredTerm], name: str, labels: Labels) -> int:
    """Sum the weights of the preferred terms that a node matches."""
    return sum(term.weight for term in terms if term.preference.matches(name, labels))
