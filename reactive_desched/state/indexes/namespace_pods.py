"""The pods of each namespace, by their labels."""

from collections.abc import Collection, Hashable, Iterable, Iterator

from reactive_desched.api.index import Cluster, Index
from reactive_desched.model.labels import Labels
from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.primitives.long_answers import portions
from reactive_desched.state.indexes.topology_domains import CompactMultiMap

LabelledPods = tuple[Labels, Collection[PodKey]]
"""Labels, and the uids of the pods that have just these."""


class _Namespace:
    """The pods of one namespace by their labels, and these by the labels that were asked for.

    Pods of one template share their labels, so labels are found by identity; they are kept alive,
    so that an identity is never used twice. `indexing` has the steps that are left of each label
    whose index is not complete yet; it follows the pods meanwhile.
    """

    __slots__ = ("by_label", "indexing", "labels", "uids")

    def __init__(self) -> None:
        self.labels: dict[int, Labels] = {}
        self.uids: CompactMultiMap[int] = CompactMultiMap()
        self.by_label: dict[str, dict[str, dict[int, None]]] = {}
        self.indexing: dict[str, Iterator[None]] = {}

    def add(self, pod: Pod) -> None:
        labels, identity = pod.labels, id(pod.labels)
        self.uids.add(identity, pod.uid)
        if identity not in self.labels:
            self.labels[identity] = labels
            for key, by_value in self.by_label.items():
                _index(by_value, key, labels)

    def remove(self, pod: Pod) -> None:
        identity = id(pod.labels)
        self.uids.discard(identity, pod.uid)
        if identity in self.uids:
            return
        labels = self.labels.pop(identity)
        for key, by_value in self.by_label.items():
            if (value := labels.get(key)) is not None and value in by_value:
                of_value = by_value[value]
                of_value.pop(identity, None)
                if not of_value:
                    del by_value[value]

    def index_label(self, key: str) -> Iterator[None]:
        """Index a label, unless it is; pods may come and go between two steps."""
        if key not in self.by_label:
            self.by_label[key] = {}
            self.indexing[key] = self._index_all(key)
        for _ in self.indexing.get(key, ()):
            yield

    def _index_all(self, key: str) -> Iterator[None]:
        by_value = self.by_label[key]
        for number, portion in enumerate(portions(list(self.labels))):
            if number:
                yield
            for labels in filter(None, map(self.labels.get, portion)):
                _index(by_value, key, labels)
        if self.by_label.get(key) is by_value:
            del self.indexing[key]

    def forget_label(self, key: str) -> None:
        self.by_label.pop(key, None)
        self.indexing.pop(key, None)

    def with_label(self, key: str, values: Iterable[str]) -> Iterator[LabelledPods]:
        """Return those of a label, which is indexed at once if it is not; pods may come and go."""
        for _ in self.index_label(key):
            pass
        by_value = self.by_label[key]
        for value in values:
            for identity in tuple(by_value.get(value, ())):
                if (labels := self.labels.get(identity)) is not None:
                    yield labels, self.uids.members(identity)

    def all(self) -> Iterator[LabelledPods]:
        """Return those of all labels; pods may come and go meanwhile."""
        for identity in list(self.labels):
            if (labels := self.labels.get(identity)) is not None:
                yield labels, self.uids.members(identity)


def _index(by_value: dict[str, dict[int, None]], key: str, labels: Labels) -> None:
    if (value := labels.get(key)) is not None:
        by_value.setdefault(value, {})[id(labels)] = None


class NamespacePods(Index):
    """The pods of each namespace, in any phase.

    To find those with a label costs by how many different labels the pods of the namespace have,
    and only when it is first asked for: pods of one template have the same.
    """

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._pods = cluster.store(Pod)
        self._namespaces: dict[str, _Namespace] = {}
        for pod in self._pods:
            self.on_pod(None, pod)

    def pods_of(self, namespace: str) -> Iterator[Pod]:
        """Return the pods of a namespace; of pods that come or go meanwhile only some."""
        uids = (uid for _, group in self.by_labels(namespace) for uid in tuple(group))
        return (pod for pod in map(self._pods.get, uids) if pod is not None)

    def by_labels(self, namespace: str | None) -> Iterator[LabelledPods]:
        """Return the pods of a namespace, or with None of all, by their labels."""
        for each in self._in(namespace):
            yield from each.all()

    def index_label(self, namespace: str | None, key: str) -> Iterator[None]:
        """Index a label until `forget_label`, in steps between which pods may come and go."""
        for each in self._in(namespace):
            yield from each.index_label(key)

    def with_label(
        self, namespace: str | None, key: str, values: Iterable[str]
    ) -> Iterator[LabelledPods]:
        """Return the pods of a namespace, or with None of all, of which a label has such a value.

        The label is indexed until `forget_label`, at once unless `index_label` has done so. Of
        pods that come or go meanwhile some are among them.
        """
        for each in self._in(namespace):
            yield from each.with_label(key, values)

    def forget_label(self, namespace: str | None, key: str) -> None:
        """Drop the index of a label, in a namespace or with None in all."""
        for each in self._in(namespace):
            each.forget_label(key)

    def on_pod(self, old: Pod | None, new: Pod | None) -> tuple[()]:
        """Follow a pod that appeared, disappeared, or has other labels."""
        if old is not None and new is not None and old.labels is new.labels:
            return ()
        if new is not None:
            namespace = self._namespaces.get(new.namespace)
            if namespace is None:
                namespace = self._namespaces[new.namespace] = _Namespace()
            namespace.add(new)
        if old is not None:
            namespace = self._namespaces[old.namespace]
            namespace.remove(old)
            if not namespace.labels:
                del self._namespaces[old.namespace]
        return ()

    def answers(self) -> object:
        """Return the uids by namespace."""
        return {name: {pod.uid for pod in self.pods_of(name)} for name in self._namespaces}

    def _in(self, namespace: str | None) -> Iterable[_Namespace]:
        if namespace is None:
            return list(self._namespaces.values())
        found = self._namespaces.get(namespace)
        return () if found is None else (found,)
