"""Label selectors: the object form of the API and the text form of a query.

Semantics as apimachinery's labels.Requirement: NotIn and DoesNotExist hold for an absent label.
"""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct, ValidationError, convert

from reactive_desched.errors import SelectorError

Labels = Mapping[str, str]

_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_NAME_MAX: Final = 63
_PREFIX_MAX: Final = 253
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,63}")
_INT64_LIMIT: Final = 2**63


class Requirement(Struct, frozen=True, gc=False):
    """One condition on one label; operators In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Say whether the labels satisfy this condition; an unknown operator never does."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return self._compare_int64(value)
            case _:
                return False

    def _compare_int64(self, value: str | None) -> bool:
        """Compare as int64, as the node selector's Gt and Lt; unparsable is no match."""
        if value is None or len(self.values) != 1:
            return False
        left, right = _int64(value), _int64(self.values[0])
        if left is None or right is None:
            return False
        return left > right if self.operator == "Gt" else left < right

    def validation_error(self) -> str | None:
        """Say what makes this requirement invalid as part of a label selector, or None."""
        if (wrong := label_key_error(self.key)) is not None:
            return wrong
        match self.operator:
            case "In" | "NotIn":
                if not self.values:
                    return f"{self.key}: {self.operator} needs at least one value"
            case "Exists" | "DoesNotExist":
                if self.values:
                    return f"{self.key}: {self.operator} takes no values"
            case "Gt" | "Lt":
                if len(self.values) != 1 or _int64(self.values[0]) is None:
                    return f"{self.key}: {self.operator} needs exactly one integer"
            case other:
                return (
                    f"{self.key}: {other!r} is not a valid label selector operator; "
                    "use In, NotIn, Exists or DoesNotExist"
                )
        return next(filter(None, map(label_value_error, self.values)), None)

    def __str__(self) -> str:
        match self.operator:
            case "Exists":
                return self.key
            case "DoesNotExist":
                return f"!{self.key}"
            case "In" | "NotIn":
                return f"{self.key} {self.operator.lower()} ({','.join(self.values)})"
            case _:
                return f"{self.key}{'>' if self.operator == 'Gt' else '<'}{','.join(self.values)}"


class LabelSelector(Struct, frozen=True, gc=False, rename="camel"):
    """The API's selector object: all parts must hold; `{}` matches everything.

    An absent selector is None and matches nothing in most places; callers decide.
    """

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Say whether the labels satisfy every part."""
        for key, value in self.match_labels.items():
            if labels.get(key) != value:
                return False
        return all(requirement.matches(labels) for requirement in self.match_expressions)

    @property
    def is_empty(self) -> bool:
        """Say whether this selector has no parts and so matches everything."""
        return not self.match_labels and not self.match_expressions

    def validation_errors(self) -> list[str]:
        """List what makes this selector invalid (as LabelSelectorAsSelector would refuse)."""
        found: list[str] = []
        for key, value in self.match_labels.items():
            found += filter(None, (label_key_error(key), label_value_error(value)))
        for requirement in self.match_expressions:
            if requirement.operator in ("Gt", "Lt"):
                found.append(
                    f"{requirement.key}: {requirement.operator!r} is not a valid label selector "
                    "operator; use In, NotIn, Exists or DoesNotExist"
                )
            elif (wrong := requirement.validation_error()) is not None:
                found.append(wrong)
        return found


class Selector(Struct, frozen=True, gc=False):
    """A parsed selector text: all requirements must hold; none matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Say whether the labels satisfy every requirement."""
        return all(requirement.matches(labels) for requirement in self.requirements)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


EVERYTHING: Final = Selector()
NOTHING: Final = Selector((Requirement("", "In"),))


def as_selector(written: LabelSelector | None) -> Selector:
    """Return a selector object as its requirements; everything where there is none."""
    if written is None:
        return EVERYTHING
    labels = (Requirement(key, "In", (value,)) for key, value in written.match_labels.items())
    return Selector((*labels, *written.match_expressions))


def label_key_error(key: str) -> str | None:
    """Say why a text is not a label key, or None when it is one."""
    prefix, slash, name = key.rpartition("/")
    if len(name) > _NAME_MAX or not _NAME.fullmatch(name):
        return f"{key!r} is not a label key"
    if slash and (len(prefix) > _PREFIX_MAX or not _PREFIX.fullmatch(prefix)):
        return f"{key!r} has a prefix that is not a DNS subdomain"
    return None


def label_value_error(value: str) -> str | None:
    """Say why a text is not a label value, or None when it is one."""
    if value and (len(value) > _NAME_MAX or not _NAME.fullmatch(value)):
        return f"{value!r} is not a label value"
    return None


def _int64(text: str) -> int | None:
    """Return the integer as Go's ParseInt would read it, None where that fails."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -_INT64_LIMIT <= number < _INT64_LIMIT else None


