"""Matches pods with affinity terms, in both readings, and makes keys of selectors.

The SIG descheduler ignores a namespaceSelector and label keys; the kube-scheduler does not.
"""

from collections.abc import Hashable, Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.model.labels import Labels, LabelSelector, Requirement
from reactive_desched.model.objects import PodAffinityTerm

SelectorKey = tuple[tuple[tuple[str, str], ...], tuple[Requirement, ...]]


class NamespaceScope(Struct, frozen=True, gc=False):
    """The namespaces listed, and those whose labels match a selector, if there is one.

    Where there are others, only the namespaces that are in all of them.
    """

    namespaces: tuple[str, ...]
    namespace_selector: LabelSelector | None = None
    others: tuple["NamespaceScope", ...] = ()

    @property
    def depends_on_labels(self) -> bool:
        """Say whether more must be known of a namespace than that its name is listed."""
        return self.namespace_selector is not None or bool(self.others)

    def covers(self, namespace: str, labels: Labels) -> bool:
        """Say whether a namespace with these labels is in it."""
        is_in = namespace in self.namespaces or (
            self.namespace_selector is not None and self.namespace_selector.matches(labels)
        )
        if not is_in or not self.others:
            return is_in
        return all(other.covers(namespace, labels) for other in self.others)

    @property
    def key(self) -> Hashable:
        """Return what makes two scopes the same, as a key."""
        selector = self.namespace_selector
        others = tuple(other.key for other in self.others)
        return self.namespaces, None if selector is None else selector_key(selector), others


def common_scope(scopes: Iterable[NamespaceScope]) -> NamespaceScope:
    """Return the namespaces that are in each of some scopes."""
    first, *others = {scope.key: scope for scope in scopes}.values()
    return replace(first, others=tuple(others)) if others else first


def common_selector(selectors: Iterable[LabelSelector]) -> LabelSelector:
    """Return what selects the labels that each of some selectors matches."""
    first, *others = selectors
    added = first.match_expressions
    for other in others:
        added += tuple(Requirement(key, "In", (at,)) for key, at in other.match_labels.items())
        added += other.match_expressions
    return replace(first, match_expressions=added) if others else first


def selector_key(selector: LabelSelector) -> SelectorKey:
    """Return a hashable key that equal selectors share: a selector itself holds a dict."""
    return tuple(sorted(selector.match_labels.items())), selector.match_expressions


def descheduler_scope(term: PodAffinityTerm, namespace: str) -> NamespaceScope:
    """Read a term's namespaces as the SIG descheduler: those listed, else the pod's own."""
    return NamespaceScope(tuple(sorted(set(term.namespaces))) or (namespace,))


def scheduler_scope(term: PodAffinityTerm, namespace: str) -> NamespaceScope:
    """Read a term's namespaces as the kube-scheduler.

    With a namespaceSelector the pod's own namespace is not implied; an empty one selects all.
    """
    if term.namespace_selector is None:
        return descheduler_scope(term, namespace)
    if term.namespace_selector.is_empty:
        return NamespaceScope((), term.namespace_selector)
    return NamespaceScope(tuple(sorted(set(term.namespaces))), term.namespace_selector)


def scheduler_selector(term: PodAffinityTerm, labels: Labels) -> LabelSelector | None:
    """Return the selector of a term of a pod with these labels as the kube-scheduler reads it.

    The API server adds matchLabelKeys and mismatchLabelKeys to it, with the pod's own values, when
    the pod is created. What it has added is not added again: the pod's labels may differ by now.
    """
    selector = term.label_selector
    if selector is None or not (term.match_label_keys or term.mismatch_label_keys):
        return selector
    added = tuple(_label_requirements(term, labels, selector))
    if not added:
        return selector
    return replace(selector, match_expressions=(*selector.match_expressions, *added))


def _label_requirements(
    term: PodAffinityTerm, labels: Labels, selector: LabelSelector
) -> Iterator[Requirement]:
    there = {(requirement.key, requirement.operator) for requirement in selector.match_expressions}
    for operator, keys in (("In", term.match_label_keys), ("NotIn", term.mismatch_label_keys)):
        for key in keys:
            if key in labels and (key, operator) not in there:
                yield Requirement(key, operator, (labels[key],))


def depend_on_labels(terms: Iterable[PodAffinityTerm]) -> bool:
    """Say whether the pods that terms match depend on the labels of the pod that declares them."""
    return any(term.match_label_keys or term.mismatch_label_keys for term in terms)
