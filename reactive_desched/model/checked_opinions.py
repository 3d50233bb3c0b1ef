"""Checks what a plugin yields: gates, records and other plugins rely on all of it."""

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, Final

from msgspec.structs import replace

from reactive_desched.model.eviction_options import DeleteOptions, EvictionOptions
from reactive_desched.model.findings import (
    AllNodesBut,
    EarlierMove,
    Finding,
    MoveSet,
    RequeueAfter,
    RoomFor,
    YieldPoint,
)
from reactive_desched.model.gangs import Gang
from reactive_desched.model.objects import Pod
from reactive_desched.primitives.bounded_text import MAX_TEXT_CHARS, bounded_name, shown

Opinion = Finding | RequeueAfter | YieldPoint

MAX_DETAILS: Final = 64
"""So many figures a finding may have; further ones are left out."""

MAX_FIGURE: Final = 2**63
"""Figures are below it, and above its negative: readers of records have 64 bits for one."""

MAX_SECONDS: Final = 1e11
"""No time, and no wait, is further away: some 3,000 years."""

_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "pod": (Pod,),
    "plugin": (str,),
    "message": (str,),
    "needs_fit": (bool,),
    "targets": (frozenset, AllNodesBut, NoneType),
    "node_limit": (int, NoneType),
    "relieves_node": (bool,),
    "is_trial": (bool,),
    "conflicts_with": (tuple,),
    "details": (Mapping,),
    "options": (EvictionOptions, NoneType),
    "counts_from_s": (int, float),
    "by_score": (bool,),
    "place_rank": (int, NoneType),
    "move_set": (MoveSet, NoneType),
    "gang": (NoneType,),
}
"""What gates and records rely on of each field of a finding; the gate sets `gang` itself."""

_TEXT: Final = {str}


def checked_opinion(opinion: object, plugin: str | None) -> Opinion:
    """Return the opinion of the plugin of this name, None for any, with texts of a length.

    Raises TypeError or ValueError for what is none.
    """
    if isinstance(opinion, YieldPoint):
        return opinion
    if isinstance(opinion, RequeueAfter):
        _require("delay_s of RequeueAfter", opinion.delay_s, (int, float))
        if not 0 <= opinion.delay_s <= MAX_SECONDS:
            raise ValueError("delay_s of RequeueAfter is no time to wait")
        return opinion
    return checked_finding(opinion, plugin)


def checked_finding(finding: object, plugin: str | None) -> Finding:
    """Return the finding of the plugin of this name, None for any, with texts of a length.

    Raises TypeError or ValueError for what is none.
    """
    if not isinstance(finding, Finding):
        raise TypeError(f"it yielded {type(finding).__name__}, which is no Finding")
    for name, kinds in _KINDS.items():
        value = getattr(finding, name)
        if type(value) not in kinds:
            _require(f"{name} of a finding", value, kinds)
    if plugin is not None and finding.plugin != plugin:
        raise ValueError(f"the finding names plugin {bounded_name(finding.plugin)}, not its own")
    for check in _CHECKS:
        check(finding)
    return _with_texts_of_a_length(finding)


def _require(what: str, value: object, kinds: tuple[type, ...]) -> None:
    if not isinstance(value, kinds):
        expected = " or ".join(kind.__name__ for kind in kinds if kind is not NoneType)
        raise TypeError(f"{what} is {type(value).__name__}, not {expected or 'None'}")


def _require_names(what: str, *names: object) -> None:
    """Require texts, as pods and nodes are named by."""
    if not set(map(type, names)) <= _TEXT:
        raise TypeError(f"{what} of a finding has what is no text")


def _check_pods(finding: Finding) -> None:
    _require_names("pod", finding.pod.uid)
    if finding.conflicts_with:
        _require_names("conflicts_with", *finding.conflicts_with)


def _check_figures(finding: Finding) -> None:
    if not -MAX_SECONDS <= finding.counts_from_s <= MAX_SECONDS:
        raise ValueError("counts_from_s of a finding is no time")
    for name in ("node_limit", "place_rank"):
        _check_figure(name, getattr(finding, name))


def _check_figure(name: str, value: object) -> None:
    if isinstance(value, int) and not -MAX_FIGURE < value < MAX_FIGURE:
        raise ValueError(f"{name} of a finding has more than 64 bits")


def _check_targets(finding: Finding) -> None:
    if isinstance(finding.targets, AllNodesBut):
        _require("targets of a finding but for", finding.targets.names, (frozenset,))


def _check_move_set(finding: Finding) -> None:
    if (moved := finding.move_set) is None:
        return
    _require("pods of a move_set", moved.pods, (tuple,))
    _require("empty of a move_set", moved.empty, (tuple,))
    _require("rooms of a move_set", moved.rooms, (tuple,))
    _require_names("move_set", moved.node, *moved.pods, *moved.empty)
    for room in moved.rooms:
        _require("a room of a move_set", room, (RoomFor,))
        _require_names("move_set", room.pod, room.node)
    _require("earlier of a move_set", moved.earlier, (tuple,))
    for each in moved.earlier:
        _require("an earlier move of a move_set", each, (EarlierMove,))
        _require_names("move_set", each.pod, each.node, each.to)
    if moved.gang is not None:
        _require("gang of a move_set", moved.gang, (Gang,))
        _require_names("move_set", *moved.gang)
    if finding.pod.uid not in moved.pods:
        raise ValueError("the pod of a finding is none of its move_set")


def _check_options(finding: Finding) -> None:
    if (options := finding.options) is None:
        return
    _require_names("options", options.evictor, options.initiator, options.reason)
    if options.delete is not None:
        _require("delete of options", options.delete, (DeleteOptions,))
        grace_period_s = options.delete.grace_period_seconds
        _require("grace_period_seconds of options", grace_period_s, (int, NoneType))
        _check_figure("grace_period_seconds", grace_period_s)


def _check_details(finding: Finding) -> None:
    for name, value in finding.details.items():
        _require_names("details", name)
        if not isinstance(value, (int, str)):
            kind = type(value).__name__
            raise TypeError(f"{bounded_name(name)} of a finding is {kind}: no number, no text")
        _check_figure(name, value)


_CHECKS: Final[tuple[Callable[[Finding], None], ...]] = (
    *(_check_pods, _check_figures, _check_targets),
    *(_check_move_set, _check_options, _check_details),
)


def _with_texts_of_a_length(finding: Finding) -> Finding:
    message, details = finding.message, finding.details
    if (
        len(message) <= MAX_TEXT_CHARS
        and message.isprintable()
        and len(details) <= MAX_DETAILS
        and all(map(_is_short, (*details, *details.values())))
    ):
        return finding
    kept = list(details.items())[:MAX_DETAILS]
    return replace(
        finding,
        message=shown(message),
        details={bounded_name(name): _shown(value) for name, value in kept},
    )


def _is_short(value: Any) -> bool:  # a text, or a number
    if not isinstance(value, str):
        return True
    return len(value) <= MAX_TEXT_CHARS and value.isprintable()


def _shown(value: int | str) -> int | str:
    return shown(value) if isinstance(value, str) else value
