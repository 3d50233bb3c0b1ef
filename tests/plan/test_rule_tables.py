"""The tables of the plugins that balance: what they cost where there is none."""

from typing import cast

from reactive_desched.plan.evaluation import PlanResult
from reactive_desched.plan.mode import PlanMode
from reactive_desched.plan.node_tables import rule_tables
from reactive_desched.plan.snapshot import Snapshot
from tests.support.assembly_bench import make_config


def test_without_a_plugin_that_balances_no_state_is_built() -> None:
    unused_snapshot, unused_result = cast("Snapshot", None), cast("PlanResult", None)
    policy = make_config().policy

    assert rule_tables(policy, unused_snapshot, 0.0, PlanMode.RUN, "", unused_result) == ()
