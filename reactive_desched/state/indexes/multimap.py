"""Pods by group, in little memory: most groups have one member, and a set of one is dear."""

from collections.abc import Collection, Iterator

from reactive_desched.model.objects import PodKey


class CompactMultiMap:
    """Pod keys by a text, for example a label's value; a group exists while it has members.

    A group's only member is held bare. What `of` returns follows later changes.
    """

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[str, PodKey | dict[PodKey, None]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def __contains__(self, group: str) -> bool:
        return group in self._groups

    def members(self, group: str) -> Collection[PodKey]:
        """Return a group's members in the order in which they came."""
        found = self._groups.get(group)
        if found is None:
            return ()
        return (found,) if isinstance(found, str) else found

    def add(self, group: str, pod: PodKey) -> None:
        """Put a pod into a group."""
        found = self._groups.get(group)
        if found is None:
            self._groups[group] = pod
        elif not isinstance(found, str):
            found[pod] = None
        elif found != pod:
            self._groups[group] = {found: None, pod: None}

    def discard(self, group: str, pod: PodKey) -> None:
        """Take a pod out of a group, if it is there."""
        found = self._groups.get(group)
        if found is None:
            return
        if isinstance(found, str):
            if found == pod:
                del self._groups[group]
            return
        found.pop(pod, None)
        if len(found) == 1:
            self._groups[group] = next(iter(found))
