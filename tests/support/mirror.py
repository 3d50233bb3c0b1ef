"""A reflector that runs beside a test, on a clock the test moves, and the feed it keeps true."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import isclose
from random import Random
from typing import Final

import anyio

from reactive_desched.kube.client.session import Session
from reactive_desched.kube.watch.reconnect import Revival
from reactive_desched.kube.watch.reflector import Reflector
from reactive_desched.kube.watch.settings import ReflectorStatus, ReflectSettings
from reactive_desched.testing.manual_clock import ManualClock, until
from tests.support.things import RememberingFeed, Thing, ThingCodec

PAGED: Final = ReflectSettings(streaming=False)
STREAMED: Final = ReflectSettings()
_SETTLE_S = 1.0


class Mirror:
    """The things of one server; `feed` remembers every call, `status` is the latest reflector's."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.clock = ManualClock()
        self.feed = RememberingFeed()
        self.status = ReflectorStatus("Thing", ThingCodec.path)
        self.renew: Callable[[str], None]

    @asynccontextmanager
    async def running(
        self,
        settings: ReflectSettings = PAGED,
        *,
        codec: ThingCodec | None = None,
        revival: Revival | None = None,
    ) -> AsyncIterator[None]:
        """Reflect while the block runs; in pages unless told otherwise."""
        reflector: Reflector[Thing] = Reflector(
            self.session,
            codec or ThingCodec(),
            self.feed,
            clock=self.clock,
            rng=Random(1),
            settings=settings,
            revival=revival,
        )
        self.status, self.renew = reflector.status, reflector.renew
        async with anyio.create_task_group() as beside:
            beside.start_soon(reflector.run)
            yield
            beside.cancel_scope.cancel()

    @property
    def things(self) -> dict[str, str]:
        """The picture."""
        return self.feed.things

    @property
    def is_fresh(self) -> bool:
        """Whether the feed takes the picture for true."""
        return self.feed.is_fresh

    async def fresh(self) -> None:
        """Wait until the picture is fresh."""
        await until(lambda: self.feed.is_fresh)

    async def stale(self) -> None:
        """Wait until the picture is stale."""
        await until(lambda: not self.feed.is_fresh)

    async def pause(self, nth: int = 1) -> float:
        """Wait until the reflector pauses for the nth time, and say for how long it means to."""
        await until(lambda: self.status.failures == nth and bool(self.clock.waits))
        return self.clock.waits[0]

    async def settled(self) -> None:
        """See a resumed watch become fresh a second after it is open, and not before."""
        await until(lambda: any(isclose(wait, _SETTLE_S) for wait in self.clock.waits))
        assert not self.feed.is_fresh
        self.clock.advance(_SETTLE_S)
        await self.fresh()
