"""HighNodeUtilization: its arguments, their defaults and what is refused."""

from collections.abc import Callable

import pytest
from pydantic import BaseModel

from reactive_desched.plugins.high_node_utilization import HighNodeUtilizationArgs

Read = Callable[[str, str], BaseModel]
Ask = Callable[[str, str], list[str]]

NAME = "HighNodeUtilization"
CPU = "thresholds: {cpu: 20}\n"


def high(read_args: Read, args: str) -> HighNodeUtilizationArgs:
    made = read_args(NAME, args)
    assert isinstance(made, HighNodeUtilizationArgs)
    return made


def test_with_thresholds_alone_everything_else_is_as_upstream_has_it(read_args: Read) -> None:
    args = high(read_args, CPU)

    assert args.thresholds == {"cpu": 20}
    assert args.eviction_modes == ()
    assert args.number_of_nodes == 0
    assert args.evictable_namespaces.exclude == ()


def test_every_argument_is_read(read_args: Read) -> None:
    args = high(
        read_args,
        f"{CPU}evictionModes: [OnlyThresholdingResources]\nnumberOfNodes: 2\n"
        "evictableNamespaces: {exclude: [kube-system]}",
    )

    assert args.eviction_modes == ("OnlyThresholdingResources",)
    assert args.number_of_nodes == 2
    assert args.evictable_namespaces.exclude == ("kube-system",)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        pytest.param(
            "{}",
            "thresholds: no resource has a threshold here; "
            "write per cent by resource, for example cpu: 20",
            id="no thresholds",
        ),
        pytest.param(
            "thresholds: {nvidia.com/gpu: 101}",
            'thresholds["nvidia.com/gpu"]: must be from 0 to 100 per cent, not 101',
            id="a threshold above all there is",
        ),
        pytest.param(
            f"{CPU}evictionModes: [OnlyThresholdingResources, Strict]",
            'evictionModes[1]: "Strict" is not an eviction mode; '
            "the only one is OnlyThresholdingResources",
            id="a mode that does not exist",
        ),
        pytest.param(
            f"{CPU}evictableNamespaces: {{include: [a]}}",
            "evictableNamespaces.include: this plugin takes exclude alone; "
            "list the namespaces to leave alone under exclude",
            id="namespaces to look at",
        ),
        pytest.param(
            f"{CPU}numberOfNodes: -2",
            "numberOfNodes: must be at least 0, not -2; write 0",
            id="fewer nodes than none",
        ),
        pytest.param(
            f"{CPU}targetThresholds: {{cpu: 50}}",
            "targetThresholds: does not belong here; "
            "it is an argument of LowNodeUtilization: move it to args there",
            id="an argument of the other utilisation plugin",
        ),
    ],
)
def test_wrong_arguments_are_refused_at_their_place(args: str, told: str, refused: Ask) -> None:
    assert refused(NAME, args) == [told]


def test_all_errors_are_reported_at_once(refused: Ask) -> None:
    lines = refused(
        NAME,
        "evictableNamespaces: {include: [a]}\nthresholds: {cpu: -1, memory: 101}\n"
        "evictionModes: [a, b]\nnumberOfNodes: 1.5",
    )

    assert [line.split(": ")[0] for line in lines] == [
        "evictableNamespaces.include",
        "thresholds.cpu",
        "thresholds.memory",
        "evictionModes[0]",
        "evictionModes[1]",
        "numberOfNodes",
    ]


def test_shares_where_per_cent_are_read_are_reported(warned: Ask) -> None:
    assert warned(NAME, "thresholds: {cpu: 0.25, pods: 1, memory: 0}") == [
        "thresholds.cpu: 0.25 is less than one per cent; write 25 for 25 %"
    ]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        pytest.param(
            "thresholds: {cpu: 100, pods: 100}",
            "thresholds: no node requests above 100 %, so there is none to pack onto; write less "
            "than 100 for one resource at least",
            id="every node is hardly used",
        ),
        pytest.param(
            "thresholds: {pods: 20}\nevictionModes: [OnlyThresholdingResources]",
            "evictionModes: no container requests pods, so no pod may leave; list another resource "
            "under thresholds, or remove OnlyThresholdingResources",
            id="no pod may leave",
        ),
        pytest.param(
            "thresholds: {cpu: 20, pods: 0}",
            "thresholds.pods: only nodes without a single pod are emptied, so none moves; raise it",
            id="empty nodes alone are emptied",
        ),
    ],
)
def test_what_can_never_act_is_reported(args: str, told: str, warned: Ask) -> None:
    assert warned(NAME, args) == [told]
