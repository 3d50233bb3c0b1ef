"""Lists the moves under way, and the owners and nodes that are left alone, with the reason."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from heapq import nsmallest
from typing import Final

from msgspec import Struct

from reactive_desched.ledger.eviction import Eviction
from reactive_desched.moves.memory import FutileRow, RememberedMove
from reactive_desched.moves.node_memory import RestingNode
from reactive_desched.text.times import utc_time

MAX_LISTED: Final = 500
"""Rows of one answer, the oldest first; the others are only counted."""


class FutileMove(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One remembered move of an owner, as `/debug/futile` lists it."""

    ended: datetime
    pod: str
    from_node: str
    result: str
    replacement: str = ""
    to_node: str = ""
    finding_holds: bool | None = None


class FutileOwner(Struct, frozen=True, rename="camel"):
    """An owner that a plugin leaves alone: as futile (`parked`), or until it has rested."""

    owner: str
    owner_uid: str
    template_hash: str
    plugin: str
    futile_moves: int
    parked: bool
    since: datetime
    until: datetime
    moves: tuple[FutileMove, ...]


class FutileNode(Struct, frozen=True, rename="camel"):
    """A node that a plugin leaves alone until it has rested, with all its pods."""

    node: str
    plugin: str
    futile_moves: int
    since: datetime
    until: datetime


class FutileList(Struct, frozen=True, rename="camel"):
    """The answer of `eviction-loops list`: counts of owners and nodes, and the oldest."""

    total: int
    owners: tuple[FutileOwner, ...]
    total_nodes: int = 0
    nodes: tuple[FutileNode, ...] = ()


class MoveRow(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One move under way, as `/debug/moves` lists it.

    `awaitsReplacement` says that a controller creates a new pod in the place of the evicted one.
    """

    owner: str
    pod: str
    from_node: str
    plugin: str
    since: datetime
    accepted: bool
    replacement: str = ""
    to_node: str = ""
    ready: bool = False
    finding_holds: bool = False
    awaits_replacement: bool = False


class MoveList(Struct, frozen=True, rename="camel"):
    """The moves under way: how many there are, and the oldest of them."""

    total: int
    moves: tuple[MoveRow, ...]


def list_futile(
    rows: Iterable[FutileRow], resting: Iterable[RestingNode], now: float, wall_now: float
) -> FutileList:
    """Return the owners and the nodes that are left alone, longest first.

    `now` is monotonic seconds and `wall_now` the time of day at the same moment.
    """
    found, nodes, wall_offset = list(rows), list(resting), wall_now - now
    oldest = nsmallest(MAX_LISTED, found, key=lambda row: row.last_at)
    oldest_nodes = nsmallest(MAX_LISTED, nodes, key=lambda node: node.last_at)
    return FutileList(
        len(found),
        tuple(_futile_owners(oldest, wall_offset)),
        len(nodes),
        tuple(_futile_node(node, wall_offset) for node in oldest_nodes),
    )


def list_moves(moves: Iterable[Eviction]) -> MoveList:
    """Return the moves under way, the oldest first."""
    found = list(moves)
    oldest = nsmallest(MAX_LISTED, found, key=lambda move: move.origin.began_s)
    return MoveList(len(found), tuple(map(_move_row, oldest)))


def _futile_owners(rows: Iterable[FutileRow], wall_offset: float) -> Iterator[FutileOwner]:
    for row in rows:
        yield FutileOwner(
            str(row.owner),
            row.owner.uid,
            row.template_hash,
            row.plugin,
            row.futile_moves,
            row.is_parked,
            utc_time(row.last_at + wall_offset),
            utc_time(row.until + wall_offset),
            tuple(_futile_move(move, wall_offset) for move in row.moves),
        )


def _futile_node(node: RestingNode, wall_offset: float) -> FutileNode:
    return FutileNode(
        node.node,
        node.plugin,
        node.futile_moves,
        utc_time(node.last_at + wall_offset),
        utc_time(node.until + wall_offset),
    )


def _futile_move(move: RememberedMove, wall_offset: float) -> FutileMove:
    origin, end = move.origin, move.end
    return FutileMove(
        utc_time(move.ended_at + wall_offset),
        origin.pod_name,
        origin.node,
        end.result,
        end.replacement,
        end.node,
        end.finding_holds,
    )


def _move_row(move: Eviction) -> MoveRow:
    origin, pod = move.origin, move.replacement
    return MoveRow(
        str(origin.owner),
        origin.pod_name,
        origin.node,
        origin.plugin,
        utc_time(origin.began_s),
        move.accepted_at is not None,
        "" if pod is None else pod.name,
        "" if pod is None else pod.node,
        move.ready_at is not None,
        move.finding_holds,
        move.match_key is not None,
    )
