"""What an object holds, counted by kind, to see that whatever comes and goes leaves nothing behind.

Two objects that stand for the same have the same footprint, however they came to that.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

_CONTAINERS = (dict, list, set, frozenset, tuple)


def footprint(root: object) -> Counter[str]:
    """Count our objects that can be reached from one, and all entries of its containers."""
    counts: Counter[str] = Counter()
    waiting, seen = [root], {id(root)}
    while waiting:
        each = waiting.pop()
        kind = type(each)
        if isinstance(each, _CONTAINERS):
            counts[f"in a {kind.__name__}"] += len(each)
        elif kind.__module__.startswith("reactive_desched."):
            counts[kind.__qualname__] += 1
        else:
            continue
        for part in _children(each):
            if id(part) not in seen:
                seen.add(id(part))
                waiting.append(part)
    return +counts


def _children(obj: object) -> Iterable[object]:
    if isinstance(obj, Mapping):
        return [*obj.keys(), *obj.values()]
    if isinstance(obj, _CONTAINERS):
        return obj
    slots = [name for cls in type(obj).__mro__ for name in getattr(cls, "__slots__", ())]
    values = [getattr(obj, name, None) for name in slots]
    return [*values, *getattr(obj, "__dict__", {}).values()]
