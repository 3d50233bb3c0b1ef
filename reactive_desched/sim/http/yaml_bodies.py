"""Reads bodies that are YAML: as JSON has values, so times and numbers to the base 60 are texts."""

import re
from typing import Any, ClassVar

import yaml  # type: ignore[import-untyped]  # PyYAML ships no types

__all__ = ["parse_yaml"]

_NUMBERS = {
    "tag:yaml.org,2002:int": re.compile(
        r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)$"
    ),
    "tag:yaml.org,2002:float": re.compile(r"[-+]?(?:\.\d+|\d+\.\d*|\d+)(?:[eE][-+]?\d+)?$"),
}
_TEXTS = ("tag:yaml.org,2002:timestamp",)


class _Loader(yaml.CSafeLoader):  # type: ignore[misc]  # as above
    yaml_implicit_resolvers: ClassVar = {
        first: [(tag, _NUMBERS.get(tag, pattern)) for tag, pattern in found if tag not in _TEXTS]
        for first, found in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }


def parse_yaml(body: bytes) -> Any:
    """Return the value of a document; raises ValueError."""
    try:
        return yaml.load(body, _Loader)  # noqa: S506 -- a safe one
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
