"""LowNodeUtilization: its arguments, their defaults and what is refused."""

import json
from collections.abc import Callable

import pytest
from pydantic import BaseModel

from reactive_desched.api.args import LENIENT_CONTEXT
from reactive_desched.plugins.low_node_utilization import LowNodeUtilizationArgs
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import load_sources
from reactive_desched.policy.yaml.diagnostics import PolicyErrors
from tests.support.golden import Golden
from tests.support.policy_lines import without_codes

Read = Callable[[str, str], BaseModel]
Ask = Callable[[str, str], list[str]]

NAME = "LowNodeUtilization"
BOTH = "thresholds: {cpu: 20}\ntargetThresholds: {cpu: 50}\n"
METRIC = "thresholds: {MetricResource: 20}\ntargetThresholds: {MetricResource: 50}\n"


def low(read_args: Read, args: str) -> LowNodeUtilizationArgs:
    made = read_args(NAME, args)
    assert isinstance(made, LowNodeUtilizationArgs)
    return made


def test_with_thresholds_alone_everything_else_is_as_upstream_has_it(read_args: Read) -> None:
    args = low(read_args, BOTH)

    assert args.thresholds == {"cpu": 20}
    assert args.target_thresholds == {"cpu": 50}
    assert args.use_deviation_thresholds is False
    assert args.number_of_nodes == 0
    assert args.eviction_limits.node is None
    assert args.metrics_utilization is None
    assert args.evictable_namespaces.exclude == ()


def test_every_argument_is_read(read_args: Read) -> None:
    args = low(
        read_args,
        METRIC
        + """\
        useDeviationThresholds: true
        numberOfNodes: 3
        evictionLimits: {node: 0}
        evictableNamespaces: {exclude: [kube-system]}
        metricsUtilization: {source: Prometheus, prometheus: {query: up}}
        """.replace("        ", ""),
    )

    assert args.use_deviation_thresholds is True
    assert args.number_of_nodes == 3
    assert args.eviction_limits.node == 0
    assert args.evictable_namespaces.exclude == ("kube-system",)
    assert args.metrics_utilization is not None
    assert args.metrics_utilization.source == "Prometheus"
    assert args.metrics_utilization.prometheus is not None
    assert args.metrics_utilization.prometheus.query == "up"


def test_the_deprecated_switch_needs_no_source(read_args: Read) -> None:
    measured = low(
        read_args, BOTH + "metricsUtilization: {metricsServer: true}"
    ).metrics_utilization

    assert measured is not None
    assert (measured.metrics_server, measured.source) == (True, "")


def test_thresholds_may_be_fractions_and_lie_on_the_bounds(read_args: Read) -> None:
    args = low(
        read_args, "thresholds: {cpu: 0, pods: 33.3}\ntargetThresholds: {cpu: 100, pods: 50}"
    )

    assert args.thresholds == {"cpu": 0, "pods": 33.3}


def test_equal_thresholds_leave_no_window_and_are_allowed(read_args: Read) -> None:
    args = low(read_args, "thresholds: {cpu: 50}\ntargetThresholds: {cpu: 50}")

    assert args.thresholds == args.target_thresholds


