"""Counts with their nouns, and shares, as messages for people have them."""

from typing import Final

NO_FIGURE: Final = "\N{EN DASH}"
"""What stands where there is no figure."""

_ALL: Final = 100


def format_count(count: int, noun: str, *verbs: str) -> str:
    """Return a count with its noun: "1 pod", "1,200 pods".

    `verbs` are the verb after one and after several: "is" and "are" give "1 pod is", "2 pods are".
    """
    named = f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
    return f"{named} {agree(count, *verbs)}" if verbs else named


def agree(count: int, one: str, several: str) -> str:
    """Return the word that goes with one, or with several or none: is or are, it or they."""
    return one if count == 1 else several


def times(count: int) -> str:
    """Say how often: once, or 1,200 times."""
    return "once" if count == 1 else f"{count:,} times"


def place_in_queue(place: int, of: int, queue: str) -> str:
    """Say the place of one that waits: 17th of 235 in the queue of it; the last is 235th."""
    among = f" of {of:,}" if of > place else ""
    return f"{format_ordinal(place)}{among} in the queue of {queue}"


_ENDINGS: Final = {1: "st", 2: "nd", 3: "rd"}
_TEENS: Final = range(11, 14)


def format_ordinal(number: int) -> str:
    """Return a number with the ending of its ordinal."""
    ending = "th" if number % 100 in _TEENS else _ENDINGS.get(number % 10, "th")
    return f"{number:,}{ending}"


def and_more(count: int, what: str = "") -> str:
    """Say of a list how many more there are, or more of what: and 12 more, and 1 more row."""
    return "and " + (format_count(count, f"more {what}") if what else f"{count:,} more")


def share(part: int, whole: int) -> str:
    """Return a share in whole percent; 0 and 100 only where it is just that."""
    if not whole:
        return NO_FIGURE
    percent = (200 * part + whole) // (2 * whole)
    if part and not percent:
        return "under 1 %"
    if part < whole and percent == _ALL:
        return "over 99 %"
    return f"{percent} %"
