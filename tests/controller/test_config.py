from reactive_desched.controller.config import BUILT_IN, TO_COME, plan, registry
from reactive_desched.controller.controller import Plan
from reactive_desched.gate.rate_limits import Rate
from reactive_desched.model.labels import parse_selector
from reactive_desched.plugins.node_affinity import REQUIRED, NodeAffinity, NodeAffinityArgs
from reactive_desched.plugins.node_taints import NodeTaints, NodeTaintsArgs
from reactive_desched.policy.documents import Source
from reactive_desched.policy.load import configure
from reactive_desched.policy.registry import PluginSpec
from reactive_desched.primitives.debounce import Pause

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


def planned(*texts: str) -> Plan:
    sources = [Source(text, f"{number}.yaml") for number, text in enumerate(texts)]
    configuration = configure(sources, registry())
    return plan(configuration.policy, configuration.settings)


def test_every_profile_has_its_plugins_in_order_with_their_arguments() -> None:
    day, night = planned(POLICY).profiles

    assert (day.name, night.name) == ("day", "night")
    taints, affinity = day.plugins
    assert isinstance(taints, NodeTaints)
    assert isinstance(affinity, NodeAffinity)
    assert taints.args == NodeTaintsArgs(excluded_taints=("gpu",))
    assert affinity.args == NodeAffinityArgs(node_affinity_type=(REQUIRED,))
    [nightly] = night.plugins
    assert nightly.args == NodeTaintsArgs()


def test_every_profile_has_an_evictor_of_its_own() -> None:
    day, night = planned(POLICY).profiles

    assert (day.evictor.node_fit, night.evictor.node_fit) == (True, False)


def test_the_policys_selector_grace_period_and_limits_are_obeyed() -> None:
    made = planned(POLICY)

    assert made.selects == parse_selector("pool=a")
    assert made.grace_period_s == 30
    assert made.limits == {"cluster": 4, "node": 2, "namespace": 3}


def test_settings_become_rates_per_second_waits_and_bounds() -> None:
    made = planned(POLICY, SETTINGS)

    assert made.rates == {"cluster": Rate(1.0, 9), "node": Rate(0.1, 2), "namespace": None}
    assert made.pause(NodeTaints.name) == Pause(2, 20)
    assert made.pause(NodeAffinity.name) == Pause(7, 20)
    assert (made.backoff_first_s, made.backoff_longest_s) == (3, 90)
    assert made.at_once == 7


def test_without_settings_the_documented_defaults_hold() -> None:
    made = planned(BARE)

    assert made.profiles == ()
    assert made.rates == {
        "cluster": Rate(30 / 60, 10),
        "node": Rate(6 / 60, 3),
        "namespace": Rate(12 / 60, 5),
    }
    assert made.limits == {"cluster": None, "node": None, "namespace": None}
    assert made.pause("any") == Pause(1, 10)
    assert (made.backoff_first_s, made.backoff_longest_s, made.at_once) == (5, 300, 50)
    assert made.grace_period_s is None


def test_the_policy_reader_knows_every_built_in_plugin_and_where_it_belongs() -> None:
    known = registry()

    for name, (plugin, args) in BUILT_IN.items():
        assert name == plugin.name
        assert known[name] == PluginSpec(args, frozenset({plugin.point}), is_built=True)


def test_the_policy_reader_knows_the_plugins_to_come_as_not_built() -> None:
    known = registry()

    assert [name for name, spec in known.items() if not spec.is_built] == list(TO_COME)
    for name, args in TO_COME.items():
        assert known[name] == PluginSpec(args, frozenset({"balance"}), is_built=False)


def test_every_plugin_of_upstream_and_koordinators_low_node_load_can_be_configured() -> None:
    assert registry().keys() == {
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