def test_distances_from_the_mean_need_no_order(read_args: Read) -> None:
    args = low(
        read_args,
        "useDeviationThresholds: true\nthresholds: {cpu: 30}\ntargetThresholds: {cpu: 10}",
    )

    assert args.thresholds["cpu"] > args.target_thresholds["cpu"]


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(
            "{}",
            id="no thresholds at all",
        ),
        pytest.param(
            "thresholds: {cpu: 20}",
            id="no upper thresholds",
        ),
        pytest.param(
            "thresholds: {}\ntargetThresholds: {cpu: 20}",
            id="empty lower thresholds",
        ),
        pytest.param(
            "thresholds: {memory: -1}\ntargetThresholds: {memory: 100.5}",
            id="thresholds that are no share of a node",
        ),
        pytest.param(
            "thresholds: {cpu: 20, memory: 20}\ntargetThresholds: {cpu: 50, pods: 50}",
            id="different resources",
        ),
        pytest.param(
            "thresholds: {cpu: 70, pods: 9}\ntargetThresholds: {cpu: 50, pods: 10}",
            id="a lower threshold above the upper one",
        ),
        pytest.param(
            'thresholds: {cpu: "20"}\ntargetThresholds: {cpu: 50}',
            id="a threshold in quotes",
        ),
        pytest.param(
            "thresholds: {cpu: 20%}\ntargetThresholds: {cpu: 50}",
            id="a threshold with its sign",
        ),
        pytest.param(
            f"{BOTH}evictableNamespaces: {{include: [a]}}",
            id="namespaces to look at",
        ),
        pytest.param(
            f"{BOTH}numberOfNodes: -1",
            id="fewer nodes than none",
        ),
        pytest.param(
            f"{BOTH}evictionLimits: {{node: -1}}",
            id="fewer evictions than none",
        ),
        pytest.param(
            f"{BOTH}metricsUtilization: {{metricsServer: true, source: KubernetesMetrics}}",
            id="the metrics server twice",
        ),
        pytest.param(
            f"{BOTH}metricsUtilization: {{source: kubernetesMetrics}}",
            id="a source in another case",
        ),
        pytest.param(
            f"{BOTH}metricsUtilization: {{}}",
            id="no source",
        ),
        pytest.param(
            f"{METRIC}metricsUtilization: {{source: Prometheus}}",
            id="no query",
        ),
        pytest.param(
            f"{METRIC}metricsUtilization: {{source: Prometheus, prometheus: {{query: ''}}}}",
            id="an empty query",
        ),
        pytest.param(
            f"{BOTH}metricsUtilization: {{source: KubernetesMetrics, prometheus: {{query: up}}}}",
            id="a query for the metrics server",
        ),
        pytest.param(
            "thresholds: {cpu: 20, pods: 1}\ntargetThresholds: {cpu: 50, pods: 1}\n"
            "metricsUtilization: {source: Prometheus, prometheus: {query: up}}",
            id="thresholds of what a query does not measure",
        ),
    ],
)
def test_wrong_arguments_are_refused_at_their_place(
    args: str, golden: Golden, refused: Ask
) -> None:
    assert "\n".join(refused(NAME, args)) == golden()


def test_all_errors_are_reported_at_once(refused: Ask) -> None:
    lines = refused(
        NAME,
        "evictableNamespaces: {include: [a]}\n"
        "metricsUtilization: {metricsServer: true, source: KubernetesMetrics, prometheus: {}}\n"
        "thresholds: {cpu: x}\ntargetThresholds: {cpu: 101}\nnumberOfNodes: many\n"
        "evictionLimits: {nodes: 5}",
    )

    assert [line.split(": ")[0] for line in lines] == [
        "evictableNamespaces.include",
        "metricsUtilization.source",
        "thresholds.cpu",
        "targetThresholds.cpu",
        "numberOfNodes",
        "evictionLimits.nodes",
    ]


@pytest.mark.parametrize(
    "args",
    [
        pytest.param({"numberOfNodes": -1}, id="fewer nodes than none"),
        pytest.param({"metricsUtilization": {"source": "x"}}, id="an unknown source"),
        pytest.param({"metricsUtilization": {}}, id="no source"),
    ],
)
def test_a_lenient_reading_forgives_what_upstream_finds_out_later_or_never(
    args: dict[str, object],
) -> None:
    text = json.dumps({"thresholds": {"cpu": 1}, "targetThresholds": {"cpu": 2}, **args})

    made = LowNodeUtilizationArgs.model_validate_json(text, strict=True, context=LENIENT_CONTEXT)

    assert made.number_of_nodes == 0


def test_a_lenient_reading_takes_the_switch_over_a_query_beside_it() -> None:
    measured = {"metricsServer": True, "source": "Prometheus", "prometheus": {"query": "up"}}
    maps = {"thresholds": {"MetricResource": 1}, "targetThresholds": {"MetricResource": 2}}
    text = json.dumps({"metricsUtilization": measured, **maps})

    with pytest.raises(ValueError, match="metricsServer"):
        LowNodeUtilizationArgs.model_validate_json(text, strict=True)
    made = LowNodeUtilizationArgs.model_validate_json(text, strict=True, context=LENIENT_CONTEXT)

    assert made.metrics_utilization is not None
    assert made.metrics_utilization.metrics_server is True


