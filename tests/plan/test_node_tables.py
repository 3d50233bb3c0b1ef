"""`nodes`: the table of each rule, in text and JSON, on small clusters."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reactive_desched.cli import main
from reactive_desched.plan.command import build_nodes_report
from reactive_desched.plan.inputs import PlanOptions
from reactive_desched.plan.mode import PlanMode
from reactive_desched.plan.node_report import NodesReport
from reactive_desched.plan.node_text import nodes_lines
from reactive_desched.plan.progress import Progress
from reactive_desched.plan.rule_table import NodeRow, RuleTable
from reactive_desched.plan.text import TextStyle
from tests.support.golden import Golden

GOLDEN = Path(__file__).with_name("nodes.txt")
NOW = "2026-05-01T12:00:00Z"
FIXED = {"thresholds": {"cpu": 20, "memory": 20}, "targetThresholds": {"cpu": 50, "memory": 50}}


def policy(plugin: str, **args: Any) -> str:
    return json.dumps(
        {
            "apiVersion": "descheduler/v1alpha2",
            "kind": "DeschedulerPolicy",
            "profiles": [
                {
                    "name": "default",
                    "pluginConfig": [{"name": plugin, "args": args}],
                    "plugins": {"balance": {"enabled": [plugin]}},
                }
            ],
        }
    )


def node(world: Any, name: str, *, cordoned: bool = False, **more: Any) -> Any:
    made = world.node(name, **more)
    made["status"]["allocatable"] = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    made["spec"]["unschedulable"] = cordoned
    return made


def pod(world: Any, name: str, on: str, cpu: str = "500m", memory: str = "1Gi") -> Any:
    made = world.pod(name, on=on)
    requests = {"cpu": cpu, "memory": memory}
    made["spec"]["containers"] = [{"name": "main", "resources": {"requests": requests}}]
    return made


def metrics(name: str, cpu: str, memory: str, at: str = "2026-05-01T11:59:30Z") -> Any:
    return {
        "apiVersion": "metrics.k8s.io/v1beta1",
        "kind": "NodeMetrics",
        "metadata": {"name": name},
        "timestamp": at,
        "usage": {"cpu": cpu, "memory": memory},
    }


def cluster(world: Any) -> list[Any]:
    """A busy node that does little, an idle one that does much, one between, two left out."""
    return [
        *(node(world, "n1"), node(world, "n2"), node(world, "n3")),
        *(node(world, "n4", cordoned=True), node(world, "n5", ready="False")),
        *(pod(world, f"a{i}", "n1") for i in range(6)),
        pod(world, "b", "n2"),
        *(pod(world, f"c{i}", "n3") for i in range(3)),
        *(metrics("n1", "600m", "1Gi"), metrics("n2", "3200m", "3Gi")),
    ]


def look(world: Any, text: str, objects: list[Any] | None = None, **more: Any) -> NodesReport:
    world.policy.write_text(text, encoding="utf-8")
    file = world.file(world.listed(cluster(world) if objects is None else objects))
    options = PlanOptions(
        policy=str(world.policy),
        files=(file,),
        show_nodes=True,
        **{"now": NOW, "mode": PlanMode.ONCE, **more},
    )
    return build_nodes_report(options, Progress())


def table_of(world: Any, text: str, objects: list[Any] | None = None, **more: Any) -> RuleTable:
    [table] = look(world, text, objects, **more).tables
    return table


def row(table: RuleTable, name: str) -> NodeRow:
    [found] = [each for each in table.nodes if each.name == name]
    return found


def written(report: NodesReport, *, wide: bool = False) -> str:
    return "\n".join(nodes_lines(report, TextStyle(wide=wide))).partition("\nlooked at")[0]


def test_the_table_shows_requests_beside_measured_use(world: Any) -> None:
    shown = written(look(world, policy("LowNodeUtilization", **FIXED)))

    assert shown == GOLDEN.read_text(encoding="utf-8")


def test_on_a_narrow_terminal_no_line_is_wider_and_no_word_is_lost(world: Any) -> None:
    report = look(world, policy("LowNodeUtilization", **FIXED))
    narrow = [
        line for line in nodes_lines(report, TextStyle(width=80)) if "cluster.json" not in line
    ]

    assert max(map(len, narrow)) <= 80
    assert set(written(report).split()) <= {word for line in narrow for word in line.split()}


def test_json_has_the_same_with_units(world: Any) -> None:
    report = look(world, policy("LowNodeUtilization", **FIXED))
    read = json.loads(msgspec.json.encode(report))
    first = read["tables"][0]["nodes"][0]

    assert read["kind"] == "Nodes"
    assert (first["name"], first["class"], first["classByUse"], first["role"]) == (
        *("n1", "overutilized", "underutilized", "gives pods"),
    )
    assert first["resources"]["cpu"] == {
        "allocatable": "4",
        "requested": "3",
        "requestedPercent": 75.0,
        "used": "600m",
        "usedPercent": 15.0,
        "counted": "3",
        "countedPercent": 75.0,
    }
    assert first["sample"] == {"source": "KubernetesMetrics", "ageSeconds": 30.0}
    assert read["tables"][0]["inForce"]["cpu"] == {"low": 20.0, "high": 50.0}


def test_what_would_move_is_what_plan_decides(world: Any) -> None:
    text = policy("LowNodeUtilization", **FIXED)
    report = look(world, text)
    planned = world.look(world.file(world.listed(cluster(world))), policy=text)

    assert report.decisions == planned.decisions
    assert row(report.tables[0], "n1").moves.evict == 2 == report.tables[0].moves.evict
    assert row(report.tables[0], "n2").moves.evict == 0


def test_decisions_of_other_plugins_are_left_out(world: Any) -> None:
    read = json.loads(policy("LowNodeUtilization", **FIXED))
    read["profiles"][0]["plugins"]["deschedule"] = {"enabled": ["RemovePodsViolatingNodeTaints"]}
    objects = cluster(world)
    objects[2]["spec"]["taints"] = [{"key": "gpu", "effect": "NoSchedule"}]

    report = look(world, json.dumps(read), objects)

    assert {each.plugin for each in report.decisions} == {"LowNodeUtilization"}


def test_a_node_of_which_no_use_is_known_is_unknown_and_an_obstacle(world: Any) -> None:
    args = {**FIXED, "metricsUtilization": {"source": "KubernetesMetrics"}}
    table = table_of(world, policy("LowNodeUtilization", **args))

    assert table.counts == "use measured by KubernetesMetrics"
    assert [row(table, name).node_class for name in ("n1", "n2", "n3", "n5")] == [
        *("underutilized", "overutilized", "unknown", None),
    ]
    assert row(table, "n3").resources["cpu"].counted_percent is None
    assert any("n3, n4 is unknown" in each for each in table.obstacles)
    assert row(table, "n2").class_by_use is None  # it is the class already


def test_deviation_shows_means_and_the_thresholds_in_force(world: Any) -> None:
    args = {
        "useDeviationThresholds": True,
        "thresholds": {"cpu": 10},
        "targetThresholds": {"cpu": 20},
    }
    report = look(world, policy("LowNodeUtilization", **args))
    [table] = report.tables

    assert table.means is not None
    assert table.means["cpu"] == pytest.approx((75 + 12.5 + 37.5 + 0) / 4)
    assert table.in_force["cpu"].low == pytest.approx(21.25)
    assert table.in_force["cpu"].high == pytest.approx(51.25)
    assert "means      cpu 31.2 %" in written(report)
    assert "in force   cpu 21.25 % / 51.25 %" in written(report)
    assert row(table, "n1").class_by_use is None  # measured use has other means


def test_high_node_utilization_gives_from_the_underutilized(world: Any) -> None:
    table = table_of(world, policy("HighNodeUtilization", thresholds={"cpu": 20}))

    roles = {each.name: (each.node_class, each.role) for each in table.nodes}
    assert roles == {
        "n1": ("appropriately utilized", "takes pods"),
        "n2": ("underutilized", "gives pods"),
        "n3": ("appropriately utilized", "takes pods"),
        "n4": ("underutilized", "gives pods"),
        "n5": (None, None),
    }
    assert table.moves.evict == 1


@pytest.mark.parametrize(
    ("plugin", "args"),
    [
        (
            "LowNodeUtilization",
            {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 90}},
        ),
        (
            "LowNodeUtilization",
            {"thresholds": {"cpu": 5}, "targetThresholds": {"cpu": 50}},
        ),
        (
            "LowNodeUtilization",
            {**FIXED, "numberOfNodes": 1},
        ),
        (
            "LowNodeUtilization",
            {**FIXED, "numberOfNodes": 3},
        ),
        (
            "HighNodeUtilization",
            {"thresholds": {"cpu": 80}},
        ),
    ],
    ids=[
        "no node is overutilized",
        "no node is underutilized",
        "one node is underutilized",
        "more than there are",
        "no node is used more",
    ],
)
def test_an_obstacle_says_why_nothing_moves(
    world: Any, plugin: str, args: Any, golden: Golden
) -> None:
    report = look(world, policy(plugin, **args))

    assert report.tables[0].obstacles == (golden(),)
    assert report.decisions == ()
    assert f"obstacle    {golden()}" in written(report)


def test_nothing_is_an_obstacle_where_pods_move(world: Any) -> None:
    assert table_of(world, policy("LowNodeUtilization", **FIXED)).obstacles == ()


def test_nodes_that_are_left_out_say_why(world: Any) -> None:
    read = json.loads(policy("LowNodeUtilization", **FIXED))
    read["nodeSelector"] = "pool=a"
    objects = cluster(world)
    objects[0]["metadata"]["labels"] = objects[1]["metadata"]["labels"] = {"pool": "a"}
    table = table_of(world, json.dumps(read), objects)

    remarks = {each.name: each.remark for each in table.nodes}
    assert remarks["n1"] is None
    assert remarks["n3"] == "not selected by the policy's nodeSelector"
    assert remarks["n5"] == "not ready"
    assert table.classes.left_out == 3


def test_wide_has_all_resources_that_count(world: Any) -> None:
    report = look(world, policy("HighNodeUtilization", thresholds={"cpu": 20}))

    assert "  pods  " not in written(report)
    assert "  n1                                        pods      110" in written(report, wide=True)


def test_a_policy_without_such_a_plugin_is_reported(world: Any, golden: Golden) -> None:
    text = policy("RemovePodsViolatingNodeTaints").replace("balance", "deschedule")

    assert written(look(world, text)).startswith(golden())


def test_plan_shows_the_tables_where_they_are_asked_for(
    world: Any, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    world.policy.write_text(policy("LowNodeUtilization", **FIXED), encoding="utf-8")
    file = world.file(world.listed(cluster(world)))
    words = ["--policy", str(world.policy), "-f", file, "--now", NOW, "--as", "once"]

    assert main(["plan", *words, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["nodes"] is None
    assert main(["plan", *words, "--nodes", "-o", "json"]) == 0
    in_plan = json.loads(capsys.readouterr().out)["nodes"]
    assert main(["nodes", *words, "-o", "json"]) == 0
    assert in_plan == json.loads(capsys.readouterr().out)["tables"]
    assert main(["plan", *words, "--nodes"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(golden() + "\n")
    assert "2 of 10 pods would be evicted" in shown


def usage(cpu: str) -> Any:
    return {"resources": {"cpu": cpu, "memory": "1Gi"}}


def node_metric(name: str, cpu: str, at: str = "2026-05-01T11:59:30Z") -> Any:
    """Measure a node as koordinator's agent does."""
    measured = {"nodeUsage": usage(cpu), "systemUsage": usage(cpu)}
    return {
        "apiVersion": "slo.koordinator.sh/v1alpha1",
        "kind": "NodeMetric",
        "metadata": {"name": name},
        "status": {"updateTime": at, "nodeMetric": measured},
    }


