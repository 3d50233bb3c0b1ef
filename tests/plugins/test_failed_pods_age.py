"""How old a failed pod must be, and what is waited for until it is."""

from reactive_desched.model.findings import RequeueAfter
from reactive_desched.model.objects import Pod
from reactive_desched.model.subjects import NodeSubject
from reactive_desched.plugins.failed_pods import FailedPodsArgs, FailedPodsPlugin
from reactive_desched.testing.aging import HOUR, NOW, scenario_at_now
from reactive_desched.testing.builders import container, pod, pod_status
from reactive_desched.testing.scenario import plugin_from_policy

BROKEN = pod_status("Failed", container(ended="Error", code=1))


def from_age(seconds: int, **args: object) -> FailedPodsPlugin:
    """Build the plugin for failed pods of at least this age."""
    return plugin_from_policy(
        FailedPodsPlugin, FailedPodsArgs, minPodLifetimeSeconds=seconds, **args
    )


def of_age(seconds: int, name: str = "job", owner: str = "ReplicaSet/web") -> Pod:
    return pod(name, on="n1", status=BROKEN, created=NOW - seconds, owner=owner)


def test_a_failed_pod_is_flagged_in_the_very_second_it_is_old_enough() -> None:
    cluster = scenario_at_now(from_age(600), of_age(500))

    cluster.wait(99.9)
    assert cluster.flagged() == set()
    cluster.wait(0.1)
    assert cluster.flagged() == {"job"}


def test_age_counts_from_creation_and_not_from_the_failure() -> None:
    cluster = scenario_at_now(from_age(600), pod("job", on="n1", created=NOW - 601))

    cluster.apply(of_age(601))

    assert cluster.flagged() == {"job"}


def test_without_an_age_in_the_policy_an_hour_must_pass() -> None:
    cluster = scenario_at_now(FailedPodsPlugin(FailedPodsArgs()), of_age(HOUR - 1))
    assert cluster.flagged() == set()

    cluster.wait(1)

    assert cluster.flagged() == {"job"}


def test_what_was_created_in_the_future_is_young() -> None:
    cluster = scenario_at_now(from_age(10), of_age(-5))

    cluster.wait(14)
    assert cluster.flagged() == set()
    cluster.wait(1)
    assert cluster.flagged() == {"job"}


def test_where_any_age_will_do_the_future_does_as_well() -> None:
    assert scenario_at_now(from_age(0), of_age(-5)).flagged() == {"job"}


def test_only_the_soonest_of_a_nodes_pods_is_waited_for() -> None:
    cluster = scenario_at_now(
        from_age(600),
        of_age(200, "young"),
        of_age(500, "older"),
        of_age(300, "middle"),
    )

    assert cluster.evaluate(NodeSubject("n1")) == [RequeueAfter(100)]


def test_the_next_one_is_waited_for_after_the_soonest() -> None:
    cluster = scenario_at_now(from_age(600), of_age(500, "older"), of_age(300, "young"))

    cluster.wait(299)
    assert cluster.flagged() == {"older"}
    cluster.wait(1)
    assert cluster.flagged() == {"older", "young"}


def test_nothing_is_waited_for_that_would_not_be_meant_then() -> None:
    cluster = scenario_at_now(
        from_age(600, excludeOwnerKinds=["Job"]),
        of_age(500, "job", owner="Job/j"),
        pod("fine", on="n1", created=NOW),
    )

    assert cluster.evaluate(NodeSubject("n1")) == []


def test_ages_may_be_as_long_as_upstreams_numbers() -> None:
    cluster = scenario_at_now(from_age(2**64 - 1), of_age(500))

    assert cluster.flagged() == set()
