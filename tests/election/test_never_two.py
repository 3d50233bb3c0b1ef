"""Whatever happens to candidates, links and clocks: never do two act at once."""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from tests.support.candidates import Candidate, Link, Replicas, terms

LEADER = -1
"""The number of the replica that acted last."""
CALM_S = 60.0
FASTEST, SLOWEST = 1.15, 0.85
"""Rates of clocks; 10 s of the slowest are shorter than 15 s of the fastest."""


class Fault(NamedTuple):
    """What happens to one candidate, so many seconds after the fault before."""

    after_s: float
    verb: str
    number: int
    seconds: float


class Setup(NamedTuple):
    """How one replica's clock runs, and how slow its link may be."""

    rate: float
    slowest_s: float
    has_kill_timer: bool


def drawn_setups(rng: Random) -> list[Setup]:
    """Draw two or three replicas."""
    return [
        Setup(
            rng.choice([1.0, FASTEST, SLOWEST]),
            rng.choice([0.0, 0.3, 2.0, 6.0]),
            has_kill_timer=rng.random() < 1 / 3,
        )
        for _ in range(rng.choice([2, 3]))
    ]


def drawn_faults(rng: Random) -> list[Fault]:
    """Draw what happens; half of it to the leader."""
    return [
        Fault(
            rng.choice([0.0, 1.0, 7.0, 20.0]) + rng.random(),
            rng.choice(["pause", "pause", "cut", "kill", "touch"]),
            rng.choice([LEADER, LEADER, LEADER, 0, 1, 2]),
            rng.choice([1.0, 9.0, 13.0, 25.0, 40.0]),
        )
        for _ in range(rng.randrange(8))
    ]


def live(replicas: Replicas, world: list[Setup], story: list[Fault], seed: int) -> None:
    async def run() -> None:
        rng = Random(seed)
        makers = [maker(replicas, setup, rng) for setup in world]
        async with replicas.of(*makers):
            for after_s, verb, number, seconds in story:
                await anyio.sleep(after_s)
                victim = replicas.running[number % len(world)]
                if number == LEADER and replicas.acts:
                    name = replicas.acts[-1][1]
                    victim = next((c for c in replicas.running if c.name == name), victim)
                if verb == "pause":
                    victim.pause(seconds)
                elif verb == "cut":
                    victim.link.cut_until = anyio.current_time() + seconds
                elif verb == "kill":
                    victim.kill()
                else:
                    replicas.server.version += 1
            await anyio.sleep(CALM_S)

    clock = MockClock(autojump_threshold=0)
    anyio.run(run, backend="trio", backend_options={"clock": clock})


def maker(replicas: Replicas, setup: Setup, rng: Random) -> Callable[[str], Candidate]:
    def make(name: str) -> Candidate:
        return Candidate(
            replicas.server,
            name,
            replicas.acts,
            link=Link(lambda: setup.slowest_s * rng.random()),
            rate=setup.rate,
            rng=rng,
            has_kill_timer=setup.has_kill_timer,
        )

    return make


@given(st.integers(0, 2**32))
def test_never_do_two_act_at_once_and_none_acts_again(seed: int) -> None:
    rng, replicas = Random(seed), Replicas([])
    live(replicas, drawn_setups(rng), drawn_faults(rng), seed)

    names = [name for name, _, _ in terms(replicas.acts)]
    assert len(names) == len(set(names)), "a candidate acted again after another had acted"


@settings(max_examples=settings().max_examples // 2)
@given(st.integers(0, 2**32))
def test_once_nothing_fails_any_more_one_acts(seed: int) -> None:
    rng, replicas = Random(seed), Replicas([])
    story = drawn_faults(rng)
    live(replicas, [Setup(1.0, 0.1, has_kill_timer=True)] * rng.choice([2, 3]), story, seed)

    end = sum(fault.after_s for fault in story) + CALM_S
    assert replicas.acts[-1][0] >= end - 1


@pytest.mark.parametrize("rate", [SLOWEST, 1.0, FASTEST])
def test_between_two_terms_no_candidate_acts_for_a_while(rate: float) -> None:
    replicas = Replicas([])
    world = [Setup(rate, 0.0, has_kill_timer=False), Setup(FASTEST, 0.0, has_kill_timer=False)]
    live(replicas, world, [Fault(20, "pause", LEADER, 60)], 1)

    (_, _, first_end), (_, second_begin, _) = list(terms(replicas.acts))[:2]
    assert second_begin - first_end > 1