def test_low_node_load_has_a_table_for_each_pool(world: Any, golden: Golden) -> None:
    pool = {"name": "big", "nodeSelector": {"matchLabels": {"pool": "big"}}}
    args = {
        "lowThresholds": {"cpu": 30},
        "highThresholds": {"cpu": 60},
        "nodePools": [{**pool, "highThresholds": {"cpu": 80}}],
    }
    objects = [
        *(node(world, "n1", pool="big"), node(world, "n2"), node(world, "n3")),
        *(node_metric("n1", "3"), node_metric("n2", "500m")),
        node_metric("n3", "1", at="2026-05-01T11:50:00Z"),
        pod(world, "a", "n2"),
    ]
    default, big = look(world, policy("LowNodeLoad", **args), objects).tables

    assert [(each.name, each.node_class, each.role) for each in default.nodes] == [
        ("n1", "overutilized", "gives pods"),
        ("n2", "underutilized", "takes pods"),
        ("n3", "unknown", None),
    ]
    assert golden("not measured") in default.obstacles
    assert row(default, "n3").sample is not None
    assert big.pool == "big"
    assert (big.in_force["cpu"].low, big.in_force["cpu"].high) == (30, 80)
    assert row(big, "n1").node_class == "appropriately utilized"
    assert row(big, "n2").remark == "not in pool big"
    assert golden("no giver") in big.obstacles


