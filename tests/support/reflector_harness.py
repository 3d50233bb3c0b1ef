"""A reflector that runs beside a test, on a clock the test moves, and its event handler."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import isclose
from random import Random
from typing import Final

import anyio

from reactive_desched.kube.client.session import Session
from reactive_desched.kube.watch.late_watches import LateWatches
from reactive_desched.kube.watch.reflector import Reflector, ReflectorStatus
from reactive_desched.kube.watch.resume import ServerProbe
from reactive_desched.kube.watch.settings import ReflectorSettings
from reactive_desched.primitives.wakeup import Epoch
from tests.support.fake_resource import FakeCodec, FakeObject, RecordingEventHandler
from tests.support.manual_clock import ManualClock, wait_until

PAGED_LIST: Final = ReflectorSettings(streaming=False)
STREAMING_LIST: Final = ReflectorSettings()
_CONFIRM_S = 1.0


class ReflectorHarness:
    """The things of one server, and the latest reflector; `handler` remembers every call."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.clock = ManualClock()
        self.handler = RecordingEventHandler()
        self.status = ReflectorStatus("Thing", FakeCodec.path)
        self.epoch = Epoch()
        self.reflector: Reflector[FakeObject] | None = None

    @asynccontextmanager
    async def running(
        self,
        settings: ReflectorSettings = PAGED_LIST,
        *,
        codec: FakeCodec | None = None,
        probe: ServerProbe | None = None,
        late_watches: LateWatches | None = None,
    ) -> AsyncIterator[None]:
        """Reflect while the block runs; in pages unless told otherwise."""
        reflector: Reflector[FakeObject] = Reflector(
            self.session,
            codec or FakeCodec(),
            self.handler,
            clock=self.clock,
            rng=Random(1),
            settings=settings,
            probe=probe,
            epoch=self.epoch,
            late_watches=late_watches,
        )
        self.reflector, self.status = reflector, reflector.status
        async with anyio.create_task_group() as beside:
            beside.start_soon(reflector.run)
            yield
            beside.cancel_scope.cancel()

    @property
    def objects(self) -> dict[str, str]:
        """The picture."""
        return self.handler.objects

    def holds(self, **objects: str) -> bool:
        """Whether the picture is this."""
        return self.handler.objects == objects

    @property
    def is_fresh(self) -> bool:
        """Whether the feed takes the picture for true."""
        return self.handler.is_fresh

    async def wait_until_fresh(self) -> None:
        """Wait until the picture is fresh."""
        await wait_until(lambda: self.handler.is_fresh)

    async def wait_until_stale(self) -> None:
        """Wait until the picture is stale."""
        await wait_until(lambda: not self.handler.is_fresh)

    async def wait_for_backoff(self, nth: int = 1) -> float:
        """Wait until the reflector pauses for the nth time, and say for how long it means to."""
        await wait_until(lambda: self.status.failures == nth and bool(self.clock.pending_waits_s))
        return self.clock.pending_waits_s[0]

    async def wait_until_confirmed(self) -> None:
        """See a resumed watch become fresh a second after it is open, and not before."""
        await wait_until(
            lambda: any(isclose(wait, _CONFIRM_S) for wait in self.clock.pending_waits_s)
        )
        assert not self.handler.is_fresh
        self.clock.advance(_CONFIRM_S)
        await self.wait_until_fresh()
