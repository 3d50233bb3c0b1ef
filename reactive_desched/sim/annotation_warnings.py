"""Says which annotations of those that steer the simulator have no effect, as they are written."""

from collections.abc import Iterator, Mapping
from typing import Final

from reactive_desched.errors import QuantityError
from reactive_desched.model.resources import CPU, parse_amount
from reactive_desched.primitives.hints import not_one_of, quote
from reactive_desched.sim.eviction_thresholds import THRESHOLD_NOTES, threshold_fault
from reactive_desched.sim.node_switch import ANNOTATION, DOWN, SHUTDOWN
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.profiles import KINDS, METRIC, NUMBERS, PREFIX, REASON, number
from reactive_desched.sim.usage import USAGE

__all__ = ["annotation_warnings"]

_OF_PODS: Final = ("profile", *NUMBERS, REASON, *USAGE)
_OF_NODES: Final = (ANNOTATION.removeprefix(PREFIX),)
_TEMPLATES: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(
        ("DaemonSet", "Deployment", "Job", "ReplicaSet", "StatefulSet"), ("spec", "template")
    ),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
"""Where a kind has the template of its pods."""


def annotation_warnings(kind: str, obj: Obj) -> Iterator[str]:
    """Yield a warning for each annotation of the simulator that nothing reads, or as absent.

    Every object may have metrics of its own.
    """
    yield from _of_metrics(obj)
    if kind == "Pod":
        yield from _of_pods(obj)
    elif kind == "Node":
        yield from _of_a_node(obj)
    elif (way := _TEMPLATES.get(kind)) is not None:
        where = ".".join((*way, "metadata", "annotations"))
        yield from (
            f"{PREFIX}{name}: is read from pods; write it into {where}" for name, _ in _notes(obj)
        )
        template = obj
        for part in way:
            template = template.get(part) or {}
        yield from _of_metrics(template)
        yield from _of_pods(template)


def _notes(obj: Obj) -> Iterator[tuple[str, str]]:
    """Yield the simulator's annotations of an object, but those of metrics."""
    for name, value in _all_notes(obj):
        if not name.startswith(METRIC):
            yield name, value


def _all_notes(obj: Obj) -> Iterator[tuple[str, str]]:
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    for key, value in annotations.items():
        if key.startswith(PREFIX):
            yield key.removeprefix(PREFIX), value


def _of_metrics(obj: Obj) -> Iterator[str]:
    for name, value in _all_notes(obj):
        if name.startswith(METRIC) and not _is_amount(CPU, value):
            yield f"{PREFIX}{name}: {quote(value)} is not a quantity such as 20 or 1500m"


def _of_a_node(obj: Obj) -> Iterator[str]:
    for name, value in _notes(obj):
        if name in THRESHOLD_NOTES:
            if said := threshold_fault(name, value):
                yield f"{PREFIX}{name}: {said}"
        elif name not in _OF_NODES:
            yield f"{PREFIX}{name}: {not_one_of(name, (*_OF_NODES, *THRESHOLD_NOTES))}"
        elif value not in (DOWN, SHUTDOWN):
            yield f"{PREFIX}{name}: {not_one_of(value, (DOWN, SHUTDOWN))}"


def _of_pods(obj: Obj) -> Iterator[str]:
    for name, value in _notes(obj):
        if name not in _OF_PODS:
            yield f"{PREFIX}{name}: {not_one_of(name, _OF_PODS)}"
        elif name == "profile" and value not in KINDS:
            yield f"{PREFIX}{name}: {not_one_of(value, KINDS)}"
        elif name in NUMBERS and number(value) is None:
            yield f"{PREFIX}{name}: {quote(value)} is not a number from 0 to 1000000000"
        elif name in USAGE and not _is_amount(USAGE[name], value):
            yield f"{PREFIX}{name}: {quote(value)} is not a quantity such as 250m or 64Mi"


def _is_amount(resource: str, text: str) -> bool:
    try:
        parse_amount(resource, text)
    except QuantityError:
        return False
    return True
