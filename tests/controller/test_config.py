from reactive_desched.controller.config import (
    BUILT_IN_PLUGINS,
    PLANNED_PLUGINS,
    build_config,
    plugin_registry,
)
from reactive_desched.controller.controller import ControllerConfig
from reactive_desched.gate.rate_limits import TokenRate
from reactive_desched.model.labels import parse_selector
from reactive_desched.plugins.node_affinity import REQUIRED, NodeAffinityArgs, NodeAffinityPlugin
from reactive_desched.plugins.node_taints import NodeTaintsArgs, NodeTaintsPlugin
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import load_sources
from reactive_desched.policy.registry import PluginSpec
from reactive_desched.primitives.debounce import DebounceConfig

POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
nodeSelector: pool=a
maxNoOfPodsToEvictPerNode: 2
maxNoOfPodsToEvictPerNamespace: 3
maxNoOfPodsToEvictTotal: 4
gracePeriodSeconds: 30
profiles:
- name: day
  pluginConfig:
  - name: DefaultEvictor
    args: {nodeFit: true}
  - name: RemovePodsViolatingNodeTaints
    args: {excludedTaints: [gpu]}
  - name: RemovePodsViolatingNodeAffinity
    args: {nodeAffinityType: [requiredDuringSchedulingIgnoredDuringExecution]}
  plugins:
    deschedule:
      enabled: [RemovePodsViolatingNodeTaints, RemovePodsViolatingNodeAffinity]
- name: night
  plugins:
    deschedule: {enabled: [RemovePodsViolatingNodeTaints]}
"""
SETTINGS = """\
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
debounce:
  quiet: 2s
  maxWait: 20s
  perPlugin:
    RemovePodsViolatingNodeAffinity: {quiet: 7s}
budgets:
  cluster: {evictions: 60, per: 1m, burst: 9}
  node: {evictions: 3, per: 30s, burst: 2}
  namespace: null
evictions:
  maxInFlight: 7
  retry: {initial: 3s, max: 90s}
"""
BARE = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n"


def planned(*texts: str) -> ControllerConfig:
    sources = [SourceText(text, f"{number}.yaml") for number, text in enumerate(texts)]
    configuration = load_sources(sources, plugin_registry())
    return build_config(configuration.policy, configuration.settings)


def test_every_profile_has_its_plugins_in_order_with_their_arguments() -> None:
    day, night = planned(POLICY).profiles

    assert (day.name, night.name) == ("day", "night")
    taints, affinity = day.plugins
    assert isinstance(taints, NodeTaintsPlugin)
    assert isinstance(affinity, NodeAffinityPlugin)
    assert taints.args == NodeTaintsArgs(excluded_taints=("gpu",))
    assert affinity.args == NodeAffinityArgs(node_affinity_type=(REQUIRED,))
    [nightly] = night.plugins
    assert nightly.args == NodeTaintsArgs()


def test_every_profile_has_an_evictor_of_its_own() -> None:
    day, night = planned(POLICY).profiles

    assert (day.evictor.node_fit, night.evictor.node_fit) == (True, False)


def test_the_policys_selector_grace_period_and_limits_are_obeyed() -> None:
    made = planned(POLICY)

    assert made.node_selector == parse_selector("pool=a")
    assert made.grace_period_s == 30
    assert made.eviction_limits == {"cluster": 4, "node": 2, "namespace": 3}


def test_settings_become_rates_per_second_waits_and_bounds() -> None:
    made = planned(POLICY, SETTINGS)

    assert made.eviction_rates == {
        "cluster": TokenRate(1.0, 9),
        "node": TokenRate(0.1, 2),
        "namespace": None,
    }
    assert made.debounce_for(NodeTaintsPlugin.name) == DebounceConfig(2, 20)
    assert made.debounce_for(NodeAffinityPlugin.name) == DebounceConfig(7, 20)
    assert (made.backoff_first_s, made.backoff_longest_s) == (3, 90)
    assert made.max_concurrent == 7


def test_without_settings_the_documented_defaults_hold() -> None:
    made = planned(BARE)

    assert made.profiles == ()
    assert made.eviction_rates == {
        "cluster": TokenRate(30 / 60, 10),
        "node": TokenRate(6 / 60, 3),
        "namespace": TokenRate(12 / 60, 5),
    }
    assert made.eviction_limits == {"cluster": None, "node": None, "namespace": None}
    assert made.debounce_for("any") == DebounceConfig(1, 10)
    assert (made.backoff_first_s, made.backoff_longest_s, made.max_concurrent) == (5, 300, 50)
    assert made.grace_period_s is None


def test_the_policy_reader_knows_every_built_in_plugin_and_where_it_belongs() -> None:
    known = plugin_registry()

    for name, (plugin, args) in BUILT_IN_PLUGINS.items():
        assert name == plugin.name
        assert known[name] == PluginSpec(
            args, frozenset({plugin.extension_point}), is_implemented=True
        )


def test_the_policy_reader_knows_the_plugins_to_come_as_not_built() -> None:
    known = plugin_registry()

    assert [name for name, spec in known.items() if not spec.is_implemented] == list(
        PLANNED_PLUGINS
    )
    for name, args in PLANNED_PLUGINS.items():
        assert known[name] == PluginSpec(args, frozenset({"balance"}), is_implemented=False)


def test_every_plugin_of_upstream_and_koordinators_low_node_load_can_be_configured() -> None:
    assert plugin_registry().keys() == {
        "HighNodeUtilization",
        "LowNodeLoad",
        "LowNodeUtilization",
        "PodLifeTime",
        "RemoveDuplicates",
        "RemoveFailedPods",
        "RemovePodsHavingTooManyRestarts",
        "RemovePodsViolatingInterPodAntiAffinity",
        "RemovePodsViolatingNodeAffinity",
        "RemovePodsViolatingNodeTaints",
        "RemovePodsViolatingTopologySpreadConstraint",
    }
