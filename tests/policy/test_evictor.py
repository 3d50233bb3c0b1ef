"""DefaultEvictor's arguments: what is protected, and what is refused."""

from collections.abc import Callable

import pytest
from pydantic import ValidationError

from reactive_desched.model.labels import EVERYTHING, LabelSelector
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.evictor import DefaultEvictorArgs, NoEvictionPolicy
from reactive_desched.policy.protections import Protection
from tests.support.golden import Golden

Ask = Callable[[str], list[str]]
WithArgs = Callable[[str, str], str]
Read = Callable[[str], Configuration]

FOUR = {
    Protection.LOCAL_STORAGE,
    Protection.SYSTEM_CRITICAL,
    Protection.FAILED_BARE,
    Protection.DAEMON_SET,
}


@pytest.fixture
def evictor(read: Read, with_args: WithArgs) -> Callable[[str], DefaultEvictorArgs]:
    """Read the evictor's arguments out of a whole policy."""
    return lambda args: read(with_args("DefaultEvictor", args)).policy.profiles[0].evictor


@pytest.mark.parametrize(
    ("args", "active"),
    [
        pytest.param("{}", FOUR, id="the four defaults"),
        pytest.param("podProtections: {}", FOUR, id="an empty section"),
        pytest.param(
            "podProtections: {defaultDisabled: [], extraEnabled: []}", FOUR, id="empty lists"
        ),
        pytest.param(
            "podProtections: {defaultDisabled: [DaemonSetPods]}",
            FOUR - {Protection.DAEMON_SET},
            id="one default off",
        ),
        pytest.param(
            "podProtections: {defaultDisabled: [PodsWithLocalStorage, FailedBarePods]}",
            {Protection.SYSTEM_CRITICAL, Protection.DAEMON_SET},
            id="two defaults off",
        ),
        pytest.param(
            "podProtections: {extraEnabled: [PodsWithResourceClaims]}",
            FOUR | {Protection.RESOURCE_CLAIMS},
            id="one extra on",
        ),
        pytest.param(
            "podProtections: {defaultDisabled: [SystemCriticalPods],"
            " extraEnabled: [PodsWithPVC, PodsWithoutPDB]}",
            FOUR - {Protection.SYSTEM_CRITICAL} | {Protection.PVC, Protection.WITHOUT_PDB},
            id="one off and two on",
        ),
        pytest.param(
            "evictLocalStoragePods: true", FOUR - {Protection.LOCAL_STORAGE}, id="local storage"
        ),
        pytest.param("evictDaemonSetPods: true", FOUR - {Protection.DAEMON_SET}, id="daemon sets"),
        pytest.param(
            "evictSystemCriticalPods: yes", FOUR - {Protection.SYSTEM_CRITICAL}, id="critical"
        ),
        pytest.param("evictFailedBarePods: on", FOUR - {Protection.FAILED_BARE}, id="failed bare"),
        pytest.param("ignorePvcPods: true", FOUR | {Protection.PVC}, id="claims"),
        pytest.param("ignorePodsWithoutPDB: true", FOUR | {Protection.WITHOUT_PDB}, id="budgets"),
        pytest.param(
            "evictDaemonSetPods: false\nignorePvcPods: false", FOUR, id="switches that are off"
        ),
        pytest.param(
            "evictDaemonSetPods: false\npodProtections: {extraEnabled: [PodsWithPVC]}",
            FOUR | {Protection.PVC},
            id="a switch that is off beside lists",
        ),
    ],
)
def test_the_active_protections_follow_from_lists_and_switches(
    args: str, active: set[Protection], evictor: Callable[[str], DefaultEvictorArgs]
) -> None:
    assert evictor(args).protections == active


def test_without_arguments_everything_is_as_upstream_has_it() -> None:
    args = DefaultEvictorArgs()

    assert args.node_selector == EVERYTHING
    assert args.node_fit is False
    assert args.namespace_label_selector is None
    assert args.label_selector is None
    assert args.priority_threshold.value is None
    assert args.priority_threshold.name is None
    assert args.min_replicas == 0
    assert args.min_pod_age_s is None
    assert args.no_eviction is NoEvictionPolicy.PREFERRED
    assert args.protected_storage_classes == frozenset()


def test_every_argument_is_read(evictor: Callable[[str], DefaultEvictorArgs]) -> None:
    args = evictor(
        """\
        nodeSelector: pool=blue
        nodeFit: true
        namespaceLabelSelector: {matchLabels: {team: a}}
        labelSelector: {matchExpressions: [{key: app, operator: In, values: [web]}]}
        priorityThreshold: {value: 800}
        minReplicas: 3.0
        minPodAge: 1h30m
        noEvictionPolicy: Mandatory
        podProtections:
          extraEnabled: [PodsWithPVC]
          config: {PodsWithPVC: {protectedStorageClasses: [{name: fast}, {name: local}]}}
        """
    )
    assert args.node_selector.matches({"pool": "blue"})
    assert not args.node_selector.matches({"pool": "green"})
    assert args.node_fit is True
    assert args.namespace_label_selector == LabelSelector(match_labels={"team": "a"})
    assert args.label_selector is not None
    assert args.label_selector.matches({"app": "web"})
    assert not args.label_selector.matches({"app": "db"})
    assert args.priority_threshold.value == 800
    assert args.min_replicas == 3
    assert args.min_pod_age_s == 5400
    assert args.no_eviction is NoEvictionPolicy.MANDATORY
    assert args.protected_storage_classes == {"fast", "local"}


def test_a_threshold_may_name_a_class_and_an_empty_name_is_none(
    evictor: Callable[[str], DefaultEvictorArgs],
) -> None:
    assert evictor("priorityThreshold: {name: high}").priority_threshold.name == "high"
    threshold = evictor('priorityThreshold: {name: "", value: 5}').priority_threshold
    assert (threshold.name, threshold.value) == (None, 5)


def test_null_means_that_an_argument_is_not_there(
    evictor: Callable[[str], DefaultEvictorArgs],
) -> None:
    args = "nodeFit: null\nminReplicas: ~\npodProtections:\nlabelSelector:\nminPodAge:"
    assert evictor(args) == DefaultEvictorArgs()


def test_api_version_and_kind_inside_args_have_no_effect(
    evictor: Callable[[str], DefaultEvictorArgs],
) -> None:
    args = "apiVersion: descheduler/v1alpha2\nkind: DefaultEvictorArgs\nnodeFit: true"
    assert evictor(args) == DefaultEvictorArgs(node_fit=True)


@pytest.mark.parametrize(
    "args",
    [
        "minReplicas: 1",
        "evictSystemCriticalPods: true\npriorityThreshold: {value: 800}",
        "podProtections: {config: {PodsWithPVC: {protectedStorageClasses: [{name: a}]}}}",
    ],
)
def test_an_argument_without_effect_gets_a_warning(
    args: str, golden: Golden, warnings: Ask, with_args: WithArgs
) -> None:
    lines = warnings(with_args("DefaultEvictor", args))
    assert [line for line in lines if f".args.{golden()}" in line]


def test_a_class_list_narrows_the_deprecated_claim_protection_too(
    warnings: Ask, with_args: WithArgs
) -> None:
    args = (
        "ignorePvcPods: true\n"
        "podProtections: {config: {PodsWithPVC: {protectedStorageClasses: [{name: a}]}}}"
    )
    assert not [line for line in warnings(with_args("DefaultEvictor", args)) if ".args" in line]


def test_arguments_do_not_change_once_they_are_read() -> None:
    with pytest.raises(ValidationError):
        DefaultEvictorArgs().node_fit = True
