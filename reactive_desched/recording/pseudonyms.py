"""Pseudonyms for the texts of a recording, which compare and sort as the texts do.

Decisions depend on which texts are equal, and where all else is equal on which comes first: pods
are judged by name, and of two that are alike the first leaves. So the words of all texts are read
first, and then replaced by random codes in the same order. A code says nothing of its word but
where it stands among the others, and there is no key to try words by.

A name is replaced part by part: the pods of a workload still begin with its name, and those of a
StatefulSet end in their ordinals.
"""

import re
from collections.abc import Collection
from random import Random
from typing import Final, Protocol

from reactive_desched.errors import RecordingError
from reactive_desched.model.labels import label_key_error, label_value_error
from reactive_desched.primitives.uid_parts import end_of
from reactive_desched.recording.well_known import (
    KEPT_KEYS,
    KEPT_WORDS,
    SYSTEM_NAMESPACES,
    split_by_form,
)

__all__ = ["Pseudonyms", "Texts", "Vocabulary"]

MAX_WORDS: Final = 1_500_000
"""So many different words a recording may have; a code has six letters at most."""

_LETTERS: Final = "bcdfghjklmnpqrstvwxz"
_MIN_LETTERS: Final = 3
_ROOM: Final = 40
"""So many codes there are for each word: they lie apart by chance."""

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_AFTER_UID: Final = re.compile(rf"({_UUID.pattern})-([0-9]{{10}})")
"""The name of a migration job: the uid of its pod, and when it was ordered."""

_INTEGER: Final = re.compile(r"([+-]?0*)([1-9][0-9]*)")
_SHORT_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,4}")
_INT64_LIMIT: Final = 2**63
_INT64_DIGITS: Final = 19
_UID_DIGITS: Final = 32
_UID_LIMIT: Final = 10 ** (_UID_DIGITS - len(end_of("")))
_WORD: Final = re.compile(r"([-.])")
_MAX_WORDS_OF_PART: Final = 9
"""More than so many short words would become longer than a label may be; they get one code."""
_LABEL_MAX: Final = 63
_KEPT_FIRST_WORDS: Final = frozenset({"podgroup", "kube"})
"""With which a rule sees that Volcano made a group for the plain pods of one owner, and other names
sort beside those of Kubernetes' own namespaces as before."""

_FIXED_POINTS: Final = tuple(
    sorted({word for name in SYSTEM_NAMESPACES for word in name.split("-")})
)
"""The words of the names that stay: codes keep their places before and behind these."""


class Texts(Protocol):
    """Replaces each text of a recording, by its kind."""

    def text(self, text: str) -> str:
        """Return what stands for a name, or for any other text."""
        ...

    def key(self, key: str) -> str:
        """Return what stands for the key of a label, a taint or a resource."""
        ...

    def value(self, value: str) -> str:
        """Return what stands for the value of a label or taint."""
        ...

    def uid(self, uid: str) -> str:
        """Return what stands for a uid."""
        ...


class _TextParts:
    """Takes texts apart; words, integers and uids are left to subclasses."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def _word(self, word: str) -> str:
        raise NotImplementedError

    def _integer(self, number: int) -> int:
        raise NotImplementedError

    def uid(self, uid: str) -> str:
        raise NotImplementedError

    def text(self, text: str) -> str:
        """Replace a text: the same one always by the same."""
        if (known := self._texts.get(text)) is None:
            known = self._texts[text] = self._replace(text)
        return known

    def value(self, value: str) -> str:
        """Replace the value of a label; one that the API server would refuse stays one."""
        replaced = self.text(value)
        return f"{replaced}!" if label_value_error(value) and replaced != value else replaced

    def key(self, key: str) -> str:
        """Replace a key, but for the parts that mean something to rules."""
        if key in KEPT_KEYS or not key:
            return key
        if parts := split_by_form(key):
            return "".join(self._slashed(part) if is_star else part for part, is_star in parts)
        replaced = self._slashed(key)
        return f"{replaced}!" if label_key_error(key) else replaced

    def _replace(self, text: str) -> str:
        if text in KEPT_WORDS or not text or _SHORT_INTEGER.fullmatch(text):
            return text
        if _UUID.fullmatch(text):
            return self.uid(text)
        if (named := _AFTER_UID.fullmatch(text)) is not None:
            return f"{self.uid(named[1])}-{named[3]}"
        if (match := _INTEGER.fullmatch(text)) and len(match[2]) <= _INT64_DIGITS:
            number = int(match[2])
            if number == _INT64_LIMIT and match[1].startswith("-"):
                return text  # the least there is
            if number < _INT64_LIMIT:
                return f"{match[1]}{self._integer(number)}"
        return "__".join(self._slashed(part) for part in text.split("__"))

    def _slashed(self, text: str) -> str:
        return "/".join(self._part(part) for part in text.split("/"))

    def _part(self, part: str) -> str:
        """Replace what stands between two slashes, word by word; an ordinal at the end stays."""
        if part in KEPT_WORDS:
            return part
        words = _WORD.split(part)  # words, with what stands between them
        if len(words) > 2 * _MAX_WORDS_OF_PART and len(part) <= _LABEL_MAX:
            return self._word(part)
        has_ordinal = len(words) > 1 and words[-2] == "-" and _SHORT_INTEGER.fullmatch(words[-1])
        begins = 1 if len(words) > 1 and words[0] in _KEPT_FIRST_WORDS else 0
        ends = len(words) - 1 if has_ordinal else len(words)
        return "".join(
            self._word(word) if word and at % 2 == 0 and begins <= at < ends else word
            for at, word in enumerate(words)
        )


class Vocabulary(_TextParts):
    """Reads the texts of a recording: each stays as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.words: set[str] = set()
        self.integers: set[int] = set()
        self.uids: set[str] = set()

    def text(self, text: str) -> str:
        """Read a text."""
        if text not in self._texts:
            self._texts[text] = text
            self._replace(text)
        return text

    def uid(self, uid: str) -> str:
        """Read a uid."""
        if uid:
            self.uids.add(uid)
        return uid

    def _word(self, word: str) -> str:
        self.words.add(word)
        if len(self.words) > MAX_WORDS:
            raise RecordingError(
                f"the recording has more than {MAX_WORDS:,} different names; export a shorter"
                " period of it with --since and --until"
            )
        return word

    def _integer(self, number: int) -> int:
        self.integers.add(number)
        return number


