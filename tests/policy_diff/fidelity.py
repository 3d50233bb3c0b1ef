"""How well `policy diff` names what a policy would have done, measured against that policy itself.

A story is lived twice from the same seed, with policy A and with policy B; `policy diff` reads the
recording of A alone, and what it says of B is compared with what B did.

With `--kept FILE` each story that was measured is kept in a file, and not measured again by the
next run: one that was ended goes on there. 200 take six minutes of a core.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from math import inf
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

import anyio
import msgspec
from msgspec import Struct
from trio.testing import MockClock

from reactive_desched.model.objects import Pod
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy_diff.policy_run import PolicyRun
from reactive_desched.policy_diff.recorded_facts import FactsReader, RecordedFacts
from reactive_desched.policy_diff.trying import run_policies
from reactive_desched.recording.frames import RECORDING_FOLDER
from reactive_desched.recording.items import Item, ObjectChanged, ObjectFound
from reactive_desched.recording.reader import read_items
from reactive_desched.recording.recorded_state import RecordedState
from reactive_desched.recording.segments import recording_paths
from reactive_desched.sim.dice import ObjectDice
from tests.policy_diff.redrawn import OTHER_LUCK, NotedDice, RedrawnDice
from tests.safety.sets import has_sets
from tests.safety.story import (
    OF_WORKLOADS,
    Story,
    live,
    policy_text,
    read_policy,
)
from tests.support.trio_order import task_order

ACTIONS: Final = (
    *("taint", "taint", "taint", "taint_some", "untaint", "wait", "wait", "long_wait"),
    *("cordon", "uncordon", "scale", "roll_out", "add_node", "remove_node"),
    *("stop_node", "start_nodes", "start_nodes", "budget", "protect_above", "unprotect_above"),
    *("pause", "resume", "resume"),
)
"""Steps that are the same whatever a policy did before: no pod is chosen by chance."""


_OF_SINGLES: Final = set(OF_WORKLOADS) - {"SingleReplicas"}
"""With these guards switched off a story has workloads of one pod alone."""


class Fidelity(Struct):
    """What `policy diff` said of B beside what B did: pods evicted, named, matched."""

    seed: int
    real: int
    named: int
    matched: int
    by_workload: int

    @property
    def is_exact(self) -> bool:
        return self.real == self.named == self.matched


def draw(seed: int) -> tuple[str, str]:
    """Draw two policies."""
    return _draw_one(f"policy A of {seed}"), _draw_one(f"policy B of {seed}")


def _draw_one(name: str) -> str:
    """Draw a policy by which no story would have another cluster than by another policy."""
    rng = Random(name)
    while True:
        text = policy_text(rng)
        if set(read_policy(text).settings.guards.disabled) != _OF_SINGLES:
            return text


def live_story(
    seed: int,
    config: Configuration,
    folder: Path,
    *,
    steps: int = 30,
    dice: ObjectDice | None = None,
    server_luck: int = 1,
) -> None:
    """Live a story with one policy, recorded in a folder.

    What the cluster does by chance depends on its objects, not on what a policy did before: it is
    drawn with the `dice`, as a rule those of the seed. How long requests take, and which of them
    fail, is the `server_luck`.
    """
    task_order().seed(seed)

    async def tell(story: Story) -> None:
        for number in range(steps):
            story.rng = Random(f"step {number} of {seed}")
            await story.play(story.rng.choice(ACTIONS))

    choices = Random(f"cluster of {seed}")
    chance = ObjectDice(seed) if dice is None else dice
    run = partial(
        live, folder, config, chance, choices, tell, records=True, server_luck=server_luck
    )
    clock = MockClock(autojump_threshold=0)
    anyio.run(run, backend="trio", backend_options={"clock": clock})


def read_facts(folder: Path) -> tuple[RecordedFacts, dict[str, str]]:
    """Read a recording's facts, and the workload of each pod in it, by uid."""
    workloads: dict[str, str] = {}

    def noted(items: Iterable[Item]) -> Iterator[Item]:
        for item in items:
            if isinstance(item, ObjectFound | ObjectChanged) and isinstance(item.obj, Pod):
                app = item.obj.labels.get("app", "")
                workloads.setdefault(item.obj.uid, f"{item.obj.namespace}/{app}")
            yield item

    paths = recording_paths(folder / RECORDING_FOLDER)
    facts = FactsReader().read(noted(read_items(paths, lambda _: None)))
    return facts, workloads


Evictions = Counter[tuple[str, str]]
"""How often a pod of each line was evicted, by the line and its workload."""


def what_was_done(folder: Path, until_s: float = inf) -> Evictions:
    """Return the evictions by the recorded controller, as far as they began by then."""
    facts, workloads = read_facts(folder)
    evicted = (pod for pod, end in facts.evicted.items() if end.began_s <= until_s)
    return Counter((line, workloads.get(line, "")) for line in map(facts.line_of, evicted))


