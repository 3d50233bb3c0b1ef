"""The steps of stories in a hypothesis state machine, which shrinks what fails.

A world lives on trio, and its tasks sleep and wait as they like; a rule is a plain call. So the
world runs as a guest of the machine: a rule gives it one step to play, and runs its event loop in
turns until that is done. Between rules the loop has no turn, and virtual time stands still.
"""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import trio
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from outcome import Outcome
from trio.testing import MockClock

from tests.safety.story import (
    ACTIONS,
    Story,
    live,
    policy_text,
    read_policy,
)
from tests.safety.world import World
from tests.support.trio_order import task_order


class SteeredWorld:
    """A world whose story is told from outside, one step after the other."""

    def __init__(self, text: str, choices: Random, seed: int, directory: Path) -> None:
        self._turns: deque[Callable[[], Any]] = deque()
        self._next = ""
        self._is_told = False
        self._ended: Outcome[World] | None = None
        task_order().seed(seed)
        trio.lowlevel.start_guest_run(
            live,
            directory,
            read_policy(text),
            Random(seed),
            choices,
            self._tell,
            run_sync_soon_threadsafe=self._turns.append,
            done_callback=self._end,
            host_uses_signal_set_wakeup_fd=True,
            clock=MockClock(autojump_threshold=0),
        )

    def play(self, action: str) -> None:
        """Play one step of the story; raises Violation."""
        self._next = action
        while self._next and self._ended is None:
            self._turns.popleft()()
        self._raise_error()

    def end(self) -> None:
        """End the story, unless it failed, and check what holds of the whole; raises Violation."""
        if self._ended is not None:
            return
        self._is_told = True
        while self._ended is None:
            self._turns.popleft()()
        self._raise_error()

    async def _tell(self, story: Story) -> None:
        while not self._is_told:
            if self._next:
                await story.play(self._next)
                self._next = ""
            await trio.lowlevel.checkpoint()  # a loop that has something to do lets no time pass

    def _end(self, ended: Outcome[World]) -> None:
        self._ended = ended

    def _raise_error(self) -> None:
        if self._ended is not None:
            self._ended.unwrap()


class ClusterInTrouble(RuleBasedStateMachine):
    """A cluster, a controller and what happens to them: the steps of stories, and the referee."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
        self._world: SteeredWorld | None = None

    @initialize(
        drawn=st.randoms(use_true_random=False),
        choices=st.randoms(use_true_random=False, note_method_calls=True),
        seed=st.integers(0, 1 << 30),
    )
    def begin(self, drawn: Random, choices: Random, seed: int) -> None:
        text = policy_text(drawn)
        note(text)
        self._world = SteeredWorld(text, choices, seed, Path(self._folder.name))

    @rule(action=st.sampled_from(ACTIONS))
    def step(self, action: str) -> None:
        assert self._world is not None, "it began"
        self._world.play(action)

    def teardown(self) -> None:
        try:
            if self._world is not None:
                self._world.end()
        finally:
            self._folder.cleanup()
