"""Where people put things in a policy, with the plugins there really are."""

import pytest

from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import check_source

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
    ("text", "line"),
    [
        pytest.param(
            entry(
                LOW,
                f"args: {{{SOUND}, metricsUtilization: "
                "{source: KubernetesMetrics, numberOfNodes: 3}}",
            ),
            f"{ENTRY}.args.metricsUtilization.numberOfNodes: does not belong here; "
            "it is indented too far: move it up, directly below args",
            id="one level too low",
        ),
        pytest.param(
            entry("HighNodeUtilization", "args: {thresholds: , memory: 20.5}"),
            f"{ENTRY}.args.memory: does not belong here; indent it, below thresholds",
            id="one level too high",
        ),
        pytest.param(
            entry(LOW, f"args: {{{SOUND}, pods: 20}}"),
            f"{ENTRY}.args.pods: does not belong here; "
            "indent it, below thresholds or targetThresholds",
            id="one level too high, with two homes",
        ),
        pytest.param(
            entry(LOW, f"args: {{{SOUND}, namespaces: {{include: [a]}}}}"),
            f"{ENTRY}.args.namespaces: does not belong here; "
            "this plugin takes evictableNamespaces: {exclude: […]}",
            id="namespaces of a utilisation plugin",
        ),
        pytest.param(
            entry("PodLifeTime", "args: {maxPodLifeTimeSeconds: 5, evictableNamespaces: {}}"),
            f"{ENTRY}.args.evictableNamespaces: does not belong here; "
            "this plugin takes namespaces: {include: […]} or {exclude: […]}",
            id="evictable namespaces of another plugin",
        ),
        pytest.param(
            entry("DefaultEvictor", "args: {namespaces: {exclude: [a]}}"),
            f"{ENTRY}.args.namespaces: does not belong here; the evictor takes "
            "namespaceLabelSelector: {matchLabels: {…}}; plugins take namespaces",
            id="namespaces of the evictor",
        ),
        pytest.param(
            entry(LOW, f"args: {{{SOUND}}}, namespaces: {{exclude: [a]}}"),
            f"{ENTRY}.namespaces: does not belong here; "
            "in args, this plugin takes evictableNamespaces: {exclude: […]}",
            id="namespaces beside args",
        ),
        pytest.param(
            entry("RemoveDuplicates", "namespaces: {exclude: [a]}"),
            f"{ENTRY}.namespaces: does not belong here; move it under args",
            id="the right namespaces beside args",
        ),
        pytest.param(
            entry(LOW, f"args: {{{SOUND}, evictableNamespaces: {{namespaces: {{exclude: []}}}}}}"),
            f"{ENTRY}.args.evictableNamespaces.namespaces: does not belong here; "
            "leave this level out: write exclude: […] directly",
            id="namespaces in namespaces",
        ),
        pytest.param(
            entry("RemoveDuplicates", "nodeFit: true"),
            f"{ENTRY}.nodeFit: does not belong here; move it to the args of DefaultEvictor",
            id="an option of the evictor beside args",
        ),
        pytest.param(
            entry("RemoveDuplicates", "args: {nodeFit: true}"),
            f"{ENTRY}.args.nodeFit: does not belong here; move it to the args of DefaultEvictor",
            id="an option of the evictor in args",
        ),
        pytest.param(
            entry(LOW, f"args: {{{SOUND}, highThreshold: {{cpu: 5}}}}"),
            f"{ENTRY}.args.highThreshold: does not belong here; "
            "koordinator's LowNodeLoad calls it so: write targetThresholds",
            id="a high threshold",
        ),
        pytest.param(
            entry(LOW, f"args: {{{SOUND}, lowThresholds: {{cpu: 5}}}}"),
            f"{ENTRY}.args.lowThresholds: does not belong here; "
            "koordinator's LowNodeLoad calls it so: write thresholds",
            id="low thresholds",
        ),
        pytest.param(
            "profiles: [{name: PodLifeTime, args: {maxPodLifeTimeSeconds: 5}}]",
            "profiles[0].args: does not belong here; "
            "PodLifeTime is not a profile: write it as an entry of pluginConfig of a profile",
            id="a plugin as a profile",
        ),
        pytest.param(
            "profiles: [{name: p, namespaces: {exclude: [a]}}]",
            "profiles[0].namespaces: does not belong here; it is an argument of single plugins: "
            "move it to the args of each it is meant for",
            id="an argument of many in a profile",
        ),
        pytest.param(
            "excludeOwnerKinds: [Job]",
            "excludeOwnerKinds: does not belong here; it is an argument of RemoveDuplicates and "
            "RemoveFailedPods: move it to args there",
            id="an argument of two at the top",
        ),
        pytest.param(
            entry("PodLifeTime", "args: {maxPodLifeTimeSeconds: 5, podStatusPhases: [Running]}"),
            f"{ENTRY}.args.podStatusPhases: does not belong here; in v1alpha2 write states",
            id="a name of the legacy format",
        ),
        pytest.param(
            entry("RemoveDuplicates", "args: {evictionsInBackground: true}"),
            f"{ENTRY}.args.evictionsInBackground: unknown field; "
            "known here: excludeOwnerKinds, namespaces",
            id="an invention",
        ),
        pytest.param(
            entry("PodLifeTime", "args: {maxPodLifeTimeSeconds: 5, namespaces: [a]}"),
            f"{ENTRY}.args.namespaces: must be a mapping of fields, not a list; "
            "write include: […] or exclude: […] below it",
            id="namespaces as a list",
        ),
        pytest.param(
            "interval: 5m",
            "interval: unknown field; remove it: nothing reads it",
            id="an invention at the top",
        ),
        pytest.param(
            f"profiles: [{{plugins: {{deschedule: {{enabled: [{LOW}x]}}}}}}]",
            "profiles[0].plugins.deschedule.enabled[0]: there is no plugin "
            f'"{LOW}x"; did you mean {LOW}?',
            id="a plugin nearly right",
        ),
        pytest.param(
            "profiles: [{plugins: {deschedule: {enabled: [RemovePodsViolatingNodeAffinity]}}}]",
            "profiles[0].plugins.deschedule.enabled[0]: RemovePodsViolatingNodeAffinity is enabled "
            "but has no arguments; configure it in pluginConfig; required: nodeAffinityType",
            id="no arguments where one is required",
        ),
        pytest.param(
            entry("RemovePodsViolatingNodeAffinity", "args: {}"),
            f"{ENTRY}.args.nodeAffinityType: is required; it says: "
            "requiredDuringSchedulingIgnoredDuringExecution and/or "
            "preferredDuringSchedulingIgnoredDuringExecution",
            id="empty arguments where one is required",
        ),
        pytest.param(
            entry(
                "RemovePodsViolatingNodeAffinity",
                "args: {nodeAffinityType: [preferreddDuringSchedulingIgnoredDuringExecution]}",
            ),
            f"{ENTRY}.args.nodeAffinityType[0]: "
            '"preferreddDuringSchedulingIgnoredDuringExecution" is not a nodeAffinityType: it is '
            "skipped; did you mean preferredDuringSchedulingIgnoredDuringExecution?",
            id="a type of affinity nearly right",
        ),
    ],
)
def test_a_mistake_is_reported_with_the_remedy_for_this_plugin(text: str, line: str) -> None:
    assert told(text) == [line]
