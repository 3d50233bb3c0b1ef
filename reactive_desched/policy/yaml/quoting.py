"""Writes values as YAML text that readers of YAML 1.1 and 1.2 read alike."""

import json
import re
from typing import Final

from reactive_desched.policy.yaml.scalars import parse_scalar
from reactive_desched.policy.yaml.tree import ScalarNode

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_BRACKETS: Final = frozenset(",[]{}")


def yaml_text(text: str) -> str:
    """Write a text, in quotes unless it is a plain word that no reader takes for something else."""
    is_plain = _PLAIN.fullmatch(text) and isinstance(parse_scalar(text), str)
    return text if is_plain else _in_double_quotes(text)


def yaml_scalar(scalar: ScalarNode, style: str | None) -> str:
    """Write a value in the style that it had in its document, if it comes from one."""
    match scalar.value, style:
        case None, _:
            return "null"
        case bool() as flag, _:
            return "true" if flag else "false"
        case int() | float(), _:
            return scalar.text
        case str() as text, "'" if text.isprintable():
            return "'" + text.replace("'", "''") + "'"
        case str() as text, "" if text.isprintable():
            return text
        case str() as text, '"':
            return _in_double_quotes(text)
        case text, _:
            return yaml_text(str(text))


def flow_text(text: str) -> str:
    """Return the text of a value for use inside brackets, where some signs need quotes."""
    is_quoted = text[:1] in ("'", '"')
    return text if is_quoted or not _BRACKETS & set(text) else _in_double_quotes(text)


def _in_double_quotes(text: str) -> str:
    """Escape the characters that JSON escapes, and invisible ones."""
    escaped = json.dumps(text, ensure_ascii=False)
    return "".join(each if each.isprintable() else f"\\U{ord(each):08X}" for each in escaped)
