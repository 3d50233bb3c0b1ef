"""The indexes in use: built when first needed, updated in the order of their dependencies.

An index that raises an exception would answer wrongly from then on. Where only plugins read it, it
is taken out, and the controller switches those plugins off; of any other the exception is raised.
"""

from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any, Final

from msgspec import Struct

from reactive_desched.api.index import Cluster, Index, IndexT, NodeState
from reactive_desched.errors import IndexUnavailable
from reactive_desched.model.changes import Change, IndexFailed
from reactive_desched.model.objects import ClusterObject, Pod
from reactive_desched.model.plugin_faults import describe_error
from reactive_desched.primitives.foreign_code import calls_foreign_code, is_fault

IndexKey = tuple[type[Index], Hashable]
"""The class of an index, and its arguments; None for an index that takes none."""

Hook = Callable[[Any, Any], Iterable[Change]]  # Any: two versions of whatever the hook follows

_OURS: Final = f"{__package__.partition('.')[0]}."


class IndexFault(Struct, frozen=True):
    """The exception for which an index is not in use, and the object at which it was raised."""

    index: str
    at: str
    error: BaseException

    def __str__(self) -> str:
        return f"its index {self.index} failed {self.at}"


class IndexHooks:
    """The overridden hooks of the indexes in use, for the stores to call.

    Each tuple is replaced as a whole, so an index that is built while hooks run is not called for
    the object that it has already been built from. `failed` takes an index out that raised an
    exception on an object; the base raises it again. Each of the `followers` is called after the
    indexes for every object that is altered, of any kind; `node_version` has what is called for a
    Node that differs in nothing that matters to a pod.
    """

    def __init__(self, followed_kinds: Collection[type[ClusterObject]] = ()) -> None:
        self._followed_kinds = followed_kinds
        self.followers: tuple[Hook, ...] = ()
        self.node_version: tuple[Hook, ...] = ()
        self.pod: tuple[Hook, ...] = ()
        self.pod_status: tuple[Hook, ...] = ()
        self.node: tuple[Hook, ...] = ()
        self.objects: dict[type[ClusterObject], tuple[Hook, ...]] = {}

    @calls_foreign_code
    def call(self, hooks: Iterable[Hook], old: object, new: object) -> list[Change]:
        """Call hooks for an object; return the changes that follow from its own."""
        changes: list[Change] = []
        for hook in hooks:
            try:
                changes += hook(old, new)
            except BaseException as error:
                if not is_fault(error):
                    raise
                changes += self.failed(hook, error, new or old)
        return changes

    def failed(self, hook: Hook, error: BaseException, at: object) -> Iterable[Change]:
        """Take the index of a hook out, and announce that, or raise the error."""
        del hook, at
        raise error

    def collect(self, indexes: Iterable[Index]) -> None:
        """Take the overridden hooks of these indexes, in this order, and no others."""
        self.pod = self.pod_status = self.node = self.node_version = ()
        self.objects = {}
        for each in indexes:
            self.add(each)
        for follower in self.followers:
            self._add_follower(follower)

    def reads(self, kind: type[ClusterObject]) -> bool:
        """Say whether an index, and not only a follower of everything, follows the kind."""
        return any(hook not in self.followers for hook in self.objects.get(kind, ()))

    def follow(self, follower: Hook) -> None:
        """Call a follower with each object before and after a change, from now on."""
        self.followers = (*self.followers, follower)
        self._add_follower(follower)

    def _add_follower(self, follower: Hook) -> None:
        self.pod = (*self.pod, follower)
        self.pod_status = (*self.pod_status, follower)
        self.node = (*self.node, follower)
        self.node_version = (*self.node_version, follower)
        for kind in self._followed_kinds:
            self.objects[kind] = (*self.objects.get(kind, ()), follower)

    def add(self, index: Index) -> None:
        """Take the overridden hooks of one more index, after those of the others."""
        check = _CheckedHook if not _is_ours(type(index)) else _as_it_is
        if _overrides(index, "on_pod"):
            self.pod = (*self.pod, check(index.on_pod))
        if _overrides(index, "on_pod_status"):
            self.pod_status = (*self.pod_status, check(index.on_pod_status))
        if _overrides(index, "on_node"):
            self.node = (*self.node, check(index.on_node))
        for kind in index.kinds:
            self.objects[kind] = (*self.objects.get(kind, ()), check(index.on_object))


