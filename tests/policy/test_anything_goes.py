"""Whatever text is given, the answer is a configuration or a ConfigError naming a place in it."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reactive_desched.errors import ConfigError
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.koordinator.migration_controller import MigrationControllerArgs
from reactive_desched.policy.legacy.strategies import STRATEGIES
from reactive_desched.policy.legacy.v1alpha1 import StrategyParameters
from reactive_desched.policy.load import load_sources
from reactive_desched.policy.report import MAX_COLUMNS, Report
from reactive_desched.policy.yaml.decode import fields_by_key
from reactive_desched.policy.yaml.diagnostics import PolicyErrors

REGISTRY = plugin_registry()

SOUND = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
nodeSelector: pool in (blue,green)
maxNoOfPodsToEvictTotal: 3.0
metricsProviders: [{source: Prometheus, prometheus: {url: "http://prom:9090"}}]
profiles:
- name: default
  pluginConfig:
  - name: DefaultEvictor
    args: &evictor
      minPodAge: 1h30m
      labelSelector: {matchExpressions: [{key: app, operator: In, values: [web]}]}
      podProtections: {extraEnabled: [PodsWithPVC], defaultDisabled: [DaemonSetPods]}
  - name: RemovePodsViolatingNodeAffinity
    args: {nodeAffinityType: [requiredDuringSchedulingIgnoredDuringExecution]}
  plugins:
    deschedule: {enabled: [RemovePodsViolatingNodeTaints, RemovePodsViolatingNodeAffinity]}
- {name: other, pluginConfig: [{name: DefaultEvictor, args: {<<: *evictor, nodeFit: yes}}]}
---
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
debounce: {quiet: 500ms, perPlugin: {RemovePodsViolatingNodeTaints: {maxWait: 20s}}}
budgets: {cluster: {evictions: 20, per: 1m, burst: 5}, node: null}
client: {requestsPerSecond: 2.5}
server: {listen: "[::1]:10258"}
"""

OLD = """\
apiVersion: descheduler/v1alpha1
kind: DeschedulerPolicy
nodeSelector: pool in (blue,green)
evictLocalStoragePods: yes
maxNoOfPodsToEvictPerNode: 3.0
strategies:
  RemovePodsViolatingNodeTaints: &taints
    enabled: true
    weight: 1
    params:
      excludedTaints: [dedicated=gpu]
      thresholdPriority: 10000
      labelSelector: {matchExpressions: [{key: app, operator: In, values: [web]}]}
      namespaces: {include: [shop]}
  PodLifeTime:
    enabled: true
    params:
      podLifeTime: {maxPodLifeTimeSeconds: 600, podStatusPhases: [Pending], states: [Unknown]}
      thresholdPriorityClassName: high
  RemovePodsViolatingTopologySpreadConstraint: {enabled: true, params: {nodeFit: true}}
  LowNodeUtilization: {enabled: false, params: {nodeResourceUtilizationThresholds: null}}
  RemoveDuplicates:
"""

KOORDINATORS = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerConfiguration
deschedulingInterval: 60s
nodeSelector: {matchLabels: {pool: blue}}
profiles:
- name: koord-descheduler
  plugins:
    deschedule: {disabled: [{name: "*"}]}
    balance: {enabled: [{name: LowNodeLoad}]}
    evict: {disabled: [{name: "*"}], enabled: [{name: MigrationController}]}
  pluginConfig:
  - name: MigrationController
    args:
      kind: MigrationControllerArgs
      defaultJobMode: EvictDirectly
      evictQPS: "10"
      maxMigratingPerWorkload: 10%
      objectLimiters: {workload: {duration: 5m, maxMigrating: 1}}
      namespaces: {exclude: [kube-system]}
      skipEvictionGates: [PVC]
  - name: LowNodeLoad
    args: {lowThresholds: {cpu: 45}, highThresholds: {cpu: 75}}
