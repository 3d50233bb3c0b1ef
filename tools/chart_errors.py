"""What Helm says of a wrong value.

Of most keywords of JSON Schema Helm says what is wrong in words of JSON Schema: "'not' failed", "no
items match contains schema", or a pattern. Of a `const` it says what the value must be. So a
keyword of that kind becomes a condition, and where it is not met a `const` says what to write.
"""

from collections.abc import Mapping
from typing import Any, Final

from tools.schema_rules import Json

_NAME: Final = "a name of lower-case letters, digits, dots and dashes"
_LABEL: Final = (
    "at most 63 letters, digits, dashes, dots and underscores, a letter or digit at both ends"
)
_PERIOD: Final = "a time with its unit, such as 30s or 1m"

PATTERNS: Final[Mapping[str, str]] = {
    r"^([a-z0-9]([-.a-z0-9]*[a-z0-9])?)?$": _NAME,
    r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$": f"the value of a label: {_LABEL}",
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$": f"the key of a label: {_LABEL};"
    " before it a domain and / if there is one",
    r"^[A-Za-z0-9][-A-Za-z0-9._:/@]*$": "the name of an image without its tag, such as"
    " registry.example/reactive-desched",
    r"^([A-Za-z0-9_][-.A-Za-z0-9_]{0,127})?$": "the tag of an image: letters, digits, dots, dashes"
    " and underscores",
    r"^(sha256:[0-9a-f]{64})?$": "sha256: and 64 digits of 0-9 and a-f, or empty",
    r"^[0-9.]*[1-9][0-9.]*(m|k|[KMGTPE]i?|[eE][+-]?[0-9]+)?$": "a size of more than 0, such as 1Gi",
    r"^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|\S+( +\S+){4})$": "the five fields"
    " of cron, such as '*/5 * * * *', or @hourly and the like",
    r"^[-A-Za-z0-9_+/]*$": "the name of a time zone, such as Europe/Berlin, or empty",
    r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)(n|u|m|k|[KMGTPE]i?|[eE][+-]?[0-9]+)?$": "a quantity, such as"
    " 500m or 512Mi",
    r"^(https?://.*[^/])?$": "a URL that begins with http:// or https:// and ends without /, or"
    " empty",
    r"^\s*[hH][tT][tT][pP][sS]?://.": "a URL that begins with http:// or https://",
    r"^([0-9]+(ms|s|m|h))+$": _PERIOD,
    r"^([0-9]+(ms|s|m|h))*$": f"{_PERIOD}, or empty",
    r"^([+-]?0|\+?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d|w))+|"
    r"-((0+(\.0*)?|\.0+)(ns|us|µs|μs|ms|s|m|h|d|w))+)$": "a duration with its units, not below 0,"
    " such as 90s, 5m or 1h30m",
    r"^(100|[0-9]{1,2})(\.[0-9]+)?%$": "a number, or a percentage up to 100%",
    r"^[1-9][0-9]*%?$": "a whole number from 1 on, or a percentage such as 10%",
    r"^(0|[1-9][0-9]*)%$": "a whole number, or a percentage such as 10%",
}
"""What to write where a value must match a pattern. One that is missing here is an error."""

_SHAPES_BY_NAME: Final = ("properties", "patternProperties", "definitions")
_SHAPES: Final = ("items", "additionalProperties", "then", "else", "allOf", "anyOf")
"""Helm complains of what these refuse; of a condition, as below `if` and `not`, it does not."""


def with_answers(schema: Any) -> Any:  # Any: JSON Schema is JSON
    """Return a schema that accepts the same, of whose refusals Helm says what to write instead."""
    if isinstance(schema, list):
        return [with_answers(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    plain = dict(schema)
    for name in schema.keys() & set(_SHAPES):
        plain[name] = with_answers(schema[name])
    for name in schema.keys() & set(_SHAPES_BY_NAME):
        plain[name] = {each: with_answers(shape) for each, shape in schema[name].items()}
    if "propertyNames" in plain:
        plain |= _by_key(plain.pop("propertyNames"), plain.pop("additionalProperties", {}))
    match plain.get("anyOf"):
        case [wanted, {"type": "null", **more}] if not more and "if" not in plain:
            # else Helm would say of a wrong part, too, that the section is not null
            del plain["anyOf"]
            plain |= {"if": {"type": "null"}, "else": wanted}
        case [*ways] if all("required" in way for way in ways):
            names = ", ".join(name for way in ways for name in way["required"])
            plain = _answered(
                plain, {"anyOf": plain.pop("anyOf")}, f"a section with one of: {names}"
            )
    return _with_answers_to_keywords(plain)


def _with_answers_to_keywords(plain: Json) -> Json:
    """Answer where one keyword alone is not met."""
    if isinstance(pattern := plain.get("pattern"), str):
        asked: Json = {key: plain.pop(key) for key in ("type", "pattern") if key in plain}
        plain = _answered(plain, asked, PATTERNS[pattern])
    match plain.get("not"):
        case {"required": [one, other]}:
            both = plain.pop("not")
            plain = _answered(
                plain, {"not": both}, f"a section with {one} or {other}, not with both"
            )
        case {"enum": _}:
            plain = _answered(plain, {"not": plain.pop("not")}, "something, not empty")
    match plain.get("contains"):
        case {"properties": {"name": {"const": name}}}:
            entry = {"contains": plain.pop("contains")}
            remedy = (
                f"a list with {{name: {name}, args: {{…}}}}, as the plugin is enabled and needs"
                f" arguments: `reactive-desched policy explain {name}` has them"
            )
            plain = _answered(plain, entry, remedy)
    if plain.get("maxItems") == 0:
        plain = _answered(plain, {"maxItems": plain.pop("maxItems")}, "empty, or left out")
    return plain


def _answered(plain: Json, asked: Json, remedy: str) -> Json:
    """Ask for this first; only where it is met for what else a schema has under a condition."""
    rest = {key: plain[key] for key in ("if", "then", "else") if key in plain}
    others = {key: each for key, each in plain.items() if key not in rest}
    met = {"then": rest} if rest else {}
    return {**others, "if": asked, **met, "else": {"const": remedy}}


def _by_key(names: Json, shape: Json) -> Json:
    """Return what accepts values of a shape under these keys alone.

    Of a key that `propertyNames` refuses Helm names another place of the values.
    """
    if "pattern" in names:
        return {"patternProperties": {names["pattern"]: shape}, "additionalProperties": False}
    known = names.get("enum") or [names["const"]]
    remedy = f"under another key: {', '.join(known)}"
    return {
        "properties": dict.fromkeys(known, shape),
        "additionalProperties": {"const": remedy},
    }
