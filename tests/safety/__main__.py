"""`python -m tests.safety --seeds 10000`: play many stories, and print those that fail.

Each story records itself, and its recording must replay equal. With `--starves SECONDS` its process
starves for up to so long between any two looks at a clock. `--mutation NAME` switches one rule
of the program off and plays until the referee finds it.
"""

import argparse
import gc
import sys
import time
import traceback
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import NamedTuple

from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.recording.frames import RECORDING_FOLDER
from reactive_desched.replay.replaying import ReplayOptions, ReplayReport, replay_recording
from reactive_desched.replay.text import report_lines
from tests.safety.mutations import FOUND_BY, MUTATIONS, mutated
from tests.safety.referee import Violation
from tests.safety.story import play_story

ALL = "all"
SEEDS = 40
"""So many are played, and those whose stories show each rule, where nothing else is asked for."""


class Played(NamedTuple):
    """What came of one story: `replayed` decisions are equal; `error` says what went wrong."""

    seed: int
    evictions: int = 0
    replayed: int = 0
    not_compared: tuple[str, ...] = ()
    error: str = ""


def play(seed: int, steps: int, starves_s: float = 0.0) -> Played:
    """Play one story, which records itself, and replay it: it must be decided the same again."""
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        try:
            world = play_story(
                Random(seed), Path(folder), steps=steps, records=True, starves_s=starves_s
            )
            report = replayed(Path(folder))
        except Exception:  # noqa: BLE001  every failure is reported with its seed
            return Played(seed, error=traceback.format_exc())
    is_same = not (report.differences or report.is_damaged)
    error = "" if is_same else "\n".join(report_lines(report))
    evictions = len(world.referee.evictions)
    return Played(seed, evictions, report.equal, report.not_compared, error)


def keep_modules_from_collector() -> None:
    """Keep what is loaded from the garbage collector, as in tests: it takes a twentieth."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def replayed(folder: Path) -> ReplayReport:
    """Replay what a story recorded beside its journal."""
    options = ReplayOptions(recording=folder / RECORDING_FOLDER, journal=folder)
    return replay_recording(options, plugin_registry())


def seed_that_finds(mutation: str, seeds: Iterable[int], steps: int) -> tuple[int | None, str]:
    """Return the first seed in which the referee objects to a mutation, and what it says.

    What else goes wrong is no finding of the referee: it is raised.
    """
    for seed in seeds:
        with TemporaryDirectory() as folder, mutated(mutation):
            try:
                play_story(Random(seed), Path(folder), steps=steps)
            except Violation as violation:
                return seed, str(violation).partition("\n")[0]
    return None, ""


def play_mutations(names: list[str], seeds: Sequence[int], steps: int) -> int:
    """Print which seed finds each mutation; return 1 where none finds one."""
    missed = []
    for name in names:
        found, violation = seed_that_finds(name, seeds, steps)
        missed += [name] if found is None else []
        text = f"not found in {len(seeds)} seeds" if found is None else f"seed {found}: {violation}"
        sys.stdout.write(f"{name}: {text}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(names) - len(missed)} of {len(names)} mutations found\n")
    return 1 if missed else 0


def seeds_of(first: int | None, count: int | None) -> Sequence[int]:
    """Return the seeds that were asked for.

    Those of `FOUND_BY` are among them where none were: so each rule decides in one of the stories.
    """
    if first is None and count is None:
        return sorted({*range(SEEDS), *FOUND_BY.values()})
    return range(first or 0, (first or 0) + (SEEDS if count is None else count))


def main() -> int:
    """Play the seeds of the command line on all cores; return 1 where a story failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.safety", description=__doc__)
    parser.add_argument("--first", type=int, help="the first seed (default: 0)")
    parser.add_argument(
        "--seeds", type=int, help=f"how many (default: {SEEDS}, and those that show a rule)"
    )
    parser.add_argument("--steps", type=int, default=80, help="steps of a story (default: 80)")
    parser.add_argument(
        "--starves", type=float, default=0.0, help="for up to so many seconds (default: 0)"
    )
    parser.add_argument(
        "--mutation",
        choices=[*MUTATIONS, ALL],
        metavar="NAME",
        help="switch this rule off, and play until the referee finds that; all: one after another",
    )
    parser.add_argument("--mutations", action="store_true", help="list the mutations")
    arguments = parser.parse_args()
    if arguments.mutations:
        sys.stdout.write("".join(f"{name}\n" for name in MUTATIONS))
        return 0
    seeds = seeds_of(arguments.first, arguments.seeds)
    if arguments.mutation:
        names = list(MUTATIONS) if arguments.mutation == ALL else [arguments.mutation]
        return play_mutations(names, seeds, arguments.steps)
    began, evictions, equal, left_out, failed = time.monotonic(), 0, 0, 0, []
    with ProcessPoolExecutor(initializer=keep_modules_from_collector) as pool:
        for story in pool.map(play, seeds, repeat(arguments.steps), repeat(arguments.starves)):
            evictions += story.evictions
            equal += story.replayed
            left_out += len(story.not_compared)
            for text in story.not_compared:
                sys.stdout.write(f"seed {story.seed}: not compared: {text}\n")
            if story.error:
                failed.append(story.seed)
                sys.stdout.write(f"seed {story.seed} fails:\n{story.error}\n")
                sys.stdout.flush()
    took_s = time.monotonic() - began
    sys.stdout.write(f"{len(seeds)} stories, {evictions} evictions, {took_s:.0f} s\n")
    sys.stdout.write(f"{equal} decisions are replayed equal; times not compared: {left_out}\n")
    if failed:
        sys.stdout.write(f"failed seeds: {', '.join(map(str, failed))}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
