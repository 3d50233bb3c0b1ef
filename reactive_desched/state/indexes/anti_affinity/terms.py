"""What the affinity terms of pods come to, once for all templates that say the same."""

from collections.abc import Hashable
from enum import Enum

from reactive_desched.model.affinity_terms import NamespaceScope
from reactive_desched.model.labels import LabelSelector
from reactive_desched.state.indexes.anti_affinity.domains import TopologyDomains


class TermSemantics(Enum):
    """Who reads a term this way: the two differ where it has a namespaceSelector."""

    BOTH = "both"
    DESCHEDULER = "descheduler"
    SCHEDULER = "scheduler"


class SelectorQuery:
    """The active pods that a selector means in a scope of namespaces.

    `domains` has them by topology domain, for each label that somebody asked about; `avoidances`
    are the anti-affinity terms in use that mean these pods. `usable` is false for a selector that
    does not parse: it means nobody. `holders` counts who needs the selection kept.
    """

    __slots__ = (
        "anti_affinity_terms",
        "domains",
        "is_single_label",
        "is_valid",
        "key",
        "refs",
        "scope",
        "selector",
    )

    def __init__(self, scope: NamespaceScope, selector: LabelSelector, key: Hashable) -> None:
        self.scope = scope
        self.selector = selector
        self.key = key
        self.is_valid = not selector.validation_errors()
        self.is_single_label = len(selector.match_labels) == 1 and not selector.match_expressions
        self.domains: dict[str, TopologyDomains] = {}
        self.anti_affinity_terms: list[AntiAffinityTerm] = []
        self.refs = 0


class AntiAffinityTerm:
    """One required anti-affinity term: whom it means, and the active pods that declare it.

    `declarers` has those by the domains of the term's own topology label.
    """

    __slots__ = ("owners", "query", "refs", "semantics")

    def __init__(self, query: SelectorQuery, topology_key: str, semantics: TermSemantics) -> None:
        self.query = query
        self.semantics = semantics
        self.owners = TopologyDomains(topology_key)
        self.refs = 0

    @property
    def topology_key(self) -> str:
        """The topology label."""
        return self.owners.topology_key
