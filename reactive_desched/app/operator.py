"""The debug pages and orders of a running controller, each beside what answers it."""

from reactive_desched.controller.controller import Controller
from reactive_desched.controller.pending import PendingQuery
from reactive_desched.web.operator import DebugPage, Operator


def build_operator(controller: Controller) -> Operator:
    """Return what commands may ask of this controller."""
    return Operator(
        pages=(
            DebugPage(
                "pending",
                "the findings that wait, and what each waits for",
                lambda query: controller.pending(PendingQuery.parse(query)),
            ),
        ),
    )
