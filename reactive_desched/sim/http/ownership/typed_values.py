"""Walks objects along their types: what they hold, how two differ, how one merges into another."""

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from functools import cache, lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec import Struct

from reactive_desched.sim.http.ownership.field_paths import FIELD, ITEM, MEMBER, Path, as_text
from reactive_desched.sim.http.schema import message_for, named_fields
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.resources import Resource
from reactive_desched.sim.status import StatusError

__all__ = [
    "Comparison",
    "Type",
    "check_keys",
    "compare",
    "empty",
    "fields_of",
    "merge",
    "type_of",
    "without",
]

_ATOMIC: Final = "atomic"
_SET: Final = "*"
_KEY_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType({"protocol": "TCP"})


class Type(Struct, frozen=True):
    """A type in the letters of the table of fields, and how its parts merge."""

    letters: str = ""
    """Empty where the table has no such type: maps merge there, lists do not."""
    how: str = ""

    @property
    def is_list(self) -> bool:
        """Return whether this is a list whose items have keys."""
        return self.letters.startswith("*") and bool(self.how)

    @property
    def is_map(self) -> bool:
        """Return whether this is a map or message whose fields merge."""
        return self.letters[:1] in ("", "@", "%") and self.how != _ATOMIC

    def field(self, name: str) -> "Type":
        """Return the type of a field."""
        if not self.letters:
            return _type("@meta.ObjectMeta") if name == "metadata" else Type()
        if self.letters[0] == "%":
            return _type(self.letters[1:])
        return _field(self.letters[1:], name)

    def element(self, item: Any) -> str:
        """Return the path element of an item of a list whose items have keys."""
        if self.how == _SET:
            return MEMBER + msgspec.json.encode(item).decode()
        inner = self.item()
        keys = {key: item.get(key, inner.default(key)) for key in self.how.split(",")}
        return ITEM + msgspec.json.encode(keys, order="sorted").decode()

    def default(self, key: str) -> Any:
        """Return what a key of an item is that does not say it."""
        return _KEY_DEFAULTS.get(key, 0 if self.field(key).letters == "i" else "")

    def item(self) -> "Type":
        """Return the type of an item."""
        return _type(self.letters[1:])


class Comparison(Struct, frozen=True):
    """The differences between two objects."""

    added: frozenset[Path]
    modified: frozenset[Path]
    removed: frozenset[Path]

    @property
    def written(self) -> frozenset[Path]:
        """Return what has another value now."""
        return self.added | self.modified

    @property
    def all(self) -> frozenset[Path]:
        """Return what is not as it was."""
        return self.written | self.removed


def type_of(kind: Resource) -> Type:
    """Return the type of a kind's objects; of one that is not listed only the metadata have one."""
    message = message_for(kind.api_version, kind.kind)
    return Type() if message is None else Type(f"@{message}")


def empty(kind: Type) -> Obj:
    """Return an object of which no field is set: with the parts that are never absent."""
    if kind.letters[:1] != "@":
        return {}
    fields = named_fields(kind.letters[1:])
    return {
        name: empty(kind.field(name))
        for name, field in fields.items()
        if field.kind[0] == "@" and not field.keeps_zero
    }


def fields_of(kind: Type, value: Any, above: Path = ()) -> Iterator[Path]:
    """Yield what an applied object owns: its leaves and the items of its lists."""
    parts = _parts(kind, value)
    for element, (inner, part) in (parts or {}).items():
        path = (*above, element)
        if not element.startswith(FIELD):
            yield path
        yield from fields_of(inner, part, path)
    if not parts and above:
        yield above


def check_keys(kind: Type, value: Any, above: Path = ()) -> None:
    """Refuse an applied object in which two items of a list have the same keys."""
    parts = _parts(kind, value) or {}
    if isinstance(value, list) and kind.is_list and len(parts) < len(value):
        elements = [kind.element(item) for item in value]
        twice = next(each for each in elements if elements.count(each) > 1)
        text = f"{as_text(above)}: duplicate entries for key {as_text((twice,))}"
        raise StatusError(500, "", f"failed to create typed patch object: {text}")
    for element, (inner, part) in parts.items():
        check_keys(inner, part, (*above, element))


