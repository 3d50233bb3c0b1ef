"""Writes each event into a file of its own, from which another program takes it."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from anyio.to_thread import run_sync
from pydantic import Field

from reactive_desched.api.event import Record
from reactive_desched.api.sink import SinkHost, SinkPlugin, SinkSection
from reactive_desched.errors import EventRejected, SinkUnavailable


class SpoolSettings(SinkSection):
    """Events as files in a folder."""

    directory: str = Field(min_length=1, description="The folder; it must exist.")
    max_files: int = Field(
        default=10_000, ge=1, le=1_000_000, description="With so many files in it, the sink waits."
    )


class SpoolSink(SinkPlugin[SpoolSettings]):
    """A file is named for the event's id: an event that comes again takes the same name."""

    settings = SpoolSettings
    from_start = True

    def __init__(self, settings: SpoolSettings, host: SinkHost) -> None:
        super().__init__(settings, host)
        self._directory = Path(settings.directory)

    async def deliver(self, records: Sequence[Record]) -> int:
        """Write the records in a thread: a slow disk must not hold the controller."""
        return await run_sync(self._write, records)

    def _write(self, records: Sequence[Record]) -> int:
        """Write files until one fails; return how many, from the first, are on disk."""
        try:
            room = self.config.max_files - len(list(self._directory.iterdir()))
        except OSError as error:
            raise self._unavailable(error) from error
        if room < 1:
            raise SinkUnavailable(f"{self._directory} is full")
        for done, record in enumerate(records[:room]):
            try:
                self._write_one(record)
            except (OSError, EventRejected) as error:
                if done:
                    return done  # those are there; this one comes again, as the first
                if isinstance(error, EventRejected):
                    raise
                raise self._unavailable(error) from error
        return len(records[:room])

    def _unavailable(self, error: OSError) -> SinkUnavailable:
        return SinkUnavailable(f"{self._directory} takes no file: {error.strerror or error}")

    def _write_one(self, record: Record) -> None:
        try:
            name = quote(json.loads(record.raw)["id"], safe="")
        except (ValueError, KeyError, TypeError) as error:
            raise EventRejected("the record has no id") from error
        unfinished = self._directory / f".{name}"
        with unfinished.open("wb") as file:
            file.write(record.raw + b"\n")
            file.flush()
            os.fsync(file.fileno())  # only what outlives a crash counts
        unfinished.replace(self._directory / f"{name}.json")
