from typing import Annotated

import pytest
from pydantic import BaseModel, ValidationError

from reactive_desched.api.args import AnyOf, FieldErrors
from tests.support.golden import Golden


class Meal(BaseModel):
    fruits: Annotated[tuple[str, ...], AnyOf("fruits", ("Apple", "Pear"))] = ()


def complaints(*fruits: str) -> list[tuple[str, str, tuple[str | int, ...]]]:
    with pytest.raises(ValidationError) as caught:
        Meal(fruits=fruits)
    [detail] = caught.value.errors()
    assert detail["loc"] == ("fruits",)
    cause = detail["ctx"]["error"]
    assert isinstance(cause, FieldErrors)
    return [(it.message, it.hint, it.path) for it in cause.errors]


def test_words_that_are_allowed_are_taken_as_they_are() -> None:
    assert Meal(fruits=("Pear", "Apple", "Pear")).fruits == ("Pear", "Apple", "Pear")


def test_every_other_word_is_reported_at_its_line_with_what_may_be_there(golden: Golden) -> None:
    assert complaints("aple", "Pear", "Brick") == [
        (
            '"aple" cannot be in fruits',
            golden("did you mean"),
            (0,),
        ),
        ('"Brick" cannot be in fruits', golden("without a hint"), (2,)),
    ]


def test_the_schema_gives_editors_the_words() -> None:
    assert Meal.model_json_schema()["properties"]["fruits"]["items"] == {
        "type": "string",
        "enum": ["Apple", "Pear"],
    }
