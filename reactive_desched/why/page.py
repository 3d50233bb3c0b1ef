"""`/debug/why`: a running controller explains one of its pods, a node or a workload."""

from collections.abc import Mapping

from reactive_desched.controller.controller import Controller
from reactive_desched.controller.description import ControllerDescription
from reactive_desched.controller.slices import in_slices
from reactive_desched.why.question import Answer, Question, answer


async def explain(
    controller: Controller, description: ControllerDescription, query: Mapping[str, str]
) -> Answer:
    """Answer the query of a request; raises ConfigError for a wrong one.

    Large clusters are looked through in slices, between which the event loop has its turn.
    """
    question = Question.parse(query)
    findings = await description.findings()
    return await in_slices(answer(controller, question, findings, description.moment))
