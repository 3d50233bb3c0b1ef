"""What is said of a wait stays true: each answer counts down to its end, and records name it.

A decision is read minutes after it was made. These tests hold for every reason that any gate
declares, so that a new one is among them. The queues of rate limits are in `test_turns`.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from msgspec import Struct

from reactive_desched.controller.description import ControllerDescription
from reactive_desched.controller.pending import PendingQuery
from reactive_desched.gate.gate import Gate, explanations
from reactive_desched.gate.rate_limits import RATE_LIMITED
from reactive_desched.journal.event_builder import decision_payload
from reactive_desched.model.clock_pair import ClockPair
from reactive_desched.model.decisions import Defer, GateReason, Refuse, WaitEnd
from reactive_desched.model.findings import Finding
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.testing.builders import node, pod
from reactive_desched.why.explanation import Explainer
from tests.support.flow import FakeEdgesController
from tests.support.syntax import PACKAGE, nodes_of, package_trees
from tools.declared import declared

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

REASONS = sorted(declared(GateReason) - {RATE_LIMITED}, key=lambda each: (each.gate, each.code))
WEB = pod("web", on="n1")
HELD_S = 300.0
LATER_S = 120.0
WALL_AHEAD_S = 1_764_273_600.0


class Holding(Struct):
    """A gate that gives one reason, with an end."""

    reason: GateReason
    defers: bool
    until: float = 0.0

    @property
    def name(self) -> str:
        return self.reason.gate

    def check(self, finding: Finding, now: float) -> Defer | Refuse:
        self.until = self.until or now + HELD_S
        end = WaitEnd("; it ends", self.until)
        if self.defers:
            return self.reason.defer(finding, "it waits", self.until, end=end)
        return self.reason.refuse(finding, "it waits", (), self.until).ending(end)


@pytest.mark.parametrize("defers", [True, False], ids=["deferred", "refused"])
@pytest.mark.parametrize("reason", REASONS, ids=lambda each: f"{each.gate}/{each.code}")
async def test_two_minutes_later_each_answer_says_how_long_a_pod_waits_still(
    reason: GateReason, *, defers: bool
) -> None:
    flow = FakeEdgesController(NodeTaintsPlugin(NodeTaintsArgs()))
    flow.wall_offset_s = WALL_AHEAD_S
    [instance] = flow.controller.evaluator.instances
    assert isinstance(instance.gate, Gate)
    instance.gate.filters = (Holding(reason, defers),)
    instance.gate._explanations = explanations(instance.gate.filters)
    async with flow.running():
        flow.sync_and_resume(node("n1", "gpu:NoSchedule"), node("n2"), WEB)
        began = anyio.current_time()
        await anyio.sleep(LATER_S)
        said = await each_answer(flow)

    [(_, decision)] = flow.intent_store.decisions  # it was made once, and not again
    assert len(said) == 5
    assert set(said) == {"it waits; it ends in 3m"}
    clocks = ClockPair(began, began + WALL_AHEAD_S)
    later = ClockPair(began + LATER_S, began + WALL_AHEAD_S + LATER_S)
    for moment in (clocks, later):
        _, verdict = decision_payload(decision, moment)
        assert verdict.message == f"it waits; it ends at {clock_time(began + HELD_S)} UTC"


def clock_time(at: float) -> str:
    """Return the time of day of a monotonic moment, which is whole seconds after midnight UTC."""
    seconds = round(at + WALL_AHEAD_S) % 86_400
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


async def each_answer(flow: FakeEdgesController) -> list[str]:
    """Return what `pending`, its groups, `status`, and `why` say of the pod that waits."""

    def wall() -> float:
        return anyio.current_time() + WALL_AHEAD_S

    described = ControllerDescription(flow.controller, anyio.current_time, wall)
    listed = await described.pending(PendingQuery())
    summary = await described.pending_summary()
    waiting = await described.findings()
    why = Explainer(flow.controller, waiting, described.moment()).explain(WEB)
    rows = [row.message for row in listed.findings]
    groups = [group.message for group in (*listed.reasons, *summary.reasons)]
    gates = [gate.message for profile in why.profiles for gate in profile.gates]
    return [*rows, *groups, *gates, why.summary.split(": ", 1)[-1]]


SAYS_NO_TIME = {
    "NODE_FIT_PENDING": "it is asked again at once",
    "PLACE_PENDING": "it is asked again at once",
}
"""The deferrals without an end in their message, and why."""


def test_a_message_has_its_end_apart_unless_it_is_one_of_these() -> None:
    without = {
        name
        for _, node in gate_code()
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "defer"
        and not any(keyword.arg == "end" for keyword in node.keywords)
        for name in [ast.unparse(node.func.value)]
    }

    assert without == SAYS_NO_TIME.keys()


OF_SETTINGS = {
    "stays_s", "cooldown_s", "minimum_s", "timeout_s",
    "self._settings.after_s", "rest_s", "settings.window_s", "state.job.ttl_s",
}  # fmt: skip
"""Durations that a message may have: they are those of a setting, whenever it is read."""

AT_ONCE = {"waited_s", "suspended_s"}
"""Durations of what is over: outcomes and log lines."""


def test_no_message_of_a_gate_holds_a_duration_that_ages() -> None:
    found = {
        (str(path.relative_to(PACKAGE)), ast.unparse(value.value))
        for path, text in gate_code()
        if isinstance(text, ast.JoinedStr)
        for value, after in zip(text.values, [*text.values[1:], None], strict=True)
        if isinstance(value, ast.FormattedValue) and is_duration(value, after)
    }

    assert {each for each in found if each[1] not in OF_SETTINGS | AT_ONCE} == set()


def is_duration(value: ast.FormattedValue, after: ast.expr | None) -> bool:
    """Say whether a text writes seconds: with their unit behind, or as an age."""
    if isinstance(value.value, ast.Call):
        name = ast.unparse(value.value.func)
        computed = any(isinstance(each, ast.BinOp) for each in nodes_of(value.value))
        return name in ("format_age", "format_duration", "format_span") and computed
    is_formatted = value.format_spec is not None and not ast.unparse(value.value).isupper()
    behind = after.value if isinstance(after, ast.Constant) else ""
    return is_formatted and re.match(r" s\b", str(behind)) is not None


def gate_code() -> Iterator[tuple[Path, ast.AST]]:
    """Yield the code of what blocks findings, and its file."""
    for path, tree in package_trees().items():
        if path.relative_to(PACKAGE).parts[0] in (
            "gate",
            "moves",
            "migration",
            "brakes",
            "controller",
        ):
            for each in nodes_of(tree):
                yield path, each
