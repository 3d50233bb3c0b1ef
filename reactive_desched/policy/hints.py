"""What a person probably meant: the nearest known name, or the place where a name belongs."""

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Final

_MAX_NAME_CHARS: Final = 80
_MAX_LISTED: Final = 8
_MIN_SIMILARITY: Final = 0.72


def nearest_name(name: str, candidates: Iterable[str]) -> str | None:
    """Give the known name a person most likely meant, or None when none is near."""
    if len(name) > _MAX_NAME_CHARS:
        return None
    by_folded = {_normalize(candidate): candidate for candidate in candidates}
    if _normalize(name) in by_folded:
        return by_folded[_normalize(name)]
    close = get_close_matches(_normalize(name), by_folded, n=1, cutoff=_MIN_SIMILARITY)
    return by_folded[close[0]] if close else None


def same_ignoring_case(name: str, candidates: Iterable[str]) -> str | None:
    """Give the known name that differs at most in case and separators."""
    return next(
        (candidate for candidate in candidates if _normalize(candidate) == _normalize(name)), None
    )


def did_you_mean(name: str, candidates: Collection[str]) -> str:
    """Offer the nearest known name, else the known names themselves if they are few."""
    if (candidate := nearest_name(name, candidates)) is not None:
        return f"did you mean {candidate}?"
    return list_candidates(candidates)


def list_candidates(candidates: Collection[str]) -> str:
    """List what is known, where that is short enough to help."""
    if not candidates or len(candidates) > _MAX_LISTED:
        return ""
    return f"known here: {', '.join(sorted(candidates))}"


def _normalize(name: str) -> str:
    """Compare without case and without the separators people put in."""
    return name.casefold().replace("_", "").replace("-", "")
