"""A cluster whose pods keep away from each other, and short questions about who is near whom."""

from collections.abc import Iterable

from reactive_desched.model.changes import Change
from reactive_desched.model.labels import parse_selector
from reactive_desched.model.objects import ZONE_LABEL, ClusterObject, Pod, PodAffinityTerm
from reactive_desched.model.subjects import NodeSubject, PodSubject
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.state.indexes.pod_affinity import (
    AntiAffinityResolved,
    ForbiddenPodsChanged,
    PodAffinity,
)
from reactive_desched.state.indexes.topology_domains import TopologyDomains
from reactive_desched.testing.anti_affinity import (
    anti_affinity_term,
    db_pod,
    pod_avoiding_db,
    selector,
)
from reactive_desched.testing.builders import node, pod

ZONES = node("n1", zone="a"), node("n2", zone="a"), node("n3", zone="b")
DB_ANTI_AFFINITY = anti_affinity_term("app=db", ZONE_LABEL)
POD_AVOIDING_DB = pod_avoiding_db("shy", "n1", DB_ANTI_AFFINITY, labels={"app": "web"})
NEAR_POD, FAR_POD = db_pod("near", "n2"), db_pod("far", "n3")


class PodAffinityCluster:
    """A cluster of these things; `selects` says which nodes count."""

    def __init__(self, *objects: ClusterObject, selects: str = "") -> None:
        self.state = ClusterState(parse_selector(selects))
        self.view = ClusterView(self.state, lambda: 0.0)
        self.index = self.state.index(PodAffinity)
        self.apply(*objects)

    def apply(self, *objects: ClusterObject) -> list[Change]:
        """Let objects appear or change."""
        return [change for obj in objects for change in self.state.upsert(obj)]

    def remove(self, *objects: ClusterObject) -> list[Change]:
        """Let objects vanish."""
        return [change for obj in objects for change in self.state.remove(obj)]

    def conflicts_of(self, uid: str) -> list[set[str]]:
        """Name, for each term over a label of its node, whom a pod avoids and is near."""
        placed = self.view.active_pod(uid)
        assert placed is not None
        return [{p.uid for p in pods} for _, pods in self.index.forbidden_near(*placed)]

    def conflicts_in_sweep(self, uid: str) -> list[set[str] | None]:
        """Name, term by term, whom a pod avoids and is near for the SIG descheduler."""
        placed = self.view.active_pod(uid)
        assert placed is not None
        nearby = (pods for _, pods in self.index.forbidden_in_sweep(*placed))
        return [None if pods is None else {p.uid for p in pods} for pods in nearby]

    def pods_conflicting_with(self, uid: str) -> set[str]:
        """Name those who avoid a pod and are near it."""
        return {p.uid for p in self.index.violated_by(PodSubject(uid))}

    def pods_conflicting_on_node(self, name: str, *keys: str) -> set[str]:
        """Name those who avoid somebody near on a node, by these topology labels if any."""
        subject = NodeSubject(name)
        names = (
            self.index.violated_by(subject, frozenset(keys))
            if keys
            else self.index.violated_by(subject)
        )
        return {p.uid for p in names}

    def forbidden_domains(self, one: Pod) -> set[tuple[str, str, str]]:
        """Name the domains, and who declares it there, that a pod is kept out of."""
        return {
            (avoidance.topology_key, value, uid)
            for avoidance in self.index.terms_matching(one)
            for value in avoidance.owners.values()
            for uid in avoidance.owners.pods(value)
        }

    def pods_matching_term(
        self, term: PodAffinityTerm, namespace: str = "default"
    ) -> dict[str, set[str]]:
        """Name whom a term of a pod in a namespace means, by domain."""
        return by_domain(self.index.matching_term(term, pod("asks", namespace=namespace)))

    def pods_matching_selector(
        self, text: str, key: str = ZONE_LABEL, namespace: str = "default"
    ) -> dict[str, set[str]]:
        """Name the pods of a namespace that a selector text means, by domain."""
        return by_domain(self.index.matching_selector(namespace, selector(text), key))


def by_domain(domains: TopologyDomains) -> dict[str, set[str]]:
    """Name the pods of each domain; the ways to ask that of it must agree."""
    values = list(domains.values())
    pods = {value: set(domains.pods(value)) for value in values}
    assert len(values) == len(pods)
    assert {value: domains.count(value) for value in pods} == {v: len(p) for v, p in pods.items()}
    assert bool(domains) == bool(pods)
    return pods


def resolved_pods(changes: Iterable[Change]) -> set[str]:
    """Name the pods that have lost a pod they must not be near."""
    return {
        uid for change in changes if isinstance(change, AntiAffinityResolved) for uid in change.pods
    }


def pods_to_judge_anew(changes: Iterable[Change]) -> set[str]:
    """Name the pods of which other pods are forbidden near them, or count."""
    return {
        uid for change in changes if isinstance(change, ForbiddenPodsChanged) for uid in change.pods
    }
