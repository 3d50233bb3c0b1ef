"""Asks before an eviction whether what watches bring arrives at once.

A proxy may pass on a watch in parts of some size, and keep the rest: to the client that is a quiet
watch. An API server begins a watch from version 0 with the objects that there are. So a watch of
one namespace is opened; where its first line comes only with its end, something held it back.
"""

from enum import Enum, auto
from math import inf
from typing import Final

import anyio

from reactive_desched.errors import RateLimited, Unreachable
from reactive_desched.kube.client.clock import Clock, move_on_after
from reactive_desched.kube.client.cluster_guard import NAMESPACES, ONE_NAMESPACE
from reactive_desched.kube.client.session import Transport, WatchStream
from reactive_desched.kube.watch.silence import LateWatches
from reactive_desched.primitives.http_failures import CONNECTION_ERRORS

__all__ = ["DeliveryCheck"]

_WATCH_S: Final = 2
"""The server ends the watch after this time, and everything that was kept back comes."""
_AT_ITS_END_S: Final = 0.5
_GIVE_UP_S: Final = _WATCH_S + 3.0
_COUNTS_FOR_S: Final = 5.0
_PARAMS: Final = {
    "watch": "true",
    "fieldSelector": ONE_NAMESPACE["fieldSelector"],
    "resourceVersion": "0",
    "timeoutSeconds": str(_WATCH_S),
}


class _Delivery(Enum):
    """The moment at which the first line of a watch came."""

    AT_ONCE = auto()
    AT_ITS_END = auto()
    UNKNOWN = auto()


class DeliveryCheck:
    """Lets a decision wait until the watches show what happened before it.

    An answer counts for five seconds, and until a watch is opened after it. Decisions that come
    together wait for one answer. Where there is none, as from a server that is busy, they do not
    wait any longer: the check of silent watches remains.
    """

    def __init__(self, session: Transport, clock: Clock, late_watches: LateWatches) -> None:
        self._session = session
        self._clock = clock
        self._late_watches = late_watches
        self._one_at_a_time = anyio.Lock()
        self._asked_at = -inf

    async def caught_up(self) -> None:
        """Return when the watches show what happened before this call."""
        decided_at = self._clock.now()
        async with self._one_at_a_time:
            if not (self._late_watches.are_late or self._counts):
                await self._ask()
        await self._late_watches.caught_up(decided_at)

    @property
    def _counts(self) -> bool:
        """Say whether the last answer is about the watches that are open now."""
        is_young = self._clock.now() - self._asked_at < _COUNTS_FOR_S
        return is_young and self._asked_at >= self._late_watches.opened_at

    async def _ask(self) -> None:
        asked_at, found = self._clock.now(), _Delivery.UNKNOWN
        async with move_on_after(self._clock, _GIVE_UP_S):
            found = await self._open_and_read()
        self._asked_at = asked_at
        if found is _Delivery.AT_ITS_END:
            self._late_watches.note(f"watch {NAMESPACES}: its first object came with its end")

    async def _open_and_read(self) -> _Delivery:
        requested_at = self._clock.now()
        try:
            async with self._session.stream(NAMESPACES, _PARAMS, open_s=_GIVE_UP_S) as reply:
                if not isinstance(reply, WatchStream) or not await _whole_line(reply):
                    return _Delivery.UNKNOWN
                line_at = self._clock.now()
                if line_at - requested_at < _WATCH_S - _AT_ITS_END_S:
                    return _Delivery.AT_ONCE
                while await reply.readline():
                    pass
        except (Unreachable, RateLimited, *CONNECTION_ERRORS):
            return _Delivery.UNKNOWN
        came_together = self._clock.now() - line_at < _AT_ITS_END_S
        return _Delivery.AT_ITS_END if came_together else _Delivery.AT_ONCE


async def _whole_line(stream: WatchStream) -> bool:
    return (await stream.readline()).endswith(b"\n")