def test_what_moves_stands_in_the_table_of_the_pool_that_it_moves_in(world: Any) -> None:
    def selects(pool: str) -> dict[str, Any]:
        return {"nodeSelector": {"matchLabels": {"pool": pool}}}

    args = {
        **selects("small"),
        "lowThresholds": {"cpu": 30},
        "highThresholds": {"cpu": 60},
        "anomalyCondition": {"consecutiveAbnormalities": 1},
        "nodePools": [{"name": "big", **selects("big")}],
    }
    objects = [
        *(node(world, f"{pool}{n}", pool=pool) for pool in ("big", "small") for n in (1, 2, 3)),
        *(node_metric("big1", "3"), node_metric("big2", "1"), node_metric("big3", "2")),
        *(pod(world, f"p{n}", "big1") for n in (1, 2)),
    ]
    of_pods = [{"namespace": "shop", "name": f"p{n}", "podUsage": usage("1")} for n in (1, 2)]
    objects[6]["status"]["podsMetric"] = of_pods
    small, big = look(world, policy("LowNodeLoad", **args), objects, passes=2).tables

    assert (big.moves.evict, row(big, "big1").moves.evict) == (1, 1)
    assert (small.moves.evict, row(small, "big1").moves.evict) == (0, 0)


def test_a_pool_without_nodes_says_so_and_nothing_else(world: Any, golden: Golden) -> None:
    args = {
        "lowThresholds": {"cpu": 30},
        "highThresholds": {"cpu": 60},
        "anomalyCondition": {"consecutiveAbnormalities": 5},
        "nodeSelector": {"matchLabels": {"pool": "of-another-cluster"}},
    }
    objects = [node(world, "n1"), node_metric("n1", "3"), pod(world, "a", "n1")]

    (empty,) = look(world, policy("LowNodeLoad", **args), objects).tables

    assert empty.obstacles == (golden(),)


