import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import Node, Pod, PodStatus
from reactive_desched.model.subjects import NodeSubject
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.plugins.too_many_restarts import TooManyRestartsArgs, TooManyRestartsPlugin
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import load_sources
from reactive_desched.policy.yaml.diagnostics import PolicyErrors
from reactive_desched.testing.builders import container, node, pod, pod_status
from reactive_desched.testing.scenario import Scenario, plugin_from_policy
from tests.support.golden import Golden
from tests.support.random_steps import Step, random_steps, run_steps


def plugin(**args: object) -> TooManyRestartsPlugin:
    """Build the plugin; ten restarts are too many."""
    return plugin_from_policy(
        TooManyRestartsPlugin, TooManyRestartsArgs, **{"podRestartThreshold": 10, **args}
    )


def restarted(*counts: int) -> PodStatus:
    return pod_status("Running", *(container(f"c{i}", restarts=n) for i, n in enumerate(counts)))


CRASHING = pod_status("Running", container(restarts=10, waits="CrashLoopBackOff"))


@pytest.mark.parametrize(
    ("counts", "is_flagged"),
    [
        pytest.param((9,), False, id="one less than the threshold"),
        pytest.param((10,), True, id="as often as the threshold"),
        pytest.param((4, 6), True, id="all containers together"),
        pytest.param((4, 5), False, id="all containers together, too few"),
        pytest.param((), False, id="no container has a status yet"),
    ],
)
def test_restarts_of_all_containers_count_from_the_threshold_on(
    counts: tuple[int, ...],
    is_flagged: bool,  # noqa: FBT001 -- what a row expects
) -> None:
    cluster = Scenario(plugin(), node("n1"), pod("web", on="n1", status=restarted(*counts)))

    assert cluster.flagged() == ({"web"} if is_flagged else set())


def test_one_more_restart_flags_the_pod() -> None:
    cluster = Scenario(
        plugin(),
        node("n1"),
        pod("web", on="n1", status=restarted(9)),
        pod("db", on="n1", status=restarted(9)),
    )
    assert cluster.flagged() == set()

    cluster.apply(pod("web", on="n1", status=restarted(10)))

    assert cluster.flagged() == {"web"}


FRONT = {"labelSelector": {"matchLabels": {"tier": "front"}}}
RUNNING = {"states": ["Running"]}


@pytest.mark.parametrize(
    ("args", "before", "change"),
    [
        pytest.param({}, [], pod("web", on="n1", status=CRASHING), id="it appears on its node"),
        pytest.param(
            {},
            [pod("web", status=CRASHING)],
            pod("web", on="n1", status=CRASHING),
            id="it is bound",
        ),
        pytest.param(
            {},
            [pod("web", on="n1")],
            pod("web", on="n1", status=pod_status("Failed", container(restarts=10))),
            id="it ends with its last restart",
        ),
        pytest.param(
            RUNNING,
            [pod("web", on="n1", status=pod_status("Pending", container(restarts=10)))],
            pod("web", on="n1", status=restarted(10)),
            id="it enters the state",
        ),
        pytest.param(
            FRONT,
            [pod("web", on="n1", status=CRASHING)],
            pod("web", on="n1", status=CRASHING, labels={"tier": "front"}),
            id="its labels bring it under the selector",
        ),
    ],
)
def test_a_pod_that_restarted_too_often_is_flagged_as_soon_as(
    args: dict[str, object], before: list[Pod], change: Pod
) -> None:
    cluster = Scenario(plugin(**args), node("n1"), *before)
    assert cluster.flagged() == set()

    cluster.apply(change)

    assert cluster.flagged() == {"web"}


def test_the_pods_of_a_node_are_flagged_when_it_becomes_ready() -> None:
    cluster = Scenario(plugin(), node("n1", ready="False"), pod("web", on="n1", status=CRASHING))
    assert cluster.flagged() == set()

    cluster.apply(node("n1"))

    assert cluster.flagged() == {"web"}


@pytest.mark.parametrize(
    "news",
    [
        pytest.param(node("n1", "gpu:NoSchedule", labels={"disk": "ssd"}), id="of its node"),
        pytest.param(pod("web", on="n1", status=CRASHING, owner="Job/j"), id="of its owner"),
    ],
)
def test_a_change_that_does_not_touch_the_answer_wakes_no_pod(news: Pod | Node) -> None:
    cluster = Scenario(plugin(), node("n1"), pod("web", on="n1", status=CRASHING))

    assert cluster.subjects_evaluated(news) == set()


