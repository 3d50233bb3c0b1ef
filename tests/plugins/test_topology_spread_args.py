"""RemovePodsViolatingTopologySpreadConstraint: its arguments, defaults and what is refused."""

from collections.abc import Callable

import pytest
from pydantic import BaseModel

from reactive_desched.model.labels import LabelSelector
from reactive_desched.plugins.topology_spread import TopologySpreadArgs
from tests.support.golden import Golden

Read = Callable[[str, str], BaseModel]
Ask = Callable[[str, str], list[str]]

NAME = "RemovePodsViolatingTopologySpreadConstraint"


@pytest.mark.parametrize("args", ["", "constraints: []", "constraints:"])
def test_without_constraints_the_hard_ones_are_restored(args: str, read_args: Read) -> None:
    assert read_args(NAME, args) == TopologySpreadArgs(
        constraints=("DoNotSchedule",), topology_balance_node_fit=True
    )


def test_every_argument_is_read(read_args: Read) -> None:
    args = read_args(
        NAME,
        """\
        constraints: [DoNotSchedule, ScheduleAnyway]
        topologyBalanceNodeFit: false
        namespaces: {include: [a]}
        labelSelector: {matchLabels: {app: web}}
        """,
    )

    assert isinstance(args, TopologySpreadArgs)
    assert args.constraints == ("DoNotSchedule", "ScheduleAnyway")
    assert args.topology_balance_node_fit is False
    assert args.namespaces.include == ("a",)
    assert args.label_selector == LabelSelector(match_labels={"app": "web"})


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(
            "constraints: [DoNotSchedule, Never]",
            id="a kind that does not exist",
        ),
        pytest.param(
            "constraints: [scheduleAnyway]",
            id="a kind in another case",
        ),
        pytest.param(
            "includeSoftConstraints: true",
            id="the argument of older releases",
        ),
        pytest.param(
            "namespaces: {include: [a], exclude: [b]}",
            id="both lists of namespaces",
        ),
    ],
)
def test_wrong_arguments_are_refused_at_their_place(
    args: str, golden: Golden, refused: Ask
) -> None:
    assert refused(NAME, args) == [golden()]


def test_all_errors_are_reported_at_once(refused: Ask) -> None:
    lines = refused(
        NAME,
        "namespaces: {include: [a], exclude: [b]}\nconstraints: [Soft, Hard]\n"
        "topologyBalanceNodeFit: 1\nlabelSelector: 5",
    )

    assert [line.split(": ")[0] for line in lines] == [
        "namespaces",
        "constraints[0]",
        "constraints[1]",
        "topologyBalanceNodeFit",
        "labelSelector",
    ]
