#!/usr/bin/env python3
"""Proves that a Kafka topic, or lines on standard input, hold the whole record, unchanged.

Shares no code with reactive-desched: it goes by the public form. Every event names its place
(`sequence`, contiguous for one `source`) and the SHA-256 of the event before (`prev`). Checkpoints
(C2SP signed notes) sign that hash, so that no one can write the chain anew without the key.
Where a journal had lost its end, a new `source` goes on behind the record that was its last then,
and `epoch.began` says which records of the source before it are missing there.

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
EPOCH_BEGAN = "io.reactive-desched.descheduler.epoch.began.v1"
PATIENCE_S = 30.0
UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class Wrong(Exception):  # noqa: N818 - it is raised as the fact it names
    """The record is not whole or not what was written; the text names the first place."""


class LossRecorder(Wrong):
    """All that is here is sound, and a journal lost records that are not here either."""


class Key(NamedTuple):
    """A public key as C2SP tools write it: NAME+HASH+BASE64."""

    name: str
    hash: bytes
    public: bytes

    @classmethod
    def parse(cls, text: str) -> "Key":
        """Read NAME+HASH+BASE64; raise ValueError when it is not that of an Ed25519 key."""
        name, _, rest = text.partition("+")
        hash_, _, encoded = rest.partition("+")
        raw = decoded(encoded)
        named = hashlib.sha256(name.encode() + b"\n" + raw).digest()[:4]
        if (named.hex(), raw[:1], len(raw)) != (hash_, b"\x01", 33):
            raise ValueError(f"the key {name} does not fit its own hash, or is not Ed25519")
        return cls(name, named, raw[1:])


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
        try:
            origin, size, root = text.split("\n")[:3]
            lines = [line.removeprefix("— ").split(" ") for line in tail.strip("\n").split("\n")]
            signatures = [(name, decoded(encoded)) for name, encoded in lines]
            return cls(text + "\n", origin, int(size), decoded(root).hex(), signatures)
        except ValueError as error:
            raise ValueError("it is no checkpoint's note") from error

    @classmethod
    def kept(cls, path: Path) -> "Note":
        """Read a note that was kept, or the last checkpoint among lines of events."""
        try:
            text = path.read_text(encoding="utf-8").strip()
            if text.startswith("{"):
                events = map(json.loads, text.split("\n"))
                text = [one["data"]["note"] for one in events if one["type"] == CHECKPOINT][-1]
            return cls.parse(text)
        except UNREADABLE as error:
            raise ValueError(f"{path}: no checkpoint's note, nor an event that has one") from error

    def check(self, keys: Sequence[Key]) -> bool:
        """Say whether one of the keys signed it; raise ValueError when its signature is forged."""
        ours = [
            (key, raw[4:])
            for name, raw in self.signatures
            for key in keys
            if (name, raw[:4]) == (key.name, key.hash)
        ]
        for key, signature in ours:
            try:
                Ed25519PublicKey.from_public_bytes(key.public).verify(signature, self.text.encode())
            except InvalidSignature:
                raise ValueError("its signature is forged") from None
        return bool(ours)


class Link(NamedTuple):
    """What is kept of an event: its place in the chain, and what it says if it is a checkpoint."""

    source: str
    prev: str
    digest: str
    says: tuple[str, int, str] | None


class Record:
    """The events of one source, in whatever order they come; some 400 bytes of memory for each."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.links: dict[int, Link] = {}

    def add(self, sequence: int, link: Link) -> None:
        """Take in an event; one that comes again must be the same."""
        if self.links.setdefault(sequence, link) != link:
            raise Wrong(f"{self.source}: record {sequence} is there twice, with different contents")

    @property
    def first(self) -> int:
        """The first sequence that is here."""
        return min(self.links)

    @property
    def last(self) -> int:
        """The last sequence that is here."""
        return max(self.links)

    def goes_on_behind(self, other: "Record") -> bool:
        """Say whether the first record here follows one of another source."""
        before = other.links.get(self.first - 1)
        return before is not None and before.digest == self.links[self.first].prev

    def check_chain(self, since: int) -> None:
        """Check that all from `since` on are there, and each fits the next."""
        said = GENESIS if since == 1 else None
        for sequence in range(since, self.last + 1):
            link = self.links.get(sequence)
            if link is None:
                here = f"here are {self.first} to {self.last}"
                raise Wrong(f"{self.source}: record {sequence} is missing ({here})")
            if said not in (None, link.prev):
                raise Wrong(f"{self.source}: record {self._changed(sequence)} was changed")
            said = link.digest

    def check_checkpoints(self, keys: Sequence[Key], since: int) -> int:
        """Return how many records are signed; all checkpoints must be sound, and there be one."""
        signed, doubtful = None, 0  # what an unknown key signed, a later signature may cover
        for sequence, link in sorted(self.links.items()):
            if link.says is not None and sequence >= since:
                try:
                    trusted = self._check_checkpoint(sequence, link, keys)
                except ValueError as error:
                    raise Wrong(f"{self.source}: checkpoint {sequence}: {error}") from error
                signed = sequence - 1 if trusted else signed
                doubtful = 0 if trusted else doubtful or sequence
        if doubtful:
            reason = "it is signed with none of the keys that were given, nor is what follows"
            raise Wrong(f"{self.source}: checkpoint {doubtful}: {reason}")
        if signed is None:
            raise Wrong(f"{self.source}: there is no checkpoint, so nothing is signed")
        return signed

    def check_kept(self, note: Note) -> None:
        """Check a checkpoint that was kept elsewhere: it covers a record that must be here."""
        here, after = self.links.get(note.size), self.links.get(note.size + 1)
        if here is None and after is None:
            raise Wrong(
                f"{self.source}: record {note.size} is missing: a kept checkpoint covers it"
            )
        if note.root not in (here and here.digest, after and after.prev):
            raise Wrong(f"{self.source}: record {note.size} is not the one of the kept checkpoint")

    def _check_checkpoint(self, sequence: int, link: Link, keys: Sequence[Key]) -> bool:
        """Say whether one of the source's own keys signed it; raise ValueError for a lie."""
        text, *said = link.says or ("", 0, "")
        note = Note.parse(text)
        if not [note.size, note.root] == said == [sequence - 1, link.prev]:
            raise ValueError("it does not speak of the records before it")
        if f"//{note.origin}" != link.source:
            raise ValueError("its note is of another source")
        return note.check([key for key in keys if key.name == note.origin])

    def _changed(self, sequence: int) -> int:
        """Say which of two neighbours was changed: the later one if the one behind it denies it."""
        after = self.links.get(sequence + 1)
        denied = after is not None and after.prev != self.links[sequence].digest
        return sequence if denied or sequence == 1 else sequence - 1