def test_shares_where_per_cent_are_read_are_reported(warned: Ask, golden: Golden) -> None:
    assert warned(NAME, "thresholds: {cpu: 0.2}\ntargetThresholds: {cpu: 50}") == [golden()]


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(
            "thresholds: {cpu: 20, pods: 50}\ntargetThresholds: {cpu: 100, pods: 100}",
            id="targets that no node can be above",
        ),
        pytest.param(
            "thresholds: {cpu: 20}\ntargetThresholds: {cpu: 100}\nuseDeviationThresholds: true",
            id="distances that no node can exceed",
        ),
        pytest.param(
            "thresholds: {pods: 0}\ntargetThresholds: {pods: 50}",
            id="room on empty nodes alone",
        ),
        pytest.param(
            "thresholds: {cpu: 0}\ntargetThresholds: {cpu: 50}\n"
            "metricsUtilization: {source: KubernetesMetrics}",
            id="a use that no node is within",
        ),
        pytest.param(
            "thresholds: {cpu: 20}\ntargetThresholds: {cpu: 50}\nevictionLimits: {node: 0}",
            id="a limit of none",
        ),
        pytest.param(
            "thresholds: {cpu: 20, gpu: 50}\ntargetThresholds: {cpu: 50, gpu: 50}\n"
            "metricsUtilization: {source: KubernetesMetrics}",
            id="a resource that the source does not measure",
        ),
    ],
)
def test_what_can_never_act_is_reported(args: str, golden: Golden, warned: Ask) -> None:
    assert golden() in warned(NAME, args)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param("", id="requests count"),
        pytest.param(
            "useDeviationThresholds: true\nmetricsUtilization: {source: KubernetesMetrics}",
            id="distances from the mean count",
        ),
    ],
)
def test_none_of_a_resource_may_be_requested_or_lie_below_the_mean(more: str, warned: Ask) -> None:
    warnings = warned(NAME, f"thresholds: {{cpu: 0}}\ntargetThresholds: {{cpu: 50}}\n{more}")

    assert not any("no node has room" in each for each in warnings)


def test_measured_use_may_be_above_what_is_allocatable(warned: Ask) -> None:
    args = "thresholds: {cpu: 20}\ntargetThresholds: {cpu: 100}\n"

    warnings = warned(NAME, f"{args}metricsUtilization: {{source: KubernetesMetrics}}")

    assert [line for line in warnings if "100 %" in line] == []


def test_a_source_of_metrics_that_the_policy_does_not_provide_is_reported(golden: Golden) -> None:
    def warnings(top: str) -> list[str]:
        text = (
            "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n"
            f"{top}profiles:\n- name: p\n  plugins: {{balance: {{enabled: [{NAME}]}}}}\n"
            f"  pluginConfig:\n  - name: {NAME}\n    args:\n      thresholds: {{cpu: 20}}\n"
            "      targetThresholds: {cpu: 50}\n"
            "      metricsUtilization: {source: KubernetesMetrics}\n"
        )
        read = load_sources([SourceText(text, "p.yaml")], plugin_registry())
        return [line for each in read.warnings for line in without_codes(each)]

    [warning] = warnings("")
    assert warning == golden()
    assert warnings("metricsProviders: [{source: KubernetesMetrics}]\n") == []
    assert warnings("metricsCollector: {enabled: true}\n") == []


def test_the_message_about_an_enabled_plugin_without_an_entry_says_what_it_needs() -> None:
    text = (
        "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n"
        f"profiles: [{{name: p, plugins: {{balance: {{enabled: [{NAME}]}}}}}}]"
    )
    with pytest.raises(PolicyErrors, match="required: thresholds, targetThresholds"):
        load_sources([SourceText(text, "p.yaml")], plugin_registry())
