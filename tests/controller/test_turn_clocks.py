"""Both clocks are read at one moment, also where the process starves between two looks."""

from collections.abc import Callable

from reactive_desched.controller.turn_clocks import TurnClocks

AHEAD_S = 1000.0


class Machine:
    """A machine that keeps the process from running before some of its looks at a clock."""

    def __init__(self, starves_before: Callable[[int], bool]) -> None:
        self._now = 5.0
        self._looks = 0
        self._starves_before = starves_before

    def monotonic(self) -> float:
        self._looks += 1
        self._now += 20.0 if self._starves_before(self._looks) else 0.000_001
        return self._now

    def wall(self) -> float:
        return self.monotonic() + AHEAD_S


def ahead_s(moment: tuple[float, float]) -> float:
    now, wall = moment
    return wall - now


def test_both_clocks_are_read_anew_where_the_process_starved_between_them() -> None:
    for starved in range(1, 8):
        machine = Machine(starved.__eq__)
        clocks = TurnClocks(machine.monotonic, machine.wall)

        assert abs(ahead_s(clocks.moment()) - AHEAD_S) < 0.001
        with clocks.still():
            assert abs(ahead_s(clocks.moment()) - AHEAD_S) < 0.001


def test_in_a_block_it_is_the_moment_at_which_the_block_began() -> None:
    machine = Machine(lambda _: False)
    clocks = TurnClocks(machine.monotonic, machine.wall)
    with clocks.still() as began_s:
        moment = clocks.moment()

        assert moment == (began_s, clocks.wall()) == (clocks.monotonic(), clocks.wall())
        with clocks.still() as inner_s:
            assert (inner_s, clocks.moment()) == (began_s, moment)
    assert clocks.moment() > moment


def test_a_process_that_starves_between_any_two_looks_goes_on() -> None:
    machine = Machine(lambda _: True)
    now, wall = TurnClocks(machine.monotonic, machine.wall).moment()

    assert now < wall - AHEAD_S
