"""`python -m tests.courses --seeds 100`: play drawn hours, and name what a passing state moved.

For each eviction the hour is played again up to it, and on without the descheduler: what nobody
would still find a minute later was a state that passes.
"""

import argparse
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

from tests.courses.playing import Judged, judged


class Played(NamedTuple):
    seed: int
    judged: Judged | None = None
    error: str = ""


def play(seed: int, *, asks: bool) -> Played:
    try:
        return Played(seed, judged(seed, asks=asks))
    except Exception:  # noqa: BLE001  every failure is reported with its seed
        return Played(seed, error=traceback.format_exc())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.courses", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--waits-only", action="store_true", help="do not ask what was passing")
    args = parser.parse_args()
    started = time.process_time()
    evictions: Counter[str] = Counter()
    passing: Counter[str] = Counter()
    waits = [0.0, 0.0]
    longer = 0
    seeds = range(args.first, args.first + args.seeds)
    with ProcessPoolExecutor(args.jobs) as pool:
        for played in pool.map(partial(play, asks=not args.waits_only), seeds):
            if played.judged is None:
                print(f"seed {played.seed}: {played.error}")
                continue
            each = played.judged
            evictions.update(e.plugin for e in each.evictions)
            passing.update(e.plugin for e in each.passing)
            waits[0] += each.waited_s
            waits[1] += each.waits_without_s
            for e in each.passing:
                print(f"seed {played.seed}: {e}")
            for pod, s, without in each.longer:
                print(f"seed {played.seed}: {pod} waited {s:.0f} s, without {without:.0f} s")
            longer += bool(each.longer)
            sys.stdout.flush()
    print(f"{evictions.total()} evictions {dict(evictions)}")
    print(f"{passing.total()} of what passes {dict(passing)}")
    print(f"{longer} hours in which pods waited longer; {waits[0]:.0f} s, without {waits[1]:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
