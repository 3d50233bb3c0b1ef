"""The cluster as plugins, filters, node fit and records read it."""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from reactive_desched.api.index import NodeInfo, Objects, ObjectT
from reactive_desched.model.labels import Selector
from reactive_desched.model.objects import Deployment, Node, Pod, PodKey, StatefulSet, Workload
from reactive_desched.model.subjects import NodeOrPod, PodSubject
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.indexes.owners import replicas_wanted


class ClusterView:
    """A read-only view of a `ClusterState`; it holds no objects, so it is never stale.

    Plugins see it as `api.plugin.View`, node fit as `api.index.Cluster`.
    """

    def __init__(self, state: ClusterState, wall_clock: Callable[[], float]) -> None:
        self._state = state
        self._pods = state.pods
        self._nodes = state.nodes
        self._wall_clock = wall_clock
        self._deployments = state.store(Deployment)
        self._stateful_sets = state.store(StatefulSet)
        self.index: Final = state.index  # asked for at every step: no wrapper

    # --- for plugins: eligible nodes and their pods ---

    @property
    def now_s(self) -> float:
        """Seconds since the epoch (UTC)."""
        return self._wall_clock()

    def nodes(self) -> Iterable[Node]:
        """Return the eligible nodes."""
        return (i.node for i in self._nodes.infos() if i.eligible and i.node is not None)

    def node_names(self) -> Iterator[str]:
        """Yield the names of the eligible nodes; whether a node is one is asked at its turn."""
        for name in self._nodes.names():
            info = self._nodes.info(name)
            if info is not None and info.eligible and info.node is not None:
                yield name

    def pods_of(self, subject: NodeOrPod) -> tuple[Node, Collection[Pod]] | None:
        """Return a subject's node and active pods, or None when the node is not eligible."""
        if isinstance(subject, PodSubject):
            active = self.active_pod(subject.pod)
            return None if active is None else (active[1], active[:1])
        info = self._nodes.info(subject.node)
        if info is None or not info.eligible or info.node is None:
            return None
        return info.node, info.active.values()

    def all_pods_of(self, subject: NodeOrPod) -> tuple[Node, Iterable[Pod]] | None:
        """Return a subject's node and its pods in any phase, completed ones last.

        None when the node is not eligible.
        """
        if isinstance(subject, PodSubject):
            found = self.pod_and_node(subject.pod)
            return None if found is None else (found[1], found[:1])
        info = self._nodes.info(subject.node)
        if info is None or not info.eligible or info.node is None:
            return None
        return info.node, [*info.active.values(), *info.completed.values()]

    def active_pod(self, pod: PodKey) -> tuple[Pod, Node] | None:
        """Return an active pod and its node, or None when it sits on no eligible node."""
        found = self.pod_and_node(pod)
        return found if found is not None and found[0].is_active else None

    def pod_and_node(self, pod: PodKey) -> tuple[Pod, Node] | None:
        """Return a pod in any phase and its node, or None when it sits on no eligible node."""
        found = self._pods.get(pod)
        if found is None:
            return None
        info = self._nodes.info(found.node)
        if info is None or not info.eligible or info.node is None:
            return None
        return found, info.node

    # --- for filters, node fit and records: everything that is known ---

    @property
    def eligible_node_count(self) -> int:
        """Return how many nodes are ready and match the policy's node selector."""
        return self._nodes.eligible_count

    def pod(self, key: PodKey) -> Pod | None:
        """Return a pod by its uid, wherever it is."""
        return self._pods.get(key)

    @property
    def pod_count(self) -> int:
        """Return how many pods are known, in any phase."""
        return len(self._pods)

    def pods(self) -> list[PodKey]:
        """Return a snapshot of the uids of all pods."""
        return self._pods.keys()

    def store(self, kind: type[ObjectT], /) -> Objects[ObjectT]:
        """Return the objects of a kind."""
        return self._state.store(kind)

    def workload(self, uid: str, /) -> Workload | None:
        """Return the Deployment or StatefulSet of that uid, where there is one."""
        return self._deployments.get(uid) or self._stateful_sets.get(uid)

    def replicas_wanted(self, owner_uid: str, /) -> int | None:
        """Return how many pods a workload wants, by it or by its ReplicaSet; None if not known."""
        return replicas_wanted(owner_uid, self)

    def is_readable(self, resource: str) -> bool:
        """Say whether the API server lets us list it: else a missing object means nothing."""
        return self._state.is_readable(resource)

    def node_info(self, name: str, /) -> NodeInfo | None:
        """Return what is known of a node name; None where there is neither a Node nor a pod."""
        return self._nodes.info(name)

    def node_infos(self) -> Iterable[NodeInfo]:
        """Return what is known of every node name."""
        return self._nodes.infos()

    def eligible_node_infos(self) -> Iterable[NodeInfo]:
        """Return what is known of every eligible node."""
        return (info for info in self._nodes.infos() if info.eligible)

    def ready_node_infos(self, selector: Selector) -> Iterable[NodeInfo]:
        """Return every ready node that matches a selector, whatever the policy selects."""
        return (
            info
            for info in self._nodes.infos()
            if info.node is not None and info.node.is_ready and selector.matches(info.node.labels)
        )

    def zone(self, node_name: str) -> str:
        """Return the zone of a node; the empty string when it has none or is not known."""
        node = self._nodes.get(node_name)
        return "" if node is None else node.zone
