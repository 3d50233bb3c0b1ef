"""The page on policy formats: its examples are read, and say the same in both formats."""

import re
from pathlib import Path

import pytest

from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.legacy.conversion import convert
from reactive_desched.policy.legacy.strategies import EVICTOR_FLAGS, STRATEGIES
from reactive_desched.policy.load import check_source
from reactive_desched.policy.yaml.reader import read_documents
from reactive_desched.policy.yaml.tree import MappingNode, to_plain

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "reference" / "policy-formats.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=["v1alpha2", "v1alpha1", "converted"])
def test_every_example_is_sound(example: str) -> None:
    assert check_source(SourceText(example, "page"), plugin_registry()).errors == ()


def test_the_converted_example_is_what_the_legacy_one_becomes() -> None:
    (old,), (new,) = (read_documents(text, "page") for text in EXAMPLES[1:])
    assert isinstance(old, MappingNode)
    assert to_plain(convert(old).tree) == to_plain(new)


def test_every_parameter_that_moves_is_named() -> None:
    paths = (
        path
        for it in STRATEGIES.values()
        for path in (*it.copied_params.values(), *it.derived_params)
    )
    names = {path[0] for path in paths} | {*EVICTOR_FLAGS, "maxNoOfPodsToEvictTotal"}
    assert {name for name in names if f"`{name}" not in PAGE} == set()
