"""`python -m tests.courses --seeds 100`: play drawn hours, and name what a passing state moved.

For each eviction the hour is played again up to it, and on without evictions: what no sweep
finds minutes later was a state that passes, or a plan under way that would not begin anew. Named
are also workloads that wait longer for a node than without the descheduler, and what a sweep would
still evict at the end of an hour. A poller plays the same hours beside it.
"""

import argparse
import sys
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

from tests.courses.course import drawn_course, drawn_work
from tests.courses.playing import Figures, Judged, judged


class Played(NamedTuple):
    """What came of an hour; `error` says what went wrong."""

    seed: int
    judged: Judged | None = None
    error: str = ""


def play(seed: int, *, asks: bool, packs: bool, work: bool) -> Played:
    """Play an hour, and judge it."""
    drawn = drawn_work if work else drawn_course
    try:
        return Played(seed, judged(drawn(seed, packs=packs), asks=asks))
    except Exception:  # noqa: BLE001  every failure is reported with its seed
        return Played(seed, error=traceback.format_exc())


def say(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Play the hours; return 1 if one could not be played."""
    parser = argparse.ArgumentParser(prog="python -m tests.courses", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--waits-only", action="store_true", help="do not ask what was passing")
    parser.add_argument("--packs", action="store_true", help="with a scheduler that packs pods")
    parser.add_argument(
        "--work", action="store_true", help="what happens is work that takes half an hour"
    )
    args = parser.parse_args()
    evictions: Counter[str] = Counter()
    passing: Counter[str] = Counter()
    futile: Counter[str] = Counter()
    with_us = without = polled = Figures()
    longer = failed = 0
    seeds = range(args.first, args.first + args.seeds)
    playing = partial(play, asks=not args.waits_only, packs=args.packs, work=args.work)
    with ProcessPoolExecutor(args.jobs) as pool:
        for played in pool.map(playing, seeds):
            if played.judged is None:
                failed += 1
                say(f"seed {played.seed}: {played.error}")
                continue
            hour = played.judged
            evictions.update(each.plugin for each in hour.evictions)
            passing.update(each.plugin for each in hour.passing)
            futile.update(each.plugin for each in hour.futile)
            with_us += hour.with_us
            without += hour.without
            polled += hour.polled
            longer += bool(hour.longer)
            for each in (*hour.passing, *hour.longer):
                say(f"seed {played.seed}: {each}")
            for found in hour.left:
                say(f"seed {played.seed}: left: {found.pod} by {found.plugin}: {found.message}")
    say(f"{evictions.total()} evictions: {dict(evictions)}")
    say(f"{passing.total()} for what no sweep finds minutes later: {dict(passing)}")
    say(f"{futile.total()} moves whose replacement was found again: {dict(futile)}")
    say(f"{longer} hours in which pods waited longer")
    for who, of in (("reactive-desched", with_us), ("a poller", polled), ("none", without)):
        say(
            f"{who}: {of.evictions} evictions, {of.left} pods that a sweep would still evict, "
            f"{of.waited_s:.0f} pod-seconds without a node, {of.pods} pods placed"
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
