"""What a sound policy comes to."""

from collections.abc import Callable

import pytest

from reactive_desched.model.labels import EVERYTHING, Selector, parse_selector
from reactive_desched.model.usage import MetricsSourceKind
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.policy import Policy, PolicyEvictionLimits, Profile

TAINTS = "RemovePodsViolatingNodeTaints"
AFFINITY = "RemovePodsViolatingNodeAffinity"

Read = Callable[[str], Configuration]


@pytest.fixture
def policy(read: Read, head: str) -> Callable[[str], Policy]:
    return lambda text: read(head + text).policy


@pytest.fixture
def profile(policy: Callable[[str], Policy]) -> Callable[[str], Profile]:
    return lambda text: policy(f"profiles: [{{{text}}}]").profiles[0]


def test_plugins_keep_the_order_in_which_they_are_enabled(
    profile: Callable[[str], Profile],
) -> None:
    read = profile(
        f"plugins: {{deschedule: {{enabled: [{AFFINITY}, {TAINTS}, {AFFINITY}]}}}}, "
        f"pluginConfig: [{{name: {AFFINITY}, args: {{nodeAffinityType: [x]}}}}]"
    )
    assert read.deschedule == (AFFINITY, TAINTS)
    assert read.balance == ()


@pytest.mark.parametrize(
    "plugins",
    [
        pytest.param("", id="no plugins"),
        pytest.param("plugins: {filter: {enabled: [DefaultEvictor]}}", id="one written"),
        pytest.param("plugins: {filter: {disabled: [DefaultEvictor]}}", id="one disabled"),
        pytest.param("plugins: {filter: null, preevictionfilter: {enabled: null}}", id="nulls"),
    ],
)
def test_the_evictor_is_at_both_filter_points_once(
    plugins: str, profile: Callable[[str], Profile]
) -> None:
    read = profile(plugins)
    assert read.filter == ("DefaultEvictor",)
    assert read.pre_eviction_filter == ("DefaultEvictor",)
    assert read.evictor == DefaultEvictorArgs()


def test_a_plugin_without_required_arguments_needs_no_entry(
    profile: Callable[[str], Profile],
) -> None:
    read = profile(f"plugins: {{deschedule: {{enabled: [{TAINTS}]}}}}")
    assert list(read.args) == [TAINTS]
    assert read.args[TAINTS].model_dump(include={"most"}) == {"most": 5}


@pytest.mark.parametrize("args", ["", ", args: null", ", args: {}"])
def test_absent_null_and_empty_arguments_are_the_same(
    args: str, profile: Callable[[str], Profile]
) -> None:
    enabled = f"plugins: {{deschedule: {{enabled: [{TAINTS}]}}}}"
    bare = profile(enabled)
    assert profile(f"{enabled}, pluginConfig: [{{name: {TAINTS}{args}}}]").args == bare.args


def test_arguments_of_what_is_not_enabled_are_checked_and_left_out(
    profile: Callable[[str], Profile],
) -> None:
    assert dict(profile(f"pluginConfig: [{{name: {TAINTS}, args: {{most: 7}}}}]").args) == {}


def test_of_two_entries_for_a_plugin_the_first_counts(profile: Callable[[str], Profile]) -> None:
    read = profile(
        f"plugins: {{deschedule: {{enabled: [{TAINTS}]}}}}, pluginConfig: "
        f"[{{name: {TAINTS}, args: {{most: 1}}}}, {{name: {TAINTS}, args: {{most: 2}}}}]"
    )
    assert read.args[TAINTS].model_dump(include={"most"}) == {"most": 1}


def test_the_second_entry_for_a_plugin_is_checked_all_the_same(
    problems: Callable[[str], list[str]], head: str
) -> None:
    (line,) = problems(
        f"{head}profiles: [{{pluginConfig: "
        f"[{{name: {TAINTS}}}, {{name: {TAINTS}, args: {{most: x}}}}]}}]\n"
    )
    assert ": profiles[0].pluginConfig[1].args.most: must be a whole number" in line


def test_each_profile_has_its_own_evictor(policy: Callable[[str], Policy]) -> None:
    strict, loose = policy(
        "profiles: [{name: strict}, "
        "{name: loose, pluginConfig: [{name: DefaultEvictor, args: {nodeFit: true}}]}]"
    ).profiles
    assert (strict.name, strict.evictor.node_fit) == ("strict", False)
    assert (loose.name, loose.evictor.node_fit) == ("loose", True)


def test_a_profile_cannot_be_changed(profile: Callable[[str], Profile]) -> None:
    read = profile(f"plugins: {{deschedule: {{enabled: [{TAINTS}]}}}}")
    with pytest.raises(TypeError):
        del read.args[TAINTS]  # type: ignore[attr-defined]  # that it is read-only is the test


def test_the_top_level_is_read(policy: Callable[[str], Policy]) -> None:
    read = policy(
        "nodeSelector: pool in (blue,green),!legacy\n"
        "maxNoOfPodsToEvictPerNode: 0\n"
        "maxNoOfPodsToEvictPerNamespace: 2e3\n"
        "maxNoOfPodsToEvictTotal: 3.0\n"
        "evictionFailureEventNotification: yes\n"
        "gracePeriodSeconds: 0\n"
        "metricsCollector: {enabled: on}\n"
        "metricsProviders:\n"
        "- source: Prometheus\n"
        "  prometheus:\n"
        "    url: https://prom:9090\n"
        "    authToken: {secretReference: {namespace: a, name: b}}\n"
    )
    assert read.node_selector.matches({"pool": "blue"})
    assert not read.node_selector.matches({"pool": "blue", "legacy": ""})
    assert read.limits == PolicyEvictionLimits(per_node=0, per_namespace=2000, total=3)
    assert read.eviction_failure_event_notification is True
    assert read.grace_period_s == 0
    assert read.metrics_collector_enabled is True
    (provider,) = read.metrics_providers
    assert provider.source == MetricsSourceKind.PROMETHEUS
    assert provider.prometheus is not None
    assert provider.prometheus.url == "https://prom:9090"
    assert provider.prometheus.auth_token is not None
    reference = provider.prometheus.auth_token.secret_reference
    assert reference is not None
    assert (reference.namespace, reference.name) == ("a", "b")


@pytest.mark.parametrize("nothing", ["", "nodeSelector: ''\n", "maxNoOfPodsToEvictTotal: null\n"])
def test_what_is_not_written_is_unlimited(nothing: str, policy: Callable[[str], Policy]) -> None:
    read = policy(nothing)
    assert read.node_selector == EVERYTHING
    assert read.limits == PolicyEvictionLimits(None, None, None)
    assert read.grace_period_s is None
    assert read.profiles == ()


def test_the_revision_follows_the_text(policy: Callable[[str], Policy]) -> None:
    first, same, other = policy("# a\n"), policy("# a\n"), policy("# b\n")
    assert first.revision == same.revision
    assert first.revision != other.revision
    assert len(first.revision) == 12


@pytest.mark.parametrize(
    ("text", "selector"),
    [
        ("", EVERYTHING),
        ("nodeSelector: 'pool in (blue,red)'", parse_selector("pool in (blue,red)")),
    ],
)
def test_a_profile_may_select_nodes_of_its_own(
    text: str, selector: Selector, profile: Callable[[str], Profile]
) -> None:
    assert profile(text).node_selector == selector
