"""Where people put things in a policy, with the plugins there really are."""

import pytest

from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import check_source
from tests.support.golden import Golden

NEW = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n"
ENTRY = "profiles[0].pluginConfig[0]"


def entry(plugin: str, rest: str) -> str:
    """Write a profile with one entry of pluginConfig."""
    return f"profiles: [{{name: p, pluginConfig: [{{name: {plugin}, {rest}}}]}}]"


def told(text: str) -> list[str]:
    """Give field, message and hint of each problem but for those of required arguments."""
    problems = check_source(SourceText(NEW + text, "p.yaml"), plugin_registry()).errors
    return [
        f"{it.path}: {it.message}; {it.hint}"
        for it in problems
        if not it.message.endswith("no resource has a threshold here")
    ]


LOW = "LowNodeUtilization"
SOUND = "thresholds: {cpu: 20}, targetThresholds: {cpu: 50}"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            entry(
                LOW,
                f"args: {{{SOUND}, metricsUtilization: "
                "{source: KubernetesMetrics, numberOfNodes: 3}}",
            ),
            id="one level too low",
        ),
        pytest.param(
            entry("HighNodeUtilization", "args: {thresholds: , memory: 20.5}"),
            id="one level too high",
        ),
        pytest.param(
            entry(LOW, f"args: {{{SOUND}, pods: 20}}"),
            id="one level too high, with two homes",
        ),
        pytest.param(
            entry(LOW, f"args: {{{SOUND}, namespaces: {{include: [a]}}}}"),
            id="namespaces of a utilisation plugin",
        ),
        pytest.param(
            entry("PodLifeTime", "args: {maxPodLifeTimeSeconds: 5, evictableNamespaces: {}}"),
            id="evictable namespaces of another plugin",
        ),
        pytest.param(
            entry("DefaultEvictor", "args: {namespaces: {exclude: [a]}}"),
            id="namespaces of the evictor",
        ),
        pytest.param(
            entry(LOW, f"args: {{{SOUND}}}, namespaces: {{exclude: [a]}}"),
            id="namespaces beside args",
        ),
        pytest.param(
            entry("RemoveDuplicates", "namespaces: {exclude: [a]}"),
            id="the right namespaces beside args",
        ),
        pytest.param(
            entry(LOW, f"args: {{{SOUND}, evictableNamespaces: {{namespaces: {{exclude: []}}}}}}"),
            id="namespaces in namespaces",
        ),
        pytest.param(
            entry("RemoveDuplicates", "nodeFit: true"),
            id="an option of the evictor beside args",
        ),
        pytest.param(
            entry("RemoveDuplicates", "args: {nodeFit: true}"),
            id="an option of the evictor in args",
        ),
        pytest.param(
            entry(LOW, f"args: {{{SOUND}, highThreshold: {{cpu: 5}}}}"),
            id="a high threshold",
        ),
        pytest.param(
            entry(LOW, f"args: {{{SOUND}, lowThresholds: {{cpu: 5}}}}"),
            id="low thresholds",
        ),
        pytest.param(
            "profiles: [{name: PodLifeTime, args: {maxPodLifeTimeSeconds: 5}}]",
            id="a plugin as a profile",
        ),
        pytest.param(
            "profiles: [{name: p, namespaces: {exclude: [a]}}]",
            id="an argument of many in a profile",
        ),
        pytest.param(
            "excludeOwnerKinds: [Job]",
            id="an argument of two at the top",
        ),
        pytest.param(
            entry("PodLifeTime", "args: {maxPodLifeTimeSeconds: 5, podStatusPhases: [Running]}"),
            id="a name of the legacy format",
        ),
        pytest.param(
            entry("RemoveDuplicates", "args: {evictionsInBackground: true}"),
            id="an invention",
        ),
        pytest.param(
            entry("PodLifeTime", "args: {maxPodLifeTimeSeconds: 5, namespaces: [a]}"),
            id="namespaces as a list",
        ),
        pytest.param(
            "interval: 5m",
            id="an invention at the top",
        ),
        pytest.param(
            f"profiles: [{{plugins: {{deschedule: {{enabled: [{LOW}x]}}}}}}]",
            id="a plugin nearly right",
        ),
        pytest.param(
            "profiles: [{plugins: {deschedule: {enabled: [RemovePodsViolatingNodeAffinity]}}}]",
            id="no arguments where one is required",
        ),
        pytest.param(
            entry("RemovePodsViolatingNodeAffinity", "args: {}"),
            id="empty arguments where one is required",
        ),
        pytest.param(
            entry(
                "RemovePodsViolatingNodeAffinity",
                "args: {nodeAffinityType: [preferreddDuringSchedulingIgnoredDuringExecution]}",
            ),
            id="a type of affinity nearly right",
        ),
    ],
)
def test_a_mistake_is_reported_with_the_remedy_for_this_plugin(text: str, golden: Golden) -> None:
    assert told(text) == [golden()]
