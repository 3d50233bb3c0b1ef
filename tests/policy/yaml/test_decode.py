"""How models of any author are decoded: no plugin needs to know how strictness is made."""

from collections.abc import Mapping
from typing import TypeVar

import pytest
from pydantic import BaseModel, ConfigDict, model_validator

from reactive_desched.api.args import FieldError, FieldErrors
from reactive_desched.policy.yaml.decode import Decoder, FieldHints
from reactive_desched.policy.yaml.diagnostics import DiagnosticList, PolicyErrors
from reactive_desched.policy.yaml.reader import read_documents
from reactive_desched.policy.yaml.source_location import SourceLocation
from tests.support.golden import Golden
from tests.support.policy_lines import without_codes


class Inner(BaseModel):
    size: int = 1


class Outer(BaseModel):
    """A model whose author asked for no strictness at all."""

    by_name: Mapping[str, Inner] = {}
    listed: tuple[Inner, ...] = ()
    perhaps: Inner | None = Inner()
    low: int = 0
    high: int = 9

    @model_validator(mode="after")
    def _in_order(self) -> "Outer":
        if self.low > self.high:
            message = "low is above high"
            raise FieldErrors([FieldError(message, "lower it", ("low",)), FieldError(message)])
        return self


class Free(BaseModel):
    model_config = ConfigDict(extra="allow")

    size: int = 1


class Grumpy(BaseModel):
    @model_validator(mode="after")
    def _never(self) -> "Grumpy":
        message = "not today"
        raise ValueError(message)


M = TypeVar("M", bound=BaseModel)


def decode(model: type[M], text: str) -> M | None:
    found = DiagnosticList()
    (tree,) = read_documents(text, "p.yaml")
    decoded = Decoder(found, FieldHints()).decode(model, SourceLocation("p.yaml", tree))
    found.raise_if_errors()
    return decoded


def told(model: type[BaseModel], text: str) -> list[str]:
    with pytest.raises(PolicyErrors) as caught:
        decode(model, text)
    return without_codes(caught.value)


def test_models_inside_mappings_lists_and_options_are_decoded() -> None:
    text = "{by_name: {a: {size: 2}}, listed: [{size: 3}], perhaps: {size: 4}}"
    assert decode(Outer, text) == Outer(
        by_name={"a": Inner(size=2)}, listed=(Inner(size=3),), perhaps=Inner(size=4)
    )


@pytest.mark.parametrize(
    "text",
    [
        "{siz: 1}",
        "{by_name: {a: {siz: 1}}}",
        "{listed: [{}, {siz: 1}]}",
        "{perhaps: {siz: 1}}",
        "{by_name: {'a b': {size: x}}}",
        "{listed: [{size: '3'}]}",
        "{listed: {size: 3}}",
    ],
)
def test_strictness_does_not_depend_on_the_author(text: str, golden: Golden) -> None:
    (said,) = told(Outer, text)
    assert said.startswith(golden())


def test_null_means_absent_unless_none_is_a_value_of_the_field() -> None:
    assert decode(Outer, "{listed: null, low: ~, perhaps: null}") == Outer(perhaps=None)


def test_a_model_that_allows_more_gets_more() -> None:
    decoded = decode(Free, "{size: 2, more: [1, {a: b}]}")
    assert decoded is not None
    assert decoded.model_dump() == {"size": 2, "more": [1, {"a": "b"}]}


def test_a_validator_may_complain_about_several_places(golden: Golden) -> None:
    assert told(Outer, "high: 2\nlow: 3") == [
        "p.yaml:1:1: low is above high",
        golden(),
    ]


def test_a_validator_may_raise_a_plain_error() -> None:
    assert told(Grumpy, "{}") == ["p.yaml:1:1: not today"]
