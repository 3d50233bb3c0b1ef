"""Word that the server answers again, for those who wait out a back-off."""

from collections.abc import Awaitable, Callable

import anyio

__all__ = ["ReconnectSignal"]


class ReconnectSignal:
    """Word that the server answers; shared by the reflectors of one session."""

    def __init__(self) -> None:
        self._answered = anyio.Event()

    def notify(self) -> None:
        """The server answered: wake whoever waits for it."""
        self._answered.set()
        self._answered = anyio.Event()

    async def wait(self, sleep: Callable[[float], Awaitable[None]], seconds: float) -> None:
        """Come back after this many seconds, or as soon as the server answers somebody."""
        async with anyio.create_task_group() as race:

            async def time_is_up() -> None:
                await sleep(seconds)
                race.cancel_scope.cancel()

            race.start_soon(time_is_up)
            await self._answered.wait()
            race.cancel_scope.cancel()
