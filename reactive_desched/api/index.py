"""The whole contract of an index on one screen.

An index is derived state: it answers one question fast, follows the cluster object by object, and
announces when an answer changed. One file holds the index, its question and its change type:

    class BestPreferenceChanged(PodsChange, frozen=True, gc=False): ...

    class PreferredAffinity(Index):
        announces = (BestPreferenceChanged,)

A plugin names the indexes that it needs in `indexes`, the changes that they announce in
`reacts_to`, and asks through its view: `view.index(PreferredAffinity).weights(affinity, node)`.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import ClassVar, NamedTuple, Protocol, TypeVar

from reactive_desched.model.changes import Change
from reactive_desched.model.objects import ClusterObject, Node, Pod, PodKey
from reactive_desched.model.resources import ResourceList

ObjectT = TypeVar("ObjectT", bound=ClusterObject)
ObjectT_co = TypeVar("ObjectT_co", bound=ClusterObject, covariant=True)
IndexT = TypeVar("IndexT", bound="Index")


class Objects(Protocol[ObjectT_co]):
    """The objects of one kind, by key; read-only."""

    def get(self, key: str, /) -> ObjectT_co | None:
        """Return the object of this key."""
        ...

    def __iter__(self) -> Iterator[ObjectT_co]: ...
    def __len__(self) -> int: ...


class NodeInfo(Protocol):
    """One node name: the Node, if there is one, and the pods bound to the name; read-only.

    `eligible` says that the Node is ready and matches the policy's node selector. `active` and
    `completed` hold the pods by uid. `requested` sums the requests of the active pods, terminating
    ones included, with their number under "pods"; `resize_delta` sums what in-place resizes add to
    that, and `held` is both together: what the kube-scheduler counts. `host_port_pods` are the
    active pods with host ports; a change of them makes a new tuple.
    """

    # ruff: noqa: D102 -- the docstring of the class describes each member
    @property
    def name(self) -> str: ...
    @property
    def node(self) -> Node | None: ...
    @property
    def eligible(self) -> bool: ...
    @property
    def active(self) -> Mapping[PodKey, Pod]: ...
    @property
    def completed(self) -> Mapping[PodKey, Pod]: ...
    @property
    def requested(self) -> ResourceList: ...
    @property
    def resize_delta(self) -> ResourceList: ...
    @property
    def held(self) -> ResourceList: ...
    @property
    def host_port_pods(self) -> tuple[Pod, ...]: ...


class NodeState(NamedTuple):
    """A Node, and whether it is eligible: ready, and matched by the policy's node selector."""

    node: Node
    eligible: bool


class Cluster(Protocol):
    """The cluster as an index reads it; read-only."""

    def store(self, kind: type[ObjectT], /) -> Objects[ObjectT]:
        """Return the objects of a kind."""
        ...

    def node_info(self, name: str, /) -> NodeInfo | None:
        """Return what is known of a node name; None where there is neither a Node nor a pod."""
        ...

    def node_infos(self) -> Iterable[NodeInfo]:
        """Return what is known of every node name."""
        ...

    def index(self, kind: type[IndexT], args: Hashable = None, /) -> IndexT:
        """Return another index; asked for while this one is built, it is always updated first."""
        ...


class Index(ABC):
    """Derived state over the cluster.

    An index is built from the cluster when it is first needed, and dropped when no enabled plugin
    or filter names it. The cluster calls a hook after it has stored the object, and of a
    list's pods after it has stored some more of them; a hook that is not overridden costs
    nothing. Every hook returns the changes that follow from the object's.
    """

    announces: ClassVar[tuple[type[Change], ...]] = ()
    """The changes that the hooks return."""

    kinds: ClassVar[tuple[type[ClusterObject], ...]] = ()
    """The kinds, beside Pod and Node, whose objects `on_object` follows."""

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        """Build the index from the cluster as it is now; `args` distinguish indexes of a class."""
        self._cluster = cluster
        self._args = args

    def on_pod(self, old: Pod | None, new: Pod | None) -> Iterable[Change]:
        """Follow a pod that appeared, disappeared (None), or differs in what it is or where.

        That is its node, labels, owners, spec, in-place resize, deletion time, or whether it has
        ended. All other updates of a pod reach `on_pod_status`, so an index should hold uids.
        """
        del old, new
        return ()

    def on_pod_status(self, old: Pod, new: Pod) -> Iterable[Change]:
        """Follow a pod of which only status, annotations or times differ."""
        del old, new
        return ()

    def on_node(self, old: NodeState | None, new: NodeState | None) -> Iterable[Change]:
        """Follow a Node that appeared, disappeared (None), or differs in more than a heartbeat."""
        del old, new
        return ()

    def on_object(self, old: ClusterObject | None, new: ClusterObject | None) -> Iterable[Change]:
        """Follow an object of one of `kinds` that appeared, disappeared (None), or differs."""
        del old, new
        return ()

    @abstractmethod
    def answers(self) -> object:
        """Return all that the index can answer, in a form that can be compared with ==.

        One property test for all indexes compares it, after any sequence of changes, with the
        answers of an index built anew.
        """