class IndexRegistry:
    """The indexes over one cluster by class and arguments, dependencies first.

    `faults` has those that failed since `keep` was called, and those that need one of them.
    `followed_kinds` are those that a follower of all changes is called for beside pods and nodes.
    """

    def __init__(
        self, cluster: Cluster, followed_kinds: Collection[type[ClusterObject]] = ()
    ) -> None:
        self._cluster = cluster
        self._built: dict[IndexKey, Any] = {}  # Any: an index of the key's class
        self._needs: dict[IndexKey, dict[IndexKey, None]] = {}
        self._building: list[IndexKey] = []
        self._needed: dict[IndexKey, None] = {}
        self._of_plugins: dict[IndexKey, None] = {}
        self.faults: dict[IndexKey, IndexFault] = {}
        self.hooks: IndexHooks = _IsolatingHooks(self, followed_kinds)

    def get(self, kind: type[IndexT], args: Hashable = None) -> IndexT:
        """Return an index, built from the cluster when it is first asked for."""
        key = kind, args
        found: IndexT | None = self._built.get(key)
        if found is None:
            found = self._build(kind, args)
        if self._building:
            self._needs[self._building[-1]][key] = None
        return found

    def keep(self, needed: Iterable[IndexKey], of_plugins: Iterable[IndexKey] = ()) -> None:
        """Build these indexes; drop all others that none of these depends on.

        What goes wrong in those `of_plugins`, that nothing else needs, concerns those alone.
        """
        self.faults.clear()
        self._needed, self._of_plugins = {}, {}
        for key in needed:
            self.get(*key)
            self._add_with_needs(key, self._needed)
        for key in of_plugins:
            self._of_plugins[key] = None
            try:
                self.get(*key)
            except BaseException as error:
                if not is_fault(error):
                    raise
                self._failed(key, error, "when it was built")
            else:
                self._add_with_needs(key, self._of_plugins)
        kept = self._needed | self._of_plugins
        self._built = {key: index for key, index in self._built.items() if key in kept}
        self._needs = {key: needs for key, needs in self._needs.items() if key in kept}
        self.hooks.collect(self._built.values())

    def unfollow(self, follower: Hook) -> None:
        """Call this follower no longer."""
        self.hooks.followers = tuple(each for each in self.hooks.followers if each is not follower)
        self.hooks.collect(self._built.values())

    def take_out(self, index: object, error: BaseException, at: object) -> Iterable[Change]:
        """Take an index out that raised an exception; raises that where not only plugins read it.

        What a plugin asks of it from then on raises IndexUnavailable.
        """
        key = next((key for key, each in self._built.items() if each is index), None)
        if key is None:
            return  # with one that it needs
        self._failed(key, error, f"on {_described(at)}")
        self.hooks.collect(self._built.values())
        yield IndexFailed(self.faults[key].index)

    def _failed(self, key: IndexKey, error: BaseException, at: str) -> None:
        """Take an index out with those that need it."""
        concerned = self._with_dependents(key)
        if not all(map(self._is_of_plugins, concerned)):
            raise error
        fault = IndexFault(key[0].__name__, at, error)
        if isinstance(error, IndexUnavailable):  # it needs one that failed before
            root = (each for each in self.faults.values() if each.error is error.__cause__)
            fault = next(root, fault)
        for each in concerned:
            self._built.pop(each, None)
            self.faults[each] = fault

    def _with_dependents(self, key: IndexKey) -> list[IndexKey]:
        found = [key]
        for each in found:  # grows meanwhile
            found += [k for k, needs in self._needs.items() if each in needs and k not in found]
        return found

    def _is_of_plugins(self, key: IndexKey) -> bool:
        """Say whether only plugins read an index: none of ours relies on those of others."""
        return key not in self._needed and (key in self._of_plugins or not _is_ours(key[0]))

    @calls_foreign_code
    def _build(self, kind: type[IndexT], args: Hashable) -> IndexT:
        key = kind, args
        if (fault := self.faults.get(key)) is not None:
            message = f"{fault}: {describe_error(fault.error)}"
            raise IndexUnavailable(message) from fault.error
        self._needs[key] = {}
        self._building.append(key)
        try:
            made = kind(self._cluster, args)
        finally:
            self._building.pop()
        self._built[key] = made
        self.hooks.add(made)
        return made

    def _add_with_needs(self, key: IndexKey, kept: dict[IndexKey, None]) -> None:
        if key not in kept:
            kept[key] = None
            for needed in self._needs[key]:
                self._add_with_needs(needed, kept)


class _IsolatingHooks(IndexHooks):
    """The hooks of a registry, which takes out the index of one that raises an exception."""

    def __init__(
        self, registry: IndexRegistry, followed_kinds: Collection[type[ClusterObject]]
    ) -> None:
        super().__init__(followed_kinds)
        self._registry = registry

    def failed(self, hook: Hook, error: BaseException, at: object) -> Iterable[Change]:
        """Take the index of a hook out, and announce that, or raise the error."""
        index = hook.index if isinstance(hook, _CheckedHook) else getattr(hook, "__self__", None)
        return list(self._registry.take_out(index, error, at))


class _CheckedHook:
    """A hook of an index made elsewhere, whose changes are checked before anything reads them."""

    def __init__(self, hook: Hook) -> None:
        self._hook = hook
        self.index: object = getattr(hook, "__self__", None)

    @calls_foreign_code
    def __call__(self, old: Any, new: Any, /) -> list[Change]:  # Any: see `Hook`
        changes = list(self._hook(old, new))
        for each in changes:
            if not isinstance(each, Change):
                raise TypeError(f"it announced {type(each).__name__}, which is no Change")
            if not isinstance(each.object_name, str):
                raise TypeError(f"{type(each).__name__}.object_name is no text")
        return changes


def _as_it_is(hook: Hook) -> Hook:
    return hook


def _is_ours(kind: type[Index]) -> bool:
    return kind.__module__.startswith(_OURS)


def _described(at: object) -> str:
    match at:
        case Pod():
            return f"pod {at}"
        case NodeState(node=node):
            return f"node {node.name}"
        case _:
            return f"{type(at).__name__} {getattr(at, 'key', '')}".rstrip()


def _overrides(index: Index, hook: str) -> bool:
    return getattr(type(index), hook) is not getattr(Index, hook)
