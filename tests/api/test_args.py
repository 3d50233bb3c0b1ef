"""The names of fields, as files write them."""

import pytest
from pydantic.alias_generators import to_camel

from reactive_desched.api.args import camel_case

OURS = ("max_wait", "name", "pods_with_pvc", "a_b_c")
OTHERS = ("_own", "own_", "a__b", "v1_name", "a_2b", "größe_x", "Upper_case", "alreadyCamel", "")


@pytest.mark.parametrize("name", [*OURS, *OTHERS])
def test_names_are_written_as_pydantic_writes_them(name: str) -> None:
    assert camel_case(name) == to_camel(name)