"""

SLOW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def answer(text: str | bytes) -> None:
    """Ask for a configuration, strictly and leniently, and check what is said in its place."""
    strict = asked(text, lenient=False)
    lenient = asked(text, lenient=True)
    if strict is not None:
        assert lenient is not None
        assert lenient.policy == strict.policy


def asked(text: str | bytes, *, lenient: bool) -> Configuration | None:
    """Ask for a configuration and check what is said when there is none."""
    try:
        return load_sources([SourceText(text, "p.yaml")], REGISTRY, lenient=lenient)
    except PolicyErrors as errors:
        check(errors, text)
        return None


def check(errors: PolicyErrors, text: str | bytes) -> None:
    """Every problem is one line, and its place is in the text."""
    assert isinstance(errors, ConfigError)
    assert errors.diagnostics
    decoded = text if isinstance(text, str) else text.decode(errors="replace")
    for problem in (*errors.diagnostics, *errors.warnings):
        rendered = str(problem)
        assert rendered.startswith("p.yaml")
        assert "\n" not in rendered
        assert rendered.encode()
        assert len(rendered) < 1500
        assert problem.line <= len(decoded.splitlines()) + 1
        for line in tuple(Report({"p.yaml": text}).lines(problem, "error"))[1:3]:
            assert len(line) <= MAX_COLUMNS or line.lstrip().startswith("= help: ")


@pytest.mark.parametrize(
    "text", [SOUND, OLD, KOORDINATORS], ids=["today's", "the legacy format", "koordinator's"]
)
def test_the_sound_texts_are_sound(text: str) -> None:
    load_sources([SourceText(text, "p.yaml")], REGISTRY)


@SLOW
@given(st.text())
def test_any_text(text: str) -> None:
    answer(text)


@SLOW
@given(st.binary())
def test_any_bytes(raw: bytes) -> None:
    answer(raw)


@SLOW
@given(st.text(alphabet="abn01yes:-{}[]&*!|>'\"#%@?,.~ \n\t<\\u", max_size=60))
def test_anything_with_the_characters_of_yaml(text: str) -> None:
    answer(text)


WORDS = sorted(
    {
        word
        for word in (SOUND + OLD + KOORDINATORS).replace("{", " ").replace(":", " ").split()
        if word.isalnum()
    }
)
KEYS = st.sampled_from(WORDS) | st.text(max_size=5)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(WORDS)
    | st.text(max_size=8)
)
NESTED = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=20,
)


@SLOW
@given(NESTED)
def test_any_nesting(value: object) -> None:
    answer(json.dumps(value))


HEADS: tuple[dict[str, str], ...] = (
    {"apiVersion": "reactive-desched/v1alpha1", "kind": "ReactiveSettings"},
    {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"},
    {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerConfiguration"},
    {"apiVersion": "descheduler/v1alpha1"},
    {},
)


@SLOW
@given(st.dictionaries(KEYS, NESTED, max_size=6), st.sampled_from(HEADS))
def test_any_document_of_our_kinds(fields: dict[str, object], head: dict[str, str]) -> None:
    answer(json.dumps({**fields, **head}))


@SLOW
@given(
    st.sampled_from(sorted(STRATEGIES)),
    st.dictionaries(st.sampled_from(sorted(fields_by_key(StrategyParameters))), NESTED),
)
def test_any_parameters(strategy: str, params: dict[str, object]) -> None:
    strategies = {strategy: {"enabled": True, "params": params}}
    answer(json.dumps({"apiVersion": "descheduler/v1alpha1", "strategies": strategies}))


@SLOW
@given(NESTED, st.sampled_from(["DefaultEvictor", *sorted(REGISTRY)]))
def test_any_arguments(args: object, plugin: str) -> None:
    profile = {"name": "p", "pluginConfig": [{"name": plugin, "args": args}]}
    head = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}
    answer(json.dumps({**head, "profiles": [profile]}))


@SLOW
@given(
    NESTED
    | st.dictionaries(st.sampled_from(sorted(fields_by_key(MigrationControllerArgs))), NESTED),
    NESTED,
)
def test_any_arguments_of_koordinators(args: object, plugins: object) -> None:
    config = [{"name": "MigrationController", "args": args}]
    profiles = [{"pluginConfig": config}, {"pluginConfig": config, "plugins": plugins}]
    answer(json.dumps({**HEADS[2], "profiles": profiles}))


@SLOW
@given(st.sampled_from([SOUND, OLD, KOORDINATORS]), st.data())
def test_any_value_in_any_place_of_a_sound_text(text: str, data: st.DataObject) -> None:
    """Cut a piece out of a sound text and put something else there."""
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    piece = data.draw(
        st.sampled_from(
            [
                "",
                "x",
                "null",
                "-1",
                "2.5",
                "[]",
                "{}",
                "true",
                '"',
                "\n",
                ": ",
                "*evictor",
                "*taints",
            ]
        )
        | st.text(max_size=6)
        | NESTED.map(json.dumps)
    )
    answer(text[:start] + piece + text[end:])


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{" * 1000, id="braces"),
        pytest.param("a: &a [" + "*a, " * 1000 + "]", id="an alias in itself"),
        pytest.param("- " * 2000 + "x", id="dashes"),
        pytest.param("? " * 2000, id="question marks"),
        pytest.param("a: 0x" + "f" * 500, id="a long number"),
        pytest.param("a: " + "9" * 5000, id="a longer number"),
        pytest.param('{"apiVersion": "descheduler/v1alpha2", "kind": NaN}', id="not a number"),
        pytest.param("%TAG ! tag:x,2000:\n--- !a b", id="a tag directive"),
        pytest.param("!!timestamp 2020-01-01", id="a timestamp tag"),
        pytest.param("%YAML 9.9\n--- a", id="a version from the future"),
    ],
)
def test_what_once_troubled_parsers(text: str) -> None:
    answer(text)
