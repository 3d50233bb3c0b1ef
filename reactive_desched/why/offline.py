"""`why` without a running controller: one is started on what was read of a cluster."""

from collections.abc import Mapping
from typing import Any

import msgspec

from reactive_desched.controller.turn_forecast import findings_with_turns
from reactive_desched.model.clock_pair import ClockPair
from reactive_desched.plan.controller_run import decide_now
from reactive_desched.plan.inputs import LookedAt
from reactive_desched.primitives.long_answers import at_once
from reactive_desched.why.question import Question, answer


def explain(looked_at: LookedAt, query: Mapping[str, str]) -> Any:
    """Return the answer as its JSON has it; raises ConfigError for a wrong question."""
    controller, clock = decide_now(
        looked_at.configuration,
        looked_at.snapshot,
        looked_at.moment.timestamp(),
        looked_at.past,
        looked_at.ends,
    )
    question = Question.parse(query)
    moment = ClockPair(clock.monotonic(), clock.wall())
    findings = at_once(findings_with_turns(controller, moment.now))
    found = at_once(answer(controller, question, findings, lambda: moment))
    return msgspec.to_builtins(found)