def compare(kind: Type, old: Obj, new: Obj) -> Comparison:
    """Return what was added, modified and removed."""
    added: set[Path] = set()
    modified: set[Path] = set()
    removed: set[Path] = set()

    def walk(kind: Type, old: Any, new: Any, above: Path) -> None:
        if old == new:
            return
        before, after = _parts(kind, old), _parts(kind, new)
        if before is None or after is None:
            modified.add(above)
            return
        for element, (inner, part) in after.items():
            path = (*above, element)
            if element in before:
                walk(inner, before[element][1], part, path)
            else:
                _add_all(inner, part, path, added)
        for element, (inner, part) in before.items():
            if element not in after:
                _add_all(inner, part, (*above, element), removed)

    walk(kind, old, new, ())
    return Comparison(frozenset(added), frozenset(modified), frozenset(removed))


def merge(kind: Type, live: Any, config: Any) -> Any:
    """Return the live value with what an applied one says."""
    if live is None or not _alike(kind, live, config):
        return config
    if isinstance(config, dict):
        names = dict.fromkeys((*live, *config))
        return {
            name: merge(kind.field(name), live.get(name), config[name])
            if name in config
            else live[name]
            for name in names
        }
    return _merge_list(kind, live, config)


def without(kind: Type, value: Any, doomed: Collection[Path], above: Path = ()) -> Any:
    """Return a value without some of its parts."""
    parts = _parts(kind, value)
    if parts is None:
        return value
    kept = {
        element: without(inner, part, doomed, (*above, element))
        for element, (inner, part) in parts.items()
        if (*above, element) not in doomed
    }
    if isinstance(value, list):
        return list(kept.values())
    return {element.removeprefix(FIELD): part for element, part in kept.items()}


def _alike(kind: Type, live: Any, config: Any) -> bool:
    """Return whether two values merge; if not, one replaces the other."""
    if isinstance(live, dict) and isinstance(config, dict):
        return kind.is_map
    return isinstance(live, list) and isinstance(config, list) and kind.is_list


def _merge_list(kind: Type, live: list[Any], config: list[Any]) -> list[Any]:
    """Merge by the items' keys: those applied keep their order, the others their place by it."""
    there, wanted = _by_element(kind, live), _by_element(kind, config)
    left, right = deque((kind.element(item), item) for item in live), deque(wanted)
    shared = deque(element for element in wanted if element in there)
    result, done = [], set[str]()
    while left or right:
        if left and (not right or left[0][0] != right[0]):
            first, item = left[0]
            if first not in wanted:
                result.append(item)
            if first not in wanted or first in done or (shared and shared[0] != first):
                left.popleft()  # an applied one has its turn with the others that are applied
                continue
        element = right.popleft()
        if left and left[0][0] == element:
            left.popleft()
        result.append(merge(kind.item(), there.get(element), wanted[element]))
        done.add(element)
        if shared and shared[0] == element:
            shared.popleft()
    return result


def _by_element(kind: Type, items: list[Any]) -> dict[str, Any]:
    """Return items by their path element; of several with the same one, the first."""
    found: dict[str, Any] = {}
    for item in items:
        found.setdefault(kind.element(item), item)
    return found


def _parts(kind: Type, value: Any) -> Mapping[str, tuple[Type, Any]] | None:
    """Return the parts of a value by path element; None of one that has none, an atomic one too."""
    if isinstance(value, dict) and kind.is_map:
        return {f"{FIELD}{name}": (kind.field(name), part) for name, part in value.items()}
    if isinstance(value, list) and kind.is_list:
        inner = kind.item()
        return {element: (inner, item) for element, item in _by_element(kind, value).items()}
    return None


def _add_all(kind: Type, value: Any, path: Path, paths: set[Path]) -> None:
    paths.add(path)
    if parts := _parts(kind, value):
        for element, (inner, part) in parts.items():
            _add_all(inner, part, (*path, element), paths)


@lru_cache(maxsize=4_000)
def _field(message: str, name: str) -> Type:
    found = named_fields(message).get(name)
    if found is None:  # `apiVersion` and `kind`
        return Type("s")
    return _type(found.kind, _merging().get(message, {}).get(name, ""))


@cache
def _type(letters: str, how: str = "") -> Type:
    if letters[0] == "@" and _ATOMIC in _merging().get(letters[1:], ()):
        return Type(letters, _ATOMIC)
    return Type(letters, how)


@cache
def _merging() -> Mapping[str, Mapping[str, str]]:
    """Read the table when the first object is compared."""
    text = files("reactive_desched.sim.http.ownership").joinpath("merge.schema").read_text("utf-8")
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            message, _, listed = line.partition(": ")
            words = (entry.partition("=") for entry in listed.split())
            found[message] = {field: how for field, _, how in words}
    return found
