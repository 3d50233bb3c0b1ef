"""From a live cluster to a picture: everything is listed once, and nothing else is asked for."""

from collections.abc import Collection, Iterable
from typing import Any, Final

from msgspec import Raw

from reactive_desched.errors import CannotLook, Malformed, Refused
from reactive_desched.kube.client.clock import Clock, SystemClock
from reactive_desched.kube.client.config import limits_of, rate_of
from reactive_desched.kube.client.session import KubeConfig, Transport, open_session
from reactive_desched.kube.decode.codec import Codec, Page, WatchEvent
from reactive_desched.kube.decode.interning import SharedParts
from reactive_desched.kube.watch.snapshot import read_all
from reactive_desched.plan.kinds import kinds
from reactive_desched.plan.progress import Progress
from reactive_desched.plan.snapshot import Gathering, Picture
from reactive_desched.policy.settings import Client

__all__ = ["list_everything", "read_cluster"]

TRIES: Final = 3
_PAUSE_S: Final = 1.0

AnyCodec = Codec[Any]  # every resource has its own records


async def read_cluster(
    kube: KubeConfig, client: Client, resources: Iterable[str], progress: Progress
) -> tuple[Picture, str]:
    """List these resources; return the picture and the server's address.

    Raises ConfigError when there is no way in, and CannotLook as `list_everything`.
    """
    async with open_session(kube, limits=limits_of(client), rate=rate_of(client)) as session:
        return await list_everything(session, resources, progress), session.server


async def list_everything(
    session: Transport,
    resources: Iterable[str],
    progress: Progress,
    clock: Clock | None = None,
    dispensable: Collection[str] = (),
) -> Picture:
    """List these resources, each in up to three tries.

    Raises CannotLook when one is not to be had whole, naming all that are refused: half a picture
    would mislead. A `dispensable` one that is refused is done without.
    """
    codecs = {kind.resource: kind.codec for kind in kinds(SharedParts()).values()}
    gathering, missing = Gathering(), []
    resources = tuple(resources)
    for resource in resources:
        codec = _Counted(codecs[resource], f"listing {resource}:", progress)
        try:
            things, unreadable = await _listed(session, codec, clock or SystemClock())
        except Refused as error:
            if resource in dispensable and not error.retryable:
                gathering.refused(resource, str(error))
                continue
            missing.append(f"  {resource}: {error}")
            if error.retryable:
                break  # the server is not there, or not well: the others would wait for it as long
        else:
            for thing in things:
                gathering.add(resource, thing)
            for malformed in unreadable:
                gathering.malformed(malformed)
    if missing:
        raise CannotLook(_refusal(missing, [r for r in resources if r not in dispensable]))
    return gathering.picture()


async def _listed(
    session: Transport, codec: AnyCodec, clock: Clock
) -> tuple[list[Any], list[Malformed]]:
    """List a resource, beginning anew when a try breaks off; nothing of that try is kept."""
    for left in reversed(range(TRIES)):
        unreadable: list[Malformed] = []
        try:
            staged = await read_all(session, codec, unreadable.append, clock=clock)
        except Refused as error:
            if not (error.retryable and left):
                raise
            await clock.sleep(_PAUSE_S)
        else:
            return staged.items, unreadable
    raise AssertionError("the last try returns or raises")


def _refusal(missing: Iterable[str], resources: Iterable[str]) -> str:
    lines = "\n".join(missing)
    return (
        f"the cluster cannot be looked at whole, so nothing is said about it:\n{lines}\n"
        f"needed is the right to list {', '.join(resources)} in all namespaces;"
        " or pass -f FILE with what kubectl get … -A -o json wrote"
    )


class _Counted:
    """A codec that shows how many objects it has decoded."""

    def __init__(self, codec: AnyCodec, what: str, progress: Progress) -> None:
        self.kind, self.path, self.forms = codec.kind, codec.path, codec.forms
        self._codec = codec
        self._what = what
        self._progress = progress
        self._count = 0

    def event(self, line: bytes) -> WatchEvent[Any]:  # of any resource
        """Decode one watch line."""
        return self._codec.event(line)

    def page(self, body: bytes) -> Page:
        """Split one list page into undecoded items."""
        return self._codec.page(body)

    def item(self, raw: Raw | bytes) -> Any:  # a record of any resource
        """Decode one object and count it."""
        self._count += 1
        self._progress.tell(self._what, self._count)
        return self._codec.item(raw)
