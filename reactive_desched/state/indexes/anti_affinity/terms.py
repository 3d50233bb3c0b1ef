"""What the affinity terms of pods come to, once for all templates that say the same."""

from collections.abc import Hashable
from enum import Enum

from reactive_desched.model.affinity_terms import Scope
from reactive_desched.model.labels import LabelSelector
from reactive_desched.state.indexes.anti_affinity.domains import Domains


class Reading(Enum):
    """Who reads a term this way: the two differ where it has a namespaceSelector."""

    BOTH = "both"
    DESCHEDULER = "descheduler"
    SCHEDULER = "scheduler"


class Selection:
    """The active pods that a selector means in a scope of namespaces.

    `domains` has them by topology domain, for each label that somebody asked about; `avoidances`
    are the anti-affinity terms in use that mean these pods. `usable` is false for a selector that
    does not parse: it means nobody. `holders` counts who needs the selection kept.
    """

    __slots__ = (
        "avoidances",
        "content",
        "domains",
        "holders",
        "is_plain",
        "scope",
        "selector",
        "usable",
    )

    def __init__(self, scope: Scope, selector: LabelSelector, content: Hashable) -> None:
        self.scope = scope
        self.selector = selector
        self.content = content
        self.usable = not selector.problems()
        self.is_plain = len(selector.match_labels) == 1 and not selector.match_expressions
        self.domains: dict[str, Domains] = {}
        self.avoidances: list[Avoidance] = []
        self.holders = 0


class Avoidance:
    """One required anti-affinity term: whom it means, and the active pods that declare it.

    `declarers` has those by the domains of the term's own topology label.
    """

    __slots__ = ("declarers", "holders", "reading", "selection")

    def __init__(self, selection: Selection, key: str, reading: Reading) -> None:
        self.selection = selection
        self.reading = reading
        self.declarers = Domains(key)
        self.holders = 0

    @property
    def key(self) -> str:
        """The topology label."""
        return self.declarers.key
