"""What a person probably meant: the nearest known name, or the place where a name belongs."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Final

_LONGEST_NAME: Final = 80
_MOST_LISTED: Final = 8
_NEAR: Final = 0.72


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Give the known name a person most likely meant, or None when none is near."""
    if len(name) > _LONGEST_NAME:
        return None
    by_folded = {_folded(candidate): candidate for candidate in known}
    if _folded(name) in by_folded:
        return by_folded[_folded(name)]
    close = get_close_matches(_folded(name), by_folded, n=1, cutoff=_NEAR)
    return by_folded[close[0]] if close else None


def same(name: str, known: Iterable[str]) -> str | None:
    """Give the known name that differs at most in case and separators."""
    return next((candidate for candidate in known if _folded(candidate) == _folded(name)), None)


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Offer the nearest known name, else the known names themselves if they are few."""
    if (candidate := nearest(name, known)) is not None:
        return f"did you mean {candidate}?"
    return listing(known)


def listing(known: Collection[str]) -> str:
    """List what is known, where that is short enough to help."""
    if not known or len(known) > _MOST_LISTED:
        return ""
    return f"known here: {', '.join(sorted(known))}"


def _folded(name: str) -> str:
    """Compare without case and without the separators people put in."""
    return name.casefold().replace("_", "").replace("-", "")
