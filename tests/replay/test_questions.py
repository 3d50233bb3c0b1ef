"""That a person asks decides nothing: a process of which all is asked decides as any other."""

from collections.abc import Coroutine
from pathlib import Path
from random import Random
from typing import Any

import pytest
from outcome import Value

from reactive_desched.api.event import Checkpoint
from reactive_desched.app.node_overview import overview
from reactive_desched.controller.controller import Controller
from reactive_desched.controller.description import ControllerDescription
from reactive_desched.controller.pending import PendingQuery
from reactive_desched.journal.events import read_events
from reactive_desched.model.clock_pair import ClockPair
from reactive_desched.model.objects import Pod, controller_of
from reactive_desched.primitives.long_answers import at_once
from reactive_desched.why.question import Question, answer
from tests.safety import story, world
from tests.safety.__main__ import replayed
from tests.safety.story import UNBROKEN, play_story
from tests.safety.world import Life, World

SEEDS = (23, 30, 38)
STEPS = 25
STARVES_BEFORE = 0.05

BALANCED = """\
  - name: LowNodeUtilization
    args: {thresholds: {cpu: 30, pods: 30}, targetThresholds: {cpu: 40, pods: 40}}
  plugins:
"""


def with_balance(text: str) -> str:
    """Add a plugin that compares nodes: to ask for its table prepares what it evaluates by."""
    text = text.replace("  plugins:\n", BALANCED, 1)
    others = ("balance: {enabled: []", "balance: {enabled: [LowNodeUtilization]")
    both = ("balance: {enabled: [R", "balance: {enabled: [LowNodeUtilization, R")
    return text.replace(*others).replace(*both)


def at_this_moment(question: Coroutine[Any, Any, Any]) -> Any:
    """Run what asks to its end, without a turn for any other task."""
    try:
        question.send(None)
        while True:
            question.send(Value(None))
    except StopIteration as end:
        return end.value


class Person:
    """Somebody who asks everything, again and again, at moments that a source draws."""

    def __init__(self, seed: int, share: float) -> None:
        self._rng = Random(seed)
        self._share = share
        self.asked = 0

    def come_by(self, where: World, controller: Controller) -> None:
        if controller.ignores_changes or self._rng.random() >= self._share:
            return
        drawn = where._starving.getstate()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(world, "STARVES_BEFORE", 0.0)  # time passes as without questions
            self._ask(controller)
        where._starving.setstate(drawn)
        self.asked += 1

    def _ask(self, controller: Controller) -> None:
        clocks, rng = controller.clocks, self._rng
        description = ControllerDescription(controller, clocks.monotonic, clocks.wall)
        list(description.collect())
        for of_now in (
            description.state,
            description.brake_states,
            description.describe_brakes,
            description.limit_status,
            description.is_busy,
        ):
            of_now()
        for question in (
            description.pending(PendingQuery(all="true")),
            description.proposals(),
            description.migrations(),
            description.pending_summary(),
            overview(controller, {}),
        ):
            at_this_moment(question)
        pods, nodes = list(controller.state.store(Pod)), sorted(controller.view.node_names())
        if not (pods and nodes):
            return
        pod = rng.choice(pods)
        questions = [Question(pod=pod.uid), Question(node=rng.choice(nodes))]
        if (owner := controller_of(pod.owners)) is not None:
            questions.append(Question(owner=owner.uid))
        findings = at_this_moment(description.findings())
        for each in questions:
            at_once(answer(controller, each, findings, lambda: ClockPair(*clocks.moment())))


def lived(
    seed: int,
    folder: Path,
    person: Person | None,
    monkeypatch: pytest.MonkeyPatch,
    starves_s: float = 0.0,
) -> list[tuple[Any, ...]]:
    """Live a story; return what its journal has, with the times.

    The person comes by before each event of a watch. Where processes starve, a timer may be late
    then, and the worker has not looked yet.
    """
    written, take_in = story.policy_text, Life._take_in
    folder.mkdir()

    def asked_before(self: Life, *arguments: Any) -> Any:
        if person is not None:
            person.come_by(self._world, self.controller)
        return take_in(self, *arguments)

    how: dict[str, Any] = {"records": True, "actions": UNBROKEN, "starves_s": starves_s}
    with monkeypatch.context() as patched:
        patched.setattr(story, "policy_text", lambda rng: with_balance(written(rng)))
        patched.setattr(Life, "_take_in", asked_before)
        patched.setattr(world, "STARVES_BEFORE", STARVES_BEFORE)
        play_story(Random(seed), folder, steps=STEPS, **how)
    return [
        (each.time, each.type, getattr(each.data, "who", None), getattr(each.data, "reason", None))
        for each in read_events(folder)
        if not isinstance(each.data, Checkpoint)
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_asked_at_any_moment_decides_nothing(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = Person(seed, share=0.1)

    unasked = lived(seed, tmp_path / "unasked", None, monkeypatch)
    asked = lived(seed, tmp_path / "asked", person, monkeypatch)

    assert person.asked > 10
    assert asked == unasked


@pytest.mark.parametrize("seed", SEEDS)
def test_a_process_that_starves_is_decided_the_same_again_by_a_replay_without_questions(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = Person(seed, share=0.1)

    lived(seed, tmp_path / "asked", person, monkeypatch, starves_s=0.5)
    report = replayed(tmp_path / "asked")

    assert person.asked > 10
    assert report.differences == ()
    assert report.equal > 10
