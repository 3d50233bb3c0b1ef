"""A lenient reading takes what upstream takes, reads it as upstream does, and warns."""

from collections.abc import Iterable
from textwrap import dedent

import pytest

from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import (
    PolicyCheckResult,
    check_source,
    load_sources,
)
from reactive_desched.policy.yaml.diagnostics import Diagnostic, PolicyErrors
from tests.support.golden import Golden
from tests.support.policy_lines import without_codes

NEW = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n"
OLD = "apiVersion: descheduler/v1alpha1\nkind: DeschedulerPolicy\n"
SETTINGS = "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"
TAINTS = "RemovePodsViolatingNodeTaints"
AFFINITY = "RemovePodsViolatingNodeAffinity"
ENABLED = f"plugins: {{deschedule: {{enabled: [{TAINTS}]}}}}"


def lines(of: Iterable[Diagnostic]) -> list[str]:
    return [line for each in of for line in without_codes(each)]


def lenient(text: str) -> Configuration:
    return load_sources([SourceText(dedent(text), "p.yaml")], plugin_registry(), lenient=True)


def result(text: str, *, lenient: bool) -> PolicyCheckResult:
    return check_source(SourceText(dedent(text), "p.yaml"), plugin_registry(), lenient=lenient)


def args(plugin: str, written: str) -> str:
    return (
        f"{NEW}profiles: [{{name: p, plugins: {{deschedule: {{enabled: [{plugin}]}}}}, "
        f"pluginConfig: [{{name: {plugin}, args: {written}}}]}}]"
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"{NEW}ignorePvcPods: true", id="an unknown key at the top"),
        pytest.param(f"{NEW}metadata: {{}}\nspec: {{}}", id="a wrapped policy"),
        pytest.param(f"{NEW}profiles: [{{nodeFit: true, {ENABLED}}}]", id="in a profile"),
        pytest.param(f"{NEW}profiles: [{{plugins: {{preEvictionFilter: 5}}}}]", id="in plugins"),
        pytest.param(f"{NEW}profiles: [{{plugins: {{sort: {{on: []}}}}}}]", id="in a point"),
        pytest.param(
            f"{NEW}profiles: [{{pluginConfig: [{{name: {TAINTS}, namespaces: {{}}}}]}}]",
            id="in an entry of pluginConfig",
        ),
        pytest.param(
            f"{NEW}metricsProviders: [{{source: KubernetesMetrics, url: x}}]", id="in a provider"
        ),
        pytest.param(args(AFFINITY, "{nodeAffinityType: [required]}"), id="a type that is none"),
        pytest.param(f"{NEW}strategies: {{PodLifeTime: {{enabled: true}}}}", id="strategies"),
        pytest.param("apiVersion: descheduler/v1alpha2", id="no kind"),
        pytest.param("apiVersion: ''\nkind: ''\nprofiles: 5", id="an empty apiVersion"),
        pytest.param("profiles: [{plugins: {deschedule: {enabled: [Xyz]}}}]", id="no apiVersion"),
        pytest.param("strategies: {PodLifetime: {enabled: true}}", id="no apiVersion, and old"),
        pytest.param(args(TAINTS, "{excludedTaints: [a, null]}"), id="an empty item"),
        pytest.param(f"{NEW}nodeSelector: a=b\nnodeSelector: a=c", id="a key written twice"),
        pytest.param(f"{NEW}---\n{OLD}", id="a second policy"),
        pytest.param(f"{NEW}---\napiVersion: v1\nkind: ConfigMap", id="a second document"),
        pytest.param(f"{OLD}profiles: 5", id="profiles in the legacy format"),
        pytest.param(f"{OLD}strategies: {{PodLifeTime: {{args: {{}}}}}}", id="args there"),
        pytest.param(
            f"{OLD}strategies: {{{TAINTS}: {{enabled: true, params: {{labelSelector: "
            "{matchlabels: {}}, namespaces: {only: []}}}}",
            id="unknown keys deep in the legacy format",
        ),
        pytest.param(
            f"{OLD}strategies: {{DefaultEvictor: {{enabled: false}}}}", id="a disabled evictor"
        ),
    ],
)
def test_what_upstream_lets_pass_is_refused_strictly_and_warned_of_leniently(text: str) -> None:
    strict = result(text, lenient=False).errors
    warnings = result(text, lenient=True).warnings

    assert strict
    assert result(text, lenient=True).errors == ()
    told = {(it.line, it.path) for it in warnings}
    assert {(it.line, it.path) for it in strict if it.forgivable} <= told


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(args(TAINTS, "{zzz: 1}"), id="an unknown argument"),
        pytest.param(args(TAINTS, "{namespaces: {Include: []}}"), id="in another case"),
        pytest.param(args(TAINTS, "{labelSelector: {matchlabels: {}}}"), id="in a selector"),
        pytest.param(args(TAINTS, "{includePreferNoSchedule: 1}"), id="a wrong type"),
        pytest.param(args("PodLifetime", "{}"), id="a plugin that does not exist"),
        pytest.param(args("RemoveDuplicates", "{}"), id="a plugin at the wrong point"),
        pytest.param(
            f"{NEW}profiles: [{{plugins: {{deschedule: {{enabled: [{AFFINITY}]}}}}}}]",
            id="no arguments where some are required",
        ),
        pytest.param(f"{NEW}profiles: {{name: p}}", id="profiles as a mapping"),
        pytest.param(f"{NEW}profiles: [{{name: 5}}]", id="a number for a name"),
        pytest.param(f"{NEW}maxNoOfPodsToEvictTotal: 2.5", id="a fraction"),
        pytest.param(f"{NEW}nodeSelector: pool in", id="a node selector cut short"),
        pytest.param("apiVersion: descheduler/v9\nkind: DeschedulerPolicy", id="a version"),
        pytest.param("apiVersion: descheduler/v1alpha2\nkind: Policy", id="a kind"),
        pytest.param("kind: Policy", id="a kind without a version"),
        pytest.param("apiVersion: {a: b}\nkind: DeschedulerPolicy", id="a version that is none"),
        pytest.param("", id="an empty text"),
        pytest.param(f"{NEW}a: [", id="no YAML"),
        pytest.param(f"{NEW}---\na: [", id="no YAML after the policy"),
        pytest.param(f"{OLD}strategies: {{Xyz: {{enabled: false}}}}", id="a strategy"),
        pytest.param(f"{OLD}strategies: {{DefaultEvictor: {{enabled: true}}}}", id="the evictor"),
        pytest.param(f"{OLD}strategies: {{{TAINTS}: {{params: []}}}}", id="a type, disabled"),
        pytest.param(f"{OLD}strategies: {{{AFFINITY}: {{enabled: true}}}}", id="no parameter"),
        pytest.param(f"{NEW}---\n{SETTINGS}zzz: 1", id="an unknown setting"),
        pytest.param(
            f"{NEW}---\n{SETTINGS}debounce: {{perPlugin: {{{TAINTS}: null}}}}",
            id="an empty setting",
        ),
        pytest.param(f"{NEW}---\n{SETTINGS}journal: {{}}\njournal: {{}}", id="a setting twice"),
    ],
)
def test_what_upstream_refuses_is_refused_leniently_too(text: str) -> None:
    assert result(text, lenient=True).errors
    with pytest.raises(PolicyErrors):
        lenient(text)