def what_is_said(folder: Path, config: Configuration) -> Evictions:
    """Return the evictions that `policy diff` says a policy makes."""
    facts, workloads = read_facts(folder)
    recorded = RecordedState()
    run = PolicyRun(config, facts, recorded)
    run_policies(read_items(recording_paths(folder / RECORDING_FOLDER), print), [run], recorded)
    lines = (each.pod.line for each in run.evictions)
    return Counter((line, workloads.get(line, "")) for line in lines)


def compare(seed: int, real: Evictions, said: Evictions) -> Fidelity:
    """Match each eviction of a pod with one of the same line; the others by their workloads."""
    both = real & said
    missed, others = (_by_workload(each - both) for each in (real, said))
    by_workload = (missed & others).total()
    return Fidelity(seed, real.total(), said.total(), both.total(), by_workload)


def _by_workload(evictions: Evictions) -> Counter[str]:
    found: Counter[str] = Counter()
    for (_, workload), times in evictions.items():
        found[workload] += times
    return found


Measured = tuple[Fidelity, Fidelity, Fidelity]
"""What is said of B, what is said of A, and B lived again."""


def measure(seed: int) -> Measured:
    """Live a story with A and with B; compare what is said of B, and of A, with what they did.

    The third compares B with B lived once more, where all falls anew that A's life did not have,
    and which requests fail: no recording of A has it, and no calculation can agree better with B
    but by luck.
    """
    configs = [read_policy(text) for text in draw(seed)]
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as root:
        folders = [Path(root) / name for name in ("a", "b", "c")]
        for folder in folders:
            folder.mkdir()
        noted = NotedDice(seed)
        live_story(seed, configs[0], folders[0], dice=noted)
        live_story(seed, configs[1], folders[1])
        redrawn = RedrawnDice(seed, noted.times)
        live_story(seed, configs[1], folders[2], dice=redrawn, server_luck=OTHER_LUCK + seed)
        until_s = read_facts(folders[0])[0].last_s
        real = [what_was_done(folder, until_s) for folder in folders]
        return (
            compare(seed, real[1], what_is_said(folders[0], configs[1])),
            compare(seed, real[0], what_is_said(folders[0], configs[0])),
            compare(seed, real[1], real[2]),
        )


def measured(seeds: Iterable[int], kept: Path | None, jobs: int) -> Iterator[Measured]:
    """Yield what was kept of these stories, and measure the others beside each other."""
    found = dict[int, Measured]()
    if kept is not None and kept.exists():
        lines = kept.read_bytes().splitlines()
        for each in (msgspec.json.decode(line, type=Measured) for line in lines):
            found[each[0].seed] = each
    yield from (found[seed] for seed in seeds if seed in found)
    with ProcessPoolExecutor(jobs) as pool:
        for each in pool.map(measure, [seed for seed in seeds if seed not in found]):
            if kept is not None:
                with kept.open("ab") as file:
                    file.write(msgspec.json.encode(each) + b"\n")
            yield each


def main() -> int:
    """Measure the seeds of the command line on all cores, and print what falls short."""
    parser = argparse.ArgumentParser(prog="python -m tests.policy_diff.fidelity")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--kept", type=Path, help="the stories measured so far, of this version")
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    names = (
        "B from A's recording",
        "A from its own",
        "B lived again, redrawn where A's life says nothing",
    )
    found = list[Measured]()
    for results in measured(seeds, arguments.kept, arguments.jobs):
        found.append(results)
        if not results[0].is_exact:
            sys.stdout.write(_line_of(results))
            sys.stdout.flush()
    with_sets = {seed: has_sets(read_policy(draw(seed)[1])) for seed in seeds}
    for group, wanted in (("", None), ("B without sets: ", False), ("B with sets: ", True)):
        kept = [each for each in found if wanted in (None, with_sets[each[0].seed])]
        for place, name in enumerate(names):
            sys.stdout.write(f"{group}{name}: {_summary([each[place] for each in kept])}\n")
    return 0


def _line_of(results: Measured) -> str:
    first, own, redrawn = results
    return (
        f"seed {first.seed}: did {first.real}, said {first.named}, same"
        f" {first.matched}+{first.by_workload}; own {own.matched} of"
        f" {own.real}, said {own.named}; redrawn {redrawn.matched}+"
        f"{redrawn.by_workload} of {redrawn.real}, {redrawn.named}\n"
    )


def _summary(kept: list[Fidelity]) -> str:
    real, said = sum(each.real for each in kept), sum(each.named for each in kept)
    same = sum(each.matched for each in kept)
    alike = same + sum(each.by_workload for each in kept)
    exact = sum(each.is_exact for each in kept)
    return (
        f"{real} pods evicted, {said} named; the same {same / max(1, real):.1%},"
        f" others {1 - same / max(1, said):.1%}; of the same workload"
        f" {alike / max(1, real):.1%}, others {1 - alike / max(1, said):.1%};"
        f" {exact} of {len(kept)} stories exact"
    )


if __name__ == "__main__":
    sys.exit(main())
