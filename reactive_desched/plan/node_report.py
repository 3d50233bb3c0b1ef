"""The report of `nodes`, once for every form it is written in; docs/reference/nodes.md shows it."""

from reactive_desched.plan.mode import PlanMode
from reactive_desched.plan.report import API_VERSION, PlanInputs, PlannedDecision, RunPreview
from reactive_desched.plan.rule_table import ReportPart, RuleTable

__all__ = ["NODES_KIND", "NodesReport"]

NODES_KIND = "Nodes"


class NodesReport(ReportPart, frozen=True, gc=False, kw_only=True):
    """Every table, and the decisions of the plugins that have one, in their order.

    `mode` is whose decisions they are; those of the controller come with `preview`.
    `failed_plugins` are those that raised an exception or were ended, by profile and name.
    `skipped` says why a sweep does nothing at all, if so.
    """

    api_version: str = API_VERSION
    kind: str = NODES_KIND
    mode: PlanMode
    preview: RunPreview | None = None
    looked_at: PlanInputs
    warnings: tuple[str, ...] = ()
    failed_plugins: tuple[str, ...] = ()
    skipped: str | None
    tables: tuple[RuleTable, ...]
    decisions: tuple[PlannedDecision, ...]
