"""Policies that stand as a text inside another object, such as a ConfigMap."""

from collections.abc import Iterator
from functools import partial
from itertools import takewhile
from typing import Final

from msgspec import Struct

from reactive_desched.policy.detect_kind import holds_policy
from reactive_desched.policy.yaml.tree import MappingEntry, MappingNode, ScalarNode, YamlNode

_LITERAL: Final = "|"


class EnclosedText(Struct, frozen=True):
    """A policy inside another text, with empty lines before it: lines and columns are the outer's.

    An index into `text` plus `shift` is the index into the outer text.
    """

    text: str
    shift: int


def enclosed_policies(text: str, root: YamlNode) -> Iterator[EnclosedText]:
    """Yield each policy that a document of a text holds below `data`, written as a block with |.

    In another style, such as quotes, a policy has no lines of its own in the outer text.
    """
    data = root.get("data") if isinstance(root, MappingNode) else None
    lines = text.splitlines(keepends=True)
    for entry in data.entries if isinstance(data, MappingNode) else ():
        if not isinstance(entry.value, ScalarNode) or not holds_policy(entry.value.text):
            continue
        mark = entry.value.mark
        if not lines[mark.line - 1][mark.column - 1 :].startswith(_LITERAL):
            continue
        before = mark.line
        block = "".join(takewhile(partial(_is_inside, entry), lines[before:]))
        yield EnclosedText("\n" * before + block, sum(map(len, lines[:before])) - before)


def _is_inside(entry: MappingEntry, line: str) -> bool:
    """Say whether a line below a key belongs to its value."""
    indent = len(line) - len(line.lstrip(" "))
    return not line.strip() or indent >= entry.mark.column