def test_production_pods_have_a_table_of_their_own(world: Any) -> None:
    args = {
        "lowThresholds": {"cpu": 30},
        "highThresholds": {"cpu": 60},
        "prodLowThresholds": {"cpu": 10},
        "prodHighThresholds": {"cpu": 20},
    }
    objects = [
        *(node(world, "n1"), node(world, "n2"), pod(world, "a", "n2")),
        *(node_metric("n1", "3"), node_metric("n2", "1")),
    ]
    of_all, of_prod = look(world, policy("LowNodeLoad", **args), objects).tables

    assert row(of_all, "n1").resources["cpu"].counted == "3"
    assert row(of_prod, "n1").resources["cpu"].counted == "0"
    assert (row(of_prod, "n1").node_class, row(of_prod, "n1").role) == ("underutilized", None)


GPU = "example.com/gpu"


def with_gpus(world: Any) -> list[Any]:
    """Two nodes with GPUs, of which one uses few, and one without."""
    nodes = [node(world, name) for name in ("gpu1", "gpu2", "cpu1")]
    for each, gpus in zip(nodes, ("8", "8", None), strict=True):
        if gpus is not None:
            each["status"]["allocatable"][GPU] = gpus
    pods = [pod(world, name, on) for name, on in (("a", "gpu1"), ("b", "gpu2"), ("c", "cpu1"))]
    for each, gpus in zip(pods, ("6", "2", None), strict=True):
        if gpus is not None:
            each["spec"]["containers"][0]["resources"]["requests"][GPU] = gpus
    return [*nodes, *pods]


