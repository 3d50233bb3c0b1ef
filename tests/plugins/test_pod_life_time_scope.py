"""Whose pods are looked at: by their owners, their namespaces and their labels."""

import pytest

from reactive_desched.plugins.pod_life_time import PodLifeTimeArgs, PodLifeTimePlugin
from reactive_desched.testing.aging import scenario_at_now
from reactive_desched.testing.builders import pod, pod_status
from reactive_desched.testing.scenario import plugin_from_policy


def plugin(**args: object) -> PodLifeTimePlugin:
    return plugin_from_policy(PodLifeTimePlugin, PodLifeTimeArgs, **args)


@pytest.mark.parametrize(
    ("kinds", "flagged"),
    [
        pytest.param({"exclude": ["Job"]}, {"web", "bare"}, id="exclude lets the ownerless pass"),
        pytest.param({"include": ["Job"]}, {"job"}, id="include asks for an owner"),
        pytest.param({"include": ["Job", "ReplicaSet"]}, {"job", "web"}, id="include several"),
        pytest.param({}, {"job", "web", "bare"}, id="neither"),
    ],
)
def test_owners_are_distinguished_by_kind(kinds: dict[str, object], flagged: set[str]) -> None:
    failed = pod_status("Failed")
    cluster = scenario_at_now(
        plugin(states=["Failed"], ownerKinds=kinds),
        pod("job", on="n1", owner="Job/j", status=failed),
        pod("web", on="n1", owner="ReplicaSet/r", status=failed),
        pod("bare", on="n1", owner=None, status=failed),
    )

    assert cluster.flagged() == flagged


@pytest.mark.parametrize(
    ("args", "flagged"),
    [
        pytest.param({"namespaces": {"include": ["shop"]}}, {"shop"}, id="include"),
        pytest.param({"namespaces": {"exclude": ["shop"]}}, {"bank"}, id="exclude"),
        pytest.param({"labelSelector": {"matchLabels": {"tier": "front"}}}, {"shop"}, id="labels"),
    ],
)
def test_the_plugin_keeps_to_the_pods_it_was_given(
    args: dict[str, object], flagged: set[str]
) -> None:
    cluster = scenario_at_now(
        plugin(maxPodLifeTimeSeconds=600, **args),
        pod("shop", on="n1", namespace="shop", labels={"tier": "front"}),
        pod("bank", on="n1", namespace="bank", labels={"tier": "back"}),
    )

    assert cluster.flagged() == flagged