def parse_selector(text: str) -> Selector:
    """Parse the query form, for example "app=web,tier in (a,b),!legacy,size>3".

    Raises SelectorError naming the text and the place.
    """
    parser = _Parser(text)
    return parser.selector()


# Only these four count as space, as upstream; any other is part of a word, and refused there.
_TOKEN: Final = re.compile(r"[ \t\r\n]*(==|!=|[=!,()<>]|[^ \t\r\n=!,()<>]+)")
_PUNCTUATION: Final = frozenset({"==", "!=", "=", "!", ",", "(", ")", "<", ">"})


class _Parser:
    """A one-pass reader of the selector grammar."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _TOKEN.findall(text)
        self._position = 0

    def selector(self) -> Selector:
        requirements: list[Requirement] = []
        if not self._tokens:
            return EVERYTHING
        requirements.append(self._requirement())
        while self._take(","):
            requirements.append(self._requirement())
        if self._position < len(self._tokens):
            raise self._error(f"unexpected {self._tokens[self._position]!r}")
        return Selector(tuple(requirements))

    def _requirement(self) -> Requirement:
        if self._take("!"):
            return self._validate(Requirement(self._read_key(), "DoesNotExist"))
        key = self._read_key()
        return self._validate(self._after_key(key))

    def _after_key(self, key: str) -> Requirement:
        match self._next():
            case "=" | "==":
                return Requirement(key, "In", (self._value(),))
            case "!=":
                return Requirement(key, "NotIn", (self._value(),))
            case ">":
                return Requirement(key, "Gt", (self._value(),))
            case "<":
                return Requirement(key, "Lt", (self._value(),))
            case "in":
                return Requirement(key, "In", self._values())
            case "notin":
                return Requirement(key, "NotIn", self._values())
            case None:
                return Requirement(key, "Exists")
            case ",":
                self._position -= 1
                return Requirement(key, "Exists")
            case other:
                raise self._error(f"unexpected {other!r} after {key!r}")

    def _validate(self, requirement: Requirement) -> Requirement:
        if (wrong := requirement.validation_error()) is not None:
            raise self._error(wrong)
        return requirement

    def _values(self) -> tuple[str, ...]:
        if not self._take("("):
            raise self._error("expected '(' before the values")
        values = [self._value()]
        while self._take(","):
            values.append(self._value())
        if not self._take(")"):
            raise self._error("expected ')' after the values")
        return tuple(sorted(set(values)))

    def _value(self) -> str:
        """Read a value; it may be empty, as in "a=" or "a in (b,)"."""
        if self._position < len(self._tokens) and self._tokens[self._position] not in _PUNCTUATION:
            return self._next() or ""
        return ""

    def _read_key(self) -> str:
        token = self._next()
        if token is None or token in _PUNCTUATION:
            found = f", found {token!r}" if token else ""
            raise self._error(f"expected a label key{found}")
        return token

    def _next(self) -> str | None:
        if self._position >= len(self._tokens):
            return None
        self._position += 1
        return str(self._tokens[self._position - 1])

    def _take(self, token: str) -> bool:
        if self._position < len(self._tokens) and self._tokens[self._position] == token:
            self._position += 1
            return True
        return False

    def _error(self, message: str) -> SelectorError:
        return SelectorError(f"label selector {self._text!r}: {message}")


def parse_label_selector(raw: object) -> LabelSelector:
    """Read a selector as people write it: matchLabels and matchExpressions.

    Raises SelectorError listing everything wrong with it.
    """
    if isinstance(raw, LabelSelector):
        return raw
    try:
        selector = convert(raw, LabelSelector)
    except ValidationError as error:
        raise SelectorError(f"not a label selector: {error}") from error
    if errors := selector.validation_errors():
        raise SelectorError("; ".join(errors))
    return selector
