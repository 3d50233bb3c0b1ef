"""Keeps the faults of a sink of another package to that sink, and names them."""

import inspect
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from math import isfinite
from typing import Any, Final

from reactive_desched.api.sink import Record, SinkHost, SinkPlugin, SinkSection
from reactive_desched.errors import EventRejected, SinkError, SinkUnavailable
from reactive_desched.primitives.bounded_text import truncate
from reactive_desched.primitives.foreign_code import calls_foreign_code
from reactive_desched.sinks.type_filter import TypeFilter
from reactive_desched.telemetry.foreign_faults import faults_as

_MAX_ERROR_CHARS: Final = 500


class InstalledSink:
    """Opens a sink when the first record comes, and hands it the types of event that it wants.

    Whatever the sink raises, in `open` too, counts as SinkUnavailable: it is tried again, and all
    else goes on. `origin` is the sink with its package, for messages.
    """

    def __init__(
        self, kind: type[SinkPlugin[Any]], settings: SinkSection, host: SinkHost, origin: str
    ) -> None:
        self.name = host.name
        self.from_start = kind.from_start is True
        self._kind = kind
        self._settings = settings
        self._host = host
        self._origin = origin
        self._type_filter = TypeFilter(settings.types)
        self._sink: Any = None  # what the package made

    @calls_foreign_code
    async def deliver(self, entries: Sequence[Record]) -> int:
        """Hand over the wanted records; return how many records, from the first, are done with."""
        wanted, end = self._wanted(entries)
        if not wanted:
            return end
        if wanted[0]:
            return wanted[0]
        records = tuple(entries[index] for index in wanted)
        if self._sink is None:
            with self._blamed("open"):
                self._sink = self._kind.open(self._settings, self._host)
        with self._blamed("deliver"):
            awaitable = self._sink.deliver(records)
            if not inspect.isawaitable(awaitable):
                raise SinkUnavailable(f"{self._origin}: deliver is no `async def`")
            count = await awaitable
        if type(count) is not int or not 1 <= count <= len(records):
            raise SinkUnavailable(
                f"{self._origin}: deliver returned {truncate(repr(count), 40)} for {len(records)} "
                "records: it returns how many, from the first, are there"
            )
        return end if count == len(records) else wanted[count]

    @calls_foreign_code
    async def close(self) -> None:
        """Close the sink, if it was opened; what it raises is logged."""
        sink, self._sink = self._sink, None
        if sink is None:
            return
        try:
            with self._blamed("close"):
                closing = sink.close()
                if isinstance(closing, Awaitable):
                    await closing
        except SinkUnavailable as error:
            self._host.log.warning("the sink did not close", sink=self.name, message=str(error))

    def _wanted(self, entries: Sequence[Record]) -> tuple[list[int], int]:
        """Return the indexes of the wanted records, and how far records can be read."""
        if self._type_filter.wants_all:
            return list(range(len(entries))), len(entries)
        wanted: list[int] = []
        for index, entry in enumerate(entries):
            try:
                is_wanted = self._type_filter.match(entry) is not None
            except EventRejected:
                if not index:
                    raise
                return wanted, index
            if is_wanted:
                wanted.append(index)
        return wanted, len(entries)

    @contextmanager
    def _blamed(self, method: str) -> Iterator[None]:
        """Name the sink and its package in whatever its code raises in the block."""
        try:
            with faults_as(SinkUnavailable, self._origin, method, SinkError):
                yield
        except EventRejected as error:
            raise EventRejected(truncate(str(error), _MAX_ERROR_CHARS)) from error
        except SinkUnavailable as error:
            wait_s = _sane_wait_s(error.retry_after_s)
            raise SinkUnavailable(truncate(str(error), _MAX_ERROR_CHARS), wait_s) from error


def _sane_wait_s(wait_s: object) -> float | None:
    """Return the pause that a sink asks for, if it is one."""
    return float(wait_s) if isinstance(wait_s, int | float) and isfinite(wait_s) else None
