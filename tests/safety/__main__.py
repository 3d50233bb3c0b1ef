"""`python -m tests.safety --seeds 10000`: play many stories, and print those that fail."""

import argparse
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from tests.safety.story import play_story


def play(seed: int, steps: int) -> tuple[int, int, str]:
    """Play one story; return its seed, its evictions, and what went wrong."""
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        try:
            world = play_story(Random(seed), Path(folder), steps=steps)
        except Exception:  # noqa: BLE001  every failure is reported with its seed
            return seed, 0, traceback.format_exc()
    return seed, len(world.referee.evictions), ""


def main() -> int:
    """Play the seeds of the command line on all cores; return 1 where a story failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.safety", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--seeds", type=int, default=200, help="how many (default: 200)")
    parser.add_argument("--steps", type=int, default=80, help="steps of a story (default: 80)")
    arguments = parser.parse_args()
    began, evictions, failed = time.monotonic(), 0, []
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    with ProcessPoolExecutor() as pool:
        for seed, count, error in pool.map(play, seeds, [arguments.steps] * len(seeds)):
            evictions += count
            if error:
                failed.append(seed)
                sys.stdout.write(f"seed {seed} fails:\n{error}\n")
                sys.stdout.flush()
    took_s = time.monotonic() - began
    sys.stdout.write(f"{len(seeds)} stories, {evictions} evictions, {took_s:.0f} s\n")
    if failed:
        sys.stdout.write(f"failed seeds: {', '.join(map(str, failed))}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
