"""Names the scopes in which an eviction counts: the one place for limits of every kind."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from reactive_desched.model.findings import Finding
from reactive_desched.model.history import PastEviction
from reactive_desched.model.moves import MoveOwner, is_clean_up
from reactive_desched.model.objects import OwnerReference, Pod
from reactive_desched.state.indexes.owners import OwnerIndex
from reactive_desched.state.view import ClusterView

ScopeKey = tuple[str, str]
"""A scope and the name in it, for example ("node", "n1")."""

CLUSTER: Final = "cluster"
OWNER: Final = "owner"
SINGLE: Final = "single"
"""The scope of the workloads with a single replica, named by their namespace."""
ENDED_PODS: Final = "pods"
"""The one name in the scope `ended`."""
_POD: Final = "Pod"


class EvictionScopes(NamedTuple):
    """The names of an eviction's scopes; one that it has none of is empty.

    A pod without a controller has no owner, a node may have no zone. An owner is named for people,
    by its kind, namespace and name. `ended` is that of all clean-ups, empty for any other eviction.
    """

    cluster: str
    zone: str
    node: str
    namespace: str
    owner: str
    plugin: str
    ended: str = ""

    @property
    def buckets(self) -> "EvictionScopes":
        """The names of the token buckets that it takes from: a clean-up, from its own alone."""
        return self if not self.ended else EvictionScopes("", "", "", "", "", "", self.ended)


SCOPES: Final = EvictionScopes._fields


def scopes_of(finding: Finding, view: ClusterView) -> EvictionScopes:
    """Return the scopes of an eviction that a finding asks for, by the cluster as it is now."""
    pod = finding.pod
    chain = view.index(OwnerIndex).chain(pod)
    return scopes_in(pod, chain, view.zone(pod.node), finding.plugin)


def scopes_in(pod: Pod, chain: Sequence[OwnerReference], zone: str, plugin: str) -> EvictionScopes:
    """Return the scopes of a pod's eviction by what is known of its owners and its zone."""
    owner = f"{chain[-1].kind} {pod.namespace}/{chain[-1].name}" if chain else ""
    ended = ENDED_PODS if is_clean_up(pod) else ""
    return EvictionScopes(CLUSTER, zone, pod.node, pod.namespace, owner, plugin, ended)


def past_scopes(past: PastEviction) -> EvictionScopes:
    """Return the scopes of an earlier process's eviction, by the names that they had."""
    owner = f"{past.owner_kind} {past.namespace}/{past.owner_name}" if past.owner_uid else ""
    ended = ENDED_PODS if past.is_clean_up else ""
    return EvictionScopes(CLUSTER, past.zone, past.node, past.namespace, owner, past.plugin, ended)


def owner_of(pod: Pod, chain: Sequence[OwnerReference]) -> MoveOwner:
    """Return the topmost controller of a pod, by its chain of owners; of a bare pod, itself."""
    if not chain:
        return MoveOwner(pod.namespace, _POD, pod.name, pod.uid)
    return MoveOwner(pod.namespace, chain[-1].kind, chain[-1].name, chain[-1].uid)


def past_owner(past: PastEviction) -> MoveOwner:
    """Return the topmost controller of an evicted pod, as an earlier process recorded it."""
    return MoveOwner(
        past.namespace,
        past.owner_kind or _POD,
        past.owner_name or past.pod_name,
        past.owner_uid or past.pod_uid,
    )


def moving_scopes(owner: MoveOwner, node: str, zone: str) -> tuple[ScopeKey, ...]:
    """Return the scopes in which pods that are moving are counted; an owner is named by its uid."""
    scopes = (
        (OWNER, owner.uid),
        ("namespace", owner.namespace),
        ("node", node),
        ("zone", zone),
        (CLUSTER, CLUSTER),
    )
    return scopes if zone and node else tuple([scope for scope in scopes if scope[1]])


def leaving_scopes(owner: MoveOwner, *, is_single: bool) -> tuple[ScopeKey, ...]:
    """Return the scopes in which is asked whose pods leave, while the ledger has the eviction."""
    of_owner = OWNER, owner.uid
    return (of_owner, (SINGLE, owner.namespace)) if is_single else (of_owner,)
