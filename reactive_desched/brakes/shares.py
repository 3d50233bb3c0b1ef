"""Says whom many pods stop: the cluster, or the one namespace that they are of.

A tenant can have any number of pods that fit nowhere, or that plugins find, often in several
namespaces. So the cluster is stopped by what half of its namespaces share, or five of them, and
what is too much of one namespace alone stops that one. A namespace that has nine of ten pods is no
tenant among others: it counts in full.
"""

from collections.abc import Collection, Mapping
from math import ceil
from typing import Final

from reactive_desched.model.brakes import CLUSTER, WakeOnBrake
from reactive_desched.model.decisions import GateReason, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.wakes import WakeOnPod
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.namespace_sizes import NamespaceSizes

_FEWEST: Final = 2
MOST_SHARES: Final = 5
"""In so many parts is a threshold divided at most, of which each namespace fills one."""

_NAMESPACE: Final = "namespace "
_NAMED: Final = 3


def stopped_scopes(counts: Mapping[str, int], threshold: int, view: ClusterView) -> tuple[str, ...]:
    """Return the scopes that so many pods of each namespace stop: CLUSTER, and of namespaces."""
    if sum(counts.values()) < threshold:
        return ()
    sizes = view.index(NamespaceSizes)
    shares = min(max(_FEWEST, ceil(sizes.namespaces / 2)), MOST_SHARES, threshold)
    most = threshold // shares
    fair = sum(
        count if count <= most or sizes.has_nearly_all(namespace) else most
        for namespace, count in counts.items()
    )
    alone = tuple(
        namespace_scope(name)
        for name, count in counts.items()
        if count >= threshold and not sizes.has_nearly_all(name)
    )
    return (CLUSTER, *alone) if fair >= shares * most else alone


def pods_on_nodes(view: ClusterView) -> int:
    """Return of how many pods a share in percent is: without those that wait or have ended."""
    return view.index(NamespaceSizes).total


def namespace_scope(namespace: str) -> str:
    """Return the scope of a brake that holds one namespace."""
    return f"{_NAMESPACE}{namespace}"


def namespace_of(scope: str) -> str:
    """Return the namespace of such a scope."""
    return scope.removeprefix(_NAMESPACE)


def held_scope(held: Collection[str], namespace: str) -> str | None:
    """Return which of the scopes that are held has the pods of a namespace, the cluster first."""
    for scope in (CLUSTER, namespace_scope(namespace)) if held else ():
        if scope in held:
            return scope
    return None


def refusal(reason: GateReason, brake: str, scope: str, finding: Finding, message: str) -> Refuse:
    """Refuse a finding while a brake holds this scope: no other of it can pass either."""
    wakes = (WakeOnBrake(brake, scope), WakeOnPod(finding.pod.uid))
    spent = CLUSTER if scope == CLUSTER else "namespace"
    return reason.refuse(finding, message, wakes, scope_exhausted=spent)


def pods_of(scope: str) -> str:
    """Return what follows "pods" in a message: " of namespace shop", or nothing for all."""
    return "" if scope == CLUSTER else f" of {scope}"


def describe_messages(messages: Mapping[str, str]) -> str:
    """Return what is said of each scope as one text: of the cluster alone where it is held."""
    if CLUSTER in messages:
        return messages[CLUSTER]
    named = sorted(messages)
    more = f"; and so in {len(named) - _NAMED:,} more" if len(named) > _NAMED else ""
    return "; ".join(messages[scope] for scope in named[:_NAMED]) + more


def describe_scopes(scopes: Collection[str]) -> str:
    """Name some scopes for people: the cluster alone where it is one of them."""
    if CLUSTER in scopes:
        return CLUSTER
    named = sorted(scopes)
    more = f" and {len(named) - _NAMED:,} more" if len(named) > _NAMED else ""
    return ", ".join(named[:_NAMED]) + more