INIT: dict[str, object] = {"includingInitContainers": True}
BACK_OFF: dict[str, object] = {"states": ["CrashLoopBackOff"]}


@pytest.mark.parametrize(
    ("args", "status", "is_flagged"),
    [
        pytest.param(
            {},
            pod_status("Running", init=[container(restarts=10)]),
            False,
            id="init, not asked for",
        ),
        pytest.param(
            INIT, pod_status("Running", init=[container(restarts=10)]), True, id="init, asked for"
        ),
        pytest.param(
            INIT,
            pod_status("Running", container(restarts=5), init=[container(restarts=5)]),
            True,
            id="init and the others together",
        ),
        pytest.param(
            INIT,
            pod_status("Running", ephemeral=[container(restarts=10)]),
            False,
            id="ephemeral containers never count",
        ),
        pytest.param(BACK_OFF, CRASHING, True, id="a container waits for the state"),
        pytest.param(BACK_OFF, restarted(10), False, id="no container waits"),
        pytest.param(
            BACK_OFF,
            pod_status("Running", container(restarts=10, ended="CrashLoopBackOff")),
            False,
            id="why a container ended is not looked at",
        ),
        pytest.param(
            BACK_OFF,
            pod_status(
                "Running", container(restarts=10), init=[container(waits="CrashLoopBackOff")]
            ),
            False,
            id="an init container waits, not asked for",
        ),
        pytest.param(
            {**INIT, **BACK_OFF},
            pod_status(
                "Running", container(restarts=10), init=[container(waits="CrashLoopBackOff")]
            ),
            True,
            id="an init container waits, asked for",
        ),
        pytest.param(RUNNING, restarted(10), True, id="the phase is the state"),
        pytest.param(
            RUNNING, pod_status("Pending", container(restarts=10)), False, id="another phase"
        ),
        pytest.param(
            {"states": ["Running", "CrashLoopBackOff"]},
            pod_status("Pending", container(restarts=10, waits="CrashLoopBackOff")),
            True,
            id="one of several states is enough",
        ),
        pytest.param(
            {"states": []}, pod_status("Pending", container(restarts=10)), True, id="no states, any"
        ),
        pytest.param({}, pod_status("Succeeded", container(restarts=10)), True, id="it has ended"),
    ],
)
def test_which_containers_and_states_count(
    args: dict[str, object],
    status: PodStatus,
    is_flagged: bool,  # noqa: FBT001 -- what a row expects
) -> None:
    cluster = Scenario(plugin(**args), node("n1"), pod("web", on="n1", status=status))

    assert cluster.flagged() == ({"web"} if is_flagged else set())


def two_per_container(number: int) -> Pod:
    """Pod i of upstream's table: two containers with 10*i restarts, an init one with 5*i."""
    app = (container("a", restarts=10 * number), container("b", restarts=10 * number))
    init = [container("i", restarts=5 * number)]
    return pod(f"p{number}", on="n1", status=pod_status("Running", *app, init=init))


@pytest.mark.parametrize(
    ("threshold", "with_init", "flagged"),
    [
        pytest.param(10_000, True, set(), id="nobody restarted that often"),
        pytest.param(1, True, {"p1", "p2", "p3", "p4", "p5", "p9"}, id="all but the healthy one"),
        pytest.param(25, True, {"p1", "p2", "p3", "p4", "p5", "p9"}, id="25 with init containers"),
        pytest.param(25, False, {"p2", "p3", "p4", "p5", "p9"}, id="25 without: one has only 20"),
        pytest.param(20, False, {"p1", "p2", "p3", "p4", "p5", "p9"}, id="20 without"),
        pytest.param(126, True, {"p9"}, id="only the worst, with init containers"),
        pytest.param(101, False, {"p9"}, id="only the worst, without"),
    ],
)
def test_the_threshold_picks_as_upstream_does(
    threshold: int,
    with_init: bool,  # noqa: FBT001 -- a row's argument
    flagged: set[str],
) -> None:
    made = plugin(podRestartThreshold=threshold, includingInitContainers=with_init)
    cluster = Scenario(made, node("n1"), *map(two_per_container, (0, 1, 2, 3, 4, 5, 9)))

    assert cluster.flagged() == flagged


@pytest.mark.parametrize(
    ("args", "flagged"),
    [
        pytest.param({"namespaces": {"include": ["shop"]}}, {"shop"}, id="include"),
        pytest.param({"namespaces": {"exclude": ["shop"]}}, {"bank"}, id="exclude"),
        pytest.param(FRONT, {"shop"}, id="labels"),
    ],
)
def test_the_plugin_keeps_to_the_pods_it_was_given(
    args: dict[str, object], flagged: set[str]
) -> None:
    cluster = Scenario(
        plugin(**args),
        node("n1"),
        pod("shop", on="n1", namespace="shop", labels={"tier": "front"}, status=CRASHING),
        pod("bank", on="n1", namespace="bank", status=CRASHING),
    )

    assert cluster.flagged() == flagged


