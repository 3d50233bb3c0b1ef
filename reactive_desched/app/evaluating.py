"""Takes the order `evaluate`, and says on a page how far each such evaluation is."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct

from reactive_desched.api.event import EvaluationRequested
from reactive_desched.app.input_notes import InputNotes
from reactive_desched.controller.asked_evaluations import (
    AskedEvaluation,
    AskedStatus,
    EvaluationScope,
    select_pods,
    status_of,
)
from reactive_desched.controller.pipeline import Pipeline
from reactive_desched.controller.slices import in_slices
from reactive_desched.errors import ConfigError
from reactive_desched.eviction.recorder import Recorder
from reactive_desched.primitives.hints import quote
from reactive_desched.web.operator import DebugPage, Order, read_order

ORDER = "evaluate"
PAGE = "evaluations"

_Name = Annotated[str, Meta(max_length=1000)]


class EvaluateOrder(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The body of the order `evaluate`: what all of these name, or everything with `all`.

    `pod` is NAMESPACE/NAME or a uid, `owner` NAMESPACE/KIND/NAME or a uid; `by` names the person.
    """

    node: _Name = ""
    owner: _Name = ""
    namespace: _Name = ""
    pod: _Name = ""
    plugin: _Name = ""
    profile: _Name = ""
    all: bool = False
    by: Annotated[str, Meta(max_length=200)] = "command"
    reason: Annotated[str, Meta(max_length=1000)] = ""

    @property
    def scope(self) -> EvaluationScope:
        """Return what it names; raises ConfigError unless that is something, or all."""
        names = {name: getattr(self, name) for name in EvaluationScope.__struct_fields__}
        if any(names.values()) == self.all:
            raise ConfigError(
                "all is everything: name nothing beside it"
                if self.all
                else f"name what to evaluate, by one of {', '.join(names)}, or all of it with all"
            )
        return EvaluationScope(**names)


class AskedRow(Struct, frozen=True, rename="camel"):
    """An evaluation that was asked for; `found` is how many pods were found by it."""

    number: int
    scope: str
    by: str
    reason: str
    asked: datetime
    found: int
    has_ended: bool


class AskedList(Struct, frozen=True):
    """The evaluations that were asked for of late, the last one first."""

    evaluations: tuple[AskedRow, ...]


class Evaluating:
    """Has one controller evaluate what persons ask for; each order is recorded."""

    def __init__(self, pipeline: Pipeline, recorder: Recorder, notes: InputNotes) -> None:
        self._controller = pipeline.controller
        self._description = pipeline.description
        self._recorder = recorder
        self._notes = notes

    @property
    def orders(self) -> tuple[Order, ...]:
        """The order `evaluate`."""
        return (Order(ORDER, "evaluate what is named, at once", self._evaluate),)

    @property
    def pages(self) -> tuple[DebugPage, ...]:
        """The page `evaluations`."""
        summary = "the evaluations that were asked for, or of one number what it found"
        return (DebugPage(PAGE, summary, self._read),)

    async def _evaluate(self, body: Mapping[str, Any]) -> AskedStatus:
        order = read_order(body, EvaluateOrder)
        controller, scope = self._controller, order.scope
        controller.pauses.check_leading()
        if controller.ignores_changes:
            raise ConfigError(
                "nothing has been evaluated yet: everything is, when every resource is in sync"
            )
        selected = await in_slices(
            select_pods(scope, controller.evaluator.instances, controller.view)
        )
        with controller.clocks.still():
            self._notes.order_given(ORDER, body)
            asked = controller.evaluate(scope, selected, order.by, order.reason)
        self._recorder.record(
            EvaluationRequested(by=order.by, message=order.reason, scope=str(scope)),
            "evaluations",
            version=str(asked.number),
            cause="command",
        )
        await self._recorder.written()
        return await self._status(asked)

    async def _read(self, query: Mapping[str, str]) -> AskedStatus | AskedList:
        number = query.get("number")
        if unknown := sorted(set(query) - {"number"}):
            raise ConfigError(f"{quote(unknown[0])} is not a filter; there is number")
        if number is None:
            moment = self._description.moment()
            return AskedList(
                tuple(
                    AskedRow(
                        each.number,
                        str(each.scope),
                        each.by,
                        each.reason,
                        moment.time(each.asked_at),
                        len(each.found) + each.unfollowed,
                        each.has_ended,
                    )
                    for each in reversed(tuple(self._controller.asked))
                )
            )
        asked = self._controller.asked.get(int(number)) if number.isdecimal() else None
        if asked is None:
            raise ConfigError(
                f"there is no evaluation {quote(number)}: this process keeps the last ones alone"
            )
        return await self._status(asked)

    async def _status(self, asked: AskedEvaluation) -> AskedStatus:
        controller = self._controller
        findings = await self._description.findings()
        hold = controller.pauses.state().hold
        parts = controller.evaluator, controller.ledger, hold, self._description.moment()
        return await in_slices(status_of(asked, findings, *parts))
