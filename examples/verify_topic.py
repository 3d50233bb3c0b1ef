#!/usr/bin/env python3
"""Proves that a Kafka topic, or lines on standard input, hold the whole record, unchanged.

Shares no code with reactive-desched: what it knows is the public form. Every event names its place
(`sequence`, contiguous for one `source`) and the SHA-256 of the event before (`prev`). Checkpoints
(C2SP signed notes) sign that hash, so that nobody can write the chain anew without the key.

Exit status: 0 whole and sound; 1 something is missing or was changed; 2 it could not be read.
"""

import argparse
import asyncio
import base64
import hashlib
import json
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

GENESIS = "0" * 64
CHECKPOINT = "io.reactive-desched.descheduler.audit.checkpoint.v1"
PATIENCE_S = 30.0


class Wrong(Exception):  # noqa: N818 - it is raised as the fact it names
    """The record is not whole or not what was written; the text names the first place."""


class Key(NamedTuple):
    """A public key as C2SP tools write it: NAME+HASH+BASE64."""

    name: str
    hash: bytes
    public: bytes

    @classmethod
    def parse(cls, text: str) -> "Key":
        """Read NAME+HASH+BASE64; raise ValueError when it is not that of an Ed25519 key."""
        name, hash_, encoded = text.split("+", 2)
        raw = base64.b64decode(encoded, validate=True)
        if hashlib.sha256(name.encode() + b"\n" + raw).hexdigest()[:8] != hash_ or raw[0] != 1:
            raise ValueError(f"the key {name} does not fit its own hash, or is not Ed25519")
        return cls(name, bytes.fromhex(hash_), raw[1:])


class Note(NamedTuple):
    """A checkpoint in C2SP's form: so many records of an origin, the last with this SHA-256."""

    text: str
    origin: str
    size: int
    root: str
    signatures: list[tuple[str, bytes]]

    @classmethod
    def parse(cls, note: str) -> "Note":
        """Read a note; raise ValueError when it is none."""
        text, _, tail = note.rpartition("\n\n")
        origin, size, root = text.split("\n")[:3]
        lines = [line.split(" ") for line in tail.splitlines()]
        signatures = [(name, base64.b64decode(encoded)) for _, name, encoded in lines]
        return cls(text + "\n", origin, int(size), base64.b64decode(root).hex(), signatures)

    def check(self, keys: Sequence[Key]) -> None:
        """Raise ValueError unless one of the keys signed it."""
        for name, raw in self.signatures:
            for key in keys:
                if (name, raw[:4]) == (key.name, key.hash):
                    return self._verify(key, raw[4:])
        raise ValueError("it is signed with none of the keys that were given")

    def _verify(self, key: Key, signature: bytes) -> None:
        try:
            Ed25519PublicKey.from_public_bytes(key.public).verify(signature, self.text.encode())
        except InvalidSignature:
            raise ValueError("its signature is forged") from None


class Link(NamedTuple):
    """What is kept of an event: its place in the chain, and a checkpoint's note."""

    prev: str
    digest: str
    note: str | None


class Record:
    """The events of one source, in whatever order they come; some 400 bytes of memory for each."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.links: dict[int, Link] = {}

    def add(self, sequence: int, link: Link) -> None:
        """Take in an event; one that comes again must be the same."""
        if self.links.setdefault(sequence, link) != link:
            raise Wrong(f"{self.source}: record {sequence} is there twice, with different contents")

    def check_chain(self, since: int) -> int:
        """Return the last sequence, if all from `since` on are there and each fits the next."""
        last = max(self.links)
        said = GENESIS if since == 1 else None
        for sequence in range(since, max(last, since) + 1):
            link = self.links.get(sequence)
            if link is None:
                raise Wrong(f"{self.source}: record {sequence} is missing (the last is {last})")
            if said not in (None, link.prev):
                raise Wrong(f"{self.source}: record {self._changed(sequence)} was changed")
            said = link.digest
        return last

    def check_checkpoints(self, keys: Sequence[Key], since: int) -> int:
        """Return how many records are signed; all checkpoints must be sound, and there be one."""
        keys = [key for key in keys if self.source == f"//{key.name}"]
        signed: int | None = None
        for sequence, link in sorted(self.links.items()):
            if link.note is not None and sequence >= since:
                try:
                    self._check_checkpoint(sequence, link, keys)
                except ValueError as error:
                    raise Wrong(f"{self.source}: checkpoint {sequence}: {error}") from error
                signed = sequence - 1
        if signed is None:
            raise Wrong(f"{self.source}: there is no checkpoint, so nothing is signed")
        return signed

    def check_kept(self, note: Note) -> None:
        """Check a checkpoint that somebody kept: it speaks of a record that must be here."""
        if (link := self.links.get(note.size)) is None:
            raise Wrong(f"{self.source}: record {note.size} is missing: a kept checkpoint knows it")
        if link.digest != note.root:
            raise Wrong(f"{self.source}: record {note.size} is not the one of the kept checkpoint")

    def _check_checkpoint(self, sequence: int, link: Link, keys: Sequence[Key]) -> None:
        note = Note.parse(link.note or "")
        if (f"//{note.origin}", note.size, note.root) != (self.source, sequence - 1, link.prev):
            raise ValueError("it does not speak of the records before it")
        note.check(keys)

    def _changed(self, sequence: int) -> int:
        """Say which of two neighbours was changed: the later one if the one behind it denies it."""
        after = self.links.get(sequence + 1)
        denied = after is not None and after.prev != self.links[sequence].digest
        return sequence if denied or sequence == 1 else sequence - 1


class Verifier:
    """Sorts events by their source, and checks each source's record as a whole."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}

    def add(self, raw: bytes, where: str) -> None:
        """Take in one event, as it was published."""
        try:
            event = json.loads(raw)
            source, prev, sequence = event["source"], event["prev"], int(event["sequence"])
            note = event["data"]["note"] if event["type"] == CHECKPOINT else None
        except (ValueError, KeyError, TypeError) as error:
            raise Wrong(f"{where}: no event of reactive-desched") from error
        link = Link(prev, hashlib.sha256(raw).hexdigest(), note)
        self.records.setdefault(source, Record(source)).add(sequence, link)

    def check(self, keys: Sequence[Key], kept: Sequence[Note], since: int) -> Iterator[str]:
        """Yield a line about each sound record; raise Wrong at the first that is not."""
        if not self.records:
            raise Wrong("there are no events")
        for note in kept:
            if (record := self.records.get(f"//{note.origin}")) is None:
                raise Wrong(f"//{note.origin}: all is missing: a kept checkpoint knows it")
            record.check_kept(note)
        for source, record in sorted(self.records.items()):
            last = record.check_chain(since)
            told = f"{source}: records {since} to {last} are there and unchanged"
            if keys:
                told += f", and signed up to {record.check_checkpoints(keys, since)}"
            yield told


