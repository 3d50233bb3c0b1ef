"""LowNodeLoad: koordinator's arguments and defaults, and what is refused."""

from collections.abc import Callable

import pytest
from pydantic import BaseModel

from reactive_desched.draining.load_args import LowNodeLoadArgs
from reactive_desched.model.labels import LabelSelector
from tests.support.golden import Golden

Read = Callable[[str, str], BaseModel]
Ask = Callable[[str, str], list[str]]

NAME = "LowNodeLoad"
BOTH = "highThresholds: {cpu: 65}\nlowThresholds: {cpu: 35}\n"
POOL_A = "nodeSelector: {matchLabels: {pool: a}}"


def load(read_args: Read, args: str) -> LowNodeLoadArgs:
    made = read_args(NAME, args)
    assert isinstance(made, LowNodeLoadArgs)
    return made


def test_without_arguments_everything_is_as_koordinator_has_it(read_args: Read) -> None:
    args = load(read_args, "")

    assert (args.paused, args.dry_run, args.node_fit) == (False, False, True)
    assert args.number_of_nodes == 0
    assert args.node_metric_expiration_seconds == 180
    assert args.use_deviation_thresholds is False
    assert args.detector_cache_timeout_s == 300
    assert args.anomaly_condition.timeout_s == 60
    assert args.anomaly_condition.consecutive_abnormalities == 5
    assert args.anomaly_condition.consecutive_normalities == 3
    assert (args.high_thresholds, args.low_thresholds) == (None, None)
    assert (args.prod_high_thresholds, args.prod_low_thresholds) == (None, None)
    assert (args.node_selector, args.resource_weights) == (None, None)
    assert (args.pod_selectors, args.node_pools) == ((), ())


def test_every_argument_is_read(read_args: Read) -> None:
    args = load(
        read_args,
        f"""\
        paused: true
        dryRun: true
        numberOfNodes: 2
        nodeMetricExpirationSeconds: 900
        evictableNamespaces: {{include: [shop]}}
        {POOL_A}
        podSelectors: [{{name: web, selector: {{matchLabels: {{app: web}}}}}}, {{name: all}}]
        nodeFit: false
        useDeviationThresholds: true
        highThresholds: {{cpu: 65.5, memory: 120}}
        lowThresholds: {{cpu: 35, memory: 45}}
        prodHighThresholds: {{cpu: 50}}
        prodLowThresholds: {{cpu: 20}}
        resourceWeights: {{cpu: 2, memory: -1}}
        anomalyCondition: {{timeout: 2m, consecutiveAbnormalities: 1, consecutiveNormalities: 4}}
        detectorCacheTimeout: 90s
        nodePools: []
        """,
    )

    assert (args.paused, args.dry_run, args.node_fit) == (True, True, False)
    assert (args.number_of_nodes, args.node_metric_expiration_seconds) == (2, 900)
    assert args.evictable_namespaces.include == ("shop",)
    assert args.node_selector == LabelSelector(match_labels={"pool": "a"})
    assert [(it.name, it.selector) for it in args.pod_selectors] == [
        ("web", LabelSelector(match_labels={"app": "web"})),
        ("all", None),
    ]
    assert args.use_deviation_thresholds is True
    assert args.high_thresholds == {"cpu": 65.5, "memory": 120}
    assert args.low_thresholds == {"cpu": 35, "memory": 45}
    assert args.prod_high_thresholds == {"cpu": 50}
    assert args.prod_low_thresholds == {"cpu": 20}
    assert args.resource_weights == {"cpu": 2, "memory": -1}
    assert args.anomaly_condition.timeout_s == 120
    assert args.anomaly_condition.consecutive_abnormalities == 1
    assert args.anomaly_condition.consecutive_normalities == 4
    assert args.detector_cache_timeout_s == 90


def test_a_pool_distinguishes_what_it_has_from_what_it_inherits(read_args: Read) -> None:
    pools = load(
        read_args,
        f"""\
        {BOTH.replace(chr(10), chr(10) + " " * 8)}
        nodePools:
        - {{name: a, {POOL_A}, highThresholds: {{}}, anomalyCondition: {{timeout: 5s}}}}
        - {{name: b, lowThresholds: {{cpu: 10}}, useDeviationThresholds: true}}
        """,
    ).node_pools

    assert [pool.name for pool in pools] == ["a", "b"]
    assert [pool.high_thresholds for pool in pools] == [{}, None]
    assert [pool.low_thresholds for pool in pools] == [None, {"cpu": 10}]
    assert [pool.use_deviation_thresholds for pool in pools] == [False, True]
    assert pools[0].node_selector == LabelSelector(match_labels={"pool": "a"})
    condition = pools[0].anomaly_condition
    assert condition is not None
    assert condition.timeout_s == 5
    assert condition.consecutive_abnormalities is None
    assert condition.consecutive_normalities is None
    assert pools[1].anomaly_condition is None


