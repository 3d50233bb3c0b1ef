"""Answers `eviction-loops list` from the memory of moves, and clears that memory."""

import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from reactive_desched.controller.controller import Controller
from reactive_desched.errors import ConfigError, JournalError
from reactive_desched.eviction.recorder import Recorder
from reactive_desched.model.moves import FutileClearing
from reactive_desched.moves.listing import FutileList, list_futile, list_moves
from reactive_desched.primitives.hints import quote, refuse_filters
from reactive_desched.web.operator import DebugPage, Order, read_order


class ClearOrder(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The body of the order `futile-clear`; without an owner everything is forgotten.

    `owner` is NAMESPACE/KIND/NAME or a uid; `by` names the person.
    """

    owner: Annotated[str, Meta(max_length=1000)] = ""
    by: Annotated[str, Meta(max_length=200)] = "command"
    reason: Annotated[str, Meta(max_length=1000)] = ""


class ClearAnswer(Struct, frozen=True, rename="camel"):
    """The number of owners that were forgotten."""

    cleared: int


class FutileMoves:
    """Lists and clears the memory of one controller's moves; a clearing is recorded first."""

    def __init__(
        self,
        controller: Controller,
        recorder: Recorder,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._controller = controller
        self._recorder = recorder
        self._clock = clock
        self._wall_clock = wall_clock

    @property
    def pages(self) -> tuple[DebugPage, ...]:
        """The pages `futile` and `moves`."""
        moves = self._controller.ledger
        return (
            DebugPage(
                "futile",
                "the owners and nodes that are left alone, as moves did not help",
                self._list,
            ),
            DebugPage(
                "moves",
                "the evicted pods whose replacement is awaited",
                lambda _: list_moves(moves),
            ),
        )

    @property
    def orders(self) -> tuple[Order, ...]:
        """The order `futile-clear`."""
        return (
            Order(
                "futile-clear",
                "try again to move pods of owners that moves did not help",
                self._clear,
            ),
        )

    def _list(self, query: Mapping[str, str]) -> FutileList:
        refuse_filters(query)
        now, memory = self._clock(), self._controller.memory
        return list_futile(memory.rows(now), memory.resting_nodes(now), now, self._wall_clock())

    async def _clear(self, body: Mapping[str, Any]) -> ClearAnswer:
        order = read_order(body, ClearOrder)
        memory = self._controller.memory
        owners = memory.owners_called(order.owner)
        if order.owner and not owners:
            raise ConfigError(f"nothing is remembered of an owner {quote(order.owner)}")
        name = next((str(owner) for owner in owners), "") if order.owner else ""
        uid = next((owner.uid for owner in owners), "") if order.owner else ""
        try:
            clearing = FutileClearing(name, uid, len(owners), order.by, order.reason)
            await self._recorder.record_futile_cleared(clearing)
        except JournalError as error:
            raise ConfigError(f"it cannot be recorded, so nothing was cleared: {error}") from error
        return ClearAnswer(self._controller.clear_futile(uid))
