"""`why` without a running controller: one is started on what was read of a cluster."""

from collections.abc import Mapping
from typing import Any

import msgspec

from reactive_desched.plan.command import LookedAt
from reactive_desched.plan.controller_run import decide_now
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
    answers = answer(controller, question, clock.monotonic, clock.wall)
    found = next(each for each in answers if each is not None)
    return msgspec.to_builtins(found)
