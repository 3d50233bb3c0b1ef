"""Filters about other pods: required affinity and anti-affinity, in both directions."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from reactive_desched.model.labels import Labels
from reactive_desched.model.objects import PodAffinityTerm as PodTerm
from reactive_desched.sim.scheduling.filters import Candidate, Check, Unresolvable
from reactive_desched.sim.scheduling.scheduler_cache import NodeRoom, PodGroup, SchedulerCache

__all__ = ["Domain", "domain_counts", "inter_pod_affinity", "term_covers"]

Domain: TypeAlias = tuple[str, str]
"""A topology key and a node's value for it."""

_NO_AFFINITY: Final = (Unresolvable("node(s) didn't match pod affinity rules"),)
_OWN_ANTI: Final = ("node(s) didn't match pod anti-affinity rules",)
_THEIR_ANTI: Final = ("node(s) didn't satisfy existing pods anti-affinity rules",)


def term_covers(
    term: PodTerm, home: str, namespace: str, namespace_labels: Labels, labels: Labels
) -> bool:
    """Say whether a term of a pod in `home` speaks of a pod with these labels elsewhere.

    Without any namespace field the term speaks of its own namespace only; a namespace selector
    adds to the listed namespaces, and an absent label selector selects no pod.
    """
    if term.label_selector is None or not term.label_selector.matches(labels):
        return False
    if term.namespace_selector is None:
        return namespace in (term.namespaces or (home,))
    return namespace in term.namespaces or term.namespace_selector.matches(namespace_labels)


def inter_pod_affinity(pod: Candidate, picture: SchedulerCache) -> Check | None:
    """Honour the pod's own required terms, and those of the pods that are there already."""
    wanted = _wanted_domains(pod, picture)
    avoided = _avoided_domains(pod, picture)
    refused = _refusing_domains(pod, picture)
    terms = pod.needs.affinity
    lonely = bool(terms) and not wanted and _accepts_itself(pod, picture)
    if not (terms or avoided or refused):
        return None

    def check(room: NodeRoom) -> Iterable[str]:
        if not _is_wanted(terms, room, wanted, lonely=lonely):
            return _NO_AFFINITY
        if avoided and any(
            _domain(t.topology_key, room) in avoided for t in pod.needs.anti_affinity
        ):
            return _OWN_ANTI
        if refused and any(item in refused for item in room.labels.items()):
            return _THEIR_ANTI
        return ()

    return check


def domain_counts(group: PodGroup, key: str, picture: SchedulerCache) -> Mapping[Domain, int]:
    """Count a group's pods per domain of a topology key; nodes without the key do not count."""
    counts: dict[Domain, int] = {}
    for node, number in group.on.items():
        room = picture.room(node)
        if room is not None and (domain := _domain(key, room)) is not None:
            counts[domain] = counts.get(domain, 0) + number
    return counts


def _domain(key: str, room: NodeRoom) -> Domain | None:
    value = room.labels.get(key)
    return None if value is None else (key, value)


def _covers(term: PodTerm, pod: Candidate, group: PodGroup, picture: SchedulerCache) -> bool:
    """Say whether a term of the incoming pod speaks of a group of existing ones."""
    there = picture.namespaces.get(group.namespace, {})
    return term_covers(term, pod.namespace, group.namespace, there, group.needs.labels)


def _wanted_domains(pod: Candidate, picture: SchedulerCache) -> set[Domain]:
    """Return the domains of existing pods that match all affinity terms at once."""
    terms = pod.needs.affinity
    domains: set[Domain] = set()
    if not terms:
        return domains
    for group in picture.groups():
        if all(_covers(term, pod, group, picture) for term in terms):
            for term in terms:
                domains.update(domain_counts(group, term.topology_key, picture))
    return domains


def _accepts_itself(pod: Candidate, picture: SchedulerCache) -> bool:
    """Say whether the first pod of a group may start alone: it matches all its own terms."""
    here = picture.namespaces.get(pod.namespace, {})
    return all(
        term_covers(term, pod.namespace, pod.namespace, here, pod.needs.labels)
        for term in pod.needs.affinity
    )


def _is_wanted(
    terms: tuple[PodTerm, ...], room: NodeRoom, wanted: set[Domain], *, lonely: bool
) -> bool:
    for term in terms:
        domain = _domain(term.topology_key, room)
        if domain is None or (domain not in wanted and not lonely):
            return False
    return True


def _avoided_domains(pod: Candidate, picture: SchedulerCache) -> set[Domain]:
    """Return the domains that hold a pod which the incoming one must not sit with."""
    domains: set[Domain] = set()
    if not pod.needs.anti_affinity:
        return domains
    for group in picture.groups():
        for term in pod.needs.anti_affinity:
            if _covers(term, pod, group, picture):
                domains.update(domain_counts(group, term.topology_key, picture))
    return domains


def _refusing_domains(pod: Candidate, picture: SchedulerCache) -> set[Domain]:
    """Return the domains that hold a pod which must not sit with the incoming one."""
    here = picture.namespaces.get(pod.namespace, {})
    domains: set[Domain] = set()
    for group in picture.repelling_groups():
        for term in group.needs.anti_affinity:
            if term_covers(term, group.namespace, pod.namespace, here, pod.needs.labels):
                domains.update(domain_counts(group, term.topology_key, picture))
    return domains
