"""A cluster state that is recorded on a clock that jumps, into a folder."""

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
from trio.testing import MockClock

from reactive_desched.model.objects import ClusterObject
from reactive_desched.recording.items import Damage, Instant, Item, PauseSet
from reactive_desched.recording.reader import state_at
from reactive_desched.recording.recorded_state import RecordedState
from reactive_desched.recording.recorder import ClusterName, ClusterRecorder, RecorderBounds
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.resources import WATCHED_KINDS
from reactive_desched.telemetry.logs import logger

WALL_S = 1_800_000_000.0
BOUNDS = RecorderBounds(2**24, 1e9, 2**22, 600.0)


PROD = ClusterName("prod", "u")


class Recorded:
    """A cluster state that is recorded on a clock of its own."""

    def __init__(
        self,
        folder: Path,
        bounds: RecorderBounds = BOUNDS,
        cluster: ClusterName = PROD,
    ) -> None:
        self.folder = folder
        self.ahead_s = 0.0  # what the time of day was set ahead
        self.state = ClusterState(clock=anyio.current_time, wall_clock=self.wall)
        self.pauses: dict[str, str] = {}
        self.recorder = ClusterRecorder(
            self.state,
            folder,
            bounds,
            self.standing,
            moment=lambda: (anyio.current_time(), self.wall()),
            log=logger("test"),
            cluster=cluster,
            run_blocking=self.run_blocking,
        )
        self.before_write: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint

    def wall(self) -> float:
        return WALL_S + self.ahead_s + anyio.current_time()

    def standing(self, at: Instant) -> Iterator[Item]:
        for name, reason in self.pauses.items():
            yield PauseSet(at, name, reason)

    async def run_blocking(self, work: Callable[[], Any]) -> Any:
        await self.before_write()
        return work()

    def objects(self) -> dict[str, dict[str, ClusterObject]]:
        """Return what the state holds now."""
        found = {
            name: {each.key: each for each in self.state.store(kind.record)}
            for name, kind in WATCHED_KINDS.items()
        }
        return {name: each for name, each in found.items() if each}

    def read(self, wall_s: float) -> RecordedState:
        """Return the state as it is recorded."""
        return state_at(self.folder, wall_s, fail_on_damage)[0]


def fail_on_damage(damage: Damage) -> None:
    raise AssertionError(str(damage))


def holding(state: RecordedState) -> dict[str, dict[str, ClusterObject]]:
    return {name: each for name, each in state.objects.items() if each}


def virtual(
    play: Callable[[Recorded], Awaitable[None]],
    folder: Path,
    bounds: RecorderBounds = BOUNDS,
    cluster: ClusterName = PROD,
) -> Recorded:
    """Play while the recorder runs, on a clock that jumps; return what was recorded."""

    async def main() -> Recorded:
        recorded = Recorded(folder, bounds, cluster)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(recorded.recorder.run)
            await play(recorded)
            tasks.cancel_scope.cancel()
        return recorded

    return anyio.run(
        main, backend="trio", backend_options={"clock": MockClock(autojump_threshold=0)}
    )
