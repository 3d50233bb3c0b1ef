"""Takes JSON of any size apart, value by value, without ever holding more than one of them.

`kubectl get -o json` writes gigabytes for a big cluster. They stay in the file: it is mapped into
memory, and what has been read is given back to the system.
"""

import mmap
import re
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Raw
from msgspec.json import Decoder

from reactive_desched.errors import ConfigError
from reactive_desched.primitives.decode_errors import DECODE_ERRORS

__all__ = ["BYTE_ORDER_MARK", "WINDOW_BYTES", "JsonText"]

WINDOW_BYTES: Final = 2**20
"""How far the end of a value is looked for at first; doubled while that is too short."""

_RELEASE_EVERY_BYTES: Final = 2**26
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_SPACE: Final = re.compile(rb"[ \t\r\n]*")
_KEY: Final = re.compile(rb'("(?:[^"\\]|\\.)*")[ \t\r\n]*:[ \t\r\n]*', re.DOTALL)
_TRAILING: Final = r"trailing characters \(byte (\d+)\)"
_BYTE_OFFSET: Final = r" \(byte (\d+)\)$"


class JsonText:
    """A text in JSON and the place `at` which it is read: a value, or several in a row.

    Whatever is no JSON raises ConfigError with its byte.
    """

    def __init__(
        self, data: bytes | memoryview | mmap.mmap, name: str, window: int = WINDOW_BYTES
    ) -> None:
        self.name: Final = name
        self.at = 0
        self._data: Final = data
        self._view: Final = memoryview(data)
        self._window: Final = window
        self._value: Final = Decoder(Raw).decode
        self._released_bytes = 0
        if bytes(self._view[: len(BYTE_ORDER_MARK)]) == BYTE_ORDER_MARK:
            self.at = len(BYTE_ORDER_MARK)

    def __len__(self) -> int:
        return len(self._view)

    def next(self) -> bytes:
        """Go on to the next value or sign and return its first byte; nothing at the end."""
        self._skip_space()
        return bytes(self._view[self.at : self.at + 1])

    def read_value(self) -> Raw:
        """Return the value here, uncopied, and go on to what follows it."""
        begins = self.at
        self.at = self._value_end(begins)
        self._release_pages()
        return Raw(self._view[begins : self.at])

    def slice_from(self, begins: int) -> Raw:
        """Return the text between an earlier place and here, without a copy."""
        return Raw(self._view[begins : self.at])

    def members(self) -> Iterator[str]:
        """Go through the object here: yield a key with `at` on its value, which must be taken."""
        for _ in self._separated(b"}"):
            key = _KEY.match(self._view, self.at)
            if key is None:
                raise self.syntax_error("the name of a member is expected here")
            self.at = key.end()
            yield self._text(key)

    def elements(self) -> Iterator[None]:
        """Go through the array here: yield with `at` on each element, which must be taken."""
        yield from self._separated(b"]")

    def syntax_error(self, reason: str) -> ConfigError:
        """Describe what is wrong with the text at this place."""
        return ConfigError(f"{self.name}: not valid JSON at byte {self.at}: {reason}")

    def _separated(self, closing: bytes) -> Iterator[None]:
        """Read the items between brackets, separated by commas."""
        self.at += 1
        if self.next() == closing:
            self.at += 1
            return
        while True:
            yield
            sign = self.next()
            self.at += 1
            if sign == closing:
                return
            if sign != b",":
                self.at -= 1
                raise self.syntax_error(f"a comma or {closing.decode()} is expected here")
            if self.next() == closing:
                bracket = closing.decode()
                raise self.syntax_error(f"no {bracket} may follow a comma; remove the comma")

    def _value_end(self, begins: int) -> int:
        """Find the end of a value: msgspec's error names where the rest begins."""
        window = self._window
        while True:
            part = self._view[begins : begins + window]
            try:
                self._value(part)
            except RecursionError:
                raise self.syntax_error("it is nested too deeply") from None
            except msgspec.DecodeError as error:
                if (rest := re.search(_TRAILING, str(error))) is not None:
                    return begins + int(rest[1]) - 1  # it has read the first byte of the rest
                if begins + window >= len(self):
                    raise self._not_json(begins, str(error)) from error
                window *= 2
            else:
                if begins + window >= len(self):
                    return len(self)
                window *= 2  # a value that ends with the window may go on beyond it

    def _not_json(self, begins: int, error: str) -> ConfigError:
        if (offset := re.search(_BYTE_OFFSET, error)) is None:
            return self.syntax_error(
                "the text ends in the middle of this value: is the file complete?"
            )
        self.at = begins + int(offset[1])
        return self.syntax_error(error[: offset.start()].removeprefix("JSON is malformed: "))

    def _skip_space(self) -> None:
        space = _SPACE.match(self._view, self.at)
        assert space is not None, "it matches nothing as well"
        self.at = space.end()

    def _text(self, key: "re.Match[bytes]") -> str:
        try:
            return msgspec.json.decode(key[1], type=str)
        except DECODE_ERRORS as error:
            self.at = key.start()
            raise self.syntax_error("the name of a member cannot be read") from error

    def _release_pages(self) -> None:
        """Let go of the pages behind us: they are in the file, should they be needed again."""
        if (
            not isinstance(self._data, mmap.mmap)
            or self.at - self._released_bytes < _RELEASE_EVERY_BYTES
        ):
            return
        begins = self._released_bytes
        self._released_bytes = self.at - self.at % mmap.PAGESIZE
        if hasattr(mmap, "MADV_DONTNEED"):  # not everywhere
            self._data.madvise(mmap.MADV_DONTNEED, begins, self._released_bytes - begins)
