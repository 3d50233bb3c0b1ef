"""Says what requests met: what several met once, with the names of all that it stops."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

__all__ = ["NO_ANSWER_YET", "cause_of", "shared_causes"]

NO_ANSWER_YET: Final = "no answer yet"
"""What is said of a server, file or sink that has neither answered nor failed since the start."""

_REQUEST: Final = re.compile(r"^(?:GET|list|watch) /\S+: ")
"""How a text begins that is about one request."""


def shared_causes(held: Mapping[str, str]) -> Iterator[tuple[list[str], str]]:
    """Yield each cause of what is held once, with the names that have it, of texts by name.

    What several requests met is said without their paths.
    """
    by_cause: dict[str, list[str]] = {}
    for name, text in held.items():
        by_cause.setdefault(cause_of(text), []).append(name)
    for cause, names in by_cause.items():
        yield names, cause if len(names) > 1 else held[names[0]]


def cause_of(text: str) -> str:
    """Return the text without the request that it is about."""
    return _REQUEST.sub("", text)
