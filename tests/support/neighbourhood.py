"""A cluster whose pods keep away from each other, and short questions about who is near whom."""

from collections.abc import Iterable

from reactive_desched.model.changes import AntiAffinityEased, Change
from reactive_desched.model.labels import parse_selector
from reactive_desched.model.objects import ZONE_LABEL, ClusterObject, Pod, PodAffinityTerm
from reactive_desched.model.subjects import OnePod, OnNode
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.indexes.anti_affinity.domains import Domains
from reactive_desched.state.view import ClusterView
from reactive_desched.testing.anti_affinity import avoid, db, selector, shy
from reactive_desched.testing.builders import node

ZONES = node("n1", zone="a"), node("n2", zone="a"), node("n3", zone="b")
AVOIDS_DB = avoid("app=db", ZONE_LABEL)
SHY = shy("shy", "n1", AVOIDS_DB, labels={"app": "web"})
NEAR, FAR = db("near", "n2"), db("far", "n3")


class Neighbourhood:
    """A cluster of these things; `selects` says which nodes count."""

    def __init__(self, *things: ClusterObject, selects: str = "") -> None:
        self.state = ClusterState(parse_selector(selects))
        self.view = ClusterView(self.state, lambda: 0.0)
        self.apply(*things)

    def apply(self, *things: ClusterObject) -> list[Change]:
        """Let objects appear or change."""
        return [change for thing in things for change in self.state.upsert(thing)]

    def remove(self, *things: ClusterObject) -> list[Change]:
        """Let objects vanish."""
        return [change for thing in things for change in self.state.remove(thing)]

    def avoided(self, uid: str) -> list[set[str] | None]:
        """Name, term by term, whom a pod avoids and is near."""
        placed = self.view.placed(uid)
        assert placed is not None
        nearby = (pods for _, pods in self.view.avoided(*placed))
        return [None if pods is None else {p.uid for p in pods} for pods in nearby]

    def avoiding(self, uid: str) -> set[str]:
        """Name those who avoid a pod and are near it."""
        return {p.uid for p in self.view.avoiding(OnePod(uid))}

    def avoiding_on(self, name: str, *keys: str) -> set[str]:
        """Name those who avoid somebody near on a node, by these topology labels if any."""
        subject = OnNode(name)
        found = (
            self.view.avoiding(subject, frozenset(keys)) if keys else self.view.avoiding(subject)
        )
        return {p.uid for p in found}

    def repelled(self, one: Pod) -> set[tuple[str, str, str]]:
        """Name the domains, and who declares it there, that a pod is kept out of."""
        return {
            (avoidance.key, value, uid)
            for avoidance in self.view.repelling(one)
            for value in avoidance.declarers.values()
            for uid in avoidance.declarers.pods(value)
        }

    def matching(self, term: PodAffinityTerm, namespace: str = "default") -> dict[str, set[str]]:
        """Name whom a term of a pod in a namespace means, by domain."""
        return by_domain(self.view.matching(term, namespace))

    def selected(
        self, text: str, key: str = ZONE_LABEL, namespace: str = "default"
    ) -> dict[str, set[str]]:
        """Name the pods of a namespace that a selector text means, by domain."""
        return by_domain(self.view.selected(namespace, selector(text), key))


def by_domain(domains: Domains) -> dict[str, set[str]]:
    """Name the pods of each domain; the ways to ask that of it must agree."""
    values = list(domains.values())
    found = {value: set(domains.pods(value)) for value in values}
    assert len(values) == len(found)
    assert {value: domains.count(value) for value in found} == {v: len(p) for v, p in found.items()}
    assert bool(domains) == bool(found)
    return found


def eased(changes: Iterable[Change]) -> set[str]:
    """Name the pods that have lost a pod they must not be near."""
    return {
        uid for change in changes if isinstance(change, AntiAffinityEased) for uid in change.pods
    }