def test_of_a_key_written_twice_the_last_counts() -> None:
    text = f"""\
        apiVersion: descheduler/v1alpha2
        kind: DeschedulerPolicy
        maxNoOfPodsToEvictTotal: 1
        maxNoOfPodsToEvictTotal: 2
        profiles:
        - name: p
          plugins: {{deschedule: {{enabled: [{TAINTS}]}}}}
          pluginConfig: []
          pluginConfig: [{{name: {TAINTS}, args: {{excludedTaints: [a], excludedTaints: [b]}}}}]
        """
    policy = lenient(text).policy
    assert policy.limits.total == 2
    assert policy.profiles[0].args[TAINTS].model_dump()["excluded_taints"] == ("b",)


def test_the_first_document_counts_and_settings_wherever_they_are() -> None:
    policy = f"{NEW}maxNoOfPodsToEvictTotal: 1\n"
    other = f"{NEW}maxNoOfPodsToEvictTotal: 2\n"
    settings = f"{SETTINGS}server: {{listen: ':1'}}\n"
    for text in (f"{settings}---\n{policy}---\n{other}", f"{policy}---\n{other}---\n{settings}"):
        read = lenient(text)
        assert read.policy.limits.total == 1
        assert read.settings.server.listen == ":1"
        (warning,) = (it for it in read.warnings if not it.path)
        assert warning.message == "this document is not read"


def test_without_a_version_nothing_is_read_as_upstream_reads_nothing(golden: Golden) -> None:
    read = lenient(f"maxNoOfPodsToEvictTotal: 1\nprofiles: [{{{ENABLED}}}]")
    assert read.policy.profiles == ()
    assert read.policy.limits.total is None
    assert str(read.warnings[0]).startswith(golden())


def test_types_of_affinity_that_do_not_exist_are_skipped_beside_one_that_does(
    golden: Golden,
) -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    line = golden(required=required, affinity=AFFINITY)
    both = args(AFFINITY, f"{{nodeAffinityType: [{required}s, {required}]}}")
    none = args(AFFINITY, f"{{nodeAffinityType: [{required}s]}}")

    for is_lenient in (True, False):
        assert lines(result(both, lenient=is_lenient).warnings) == [line]
    assert lines(result(none, lenient=True).warnings) == [line]
    assert lines(result(none, lenient=False).errors) == [line]
    (profile,) = lenient(none).policy.profiles
    assert profile.args[AFFINITY].model_dump()["node_affinity_type"] == (f"{required}s",)


def test_strategies_left_behind_run_no_strategy_and_the_warning_says_how_to_keep_them(
    golden: Golden,
) -> None:
    text = f"{NEW}strategies: {{RemoveDuplicates: {{enabled: true}}}}"

    assert lenient(text).policy.profiles == ()
    (left_behind,) = lines(lenient(text).warnings)
    assert left_behind == golden()
    assert result(text.replace("v1alpha2", "v1alpha1"), lenient=False).errors == ()


def test_an_empty_item_is_what_go_makes_of_it(golden: Golden) -> None:
    text = args(TAINTS, "{excludedTaints: [null]}")
    (profile,) = lenient(text).policy.profiles
    assert profile.args[TAINTS].model_dump()["excluded_taints"] == ("",)
    (warning,) = lenient(text).warnings
    (line,) = without_codes(warning)
    assert line.endswith(golden(taints=TAINTS))


def test_a_plugin_that_needs_no_arguments_needs_no_entry_in_either_reading() -> None:
    text = f"{NEW}profiles: [{{name: p, {ENABLED}}}]"
    for lenient in (False, True):
        found = result(text, lenient=lenient)
        assert (found.errors, found.warnings, found.complete) == ((), (), True)


def test_what_is_sound_reads_the_same_either_way() -> None:
    text = args(TAINTS, "{includePreferNoSchedule: yes, excludedTaints: [a]}")
    strict = load_sources([SourceText(text, "p.yaml")], plugin_registry())
    assert lenient(text) == strict
