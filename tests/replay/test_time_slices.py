"""A process whose slices of the event loop end anywhere is replayed, whatever persons ask of it.

To answer a person prepares what an evaluation would have to prepare: that takes fewer slices then.
"""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from reactive_desched.api.balance_plugin import BalancePlugin
from reactive_desched.app.input_notes import InputNotes
from reactive_desched.controller import worker
from reactive_desched.controller.controller import Controller
from reactive_desched.model.clock_pair import ClockPair
from reactive_desched.primitives.long_answers import at_once
from reactive_desched.replay.replaying import ReplayReport
from reactive_desched.why.question import Question, answer
from tests.safety import story, world
from tests.safety.__main__ import replayed
from tests.safety.story import UNBROKEN, play_story

BALANCED = """\
  - name: LowNodeUtilization
    args: {thresholds: {cpu: 30, pods: 30}, targetThresholds: {cpu: 40, pods: 40}}
  plugins:
"""


def with_balance(text: str) -> str:
    text = text.replace("  plugins:\n", BALANCED, 1)
    others = ("balance: {enabled: []", "balance: {enabled: [LowNodeUtilization]")
    both = ("balance: {enabled: [R", "balance: {enabled: [LowNodeUtilization, R")
    return text.replace(*others).replace(*both)


class Person:
    """Somebody who asks, at the end of some slices, as the pages of nodes and of `why` do."""

    def __init__(self, seed: int, share: float) -> None:
        self._rng = Random(seed)
        self._share = share
        self.controller: Controller | None = None
        self.asked = 0

    def ask(self) -> None:
        controller = self.controller
        if controller is None or self._rng.random() >= self._share:
            return
        self.asked += 1
        with controller.state.questioned():
            for instance in controller.evaluator.instances:
                if isinstance(instance.plugin, BalancePlugin):
                    for table in instance.plugin.node_tables(instance.view):
                        for node in controller.view.node_names():
                            table.describe_with_obstacle(node)
        if pods := controller.view.pods():
            clocks, findings = controller.clocks, list(controller.evaluator.queue.pending())
            question = Question(pod=self._rng.choice(pods))
            steps = answer(controller, question, findings, lambda: ClockPair(*clocks.moment()))
            at_once(steps)


def play(
    seed: int, folder: Path, person: Person, ends: float, monkeypatch: pytest.MonkeyPatch
) -> ReplayReport:
    """Play a story in which a share of the looks at a clock ends a slice, and replay it."""
    written, worked, build = story.policy_text, InputNotes.worked, Controller.__init__
    drawn = Random(seed)

    def note_built(self: Controller, *arguments: Any, **named: Any) -> None:
        build(self, *arguments, **named)
        person.controller = self

    def ask_after(self: InputNotes, now_s: float, ended_after: int | None) -> None:
        worked(self, now_s, ended_after)
        person.ask()

    class Slice(worker._TimeSlice):
        def is_over(self) -> bool:
            self._ends = -1.0 if drawn.random() < ends else self._ends
            return super().is_over()

    with monkeypatch.context() as patched:
        patched.setattr(story, "policy_text", lambda rng: with_balance(written(rng)))
        patched.setattr(InputNotes, "worked", ask_after)
        patched.setattr(Controller, "__init__", note_built)
        patched.setattr(worker, "_TimeSlice", Slice)
        patched.setattr(world, "STARVES_BEFORE", 0.3)
        play_story(Random(seed), folder, steps=40, records=True, actions=UNBROKEN, starves_s=0.5)
    return replayed(folder)


@pytest.mark.parametrize("seed", [100])
def test_slices_that_end_anywhere_are_replayed_whatever_persons_ask(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = Person(seed, share=0.3)
    report = play(seed, tmp_path, person, 0.8, monkeypatch)

    assert report.differences == ()
    assert report.equal > 15
    assert person.asked > 20