class Pseudonyms(_TextParts):
    """Replaces the texts of a recording, whose vocabulary was read before."""

    def __init__(self, vocabulary: Vocabulary, draw: Random) -> None:
        super().__init__()
        self._codes: Final = _make_codes(vocabulary.words, draw)
        self._integers: Final = _make_integers(vocabulary.integers, draw)
        numbers = sorted(_sample(draw, 0, _UID_LIMIT, len(vocabulary.uids)))
        self._uids: Final = {
            uid: _as_uuid(number, end_of(uid))
            for uid, number in zip(sorted(vocabulary.uids), numbers, strict=True)
        }

    def uid(self, uid: str) -> str:
        """Replace a uid; those of two objects sort as before."""
        return self._uids[uid] if uid else uid

    def _word(self, word: str) -> str:
        return self._codes[word]

    def _integer(self, number: int) -> int:
        return self._integers[number]


def _as_uuid(number: int, end: str) -> str:
    """Write a number in the form of a uid, in decimal digits: these spell nothing.

    The last digits stay those of the uid: the state keeps pods in parts by them, and visits them
    so.
    """
    digits = f"{number:0{_UID_DIGITS - len(end)}d}{end}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _make_codes(words: Collection[str], draw: Random) -> dict[str, str]:
    """Give each word a code of consonants, in the order of the words.

    No code is, or has within it, a short word of the recording: a search for that finds none.
    """
    length = _MIN_LETTERS
    while len(_LETTERS) ** length < _ROOM * (len(words) + 1):
        length += 1
    spelled = {word for word in words if 1 < len(word) <= length and not set(word) - set(_LETTERS)}
    while True:
        codes = _codes_of_length(sorted(words), length, spelled, draw)
        if codes is not None:
            return codes
        length += 1


def _codes_of_length(
    words: list[str], length: int, spelled: Collection[str], draw: Random
) -> dict[str, str] | None:
    """Return codes of so many letters; None where there are too few of them."""
    codes: dict[str, str] = {}
    begins, lowest = 0, 0
    for point in (*_FIXED_POINTS, None):
        ends, above = begins, len(_LETTERS) ** length
        while ends < len(words) and (point is None or words[ends] < point):
            ends += 1
        if point is not None:
            above = _first_code_from(point, length)
        chosen = _choose_codes(lowest, above, ends - begins, length, spelled, draw)
        if chosen is None:
            return None
        codes.update(zip(words[begins:ends], chosen, strict=True))
        begins, lowest = ends, above
    return codes


def _choose_codes(
    lowest: int, above: int, count: int, length: int, spelled: Collection[str], draw: Random
) -> list[str] | None:
    chosen: set[int] = set()
    if count * 4 > above - lowest:
        return None
    tries_left = 50 * count + 1000
    while len(chosen) < count:
        number = draw.randrange(lowest, above)
        tries_left -= 1
        if tries_left < 0:
            return None
        if number not in chosen and not (spelled and _spells(_code(number, length), spelled)):
            chosen.add(number)
    return [_code(number, length) for number in sorted(chosen)]


def _code(number: int, length: int) -> str:
    letters = []
    for _ in range(length):
        number, letter = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[letter])
    return "".join(reversed(letters))


def _spells(code: str, words: Collection[str]) -> bool:
    return any(
        code[begins:ends] in words
        for begins in range(len(code))
        for ends in range(begins + 2, len(code) + 1)
    )


def _first_code_from(text: str, length: int) -> int:
    """Return the number of the first code that does not sort before a text."""
    lowest, above = 0, len(_LETTERS) ** length
    while lowest < above:
        middle = (lowest + above) // 2
        if _code(middle, length) < text:
            lowest = middle + 1
        else:
            above = middle
    return lowest


def _make_integers(numbers: Collection[int], draw: Random) -> dict[int, int]:
    """Give each number another of as many digits, in their order: Gt and Lt compare as before."""
    by_digits: dict[int, list[int]] = {}
    for number in sorted(numbers):
        by_digits.setdefault(len(str(number)), []).append(number)
    given: dict[int, int] = {}
    for digits, those in by_digits.items():
        above = min(10**digits, _INT64_LIMIT)
        drawn = sorted(_sample(draw, 10 ** (digits - 1), above, len(those)))
        given.update(zip(those, drawn, strict=True))
    return given


def _sample(draw: Random, lowest: int, above: int, count: int) -> set[int]:
    """Draw so many different numbers of a range."""
    if count * 2 > above - lowest:
        return set(draw.sample(range(lowest, above), count))
    drawn: set[int] = set()
    while len(drawn) < count:
        drawn.add(draw.randrange(lowest, above))
    return drawn
