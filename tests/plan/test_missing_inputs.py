from typing import Any

import pytest

from reactive_desched.plan.mode import PlanMode
from tests.support.golden import Golden

POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: one
  pluginConfig:
  - {{name: DefaultEvictor, args: {args}}}
  plugins: {{deschedule: {{enabled: [RemovePodsViolatingNodeTaints]}}}}
"""
STORAGE = (
    "{podProtections: {extraEnabled: [PodsWithPVC],"
    " config: {PodsWithPVC: {protectedStorageClasses: [{name: fast}]}}}}"
)


@pytest.mark.parametrize(
    ("args", "needed"),
    [
        pytest.param("{nodeFit: true}", None, id="nothing more"),
        pytest.param("{podProtections: {extraEnabled: [PodsWithPVC]}}", None, id="any claim"),
        pytest.param(
            "{namespaceLabelSelector: {matchLabels: {a: b}}}",
            {"kind": "Namespace"},
            id="labels of namespaces",
        ),
        pytest.param(
            "{podProtections: {extraEnabled: [PodsWithoutPDB]}}",
            {"kind": "PodDisruptionBudget"},
            id="disruption budgets",
        ),
        pytest.param(STORAGE, {"kind": "PersistentVolumeClaim"}, id="claims by storage class"),
    ],
)
def test_a_kind_that_the_policy_needs_and_the_input_lacks_is_reported(
    world: Any, args: str, needed: dict[str, str] | None
) -> None:
    policy = POLICY.format(args=args)
    told = world.look(policy=policy).warnings
    if needed is None:
        assert told == ()
        return

    assert [warning.partition(" given: ")[0] for warning in told] == [
        f'profile "one": no {needed["kind"].lower()}s'
    ]
    given = {**needed, "metadata": {"name": "it", "namespace": "shop"}}
    path = world.file(world.listed([*world.small(), given]))
    assert world.look(path, policy=policy).warnings == ()


def test_pods_on_nodes_that_were_not_given_are_reported(world: Any, golden: Golden) -> None:
    strays = [world.pod("d", on="n8"), world.pod("e", on="n7"), world.pod("f", on=None)]
    report = world.look(world.file(world.listed([*world.small(), *strays])))

    assert report.warnings == (golden(),)
    assert report.looked_at.whole


MEASURING = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
metricsProviders: {providers}
profiles:
- name: one
  pluginConfig:
  - name: LowNodeUtilization
    args:
      thresholds: {{{resource}: 30}}
      targetThresholds: {{{resource}: 50}}
      metricsUtilization: {source}
  plugins: {{balance: {{enabled: [LowNodeUtilization]}}}}
"""
KUBERNETES = "{source: KubernetesMetrics}"


def pod_metrics(name: str, cpu: str) -> dict[str, Any]:
    """Return what metrics-server says of a pod."""
    return {
        "apiVersion": "metrics.k8s.io/v1beta1",
        "kind": "PodMetrics",
        "metadata": {"name": name, "namespace": "shop"},
        "timestamp": "2026-11-21T07:17:02Z",
        "containers": [{"usage": {"cpu": cpu, "memory": "1Mi"}}],
    }


def metrics(name: str, cpu: str) -> dict[str, Any]:
    """Return what metrics-server says of a node."""
    return {
        "apiVersion": "metrics.k8s.io/v1beta1",
        "kind": "NodeMetrics",
        "metadata": {"name": name},
        "timestamp": "2026-11-21T07:17:02Z",
        "usage": {"cpu": cpu, "memory": "1Mi"},
    }


def test_nodes_without_a_measurement_are_named(world: Any, golden: Golden) -> None:
    policy = MEASURING.format(providers=f"[{KUBERNETES}]", resource="cpu", source=KUBERNETES)
    objects = world.small()
    names = [obj["metadata"]["name"] for obj in objects if obj["kind"] == "Node"]
    measured = [metrics(name, "1m") for name in names]

    some = world.look(world.file(world.listed([*objects, *measured[1:]])), policy=policy)
    all_of_them = world.look(world.file(world.listed([*objects, *measured])), policy=policy)

    [warning] = some.warnings
    assert warning.startswith(golden() + " ")
    assert warning.endswith(f"{names[0]}: LowNodeUtilization evicts nothing")
    assert all_of_them.warnings == ()