def test_of_a_nodes_pods_the_one_with_most_restarts_goes_first() -> None:
    cluster = Scenario(
        plugin(),
        node("n1"),
        pod("some", on="n1", status=restarted(12)),
        pod("most", on="n1", status=restarted(40, 2)),
        pod("many", on="n1", status=restarted(30)),
    )

    findings = [it for it in cluster.evaluate(NodeSubject("n1")) if isinstance(it, Finding)]

    assert [finding.pod.name for finding in findings] == ["most", "many", "some"]


def test_a_finding_says_how_often_and_how_often_is_too_often() -> None:
    cluster = Scenario(plugin(), node("n1"), pod("web", on="n1", status=restarted(7, 5)))

    [finding] = cluster.evaluate(NodeSubject("n1"))

    assert isinstance(finding, Finding)
    assert finding.message == "restarted 12 times, the limit is 10"
    assert finding.details == {"restarts": 12, "restartThreshold": 10}


@pytest.mark.parametrize("threshold", [0, -3])
def test_a_threshold_below_one_is_refused(threshold: int) -> None:
    with pytest.raises(ValidationError, match="must be at least 1"):
        plugin(podRestartThreshold=threshold)


def test_the_threshold_must_be_given() -> None:
    with pytest.raises(ValidationError, match="podRestartThreshold"):
        TooManyRestartsArgs.model_validate_json("{}")


def test_a_threshold_beyond_32_bits_is_refused() -> None:
    assert plugin(podRestartThreshold=2**31 - 1).args.pod_restart_threshold == 2**31 - 1
    with pytest.raises(ValidationError, match="less than or equal to 2147483647"):
        plugin(podRestartThreshold=2**31)


POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: p
  plugins: {deschedule: {enabled: [RemovePodsHavingTooManyRestarts]}}
  pluginConfig:
  - name: RemovePodsHavingTooManyRestarts
    args:
      podRestartThreshold: 0
      states: [running, Sleeping]
      namespaces: {include: [a], exclude: [b]}
"""


def test_all_errors_are_reported_at_once_each_at_its_place(golden: Golden) -> None:
    with pytest.raises(PolicyErrors) as caught:
        load_sources([SourceText(POLICY, "p.yaml")], plugin_registry())

    told = {
        problem.path.partition(".args.")[2]: str(problem) for problem in caught.value.diagnostics
    }
    assert told.keys() == {"podRestartThreshold", "states[0]", "states[1]", "namespaces"}
    assert "p.yaml:9:" in told["podRestartThreshold"]
    assert "must be at least 1" in told["podRestartThreshold"]
    assert "did you mean Running?" in told["states[0]"]
    assert golden("states") in told["states[1]"]
    assert golden("namespaces") in told["namespaces"]


# A tiny world that is full from the start, so that generated objects collide often.
containers = st.builds(
    lambda restarts, waits: container(restarts=restarts, waits=waits),
    st.sampled_from([0, 4, 5, 9, 10]),
    st.sampled_from(["", "", "CrashLoopBackOff"]),
)
statuses = st.builds(
    lambda phase, app, init: pod_status(phase, *app, init=init),
    st.sampled_from(["Running", "Running", "Pending", "Failed", "Succeeded"]),
    st.lists(containers, max_size=2),
    st.lists(containers, max_size=1),
)
PODS = {
    name: {"on": None if name == "p3" else "n1", "status": CRASHING} for name in ("p1", "p2", "p3")
}
steps = random_steps(
    PODS,
    {
        "on": st.sampled_from([None, "n1", "n2"]),
        "status": statuses,
        "labels": st.sampled_from([{}, {"tier": "front"}]),
    },
    waits_s=(60,),
)
arguments = st.sampled_from([{}, INIT, BACK_OFF, {**INIT, **BACK_OFF}, RUNNING, FRONT, FRONT])


@given(steps, arguments)
def test_reacting_finds_exactly_what_a_full_scan_finds(
    steps: list[Step], args: dict[str, object]
) -> None:
    for cluster in run_steps(steps, plugin(**args), PODS):
        assert cluster.flagged() == cluster.flagged_by_full_scan()
        assert cluster.flagged() == cluster.flagged_after_restart()
