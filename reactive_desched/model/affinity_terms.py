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
    """The namespaces listed, and those whose labels match a selector, if there is one."""

    namespaces: tuple[str, ...]
    namespace_selector: LabelSelector | None = None

    def covers(self, namespace: str, labels: Labels) -> bool:
        """Say whether a namespace with these labels is in it."""
        return namespace in self.namespaces or (
            self.namespace_selector is not None and self.namespace_selector.matches(labels)
        )

    @property
    def key(self) -> Hashable:
        """Return what makes two scopes the same, as a key."""
        return self.namespaces, None if self.namespace_selector is None else selector_key(
            self.namespace_selector
        )


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
