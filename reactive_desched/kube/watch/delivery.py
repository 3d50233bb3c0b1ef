"""Asks before an eviction whether what watches bring arrives at once.

A proxy may pass on a watch in parts of some size, and keep the rest: to the client that is a quiet
watch. An API server begins a watch from version 0 with the objects that there are. So a watch of
one namespace is opened; where its first line comes only with its end, something held it back.
"""

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
_DUE_S: Final = _WATCH_S / 2
"""The first line is due in this time; a slow server's comes later, and its end as much later."""
_NOTICEABLE_S: Final = 0.1
_GIVE_UP_S: Final = _WATCH_S + 3.0
_COUNTS_FOR_S: Final = 5.0
_TRIES: Final = 3
"""So often a watch has to break, one after the other, before that counts as kept back."""
_PARAMS: Final = {
    "watch": "true",
    "fieldSelector": ONE_NAMESPACE["fieldSelector"],
    "resourceVersion": "0",
    "timeoutSeconds": str(_WATCH_S),
}


class DeliveryCheck:
    """Lets a decision wait until the watches show what happened before it.

    An answer counts for five seconds, and until a watch is opened after it. Decisions that come
    together wait for one answer. Where there is none, as from a server that is busy, they do not
    wait any longer: the check of silent watches remains. A watch that breaks is opened again before
    it counts: a connection may be cut at any moment. A line that is somewhat late may come from a
    proxy that sends what it has from time to time: decisions wait twice as long as it took.
    """

    def __init__(self, session: Transport, clock: Clock, late_watches: LateWatches) -> None:
        self._session = session
        self._clock = clock
        self._late_watches = late_watches
        self._one_at_a_time = anyio.Lock()
        self._asked_at = -inf
        self._delay_s = 0.0
        self._has_broken = False

    async def caught_up(self) -> bool:
        """Return when the watches show what happened before this call; False where they do not."""
        decided_at = self._clock.now()
        async with self._one_at_a_time:
            if not (self._late_watches.are_late or self._counts):
                await self._ask()
        if self._delay_s >= _NOTICEABLE_S and not self._late_watches.are_late:
            await self._clock.sleep(max(0.0, decided_at + 2 * self._delay_s - self._clock.now()))
        return await self._late_watches.caught_up(decided_at)

    @property
    def _counts(self) -> bool:
        """Say whether the last answer is about the watches that are open now."""
        is_young = self._clock.now() - self._asked_at < _COUNTS_FOR_S
        return is_young and self._asked_at >= self._late_watches.opened_at

    async def _ask(self) -> None:
        asked_at, found = self._clock.now(), ""
        for _ in range(_TRIES):
            self._delay_s, self._has_broken = 0.0, False
            found = f"did not come in {_GIVE_UP_S:.0f} s"
            async with move_on_after(self._clock, _GIVE_UP_S):
                found = await self._open_and_read()
            if not (found and self._has_broken):
                break
        self._asked_at = asked_at
        if found:
            self._late_watches.note(f"watch {NAMESPACES}: its first object {found}")

    async def _open_and_read(self) -> str:
        """Return how late the first line is; empty where it is not, or nothing shows it."""
        requested_at = self._clock.now()
        try:
            async with self._session.stream(NAMESPACES, _PARAMS, open_s=_GIVE_UP_S) as reply:
                if not isinstance(reply, WatchStream):
                    return ""
                return await self._read(reply, requested_at)
        except RateLimited:
            return ""
        except Unreachable as error:
            return "did not come in time" if error.is_late else ""

    async def _read(self, stream: WatchStream, requested_at: float) -> str:
        line = await self._readline(stream)
        line_at = self._clock.now()
        delay_s = line_at - requested_at
        if not (line or self._has_broken):  # it ended as if there was no such namespace
            return ""
        if not line.endswith(b"\n"):
            self._has_broken = True
            return "did not come before it broke off" if delay_s >= _DUE_S else ""
        if delay_s >= _DUE_S:
            while await self._readline(stream):
                pass
            if self._clock.now() - line_at < _DUE_S:
                return "came with its end"
        self._delay_s = delay_s
        return ""

    async def _readline(self, stream: WatchStream) -> bytes:
        """Return a line; what there is of it, or nothing, at the end."""
        try:
            return await stream.readline()
        except CONNECTION_ERRORS:
            self._has_broken = True
            return b""
