"""Members by what groups them, such as pods by their namespace."""

from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
M = TypeVar("M", bound=Hashable)


class Groups(Generic[K, M]):
    """The members of each group, in the order in which they came; an empty group is not kept."""

    def __init__(self) -> None:
        self._members: dict[K, dict[M, None]] = {}

    def __contains__(self, group: K) -> bool:
        return group in self._members

    def groups(self) -> Collection[K]:
        """Return the groups that have members, as they are at any time."""
        return self._members.keys()

    def of(self, group: K) -> Collection[M]:
        """Return the members of a group; none of one that there is not."""
        return self._members.get(group, {}).keys()

    def add(self, group: K, member: M) -> None:
        """Add a member; one that is there stays where it is."""
        self._members.setdefault(group, {})[member] = None

    def discard(self, group: K, member: M) -> None:
        """Remove a member, if it is there."""
        members = self._members.get(group)
        if members is None:
            return
        members.pop(member, None)
        if not members:
            del self._members[group]

    def as_sets(self) -> dict[K, set[M]]:
        """Return the members of each group, to compare them."""
        return {group: set(members) for group, members in self._members.items()}
