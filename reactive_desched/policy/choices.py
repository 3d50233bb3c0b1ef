"""Lists in which only some words have a meaning: a word that has none is told where it stands."""

from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from reactive_desched.policy.diagnostics import FieldError, quote, raise_field_errors
from reactive_desched.policy.hints import nearest_name

TextValues = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Annotates a list of words of which every one must be among those allowed.

    `what` is the list's name in a file. Editors are told the words through the JSON Schema.
    """

    what: str
    allowed: TextValues

    def __get_pydantic_core_schema__(
        self,
        source: Any,  # Any: an annotation
        handler: GetCoreSchemaHandler,
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        written = handler(schema)
        written["items"] = {"type": "string", "enum": list(self.allowed)}
        return written

    def _check(self, values: TextValues) -> TextValues:
        raise_field_errors(
            self._error(index, value)
            for index, value in enumerate(values)
            if value not in self.allowed
        )
        return values

    def _error(self, index: int, value: str) -> FieldError:
        meant = nearest_name(value, self.allowed)
        guess = f"did you mean {meant}? " if meant else ""
        hint = f"{guess}{self.what} must be one of [{' '.join(self.allowed)}]"
        return FieldError(f"{quote(value)} cannot be in {self.what}", hint, (index,))
