"""Reads YAML with words and numbers as kubectl takes them, by sigs.k8s.io/yaml."""

from typing import Any, Final

import yaml  # type: ignore[import-untyped]  # PyYAML ships no types

from reactive_desched.policy.yaml.scalars import parse_scalar

__all__ = ["decode_yaml"]

_MERGE: Final = "<<"
_PLAIN: Final = "!plain"
"""The tag that a word without quotes and tag gets here; no file can have it, as it is local."""

_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _WordsAsInGo(_Loader):  # type: ignore[misc]  # it has no types
    """PyYAML's loader, which would take 2026-01-01 for a date and 1:30 for 90."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:  # PyYAML has no types
        """Give a word without quotes a tag of ours, unless it is the key that merges."""
        if kind is yaml.ScalarNode and implicit[0] and value != _MERGE:
            return _PLAIN
        return super().resolve(kind, value, implicit)


_WordsAsInGo.add_constructor(_PLAIN, lambda _, node: parse_scalar(node.value))


def decode_yaml(content: bytes) -> object:
    """Return the one document of a text, as dicts, lists and scalars.

    Raises YAMLError, and ValueError for a value that is not what its tag says or not finite.
    """
    return yaml.load(content, _WordsAsInGo)  # noqa: S506 -- it is a safe one
