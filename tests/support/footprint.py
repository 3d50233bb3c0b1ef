"""What an object holds, counted by kind, to see that whatever comes and goes leaves nothing behind.

Two objects that stand for the same have the same footprint, however they came to that.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, MutableMapping

from reactive_desched.state.departed_pods import DepartedPods

_CONTAINERS = (dict, list, set, frozenset, tuple)
_MORE_CONTAINERS = (deque, MutableMapping)


def footprint(root: object) -> Counter[str]:
    """Count our objects that can be reached from one, and all entries of its containers.

    Pods that left their nodes, which are kept for minutes, are not followed.
    """
    counts: Counter[str] = Counter()
    waiting, seen = [root], {id(root)}
    while waiting:
        each = waiting.pop()
        kind = type(each)
        if isinstance(each, _CONTAINERS):
            counts[f"in a {kind.__name__}"] += len(each)
        elif kind is DepartedPods:
            continue
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
    if isinstance(obj, _CONTAINERS + _MORE_CONTAINERS):
        return list(obj)
    slots = [name for cls in type(obj).__mro__ for name in getattr(cls, "__slots__", ())]
    values = [getattr(obj, name, None) for name in slots]
    return [*values, *getattr(obj, "__dict__", {}).values()]


def sizes(*roots: object) -> Counter[str]:
    """Count the entries of the containers that can be reached, by the attribute that holds them.

    A container in a container counts for the attribute that holds the outer one.
    """
    counts: Counter[str] = Counter()
    waiting = [(root, "") for root in roots]
    seen = set(map(id, roots))
    while waiting:
        each, holder = waiting.pop()
        if isinstance(each, _CONTAINERS + _MORE_CONTAINERS):
            counts[holder] += len(each)
            parts = [(part, holder) for part in _children(each)]
        elif type(each).__module__.startswith("reactive_desched."):
            parts = list(_attributes(each))
        else:
            continue
        for part, name in parts:
            if id(part) not in seen:
                seen.add(id(part))
                waiting.append((part, name))
    return counts


def _attributes(obj: object) -> Iterable[tuple[object, str]]:
    slots = [name for cls in type(obj).__mro__ for name in getattr(cls, "__slots__", ())]
    values = {name: getattr(obj, name, None) for name in slots} | getattr(obj, "__dict__", {})
    return [(value, f"{type(obj).__name__}.{name}") for name, value in values.items()]
