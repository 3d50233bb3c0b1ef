"""The legacy format: what each strategy becomes."""

from textwrap import dedent, indent

import pytest

from reactive_desched.policy.policy import Profile
from tests.support.legacy_policies import (
    AFFINITY,
    LEGACY_HEADER,
    REQUIRED,
    RESTARTS,
    SPREAD,
    TAINTS,
    load_text,
    strategy,
)

NEW = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n"


def profile(name: str, args: str = "{}", evictor: str = "{}", point: str = "deschedule") -> str:
    """Write the policy in today's format with the profile a strategy becomes."""
    return (
        f"{NEW}profiles:\n- name: strategy-{name}-profile\n"
        f"  plugins: {{{point}: {{enabled: [{name}]}}}}\n"
        f"  pluginConfig:\n  - name: {name}\n    args:\n{indent(dedent(args), ' ' * 6)}\n"
        f"  - name: DefaultEvictor\n    args:\n{indent(dedent(evictor), ' ' * 6)}\n"
    )


def profiles(text: str) -> tuple[Profile, ...]:
    return load_text(text).policy.profiles


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            strategy(
                "RemovePodsViolatingInterPodAntiAffinity", "labelSelector: {matchLabels: {a: b}}"
            ),
            profile(
                "RemovePodsViolatingInterPodAntiAffinity", "labelSelector: {matchLabels: {a: b}}"
            ),
            id="anti-affinity",
        ),
        pytest.param(
            strategy(AFFINITY, f"nodeAffinityType: [{REQUIRED}]\nnamespaces: {{include: [a]}}"),
            profile(AFFINITY, f"nodeAffinityType: [{REQUIRED}]\nnamespaces: {{include: [a]}}"),
            id="node affinity",
        ),
        pytest.param(
            strategy(TAINTS, "excludedTaints: [a]\nincludePreferNoSchedule: true"),
            profile(TAINTS, "excludedTaints: [a]\nincludePreferNoSchedule: true"),
            id="taints",
        ),
        pytest.param(
            strategy(TAINTS, "includedTaints: [a]"),
            profile(TAINTS, "includedTaints: [a]"),
            id="included taints, which upstream's converter lost",
        ),
        pytest.param(
            strategy(
                RESTARTS,
                """\
                podsHavingTooManyRestarts:
                  podRestartThreshold: 9
                  includingInitContainers: true
                """,
            ),
            profile(RESTARTS, "podRestartThreshold: 9\nincludingInitContainers: true"),
            id="restarts",
        ),
        pytest.param(
            strategy(
                "PodLifeTime",
                """\
                podLifeTime:
                  states: [Running]
                  podStatusPhases: [Pending, Unknown]
                  maxPodLifeTimeSeconds: 60
                namespaces: {exclude: [b]}
                """,
            ),
            profile(
                "PodLifeTime",
                """\
                states: [Pending, Unknown, Running]
                maxPodLifeTimeSeconds: 60
                namespaces: {exclude: [b]}
                """,
            ),
            id="age: phases come before states",
        ),
        pytest.param(
            strategy(
                "RemoveFailedPods",
                """\
                failedPods:
                  reasons: [Evicted]
                  includingInitContainers: true
                  excludeOwnerKinds: [Job]
                  minPodLifetimeSeconds: 0
                """,
            ),
            profile(
                "RemoveFailedPods",
                """\
                reasons: [Evicted]
                includingInitContainers: true
                excludeOwnerKinds: [Job]
                minPodLifetimeSeconds: 0
                """,
            ),
            id="failed pods",
        ),
        pytest.param(
            strategy("RemoveFailedPods"),
            profile("RemoveFailedPods", "minPodLifetimeSeconds: 3600"),
            id="failed pods, an hour old",
        ),
        pytest.param(
            strategy(
                "RemoveDuplicates",
                "removeDuplicates: {excludeOwnerKinds: [Job]}\nnamespaces: {include: [a]}",
            ),
            profile(
                "RemoveDuplicates",
                "excludeOwnerKinds: [Job]\nnamespaces: {include: [a]}",
                point="balance",
            ),
            id="duplicates",
        ),
        pytest.param(
            strategy(SPREAD, "includeSoftConstraints: true\nlabelSelector: {matchLabels: {a: b}}"),
            profile(
                SPREAD,
                """\
                constraints: [DoNotSchedule, ScheduleAnyway]
                topologyBalanceNodeFit: true
                labelSelector: {matchLabels: {a: b}}
                """,
                point="balance",
            ),
            id="spread, soft constraints too",
        ),
        pytest.param(
            strategy(SPREAD),
            profile(
                SPREAD,
                "constraints: [DoNotSchedule]\ntopologyBalanceNodeFit: true",
                point="balance",
            ),
            id="spread",
        ),
        pytest.param(
            strategy(
                "LowNodeUtilization",
                """\
                nodeResourceUtilizationThresholds:
                  thresholds: {cpu: 20, pods: 10.5}
                  targetThresholds: {cpu: 50, pods: 40}
                  useDeviationThresholds: true
                  numberOfNodes: 3
                namespaces: {exclude: [kube-system]}
                """,
            ),
            profile(
                "LowNodeUtilization",
                """\
                thresholds: {cpu: 20, pods: 10.5}
                targetThresholds: {cpu: 50, pods: 40}
                useDeviationThresholds: true
                numberOfNodes: 3
                evictableNamespaces: {exclude: [kube-system]}
                """,
                point="balance",
            ),
            id="low utilisation",
        ),
        pytest.param(
            strategy(
                "HighNodeUtilization",
                """\
                nodeResourceUtilizationThresholds:
                  thresholds: {cpu: 20}
                  numberOfNodes: 3
                namespaces: {exclude: [kube-system]}
                """,
            ),
            profile(
                "HighNodeUtilization",
                """\
                thresholds: {cpu: 20}
                numberOfNodes: 3
                evictableNamespaces: {exclude: [kube-system]}
                """,
                point="balance",
            ),
            id="high utilisation",
        ),
    ],
)
def test_each_strategy_becomes_a_profile_with_its_plugin(old: str, new: str) -> None:
    assert profiles(old) == profiles(new)


