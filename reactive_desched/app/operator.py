"""The debug pages and orders of a running controller, each beside what answers it."""

from collections.abc import Mapping

from reactive_desched.app.approving import Approving
from reactive_desched.app.evaluating import Evaluating
from reactive_desched.app.futile import FutileMoves
from reactive_desched.app.input_notes import InputNotes
from reactive_desched.app.node_drains import Draining
from reactive_desched.app.node_overview import overview
from reactive_desched.app.past_pages import PastPages
from reactive_desched.app.pausing import Pausing
from reactive_desched.app.status import StatusPage
from reactive_desched.controller.controller import Controller
from reactive_desched.controller.description import ControllerDescription
from reactive_desched.controller.pending import PendingQuery
from reactive_desched.controller.pipeline import Pipeline
from reactive_desched.web.operator import DebugPage, Operator


def build_operator(
    pipeline: Pipeline,
    pausing: Pausing,
    futile: FutileMoves,
    persons: tuple[Evaluating, Approving],
    draining: Draining,
    status: StatusPage,
    notes: InputNotes,
    past: PastPages,
) -> Operator:
    """Return what commands may ask of this controller, and have it do.

    `persons` take what persons ask for, and record it themselves.
    """
    controller, description = pipeline.controller, pipeline.description
    return Operator(
        cluster=status.cluster_text,
        orders=(
            *map(notes.of_order, (*pausing.orders, *futile.orders)),
            *(order for part in persons for order in part.orders),
        ),
        pages=(
            status.cluster_page,
            past.with_past(status.page),
            past.with_past(
                DebugPage(
                    "pending",
                    "the findings that wait, and what each waits for",
                    lambda query: description.pending(PendingQuery.parse(query)),
                )
            ),
            *_pages_of(description),
            past.with_past(
                DebugPage(
                    "why",
                    "why a pod, the pods of a node, or of an owner, wait or stay",
                    lambda query: _explain(controller, description, query),
                )
            ),
            past.with_past(_nodes_page(controller)),
            *(page for part in persons for page in part.pages),
            *draining.pages,
            *past.pages,
            *futile.pages,
        ),
    )


def _pages_of(description: ControllerDescription) -> tuple[DebugPage, ...]:
    jobs, limits = "the migration jobs, and what each waits for", "what each limit allows now"
    return (
        DebugPage("migrations", jobs, lambda _: description.migrations()),
        DebugPage("limits", limits, lambda _: description.limit_status()),
    )


def _nodes_page(controller: Controller) -> DebugPage:
    about = "every node with its use and class"
    return DebugPage("nodes", about, lambda query: overview(controller, query))


async def _explain(
    controller: Controller, description: ControllerDescription, query: Mapping[str, str]
) -> object:
    from reactive_desched.why.page import explain  # what a start does not need

    return await explain(controller, description, query)