FRESH, STALE = "2026-11-21T07:19:01Z", "2026-11-21T07:19:03Z"  # a sample counts for two minutes


@pytest.mark.parametrize(
    ("mode", "now", "found"),
    [
        pytest.param(PlanMode.RUN, FRESH, ["a"], id="run"),
        pytest.param(PlanMode.RUN, STALE, [], id="run, too late"),
        pytest.param(PlanMode.ONCE, FRESH, ["a"], id="once"),
        pytest.param(PlanMode.ONCE, STALE, [], id="once, too late"),
        pytest.param(PlanMode.UPSTREAM, STALE, ["a"], id="the SIG descheduler believes any"),
    ],
)
def test_a_measurement_that_is_too_old_at_the_time_asked_for_is_none(
    world: Any, mode: PlanMode, now: str, found: list[str]
) -> None:
    policy = MEASURING.format(providers=f"[{KUBERNETES}]", resource="cpu", source=KUBERNETES)
    nodes = [world.node("n1"), world.node("n2")]
    pods = [world.pod(name, on="n1") for name in "abc"]
    used = pod_metrics("a", cpu="1")
    path = world.file(world.listed([*nodes, *pods, metrics("n1", "7"), metrics("n2", "0"), used]))

    report = world.look(path, policy=policy, mode=mode, now=now)

    assert sorted({each.pod.name for each in report.decisions}) == found
    warned = [warning for warning in report.warnings if "older than maxAge (120 s)" in warning]
    assert bool(warned) is (now == STALE and mode is not PlanMode.UPSTREAM)
    assert all("2026-11-21T07:17:02Z" in warning for warning in warned)


def test_prometheus_is_not_asked(world: Any, golden: Golden) -> None:
    policy = MEASURING.format(
        providers="[{source: Prometheus, prometheus: {url: 'http://p'}}]",
        resource="MetricResource",
        source="{source: Prometheus, prometheus: {query: up}}",
    )

    assert world.look(policy=policy).warnings == (golden(),)


def test_measurements_of_a_source_that_the_policy_does_not_provide_do_not_count(world: Any) -> None:
    nodes = [world.node("n1"), world.node("n2")]
    pods = [world.pod(name, on="n1") for name in "abc"]
    used = pod_metrics("a", cpu="7")
    measured = [metrics("n1", "7"), metrics("n2", "0"), used]
    path = world.file(world.listed([*nodes, *pods, *measured]))

    provided = MEASURING.format(providers=f"[{KUBERNETES}]", resource="cpu", source=KUBERNETES)
    missing = MEASURING.format(providers="[]", resource="cpu", source=KUBERNETES)

    assert [each.pod.name for each in world.look(path, policy=provided).decisions] == ["a"]
    report = world.look(path, policy=missing)
    assert report.decisions == ()
    assert "metricsProviders has no KubernetesMetrics" in report.warnings[0]


def test_values_of_the_evict_annotation_that_are_neither_yes_nor_no_are_named(
    world: Any, golden: Golden
) -> None:
    def annotated(name: str, value: str) -> Any:  # the JSON of a pod
        made = world.pod(name, on="n1")
        made["metadata"]["annotations"] = {"descheduler.alpha.kubernetes.io/evict": value}
        return made

    pods = [annotated(*each) for each in (("d", "please"), ("e", "false"), ("f", "true"))]
    path = world.file(world.listed([*world.small(), *pods]))

    assert world.look(path, mode=PlanMode.RUN).warnings[-1] == golden()
    once = world.look(path, mode=PlanMode.ONCE)
    assert not any("please" in warning for warning in once.warnings)
