"""The tables of the plugins that balance: what they cost where there is none, and faults."""

from collections.abc import Iterable
from typing import cast

import pytest

from reactive_desched.api import BalancePlugin, PluginArgs, View
from reactive_desched.api.balance_plugin import Plan
from reactive_desched.model.changes import Change, Resynced
from reactive_desched.model.node_table import NodeTable
from reactive_desched.model.utilization import Thresholds
from reactive_desched.plan.evaluation import PlanResult
from reactive_desched.plan.mode import PlanMode
from reactive_desched.plan.node_tables import rule_tables
from reactive_desched.plan.snapshot import Snapshot
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.state.cluster import ClusterView
from reactive_desched.testing.builders import node
from tests.support.assembly_bench import make_config
from tests.support.configurations import make_policy, make_profile_of


class Tableless(BalancePlugin[str, PluginArgs]):
    """Finds nothing, and cannot say how its nodes stand."""

    name = "Tableless"
    reacts_to = (Resynced,)

    def subjects(self, change: Change, view: View) -> Iterable[str]:
        return ()

    def balance(self, subject: str, view: View) -> Plan:
        yield from ()

    def node_tables(self, view: View) -> Iterable[NodeTable]:
        raise SystemExit(3)


class Tabled(Tableless):
    """Has a table."""

    name = "Tabled"

    def node_tables(self, view: View) -> Iterable[NodeTable]:
        none = Thresholds({}, {})
        return [NodeTable("requests", (), none, none, ())]


@pytest.mark.parametrize("mode", [PlanMode.RUN, PlanMode.ONCE])
def test_a_plugin_that_cannot_say_how_nodes_stand_is_named_and_the_tables_of_others_are_there(
    mode: PlanMode,
) -> None:
    plugins = Tableless(PluginArgs()), Tabled(PluginArgs())
    policy = make_policy((make_profile_of("p", plugins, DefaultEvictorArgs()),))
    snapshot = Snapshot({"nodes": [node("n1"), node("n2")]})
    result = PlanResult((), None, cast("ClusterView", None), {})

    found = rule_tables(policy, snapshot, 0.0, mode, "", result)

    assert [table.plugin for table in found.tables] == ["Tabled"]
    [fault] = found.faults
    assert (fault.plugin, fault.cause.partition(":")[0]) == ("Tableless", "SystemExit")


def test_without_a_plugin_that_balances_no_state_is_built() -> None:
    unused_snapshot, unused_result = cast("Snapshot", None), cast("PlanResult", None)
    policy = make_config().policy

    assert rule_tables(policy, unused_snapshot, 0.0, PlanMode.RUN, "", unused_result).tables == ()