def test_a_node_without_the_resource_has_no_class_and_no_figure_for_the_controller(
    world: Any,
) -> None:
    rule = policy("HighNodeUtilization", thresholds={GPU: 40})
    table = table_of(world, rule, with_gpus(world), mode=PlanMode.RUN)
    swept = table_of(world, rule, with_gpus(world))
    text = written(look(world, rule, with_gpus(world), mode=PlanMode.RUN))

    lacking = row(table, "cpu1")
    assert (lacking.node_class, lacking.role) == (None, None)
    assert lacking.remark == f"has no {GPU}"
    assert lacking.resources[GPU].counted_percent is None
    assert (row(table, "gpu2").role, row(table, "gpu1").role) == ("gives pods", "takes pods")
    assert row(swept, "cpu1").role == "gives pods"
    (line,) = (line for line in text.splitlines() if line.strip().startswith("cpu1"))
    assert "unknown" not in line.replace("unknown", "", 1)  # its use was not measured


def test_of_several_resources_a_node_shows_those_that_it_has(world: Any) -> None:
    rule = policy("HighNodeUtilization", thresholds={GPU: 40, "cpu": 20})
    table = table_of(world, rule, with_gpus(world), mode=PlanMode.RUN)

    assert row(table, "cpu1").node_class == "underutilized"
    assert row(table, "cpu1").resources[GPU].counted_percent is None
    assert row(table, "cpu1").resources["cpu"].counted_percent == 12.5
    assert row(table, "gpu1").node_class == "appropriately utilized"


def test_a_pod_in_a_resize_counts_as_its_spec_in_a_sweep_and_as_it_is_held_by_the_controller(
    world: Any,
) -> None:
    resized = pod(world, "r", "n1", cpu="1")
    resized["status"]["containerStatuses"] = [
        {"name": "main", "restartCount": 0, "resources": {"requests": {"cpu": "2"}}}
    ]
    objects = [node(world, "n1"), node(world, "n2"), resized]
    rule = policy("LowNodeUtilization", **FIXED)
    for mode, share in ((PlanMode.RUN, 50.0), (PlanMode.ONCE, 25.0), (PlanMode.UPSTREAM, 25.0)):
        cpu = row(table_of(world, rule, objects, mode=mode), "n1").resources["cpu"]
        assert (cpu.counted_percent, cpu.requested_percent) == (share, share)


def test_where_gates_hold_all_that_would_move_an_obstacle_says_so(
    world: Any, golden: Golden
) -> None:
    rule = json.loads(policy("LowNodeUtilization", **FIXED))
    rule["maxNoOfPodsToEvictPerNode"] = 0
    (obstacle,) = table_of(world, json.dumps(rule)).obstacles
    assert obstacle == golden()

    rule["maxNoOfPodsToEvictPerNode"] = 1
    assert table_of(world, json.dumps(rule)).obstacles == ()
