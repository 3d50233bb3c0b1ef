"""The schema that a CustomResourceDefinition has for one version of its kind."""

from collections.abc import Iterator
from typing import Any, Final

from reactive_desched.sim.objects import Obj
from reactive_desched.sim.status import cause
from reactive_desched.sim.structural.checks import BLOCKING, list_faults, value_faults
from reactive_desched.sim.structural.correlation import ABSENT
from reactive_desched.sim.structural.reading import filled, pruned
from reactive_desched.sim.structural.rules import rule_faults

__all__ = ["StructuralSchema"]

_NOT_CHECKED: Final = (
    "Invalid value: null: some validation rules were not checked because the object was invalid;"
    " correct the existing errors to complete validation"
)


class StructuralSchema:
    """Reads, completes and checks objects of one version of a custom kind."""

    def __init__(self, schema: Obj) -> None:
        self.openapi = schema

    def pruned(self, obj: Obj) -> tuple[Obj, list[str]]:
        """Return an object without the fields that are not there, and their paths in order."""
        unknown: list[str] = []
        read: Obj = pruned(self.openapi, obj, "", unknown, is_object=True)
        return read, sorted(unknown)

    def filled(self, obj: Obj) -> Obj:
        """Return an object with the defaults for absent fields."""
        found: Obj = filled(self.openapi, obj)
        return found

    def faults(self, new: Obj, old: Obj | None) -> Iterator[Obj]:
        """Yield the faults of a new object, or of an updated one where it differs from the old."""
        before: Any = ABSENT if old is None else old
        found = list(value_faults(self.openapi, new, before))
        if old is None or not any(list_faults(self.openapi, old)):
            found += list_faults(self.openapi, new)
        yield from found
        if not any(each["reason"] in BLOCKING for each in found):
            yield from rule_faults(self.openapi, new, before)
        elif _has_rules(self.openapi):
            yield cause("FieldValueInvalid", "<nil>", _NOT_CHECKED)


def _has_rules(schema: Any) -> bool:
    """Say whether any part of a schema has validation rules."""
    if isinstance(schema, list):
        return any(map(_has_rules, schema))
    if not isinstance(schema, dict):
        return False
    return bool(schema.get("x-kubernetes-validations")) or any(map(_has_rules, schema.values()))