HIGH = "must not be above highThresholds, which has"


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(
            "numberOfNodes: -1",
            id="fewer nodes than none",
        ),
        pytest.param(
            "nodeMetricExpirationSeconds: 0",
            id="measurements that are old at once",
        ),
        pytest.param(
            "evictableNamespaces: {include: [a], exclude: [b]}",
            id="both lists of namespaces",
        ),
        pytest.param(
            "highThresholds: {cpu: -1}",
            id="no share",
        ),
        pytest.param(
            "highThresholds: {cpu: 65}\nlowThresholds: {cpu: 70, memory: 90}",
            id="room above what is too much",
        ),
        pytest.param(
            f"{BOTH}prodHighThresholds: {{cpu: 70}}",
            id="production above all",
        ),
        pytest.param(
            "prodHighThresholds: {cpu: 30}\nprodLowThresholds: {cpu: 31}",
            id="production's room above what is too much",
        ),
        pytest.param(
            f"{BOTH}anomalyCondition: {{consecutiveAbnormalities: 0}}",
            id="overloaded before it was found so",
        ),
        pytest.param(
            f"{BOTH}anomalyCondition: {{timeout: 60}}",
            id="a time without a unit",
        ),
        pytest.param(
            f"{BOTH}detectorCacheTimeout: -1m",
            id="a time below zero",
        ),
        pytest.param(
            f"{BOTH}nodePools: [{{name: a}}, {{name: b, lowThresholds: {{cpu: 66}}}}]",
            id="a pool's room above what is too much for all",
        ),
        pytest.param(
            f"{BOTH}nodePools: [{{highThresholds: {{cpu: 20}}}}]",
            id="all nodes' room above what is too much for a pool",
        ),
        pytest.param(
            "nodePools: [{highThresholds: {cpu: 20}, lowThresholds: {cpu: 30}}]",
            id="a pool's own thresholds crossed",
        ),
        pytest.param(
            "nodeSelector: pool=a",
            id="a selector as text",
        ),
        pytest.param(
            "podSelectors: [{name: a, selector: {matchLabels: {a: 5}}}]",
            id="a label that is a number",
        ),
        pytest.param(
            "resourceWeights: {cpu: 1.5}",
            id="half a weight",
        ),
        pytest.param(
            "nodePools: [{highThreshold: {cpu: 5}}]",
            id="a mistyped field of a pool",
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
        "numberOfNodes: -1\nhighThresholds: {cpu: 65}\nlowThresholds: {cpu: 70}\n"
        "anomalyCondition: {consecutiveNormalities: 0}\nnodeFit: 5\n"
        "evictableNamespaces: {include: [a], exclude: [b]}\n"
        "nodePools: [{highThresholds: {cpu: -1}}]",
    )

    assert [line.split(": ")[0] for line in lines] == [
        "numberOfNodes",
        "lowThresholds.cpu",
        "anomalyCondition.consecutiveNormalities",
        "nodeFit",
        "evictableNamespaces",
        "nodePools[0].highThresholds.cpu",
    ]


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(
            "nodeFit: false",
            id="no thresholds",
        ),
        pytest.param(
            "highThresholds: {cpu: 65, memory: 70}\nlowThresholds: {cpu: 35}",
            id="too much of what nothing has room for",
        ),
        pytest.param(
            "highThresholds: {cpu: 65}\nlowThresholds: {cpu: 35, memory: 45}",
            id="room for what is never too much",
        ),
        pytest.param(
            f"{BOTH}nodePools: [{{name: a, highThresholds: {{memory: 70}}}}]",
            id="a pool's threshold for something else than all nodes'",
        ),
        pytest.param(
            f"{BOTH}nodePools: [{{name: a, highThresholds: {{}}}}]",
            id="an empty map of a pool, which inherits nothing",
        ),
        pytest.param(
            "highThresholds: {cpu: 0.65}\nlowThresholds: {cpu: 0.3}",
            id="shares where per cent are read",
        ),
        pytest.param(
            "highThresholds: {cpu: 100}\nlowThresholds: {cpu: 0}",
            id="thresholds that no node meets",
        ),
        pytest.param(
            "highThresholds: {pods: 90}\nlowThresholds: {pods: 0}",
            id="room where there is no pod",
        ),
        pytest.param(
            f"{BOTH}nodePools: [{{name: a, lowThresholds: {{cpu: 0}}}}]",
            id="thresholds of a pool that no node meets",
        ),
    ],
)
def test_what_does_nothing_or_stops_everything_is_reported(
    args: str, golden: Golden, warned: Ask
) -> None:
    assert sorted(warned(NAME, args)) == golden().splitlines()


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(
            "highThresholds: {cpu: 100}\nlowThresholds: {cpu: 0}\n"
            "prodHighThresholds: {cpu: 50}\nprodLowThresholds: {cpu: 0}",
            id="production pods alone",
        ),
        pytest.param(
            "useDeviationThresholds: true\nhighThresholds: {cpu: 10}\nlowThresholds: {cpu: 0}",
            id="no distance below the mean",
        ),
        pytest.param(
            "highThresholds: {cpu: 100, memory: 80}\nlowThresholds: {cpu: 40, memory: 40}",
            id="another resource is overloaded",
        ),
        pytest.param(
            "highThresholds: {example.com/gpu: 50}\nlowThresholds: {example.com/gpu: 0}",
            id="a node may use none of a resource",
        ),
    ],
)
def test_thresholds_that_leave_something_to_do_need_no_word(args: str, warned: Ask) -> None:
    assert warned(NAME, args) == []


def test_thresholds_that_go_together_need_no_word(warned: Ask) -> None:
    assert warned(NAME, f"{BOTH}nodePools: [{{name: a}}, {{lowThresholds: {{cpu: 5}}}}]") == []
