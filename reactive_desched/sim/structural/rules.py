"""Evaluates the validation rules of a schema, which are written in CEL.

The library is Google's, and an extra: without it no rule is looked at. A rule that it cannot
compile, since it calls a function of Kubernetes' own, is not looked at either.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, Final

from reactive_desched.sim.objects import Obj
from reactive_desched.sim.status import cause
from reactive_desched.sim.structural.checks import shown
from reactive_desched.sim.structural.correlation import ABSENT, field_of, item_of
from reactive_desched.sim.structural.reading import TYPE_AND_METADATA, inner_of

__all__ = ["rule_faults"]

Schema = Mapping[str, Any]
_RULES: Final = "x-kubernetes-validations"
_MOST_COMPILED: Final = 1_000
"""So many compiled rules are kept; the least recently used is compiled anew."""
_OLD: Final = re.compile(r"\boldSelf\b")
# fmt: off
_KEYWORDS: Final = frozenset({
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function",
    "if", "import", "let", "loop", "package", "namespace", "return", "var", "void", "while",
})
# fmt: on
_ESCAPES: Final = (
    ("__", "__underscores__"),
    (".", "__dot__"),
    ("-", "__dash__"),
    ("/", "__slash__"),
)
_OPTIONAL: Final = "(hasOldSelf ? optional.of(oldSelf) : optional.none())"
_NO_KEY: Final = re.compile(r'NOT_FOUND: Key not found in map : "(.*)"')


def rule_faults(schema: Schema, value: Any, old: Any = ABSENT, path: str = "") -> Iterator[Obj]:
    """Yield the rules that do not hold; of what is as it was, those alone that compare."""
    if value is None:
        return
    for rule in schema.get(_RULES) or ():
        yield from _broken(rule, schema, value, old, path)
    for part in schema.get("allOf") or ():
        yield from rule_faults(part, value, old, path)
    if isinstance(value, list):
        items = schema.get("items") or {}
        for at, item in enumerate(value):
            yield from rule_faults(items, item, item_of(schema, old, item), f"{path}[{at}]")
    elif isinstance(value, dict):
        for name, part in value.items():
            if (inner := inner_of(schema, name)) is not None:
                is_map = name not in (schema.get("properties") or {})
                place = f"{path}[{name}]" if is_map else f"{path}.{name}" if path else name
                yield from rule_faults(inner, part, field_of(old, name), place)


def _broken(rule: Obj, schema: Schema, value: Any, old: Any, path: str) -> Iterator[Obj]:
    """Yield the fault of a rule that does not hold."""
    text, is_known = str(rule["rule"]), old is not ABSENT
    compares, is_optional = bool(_OLD.search(text)), bool(rule.get("optionalOldSelf"))
    if compares and not is_known and not is_optional:
        return
    if not compares and is_known and old == value:
        return
    given = {
        "self": _for_cel(schema, value, is_root=not path),
        "oldSelf": _for_cel(schema, old, is_root=not path) if is_known else None,
        "hasOldSelf": is_known,
    }
    found = _evaluated(_OLD.sub(_OPTIONAL, text) if is_optional else text, given)
    if found is True or found is None:
        return
    place = ".".join(filter(None, (path, str(rule.get("fieldPath") or "").lstrip(".")))) or "<nil>"
    invalid = _invalid(schema, value)
    if found is not False:
        rule_text = str(rule.get("message") or text).strip()
        said = f"{invalid}: {found} evaluating rule: {rule_text}"
        yield cause("FieldValueInvalid", path or "<nil>", said)
        return
    said = str(rule.get("message") or f"failed rule: {text.strip()}").strip()
    if expression := rule.get("messageExpression"):
        own = _evaluated(str(expression), given)
        said = own if isinstance(own, str) and own.strip() else said
    yield _fault(str(rule.get("reason") or ""), place, invalid, said)


def _fault(reason: str, path: str, invalid: str, said: str) -> Obj:
    match reason:
        case "FieldValueForbidden":
            return cause(reason, path, f"Forbidden: {said}")
        case "FieldValueRequired":
            return cause(reason, path, f"Required value: {said}")
        case "FieldValueDuplicate":
            return cause(reason, path, invalid.replace("Invalid", "Duplicate", 1))
    return cause("FieldValueInvalid", path, f"{invalid}: {said}")


def _invalid(schema: Schema, value: Any) -> str:
    if schema.get("type") in ("object", "array"):
        return "Invalid value"
    return f"Invalid value: {shown(value)}"


def _for_cel(schema: Schema, value: Any, *, is_root: bool = False) -> Any:
    """Return a value as rules see it: with the fields that the schema names, by names of CEL."""
    if isinstance(value, list):
        items = schema.get("items") or {}
        return [_for_cel(items, item) for item in value]
    if not isinstance(value, dict):
        return value
    if is_root or schema.get("x-kubernetes-embedded-resource"):
        return _fields(schema, value) | _type_and_name(value)
    if "properties" in schema:
        return _fields(schema, value)
    inner = schema.get("additionalProperties")
    if not isinstance(inner, Mapping):
        return value
    return {name: _for_cel(inner, part) for name, part in value.items()}


def _fields(schema: Schema, value: Obj) -> Obj:
    known = schema.get("properties") or {}
    return {
        _escaped(name): _for_cel(known[name], part) for name, part in value.items() if name in known
    }


def _type_and_name(value: Obj) -> Obj:
    meta = value.get("metadata") or {}
    found: Obj = {name: value[name] for name in TYPE_AND_METADATA[:2] if name in value}
    names = {name: meta[name] for name in ("name", "generateName") if name in meta}
    return {**found, "metadata": names}


def _escaped(name: str) -> str:
    if name in _KEYWORDS:
        return f"__{name}__"
    for part, word in _ESCAPES:
        name = name.replace(part, word)
    return name


def _evaluated(text: str, given: Mapping[str, Any]) -> Any:
    """Return what an expression says; None where it cannot be evaluated here, else why it fails."""
    program = _compiled(text)
    if program is None:
        return None
    try:
        value = program.eval(data=given).plain_value()
    except (RuntimeError, ValueError, TypeError) as error:
        value = str(error)
    if isinstance(value, str) and (missing := _NO_KEY.match(value)):
        return f"no such key: {missing[1]}"
    return value


@lru_cache(maxsize=_MOST_COMPILED)
def _compiled(text: str) -> Any:
    environment = _environment()
    if environment is None:
        return None
    try:
        return environment.compile(text)
    except (RuntimeError, ValueError):
        return None


@cache
def _environment() -> Any:
    """Return what compiles rules; None where the library is missing."""
    try:
        from cel_expr_python import cel
        from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings
    except ImportError:
        return None
    return cel.NewEnv(
        variables={
            "self": cel.Type.DYN,
            "oldSelf": cel.Type.DYN,
            "hasOldSelf": cel.Type.BOOL,
        },
        extensions=[
            ext_bindings.ExtBindings(),
            ext_optional.ExtOptional(),
            ext_strings.ExtStrings(),
        ],
    )
