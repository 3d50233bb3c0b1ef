"""Reads from annotations how a simulated pod behaves, so that any user can ask for trouble."""

from math import isfinite
from typing import Final

from msgspec import Struct

from reactive_desched.sim.objects import Obj
from reactive_desched.sim.pods import controller_of

__all__ = [
    "KINDS",
    "METRIC",
    "NUMBERS",
    "PREFIX",
    "REASON",
    "Pace",
    "Profile",
    "is_missing",
    "number",
    "profile_of",
]

PREFIX: Final = "sim.reactive-desched/"
STEADY, CRASH_LOOP, COMPLETE = "steady", "crash-loop", "complete"
FAIL, NEVER_READY, IMAGE_PULL = "fail", "never-ready", "image-pull"
KINDS: Final = (STEADY, CRASH_LOOP, COMPLETE, FAIL, NEVER_READY, IMAGE_PULL)
NUMBERS: Final = ("start-seconds", "ready-seconds", "run-seconds", "shutdown-seconds", "exit-code")
REASON: Final = "reason"
METRIC: Final = "metric."
"""What begins the name of a made-up metric, as an autoscaler may ask for."""
_NO_TAG, _NO_IMAGE = "no-such-tag", "no-such-image"
"""What no registry has."""
_GREATEST: Final = 1e9
"""Thirty years of seconds, and what fits into an exit code of the API."""


class Pace(Struct, frozen=True):
    """The time that start and stop take for pods that do not say otherwise, in seconds."""

    start_s: float = 2.0
    ready_s: float = 0.0
    run_s: float = 30.0
    shutdown_s: float = 1.0
    jitter_s: float = 0.0
    """Start-up takes up to this much longer, by chance."""


class Profile(Struct, frozen=True):
    """The behaviour of one pod.

    steady: runs until deleted. crash-loop: ends after `run_s` and is restarted, ever later.
    complete: ends well after `run_s`. fail: phase Failed after `run_s`. never-ready: runs, but
    its readiness probe fails. image-pull: its image is never found.
    """

    kind: str
    start_s: float
    ready_s: float
    run_s: float
    shutdown_s: float
    exit_code: int
    reason: str


def is_missing(image: str) -> bool:
    """Say whether no registry has an image: its tag, or the end of its name, says so."""
    name = image.partition("@")[0].rpartition("/")[2]
    repository, _, tag = name.partition(":")
    return tag == _NO_TAG or repository == _NO_IMAGE


def profile_of(pod: Obj, pace: Pace) -> Profile:
    """Read a pod's annotations; unknown kinds and unreadable numbers count as absent."""
    notes = {
        key.removeprefix(PREFIX): value
        for key, value in (pod["metadata"].get("annotations") or {}).items()
        if key.startswith(PREFIX)
    }
    kind = notes.get("profile", "")
    if kind not in KINDS:
        kind = COMPLETE if _is_meant_to_end(pod) else STEADY
    return Profile(
        kind=kind,
        start_s=_number(notes, "start-seconds", pace.start_s),
        ready_s=_number(notes, "ready-seconds", pace.ready_s),
        run_s=_number(notes, "run-seconds", pace.run_s),
        shutdown_s=_number(notes, "shutdown-seconds", pace.shutdown_s),
        exit_code=int(_number(notes, "exit-code", 0 if kind == COMPLETE else 1)),
        reason=notes.get(REASON, ""),
    )


def _is_meant_to_end(pod: Obj) -> bool:
    """Say whether a pod is of a Job, or one like it: a test of Helm, a command of a person."""
    owner = controller_of(pod)
    if owner is not None and owner["kind"] == "Job":
        return True
    return pod["spec"].get("restartPolicy") in ("Never", "OnFailure")


def number(text: str) -> float | None:
    """Read a number of an annotation, 0 for a negative one; None for what is none, or too great."""
    try:
        read = float(text)
    except ValueError:
        return None
    return max(0.0, read) if isfinite(read) and read <= _GREATEST else None


def _number(notes: dict[str, str], name: str, default: float) -> float:
    read = number(notes.get(name, ""))
    return default if read is None else read