class Verifier:
    """Sorts events by their source, and checks each source's record as a whole."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.lost: list[tuple[str, int, int]] = []

    def add(self, raw: bytes, where: str) -> None:
        """Take in one event, as it was published."""
        try:
            event = json.loads(raw)
            source, sequence = event["source"], int(event["sequence"])
            is_plain = event["sequence"] == f"{sequence:020}" and source.isprintable()
            data = event["data"] if event["type"] == CHECKPOINT else None
            says = None if data is None else (str(data["note"]), data["size"], data["root"])
            record = self.records.get(source) or Record(source)
            if event["type"] == EPOCH_BEGAN and "firstMissing" in event["data"]:
                lost = event["data"]
                self.lost.append(
                    (lost["previous"], int(lost["firstMissing"]), int(lost["lastMissing"]))
                )
            link = Link(source, event["prev"], hashlib.sha256(raw).hexdigest(), says)
        except UNREADABLE as error:
            raise Wrong(f"{where}: no event of reactive-desched") from error
        if not is_plain or sequence < 1:
            raise Wrong(f"{where}: no event of reactive-desched")
        record.add(sequence, link)
        self.records[source] = record

    def check(self, keys: Sequence[Key], kept: Sequence[Note], since: int) -> Iterator[str]:
        """Yield a line about each sound record; raise Wrong at the first that is not."""
        left = [record for record in self.join() if record.last >= since]
        if not left:
            raise Wrong(f"there are no events from record {since} on")
        for note in kept:
            if (record := self.records.get(f"//{note.origin}")) is None:
                raise Wrong(f"//{note.origin}: all is missing: a kept checkpoint covers it")
            record.check_kept(note)
        for record in left:
            record.check_chain(since)
            text = f"{record.source}: records {since} to {record.last} are there and unchanged"
            if keys:
                text += f", and signed up to {record.check_checkpoints(keys, since)}"
            yield text
        for source, first, last in self.lost:
            record = self.records.get(source) or Record(source)
            for sequence in range(max(first, since), last + 1):
                if sequence not in record.links:
                    missing = f"a journal lost records {first} to {last} of it"
                    raise LossRecorder(f"{source}: record {sequence} is not here: {missing}")

    def join(self) -> list[Record]:
        """Put in front of each record what it goes on behind; leave out what is part of another."""
        whole = dict(sorted(self.records.items()))
        for record in sorted(whole.values(), key=lambda record: record.first):
            first = record.first
            for other in filter(record.goes_on_behind, self.records.values()):
                record.links |= {n: link for n, link in other.links.items() if n < first}
                if other.last < first:
                    whole.pop(other.source, None)
                break
        return list(whole.values())


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
    """Yield the lines, without one that is not written to its end yet."""
    for number, line in enumerate(lines, 1):
        if line.endswith(b"\n"):
            yield line[:-1], f"line {number}"
        else:
            sys.stderr.write(f"line {number} has no end, and is left out\n")


def event_of(value: bytes | None, headers: Iterable[tuple[str, bytes | None]]) -> bytes:
    """Return an event as it was recorded; in binary mode it is put together again."""
    texts = {name: (text or b"").decode(errors="replace") for name, text in headers}
    content_type = texts.pop("content-type", "")
    if value is None or content_type.lower().startswith("application/cloudevents"):
        return value or b""
    members = {name.removeprefix("ce_"): quoted(text) for name, text in texts.items()}
    members |= {"data": value, "datacontenttype": quoted(content_type)}
    return b"{" + b",".join(quoted(name) + b":" + members[name] for name in sorted(members)) + b"}"


def decoded(text: str) -> bytes:
    """Read base64 in its one canonical form; raise ValueError when it is not."""
    raw = base64.b64decode(text, validate=True)
    if base64.b64encode(raw).decode() != text:
        raise ValueError(f"{text} is not written as base64 is")
    return raw


def quoted(text: str) -> bytes:
    """Write a text as canonical JSON (RFC 8785) does."""
    return json.dumps(text, ensure_ascii=False).encode()


async def verify(options: argparse.Namespace) -> None:
    """Read everything, then check it; raise Wrong, or an error of reading."""
    keys = [Key.parse(line) for text in options.key for line in lines_of(text)]
    if options.key and not keys:
        raise ValueError(f"there is no key in {' '.join(options.key)}")
    kept = [Note.kept(path) for path in options.kept]
    for note in kept:
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
    parser.add_argument(
        "--kept", action="append", default=[], type=Path, help="checkpoint you kept"
    )
    parser.add_argument("--since", type=int, default=1, help="what came before was removed (1)")
    options = parser.parse_args()
    if bool(options.topic) != bool(options.brokers):
        parser.error("topics and --brokers go together")
    try:
        asyncio.run(verify(options))
    except LossRecorder as lost:
        sys.stdout.write(f"RECORDS MISSING: {lost}\n")
        return 1
    except Wrong as wrong:
        sys.stdout.write(f"NOT SOUND: {wrong}\n")
        return 1
    except (OSError, ValueError, RuntimeError) as error:
        sys.stderr.write(f"cannot verify: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
