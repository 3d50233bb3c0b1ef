from typing import Any

import pytest

POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: one
  pluginConfig: [{name: DefaultEvictor, args: {nodeFit: true}}]
  plugins: {deschedule: {enabled: [RemovePodsViolatingNodeTaints]}}
"""


def with_fit(node_fit: str) -> str:
    """Return the policy beside settings that say how `run --once` checks nodes."""
    settings = (
        f"apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\nnodeFit: {node_fit}\n"
    )
    return f"{POLICY}---\n{settings}"


def crowded(world: Any, free_cpu: str) -> str:
    """Two pods of one core each that must leave, and a node with so much room."""
    small = world.node("n2")
    small["status"]["allocatable"]["cpu"] = free_cpu
    pods = [world.pod("a"), world.pod("b")]
    for each in pods:
        each["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    return str(world.file(world.listed([world.node("n1", "gpu"), small, *pods])))


@pytest.mark.parametrize(
    ("node_fit", "told"),
    [
        pytest.param("upstream", [("a", None), ("b", None)], id="upstream promises nothing"),
        pytest.param(
            "scheduler", [("a", None), ("b", "NodeFit")], id="the scheduler's room is promised once"
        ),
    ],
)
def test_the_last_room_goes_to_one_pod_where_it_is_promised(
    world: Any, node_fit: str, told: list[tuple[str, str | None]]
) -> None:
    report = world.look(crowded(world, "1"), policy=with_fit(node_fit))

    assert [(each.pod.name, each.gate) for each in report.decisions] == told
    assert report.looked_at.node_fit == node_fit


@pytest.mark.parametrize("node_fit", ["upstream", "scheduler"])
def test_with_room_for_both_both_go(world: Any, node_fit: str) -> None:
    report = world.look(crowded(world, "2"), policy=with_fit(node_fit))

    assert [each.action for each in report.decisions] == ["Evict", "Evict"]


def test_the_schedulers_filters_check_what_upstream_does_not(world: Any) -> None:
    things = [world.node("n1", "gpu"), world.node("n2"), world.pod("a"), world.pod("c", on="n2")]
    for each in things[2:]:
        each["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    path = world.file(world.listed(things))

    def action(node_fit: str) -> str:
        (only,) = world.look(path, policy=with_fit(node_fit)).decisions
        return str(only.action)

    assert (action("upstream"), action("scheduler")) == ("Evict", "Refuse")


def test_many_nodes_are_looked_through_before_the_first_question(world: Any) -> None:
    nodes = [world.node(f"n{number:03}", "gpu") for number in range(450)]
    path = world.file(world.listed([*nodes, world.node("n9"), world.pod("a", on="n000")]))
    (only,) = world.look(path, policy=with_fit("scheduler")).decisions

    assert only.action == "Evict"
