"""Refuses two entries of a list that have one name: messages and records name them by it."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from reactive_desched.api.args import FieldError
from reactive_desched.api.rules import Rule
from reactive_desched.primitives.hints import quote


class NamedEntry(Protocol):
    """An entry of a list that has a name."""

    @property
    def name(self) -> str:
        """Its name."""
        ...


def duplicate_names(entries: Sequence[NamedEntry], what: str, key: str) -> Iterator[FieldError]:
    """Yield an error for each entry of the list `key` whose name another one before it has.

    `what` calls the entries, such as "budgets".
    """
    seen = set[str]()
    for number, each in enumerate(entries):
        if each.name in seen:
            yield FieldError(
                f"two {what} are called {quote(each.name)}",
                "give each a name of its own",
                (key, number, "name"),
                rule=Rule.DUPLICATE_ITEM,
            )
        seen.add(each.name)
