"""Names that arguments compare with those of the cluster, and the texts that can be none of them.

A name is compared as it is written. So one that nothing can have, such as a pattern, a plural or a
misspelt word, selects nothing and keeps nothing, without a word.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Final, get_args

from msgspec import Struct, structs
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from reactive_desched.api.args import (
    FieldError,
    HasFieldWarnings,
    Path,
    Percent,
    fix_to,
    prefixed,
)
from reactive_desched.api.rules import Rule
from reactive_desched.model.resources import CPU, MEMORY, PODS, is_scalar
from reactive_desched.model.utilization import METRIC_RESOURCE
from reactive_desched.primitives.hints import nearest_name, quote, sole_near_name

_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]*")
_RESOURCES: Final = (CPU, MEMORY, PODS, "ephemeral-storage")
_OWNERS: Final = ("ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController")
_INDIRECT: Final = (("Deployment", "ReplicaSet"), ("CronJob", "Job"))
"""Owners of owners, each with what owns the pods."""


class NameKind(Struct, frozen=True):
    """Marks a field whose texts or keys are names of a kind; `is_possible` says which can be one.

    `known` are those that a person most likely means, and `advice` is for what is like none of
    them. `instead` has names of another kind, each with what is meant in its place.
    """

    noun: str
    is_possible: Callable[[str], bool]
    advice: str
    known: tuple[str, ...] = ()
    instead: tuple[tuple[str, str], ...] = ()

    def error(self, name: str, step: Path) -> FieldError:
        """Say that nothing can have the name at a step below the field."""
        instead = dict(self.instead)
        names = (*self.known, *instead)
        near, sole = nearest_name(name, names), sole_near_name(name, names)
        meant = instead.get(near or "", near)
        return FieldError(
            f"no {self.noun} can be called {quote(name)}",
            f"did you mean {meant}?" if meant else self.advice,
            step,
            rule=Rule.IMPOSSIBLE_NAME,
            fix=fix_to(instead.get(sole or "", sole)),
            at_key=isinstance(step[-1], str) if step else False,
        )


def _can_be_a_resource(name: str) -> bool:
    """Say whether a node can have a resource: others than the kubelet's have a domain."""
    return is_scalar(name) or name in (*_RESOURCES, METRIC_RESOURCE)


_NAMESPACES: Final = NameKind(
    "namespace",
    lambda name: _NAMESPACE.fullmatch(name) is not None,
    "names are compared as they are: write each one out, or choose namespaces by their labels with "
    "the namespaceLabelSelector of DefaultEvictor",
)
_SELECTED_NAMESPACES: Final = structs.replace(
    _NAMESPACES,
    advice="names are compared as they are: write each one out, or select namespaces by their "
    "labels with namespaceSelector",
)
_OWNER_KINDS: Final = NameKind(
    "kind that owns pods",
    lambda name: _KIND.fullmatch(name) is not None and name not in dict(_INDIRECT),
    "write it as in a pod's ownerReferences, such as ReplicaSet",
    _OWNERS,
    _INDIRECT,
)
RESOURCE_NAMES: Final = NameKind(
    "resource of a node",
    _can_be_a_resource,
    "write it as in a node's status.allocatable, an extended one with its domain",
    _RESOURCES,
)
_CONDITION_STATUSES: Final = NameKind(
    "status of a condition",
    lambda name: name in ("True", "False", "Unknown"),
    "write True, False or Unknown in quotes",
    ("True", "False", "Unknown"),
)

NamespaceNames = Annotated[tuple[str, ...], _NAMESPACES]
NamedOrSelectedNamespaces = Annotated[tuple[str, ...], _SELECTED_NAMESPACES]
"""Names of namespaces beside a field `namespaceSelector`."""
OwnerKindNames = Annotated[tuple[str, ...], _OWNER_KINDS]
ResourceNames = Annotated[tuple[str, ...], RESOURCE_NAMES]
ConditionStatus = Annotated[str, _CONDITION_STATUSES]
ResourceName = Annotated[str, RESOURCE_NAMES]
PercentByResource = Annotated[Mapping[str, Percent], RESOURCE_NAMES]
"""Per cent by the name of a resource."""


def value_warnings(args: BaseModel) -> Iterator[FieldError]:
    """Yield what is valid and means nothing, in a model and in those inside it."""
    if isinstance(args, HasFieldWarnings):
        yield from args.warnings()
    yield from _inside(args)


def _inside(args: BaseModel) -> Iterator[FieldError]:
    """Yield the same of the fields of a model, each below its key."""
    for name, field in type(args).model_fields.items():
        value, key = getattr(args, name), _key(name, field)
        for kind in _kinds(field):
            yield from prefixed(
                key,
                (
                    kind.error(text, step)
                    for step, text in _names_in(value)
                    if text and not kind.is_possible(text)
                ),
            )
        for step, part in _models_in(value):
            yield from prefixed(key, _below(step, value_warnings(part)))


def _key(name: str, field: FieldInfo) -> str:
    alias = field.validation_alias or field.alias
    return alias if isinstance(alias, str) else name


def _kinds(field: FieldInfo) -> Iterator[NameKind]:
    """Yield the mark of a field, or of an alternative of its type."""
    inner = (mark for option in get_args(field.annotation) for mark in get_args(option)[1:])
    yield from (mark for mark in (*field.metadata, *inner) if isinstance(mark, NameKind))


def _names_in(value: object) -> Iterator[tuple[Path, str]]:
    """Yield each text of a field, or key of a mapping, with the step to it."""
    match value:
        case str():
            yield (), value
        case tuple():
            yield from (((index,), each) for index, each in enumerate(value))
        case Mapping():
            yield from (((key,), key) for key in value)
        case _:
            return


def _models_in(value: object) -> Iterator[tuple[Path, BaseModel]]:
    """Yield the model that is a value, or those in its list, with the step to each."""
    if isinstance(value, BaseModel):
        yield (), value
    if isinstance(value, tuple):
        found = enumerate(value)
        yield from (((index,), each) for index, each in found if isinstance(each, BaseModel))


def _below(step: Path, errors: Iterable[FieldError]) -> Iterable[FieldError]:
    return prefixed(step[0], errors) if step else errors
