"""What it costs to look at a recorded moment, and to replay: CPU of whole commands."""

import json
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bench.generate import Cluster
from bench.measure.target import bench_policy
from bench.recordings import BEGAN, SEGMENT_S, write_recording
from bench.start import cpu_of

_SMALL_PODS, _SMALL_NODES = 1_500, 50
_SMALL_PACE: Final = 0.5
"""A hundredth of the nodes of the large cluster have a hundredth of its changes."""
_BEFORE_END_S: Final = 1.0
_DAY_S: Final = 86_400.0
_BEGINNING_S, _REPLAYED_S = 10.0, 1_200.0


def measure(pods: int, nodes: int, changes_per_s: float) -> dict[str, float]:
    """Return CPU seconds: of commands about the last moment of a segment, and of replays.

    `speed` is how many seconds of the recorded changes are replayed in a CPU second, without what
    it takes to load the cluster.
    """
    with tempfile.TemporaryDirectory(prefix="reactive-desched-looking-") as name:
        large, small, journal = (Path(name) / each for each in ("large", "small", "journal"))
        for folder in (large, small, journal):
            folder.mkdir()
        write_recording(large, Cluster(pods, nodes), changes_per_s, SEGMENT_S)
        write_recording(small, Cluster(_SMALL_PODS, _SMALL_NODES), _SMALL_PACE, _DAY_S)
        policy = Path(name) / "policy.json"
        policy.write_text(json.dumps(bench_policy()), encoding="utf-8")
        of_large, of_small = ("--recording", str(large)), ("--recording", str(small))
        at = ("--at", _time(SEGMENT_S - _BEFORE_END_S), *of_large)
        replay = ("replay", "--journal", str(journal))
        until = {
            end: _cpu_of(*replay, *of_large, "--until", _time(end))
            for end in (_BEGINNING_S, _BEGINNING_S + _REPLAYED_S)
        }
        return {
            "behind_h": SEGMENT_S / 3600,
            "nodes": _cpu_of("nodes", *at),
            "status": _cpu_of("status", *at),
            "speed": _REPLAYED_S / (until[_BEGINNING_S + _REPLAYED_S] - until[_BEGINNING_S]),
            "replay": _cpu_of(*replay, *of_small),
            "policy_diff": _cpu_of("policy", "diff", str(policy), *of_small),
        }


def _time(passed_s: float) -> str:
    """Write a time so long after the beginning of a recording, as a flag takes it."""
    return datetime.fromtimestamp(BEGAN.wall_s + passed_s, UTC).isoformat()


def _cpu_of(*arguments: str) -> float:
    return cpu_of((sys.executable, "-m", "reactive_desched", *arguments))