@pytest.mark.parametrize(
    ("params", "top", "evictor"),
    [
        pytest.param("thresholdPriority: 0", "", "priorityThreshold: {value: 0}", id="a priority"),
        pytest.param(
            "thresholdPriorityClassName: high",
            "",
            "priorityThreshold: {name: high}",
            id="a class",
        ),
        pytest.param(
            "thresholdPriority: 5\nthresholdPriorityClassName: ''",
            "",
            "priorityThreshold: {value: 5}",
            id="a priority beside an empty class",
        ),
        pytest.param("nodeFit: true", "", "nodeFit: true", id="fit"),
        pytest.param(
            "{}",
            """\
            evictLocalStoragePods: true
            evictDaemonSetPods: yes
            evictSystemCriticalPods: on
            evictFailedBarePods: true
            ignorePvcPods: true
            """,
            """\
            podProtections:
              defaultDisabled:
              - PodsWithLocalStorage
              - DaemonSetPods
              - SystemCriticalPods
              - FailedBarePods
              extraEnabled: [PodsWithPVC]
            """,
            id="switches of the whole policy",
        ),
    ],
)
def test_what_protects_pods_goes_to_the_evictor(params: str, top: str, evictor: str) -> None:
    (old,) = profiles(strategy(TAINTS, params, top))
    (new,) = profiles(profile(TAINTS, evictor=evictor))

    assert old.evictor.protections == new.evictor.protections
    assert old.evictor.node_fit == new.evictor.node_fit
    assert old.evictor.priority_threshold == new.evictor.priority_threshold


def test_enabled_strategies_keep_the_order_of_the_file_and_what_is_their_own() -> None:
    spread, taints = profiles(
        f"""\
        apiVersion: descheduler/v1alpha1
        kind: DeschedulerPolicy
        ignorePvcPods: true
        strategies:
          {SPREAD}: {{enabled: true, params: {{nodeFit: true}}}}
          RemoveDuplicates: {{enabled: false}}
          PodLifeTime:
          {RESTARTS}: {{params: {{}}}}
          {TAINTS}: {{enabled: true, params: {{thresholdPriority: 7}}}}
        """
    )
    assert [spread.name, taints.name] == [
        f"strategy-{SPREAD}-profile",
        f"strategy-{TAINTS}-profile",
    ]
    assert (spread.deschedule, spread.balance) == ((), (SPREAD,))
    assert (taints.deschedule, taints.balance) == ((TAINTS,), ())
    assert [it.evictor.ignore_pvc_pods for it in (spread, taints)] == [True, True]
    assert [it.evictor.node_fit for it in (spread, taints)] == [True, False]
    assert [it.evictor.priority_threshold.value for it in (spread, taints)] == [None, 7]


def test_the_top_level_is_carried_over() -> None:
    policy = load_text(
        f"{LEGACY_HEADER}nodeSelector: pool=a\nmaxNoOfPodsToEvictPerNode: 1\n"
        "maxNoOfPodsToEvictPerNamespace: 2\nmaxNoOfPodsToEvictTotal: 3\n"
    ).policy
    assert policy.node_selector.matches({"pool": "a"})
    assert not policy.node_selector.matches({"pool": "b"})
    limits = policy.limits
    assert (limits.per_node, limits.per_namespace, limits.total) == (1, 2, 3)
    assert policy.source == "p.yaml"


def test_params_may_be_null_or_left_out() -> None:
    left_out = f"{LEGACY_HEADER}strategies: {{{TAINTS}: {{enabled: true}}}}"
    assert profiles(left_out) == profiles(
        f"{LEGACY_HEADER}strategies: {{{TAINTS}: {{enabled: true, params: }}}}"
    )
    assert profiles(left_out) == profiles(profile(TAINTS))
