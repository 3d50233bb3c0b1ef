"""Read a resource once, for commands that need a picture of the cluster and then end."""

from collections.abc import Callable
from typing import TypeVar

from reactive_desched.errors import Malformed, RequestRejected
from reactive_desched.kube.client.clock import Clock, SystemClock
from reactive_desched.kube.client.session import Transport
from reactive_desched.kube.codec import Codec
from reactive_desched.kube.watch.lister import Lister, ListResult, ListSettings
from reactive_desched.kube.watch.watch_end import StopReason, WatchEnd
from reactive_desched.kube.watch.yielding import YieldPolicy

__all__ = ["list_once"]

T = TypeVar("T")
_LIST_SETTINGS = ListSettings(page_size=500, yield_policy=YieldPolicy(steps_per_slice=50))
_NOT_RETRYABLE = frozenset({StopReason.DENIED, StopReason.REJECTED, StopReason.UNAUTHORIZED})


async def list_once(
    session: Transport,
    codec: Codec[T],
    on_malformed: Callable[[Malformed], None],
    *,
    clock: Clock | None = None,
) -> ListResult[T]:
    """List everything once; raises Refused, with `retryable`, when the server does not give it.

    What cannot be decoded goes to `malformed` and is left out.
    """
    result = await Lister(session, codec, on_malformed, clock or SystemClock()).list_all(
        _LIST_SETTINGS
    )
    if isinstance(result, WatchEnd):
        raise RequestRejected(result.message, retryable=result.reason not in _NOT_RETRYABLE)
    return result
