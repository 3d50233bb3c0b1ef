"""Builds a snapshot from a live cluster: lists each resource once."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Raw

from reactive_desched.errors import Malformed, RequestRejected, SnapshotUnavailable
from reactive_desched.kube.client.clock import Clock, SystemClock
from reactive_desched.kube.client.cluster_guard import ClusterGuard
from reactive_desched.kube.client.config import limits_of, rate_of
from reactive_desched.kube.client.config_maps import read_keys
from reactive_desched.kube.client.patience import Patience
from reactive_desched.kube.client.responses import Body
from reactive_desched.kube.client.session import KubeConfigOptions, Transport, open_session
from reactive_desched.kube.codec import Codec, ListPage, WatchEvent, make_codecs
from reactive_desched.kube.watch.initial_list import list_once
from reactive_desched.model.rights import Right, how_to_grant, remedy_for, right_to_read
from reactive_desched.plan.measured_use import with_measured_use
from reactive_desched.plan.progress import Progress
from reactive_desched.plan.snapshot import Snapshot, SnapshotBuilder
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.settings.scheduler import ConfigMapKey
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.state.resources import GANG_RESOURCES, WATCHED_KINDS

__all__ = ["list_snapshot", "read_config_maps", "read_live_snapshot"]

AnyCodec = Codec[Any]  # every resource has its own records


async def read_live_snapshot(
    kube: KubeConfigOptions,
    configuration: Configuration,
    resources: Iterable[str],
    progress: Progress,
    *,
    optional_resources: Collection[str] = (),
    show_nodes: bool = False,
    reads_all: bool = True,
) -> tuple[Snapshot, str]:
    """List these resources and measure what is used; return that and the server's address.

    `reads_all` is as in SnapshotBuilder. Raises ConfigError when no kubeconfig is found, and
    SnapshotUnavailable as `list_snapshot`.
    """
    client = configuration.settings.client
    async with open_session(
        kube, limits=limits_of(client), rate_limit=rate_of(client), cluster=ClusterGuard()
    ) as session:
        snapshot = await list_snapshot(
            session,
            resources,
            progress,
            optional_resources=optional_resources,
            reads_all=reads_all,
        )
        measured = await with_measured_use(
            snapshot, configuration, session, SystemClock(), show_nodes=show_nodes
        )
        return measured, session.server


async def read_config_maps(
    kube: KubeConfigOptions, configuration: Configuration, keys: Iterable[ConfigMapKey]
) -> Mapping[ConfigMapKey, str]:
    """Read what settings name; raises ConfigError where one cannot be read."""
    client = configuration.settings.client
    async with open_session(
        kube, limits=limits_of(client), rate_limit=rate_of(client), cluster=ClusterGuard()
    ) as session:
        return await read_keys(session, keys)


async def list_snapshot(
    session: Transport,
    resources: Iterable[str],
    progress: Progress,
    clock: Clock | None = None,
    optional_resources: Collection[str] = (),
    *,
    reads_all: bool = True,
) -> Snapshot:
    """List these resources; a server that does not serve is waited for, as Patience has it.

    `reads_all` is as in SnapshotBuilder. `progress` says what is waited for.

    Raises SnapshotUnavailable when one cannot be listed completely, naming all that are refused: a
    decision on a part of the cluster could be wrong. An optional one that is refused is left out.
    """
    codecs = make_codecs(InternTables(reads_all=reads_all))
    builder = SnapshotBuilder()
    missing: dict[str, RequestRejected] = {}
    clock = clock or SystemClock()
    patience = Patience(clock, progress.note)
    for resource in _asked_for(resources, builder):
        codec = _CountingCodec(codecs[resource], f"listing {resource}:", progress)
        try:
            objects, unreadable = await _list_resource(session, codec, clock, patience)
        except RequestRejected as error:
            if resource in optional_resources and not error.retryable:
                if not _is_expected(resource, error):
                    builder.add_forbidden(resource, str(error))
                continue
            missing[resource] = error
            if error.retryable:
                break  # the server is not there, or not well: the others would wait for it as long
        else:
            for obj in objects:
                builder.add(resource, obj)
            for malformed in unreadable:
                builder.add_malformed(malformed)
    if missing:
        raise SnapshotUnavailable(_refused_message(missing))
    return builder.build()


def _asked_for(resources: Iterable[str], builder: SnapshotBuilder) -> Iterator[str]:
    """Yield the resources: those of gangs after the pods, where pods ask for them."""
    for resource in sorted(resources, key=GANG_RESOURCES.__contains__):
        if resource not in GANG_RESOURCES or builder.asks_for_gangs(resource):
            yield resource


def _is_expected(resource: str, error: RequestRejected) -> bool:
    """Say whether a kind is not served that few API servers serve: those of a system of gangs."""
    return resource in GANG_RESOURCES and _right_to_list(resource, error) is None


async def _list_resource(
    session: Transport, codec: AnyCodec, clock: Clock, patience: Patience
) -> tuple[list[Any], list[Malformed]]:
    """List a resource, beginning again when a try breaks off; nothing of that try is kept."""
    while True:
        unreadable: list[Malformed] = []
        try:
            result = await list_once(session, codec, unreadable.append, clock=clock)
        except RequestRejected as error:
            if not await patience.waited_after(error):
                raise
        else:
            patience.succeeded()
            return list(result.items), unreadable


def _refused_message(missing: Mapping[str, RequestRejected]) -> str:
    """Name the resource that could not be listed, and the remedy."""
    lines = "\n".join(f"  {resource}: {error}" for resource, error in missing.items())
    denied = [resource for resource, error in missing.items() if error.is_denied]
    if any(error.is_web_page for error in missing.values()):
        remedy = "check that the kubeconfig names the address of the API server itself"
    elif denied:
        remedy = "; ".join(_denial_remedies({resource: missing[resource] for resource in denied}))
    elif any(error.retryable and not error.is_unauthorized for error in missing.values()):
        remedy = "check that the API server runs, and that the kubeconfig names its address"
    else:
        remedy = "check the credentials of the kubeconfig: `kubectl get nodes` uses the same"
    return (
        f"the cluster cannot be read completely, so nothing is decided:\n{lines}\n"
        f"{remedy}; `plan` can also read files: -f FILE with what kubectl get … -A -o json wrote"
    )


def _denial_remedies(denied: Mapping[str, RequestRejected]) -> Iterator[str]:
    """Yield what to do about kinds that are not served, and about rights that are missing."""
    unserved = {resource: remedy_for(str(error), None) for resource, error in denied.items()}
    yield from dict.fromkeys(filter(None, unserved.values()))
    forbidden = [resource for resource, remedy in unserved.items() if not remedy]
    if not forbidden:
        return
    remedy = f"give this account the right to list {', '.join(forbidden)} in all namespaces"
    rights = (_right_to_list(resource, denied[resource]) for resource in forbidden)
    grant = how_to_grant(right for right in rights if right is not None)
    yield f"{remedy}: {grant}" if grant else remedy


def _right_to_list(resource: str, error: RequestRejected) -> Right | None:
    kind = WATCHED_KINDS[resource]
    return right_to_read(kind.group, kind.plural, str(error), ("list",))


class _CountingCodec:
    """A codec that shows how many objects it has decoded."""

    def __init__(self, codec: AnyCodec, what: str, progress: Progress) -> None:
        self.kind, self.path, self.resource = codec.kind, codec.path, codec.resource
        self._codec = codec
        self._what = what
        self._progress = progress
        self._count = 0

    def decode_event(self, line: bytes) -> WatchEvent[Any]:  # of any resource
        """Decode one watch line."""
        return self._codec.decode_event(line)

    def read_page(self, body: Body) -> ListPage:
        """Read the metadata of one list page."""
        return self._codec.read_page(body)

    def decode_page(self, page: ListPage) -> Iterator[Any]:  # records of any resource
        """Yield the objects of a page, and count them."""
        for obj in self._codec.decode_page(page):
            self._count += 1
            self._progress.update(self._what, self._count)
            yield obj

    def decode_object(self, raw: Raw | bytes | memoryview) -> Any:  # a record of any resource
        """Decode one object."""
        return self._codec.decode_object(raw)