async def of_topics(brokers: str, topics: Sequence[str]) -> AsyncIterator[tuple[bytes, str]]:
    """Yield every event that is in the topics now, and where it is."""
    from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]  # it has no types

    async with AIOKafkaConsumer(
        *topics, bootstrap_servers=brokers, auto_offset_reset="earliest"
    ) as consumer:
        ends = await consumer.end_offsets(consumer.assignment())
        left = {
            at for at, begin in (await consumer.beginning_offsets(ends)).items() if begin < ends[at]
        }
        while left:
            batches = await consumer.getmany(*left, timeout_ms=int(PATIENCE_S * 1000))
            if not batches:
                raise OSError(f"nothing came for {PATIENCE_S:g} s")
            for at, records in batches.items():
                for record in records:
                    yield (
                        event_of(record.value, record.headers),
                        f"{at.topic} partition {at.partition} offset {record.offset}",
                    )
                if await consumer.position(at) >= ends[at]:
                    left.discard(at)


async def of_lines(lines: Iterable[bytes]) -> AsyncIterator[tuple[bytes, str]]:
    """Yield the lines, empty ones left out."""
    for number, line in enumerate(lines, 1):
        if raw := line.rstrip(b"\n"):
            yield raw, f"line {number}"


def event_of(value: bytes, headers: Iterable[tuple[str, bytes]]) -> bytes:
    """Return an event as it was recorded; in binary mode it is put together again."""
    texts = {name: text.decode() for name, text in headers}
    content_type = texts.pop("content-type", "")
    if content_type.lower().startswith("application/cloudevents"):
        return value
    members = {name.removeprefix("ce_"): quoted(text) for name, text in texts.items()}
    members |= {"data": value, "datacontenttype": quoted(content_type)}
    return b"{" + b",".join(quoted(name) + b":" + members[name] for name in sorted(members)) + b"}"


def quoted(text: str) -> bytes:
    """Write a text as canonical JSON (RFC 8785) does."""
    return json.dumps(text, ensure_ascii=False).encode()


async def verify(options: argparse.Namespace) -> None:
    """Read everything, then check it; raise Wrong, or an error of reading."""
    keys = [Key.parse(line) for text in options.key for line in lines_of(text)]
    kept = [Note.parse(path.read_text(encoding="utf-8")) for path in options.kept]
    for note in kept if keys else ():
        note.check(keys)
    verifier = Verifier()
    found = (
        of_topics(options.brokers, options.topic) if options.brokers else of_lines(sys.stdin.buffer)
    )
    async for raw, where in found:
        verifier.add(raw, where)
    for line in verifier.check(keys, kept, options.since):
        print(line)  # noqa: T201 - what this command is for


def lines_of(text: str) -> list[str]:
    """Return a key that was given, or the keys of a file such as checkpoint.pub."""
    return [text] if "+" in text and not Path(text).exists() else Path(text).read_text().split()


def main() -> int:
    """Read arguments, verify, and say how it is."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("topic", nargs="*", help="the topics; none: lines on standard input")
    parser.add_argument("--brokers", help="where to begin, as host:port,host:port")
    parser.add_argument("--key", action="append", default=[], help="public key, or checkpoint.pub")
    parser.add_argument("--kept", action="append", default=[], type=Path, help="a note you kept")
    parser.add_argument("--since", type=int, default=1, help="what came before was removed (1)")
    options = parser.parse_args()
    if bool(options.topic) != bool(options.brokers):
        parser.error("topics and --brokers go together")
    try:
        asyncio.run(verify(options))
    except Wrong as wrong:
        sys.stdout.write(f"NOT SOUND: {wrong}\n")
        return 1
    except (OSError, ValueError, RuntimeError) as error:
        sys.stderr.write(f"cannot verify: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
