"""HighNodeUtilization: its arguments, their defaults and what is refused."""

from collections.abc import Callable

import pytest
from pydantic import BaseModel

from reactive_desched.plugins.high_node_utilization import HighNodeUtilizationArgs
from tests.support.golden import Golden

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
    "args",
    [
        pytest.param(
            "{}",
            id="no thresholds",
        ),
        pytest.param(
            "thresholds: {nvidia.com/gpu: 101}",
            id="a threshold above all there is",
        ),
        pytest.param(
            f"{CPU}evictionModes: [OnlyThresholdingResources, Strict]",
            id="a mode that does not exist",
        ),
        pytest.param(
            f"{CPU}evictableNamespaces: {{include: [a]}}",
            id="namespaces to look at",
        ),
        pytest.param(
            f"{CPU}numberOfNodes: -2",
            id="fewer nodes than none",
        ),
        pytest.param(
            f"{CPU}targetThresholds: {{cpu: 50}}",
            id="an argument of the other utilisation plugin",
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


def test_shares_where_per_cent_are_read_are_reported(warned: Ask, golden: Golden) -> None:
    assert warned(NAME, "thresholds: {cpu: 0.25, pods: 1, memory: 0}") == [golden()]


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(
            "thresholds: {cpu: 100, pods: 100}",
            id="every node is hardly used",
        ),
        pytest.param(
            "thresholds: {pods: 20}\nevictionModes: [OnlyThresholdingResources]",
            id="no pod may leave",
        ),
        pytest.param(
            "thresholds: {cpu: 20, pods: 0}",
            id="empty nodes alone are emptied",
        ),
    ],
)
def test_what_can_never_act_is_reported(args: str, golden: Golden, warned: Ask) -> None:
    assert warned(NAME, args) == [golden()]


@pytest.mark.parametrize(
    "args",
    [
        pytest.param("thresholds: {nvidia.com/gpu: 40}", id="one"),
        pytest.param(
            "thresholds: {example.com/a: 40, example.com/b: 40, pods: 90}", id="two, and pods"
        ),
    ],
)
def test_extended_resources_alone_are_reported_where_all_pods_may_leave(
    args: str, golden: Golden, warned: Ask
) -> None:
    assert warned(NAME, args) == [golden()]


@pytest.mark.parametrize(
    "args",
    [
        "thresholds: {nvidia.com/gpu: 40}\nevictionModes: [OnlyThresholdingResources]",
        "thresholds: {nvidia.com/gpu: 40, cpu: 20}",
        "thresholds: {hugepages-2Mi: 40}",
        "thresholds: {ephemeral-storage: 40}",
        "thresholds: {pods: 20}",
    ],
)
def test_resources_that_other_pods_share_are_not(args: str, warned: Ask) -> None:
    assert warned(NAME, args) == []
