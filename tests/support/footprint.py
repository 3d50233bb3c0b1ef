"""What an object holds, counted by kind, to see that whatever comes and goes leaves nothing behind.

Two objects that stand for the same have the same footprint, however they came to that.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

_CONTAINERS = (dict, list, set, frozenset, tuple)


def footprint(root: object) -> Counter[str]:
    """Count our objects that can be reached from one, and all entries of its containers."""
    found: Counter[str] = Counter()
    waiting, seen = [root], {id(root)}
    while waiting:
        each = waiting.pop()
        kind = type(each)
        if isinstance(each, _CONTAINERS):
            found[f"in a {kind.__name__}"] += len(each)
        elif kind.__module__.startswith("reactive_desched."):
            found[kind.__qualname__] += 1
        else:
            continue
        for part in _parts(each):
            if id(part) not in seen:
                seen.add(id(part))
                waiting.append(part)
    return +found


def _parts(thing: object) -> Iterable[object]:
    if isinstance(thing, Mapping):
        return [*thing.keys(), *thing.values()]
    if isinstance(thing, _CONTAINERS):
        return thing
    slots = [name for cls in type(thing).__mro__ for name in getattr(cls, "__slots__", ())]
    held = [getattr(thing, name, None) for name in slots]
    return [*held, *getattr(thing, "__dict__", {}).values()]
