"""Read a resource once, for commands that need a picture of the cluster and then end."""

from collections.abc import Callable
from typing import TypeVar

from reactive_desched.errors import Malformed, Refused
from reactive_desched.kube.client.clock import Clock, SystemClock
from reactive_desched.kube.client.session import Transport
from reactive_desched.kube.decode.codec import Codec
from reactive_desched.kube.watch.lister import Lister, PageSizes, Staged
from reactive_desched.kube.watch.watch_end import End, Ending
from reactive_desched.kube.watch.yielding import Gait

__all__ = ["read_all"]

T = TypeVar("T")
_SIZES = PageSizes(page=500, gait=Gait(steps=50))
_FINAL = frozenset({End.DENIED, End.REJECTED, End.UNKNOWN_CALLER})


async def read_all(
    session: Transport,
    codec: Codec[T],
    malformed: Callable[[Malformed], None],
    *,
    clock: Clock | None = None,
) -> Staged[T]:
    """List everything once; raises Refused, with `retryable`, when the server does not give it.

    What cannot be decoded goes to `malformed` and is left out.
    """
    staged = await Lister(session, codec, malformed, clock or SystemClock()).stage(_SIZES)
    if isinstance(staged, Ending):
        raise Refused(staged.detail, retryable=staged.why not in _FINAL)
    return staged
