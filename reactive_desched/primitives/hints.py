"""Texts of error messages: user input in quotes, and the known name that is most like another."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from reactive_desched.errors import ConfigError

_MAX_NAME_CHARS: Final = 80
_MAX_LISTED: Final = 8
_MIN_PART_CHARS: Final = 4
_MAX_MEANT: Final = 3
_MIN_SIMILARITY: Final = 0.72
_MAX_QUOTED_CHARS: Final = 60
_MIN_SLIP_SIMILARITY: Final = 0.86
_MIN_LEAD: Final = 0.06


def quote(text: str) -> str:
    """Return a text in quotes, on one line and cut to 60 characters."""
    short = text if len(text) <= _MAX_QUOTED_CHARS else text[: _MAX_QUOTED_CHARS - 1] + "…"
    escaped = short.encode("unicode_escape").decode() if not short.isprintable() else short
    return f'"{escaped}"'


def refuse_filters(query: Mapping[str, str]) -> None:
    """Raise ConfigError for a query of a page that takes none."""
    if query:
        raise ConfigError(f"{quote(next(iter(query)))} is not a filter; there are none")


def nearest_name(name: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that is most like the name, or None when none is similar."""
    if len(name) > _MAX_NAME_CHARS:
        return None
    by_folded = {_normalize(candidate): candidate for candidate in candidates}
    if _normalize(name) in by_folded:
        return by_folded[_normalize(name)]
    from difflib import get_close_matches  # only an error needs it

    close = get_close_matches(_normalize(name), by_folded, n=1, cutoff=_MIN_SIMILARITY)
    swapped = [each for each in by_folded if _has_swapped_letters(_normalize(name), each)]
    return by_folded[[*close, *swapped][0]] if close or swapped else None


def _has_swapped_letters(name: str, candidate: str) -> bool:
    """Say whether two letters side by side are the other way round, which short names hide."""
    if len(name) != len(candidate):
        return False
    swaps = (name[:at] + name[at + 1] + name[at] + name[at + 2 :] for at in range(len(name) - 1))
    return name != candidate and candidate in swaps


def sole_near_name(name: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that the name can only be a slip for, or None when it may mean others.

    It differs in case and separators alone, or in a few letters, and no other comes close.
    """
    names = list(candidates)
    if (same := same_ignoring_case(name, names)) is not None:
        return same
    if len(name) > _MAX_NAME_CHARS:
        return None
    from difflib import SequenceMatcher

    ranked = sorted(
        (
            (SequenceMatcher(None, _normalize(name), _normalize(each)).ratio(), each)
            for each in names
        ),
        reverse=True,
    )
    if not ranked or ranked[0][0] < _MIN_SLIP_SIMILARITY:
        return None
    is_alone = len(ranked) == 1 or ranked[1][0] <= ranked[0][0] - _MIN_LEAD
    return ranked[0][1] if is_alone else None


def same_ignoring_case(name: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that differs at most in case and separators."""
    return next(
        (candidate for candidate in candidates if _normalize(candidate) == _normalize(name)), None
    )


def did_you_mean(name: str, candidates: Collection[str]) -> str:
    """Suggest the most similar candidate, or those that hold the name, else list them if few."""
    if meant := likely_meant(name, candidates):
        return f"did you mean {' or '.join(meant)}?"
    return list_candidates(candidates)


def likely_meant(name: str, candidates: Iterable[str]) -> list[str]:
    """Return the most similar candidate, else the few that the name is a part of."""
    names = list(candidates)
    near = nearest_name(name, names)
    return [near] if near is not None else _holding(name, names)


def not_one_of(word: str, known: Iterable[str]) -> str:
    """Say that a word is not in a closed set, which one may be meant, and which there are."""
    names = list(known)
    meant = likely_meant(word, names)
    hint = f"did you mean {' or '.join(meant)}? it" if meant else "it"
    return f"{quote(word)} is unknown; {hint} is one of {', '.join(names)}"


def _holding(word: str, names: Iterable[str]) -> list[str]:
    """Return the names that a word of four letters or more is a part of, if they are few."""
    if len(word) < _MIN_PART_CHARS:
        return []
    found = [name for name in names if _normalize(word) in _normalize(name)]
    return found if len(found) <= _MAX_MEANT else []


def list_candidates(candidates: Collection[str]) -> str:
    """List the candidates if there are at most eight."""
    if not candidates or len(candidates) > _MAX_LISTED:
        return ""
    return f"known here: {', '.join(sorted(candidates))}"


def _normalize(name: str) -> str:
    """Drop case, underscores and dashes."""
    return name.casefold().replace("_", "").replace("-", "")
