"""A policy in today's format loses its deprecated forms, and nothing else of its text changes."""

from difflib import unified_diff

import pytest

from reactive_desched.api.args import PluginArgs
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.convert.rewriting import ConvertOptions, ConvertResult, convert_policy
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.registry import PluginSpec
from tests.support.golden import Golden
from tests.support.policy_lines import without_codes

HEAD = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n"
TEXT = """\
# ours
apiVersion:   "descheduler/v1alpha2"   # the version
kind: DeschedulerPolicy


profiles:
    - name:   one   # the name
      pluginConfig:
        # the evictor
        -   name: "DefaultEvictor"
            args:
              # no state
              evictLocalStoragePods:   true # scratch
              evictDaemonSetPods: false
              nodeFit:    on
#              minReplicas: 3
        - name: LowNodeUtilization
          args:
            thresholds: {"cpu" :   20,
              "memory": 20}   # low
            targetThresholds:
              "cpu": 50
              "memory": 50
            metricsUtilization:
              metricsServer: true # measured
        # more
        -   name: RemoveDuplicates   # spacing
            args:
               excludeOwnerKinds: [ a,b ]
      plugins:
        balance:
          enabled:
          - "LowNodeUtilization"
          # and
          - "RemoveDuplicates"   # this
# the end


"""


def convert(text: str, **wishes: bool) -> ConvertResult:
    return convert_policy(SourceText(text, "p.yaml"), plugin_registry(), ConvertOptions(**wishes))


def converted(text: str, **wishes: bool) -> str:
    return convert(text, **wishes).text.decode()


def changed(text: str) -> list[str]:
    """Give the lines that go and the lines that come."""
    diff = unified_diff(text.splitlines(), converted(text).splitlines(), lineterm="", n=0)
    return [line for line in list(diff)[2:] if not line.startswith("@@")]


def test_only_what_is_deprecated_changes() -> None:
    assert changed(TEXT) == [
        "-              # no state",
        "-              evictLocalStoragePods:   true # scratch",
        "-              evictDaemonSetPods: false",
        "+              podProtections:",
        "+                defaultDisabled:",
        "+                  # no state",
        "+                  - PodsWithLocalStorage # scratch",
        "-              metricsServer: true # measured",
        "+              source: KubernetesMetrics # measured",
    ]


def evictor(args: str) -> str:
    """Write a policy that configures the evictor."""
    return (
        f"{HEAD}profiles:\n- name: p\n  pluginConfig:\n  - name: DefaultEvictor\n{args}"
        "  plugins: {balance: {enabled: [RemoveDuplicates]}}\n"
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            "    args: {ignorePvcPods: true, nodeFit: true, evictDaemonSetPods: false}\n",
            "    args: {podProtections: {extraEnabled: [PodsWithPVC]}, nodeFit: true}\n",
            id="in brackets",
        ),
        pytest.param("    args: {evictFailedBarePods: false}\n", "", id="nothing is left"),
        pytest.param(
            "    args:\n"
            "      podProtections:\n"
            "        config: {PodsWithPVC: {protectedStorageClasses: [{name: a}]}}\n"
            "        extraEnabled: []\n"
            "      nodeFit: true\n"
            "      ignorePvcPods: true\n",
            "    args:\n"
            "      podProtections:\n"
            "        extraEnabled: [PodsWithPVC]\n"
            "        config: {PodsWithPVC: {protectedStorageClasses: [{name: a}]}}\n"
            "      nodeFit: true\n",
            id="beside what replaces it",
        ),
        pytest.param(
            "    args:\n"
            "      evictDaemonSetPods: true\n"
            "      evictFailedBarePods: yes\n"
            "      evictLocalStoragePods: on\n"
            "      evictSystemCriticalPods: True\n"
            "      ignorePodsWithoutPDB: true\n"
            "      ignorePvcPods: true\n",
            "    args:\n"
            "      podProtections:\n"
            "        defaultDisabled:\n"
            "        - DaemonSetPods\n"
            "        - FailedBarePods\n"
            "        - PodsWithLocalStorage\n"
            "        - SystemCriticalPods\n"
            "        extraEnabled:\n"
            "        - PodsWithoutPDB\n"
            "        - PodsWithPVC\n",
            id="all of them, in their order",
        ),
        pytest.param(
            "    args:\n"
            "      labelSelector:   # all\n"
            "      # claims\n"
            "      ignorePvcPods: true\n"
            "      minReplicas:   2\n",
            "    args:\n"
            "      labelSelector:   # all\n"
            "      podProtections:\n"
            "        extraEnabled:\n"
            "        # claims\n"
            "        - PodsWithPVC\n"
            "      minReplicas:   2\n",
            id="below an empty value",
        ),
    ],
)
def test_switches_of_the_evictor_become_protections(old: str, new: str) -> None:
    assert converted(evictor(old)) == evictor(new)


PROVIDER = "{source: Prometheus, prometheus: {url: 'http://a'}}"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            "\n# measured\nmetricsCollector: # c\n  enabled: true # on\n",
            "\n# measured\nmetricsProviders: # c\n  - source: KubernetesMetrics # on\n",
            id="alone",
        ),
        pytest.param(
            "metricsCollector:\n  # on\n  enabled: true\n",
            "metricsProviders:\n  # on\n  - source: KubernetesMetrics\n",
            id="with what is said of the switch",
        ),
        pytest.param(
            "nodeSelector: |\n  a=b\n\n\nmetricsCollector: {enabled: true}\n",
            "nodeSelector: |\n  a=b\n\n\nmetricsProviders:\n  - source: KubernetesMetrics\n",
            id="below a text of several lines",
        ),
        pytest.param(
            f"metricsProviders:\n- {PROVIDER}\nmetricsCollector: {{enabled: true}}\n",
            f"metricsProviders:\n- {PROVIDER}\n- source: KubernetesMetrics\n",
            id="beside a provider",
        ),
        pytest.param("metricsCollector: {enabled: false}\n", "", id="switched off"),
        pytest.param("metricsCollector:\n", "", id="empty"),
    ],
)
def test_the_metrics_collector_becomes_a_provider(old: str, new: str) -> None:
    rest = "profiles: []\n"

    assert converted(f"{HEAD}{old}{rest}") == f"{HEAD}{new}{rest}"


def test_a_metrics_server_that_is_off_beside_a_source_goes() -> None:
    text = (
        f"{HEAD}profiles:\n- name: p\n  pluginConfig:\n  - name: LowNodeUtilization\n    args:\n"
        "      thresholds: {cpu: 1}\n"
        "      targetThresholds: {cpu: 2}\n"
        "      metricsUtilization: {metricsServer: false, source: KubernetesMetrics}\n"
        "  plugins: {balance: {enabled: [LowNodeUtilization]}}\n"
    )
    assert "metricsUtilization: {source: KubernetesMetrics}" in converted(text)


def test_what_is_below_a_collector_that_goes_stays_at_the_end() -> None:
    plugins = "{balance: {enabled:  [RemoveDuplicates]}}"
    rest = f"{HEAD}profiles:\n  - name:  p\n    plugins: {plugins}\n"

    assert converted(f"{rest}metricsCollector: {{}}\n# the end\n") == f"{rest}# the end\n"


def test_a_metrics_server_that_is_off_and_no_source_stay_for_a_lenient_reading() -> None:
    text = (
        f"{HEAD}profiles:\n- name: p\n  pluginConfig:\n  - name: LowNodeUtilization\n    args:\n"
        "      metricsUtilization: {metricsServer: false}\n"
        "      thresholds: {cpu: 1}\n"
        "      targetThresholds: {cpu: 2}\n"
        "  plugins:\n    balance: {enabled: [LowNodeUtilization]}\n"
    )
    assert not convert(text, lenient=True).is_changed


class OtherArgs(PluginArgs):
    ignore_pvc_pods: bool = False


def test_arguments_of_other_plugins_are_their_own() -> None:
    plugins = {**plugin_registry(), "Other": PluginSpec(OtherArgs, frozenset({"balance"}))}
    text = (
        f"{HEAD}profiles:\n- name: p\n  pluginConfig:\n"
        "  - {name: Other, args: {ignorePvcPods: true}}\n"
        "  plugins: {balance: {enabled: [Other]}}\n"
    )
    assert not convert_policy(SourceText(text, "p.yaml"), plugins, ConvertOptions()).is_changed


def test_a_policy_without_deprecated_forms_stays_as_it_is() -> None:
    text = f"{HEAD}\r\nprofiles:   [ ]  # none\n\n\n---\n\n..."

    assert convert(text).text == text.encode()
    assert not convert(text).is_changed


def test_deprecated_forms_that_are_to_be_kept_are_kept() -> None:
    assert convert(TEXT, keep_deprecated=True).text == TEXT.encode()
    assert not convert(TEXT, keep_deprecated=True).is_changed


def test_brackets_around_everything_become_lines_where_they_are_long() -> None:
    args = "{nodeFit: true, evictLocalStoragePods: true, minReplicas: 2, minPodAge: 10m}"
    text = evictor("").replace(
        "  - name: DefaultEvictor\n", f"  - {{name: DefaultEvictor, args: {args}}}\n"
    )
    assert converted(text) == evictor(
        "    args:\n"
        "      nodeFit: true\n"
        "      podProtections:\n"
        "        defaultDisabled:\n"
        "        - PodsWithLocalStorage\n"
        "      minReplicas: 2\n"
        "      minPodAge: 10m\n"
    )


def test_a_policy_with_aliases_is_written_anew_as_a_whole() -> None:
    text = (
        f"{HEAD}profiles:\n"
        "- name: a\n"
        "  pluginConfig:\n"
        "  - {name: DefaultEvictor, args: &evictor {ignorePvcPods: true, nodeFit: true}}\n"
        "- name:   b # spaces\n"
        "  pluginConfig: [{name: DefaultEvictor, args: *evictor}]\n"
    )
    new = converted(text)

    assert new.count("podProtections:") == 2
    assert "- name: b # spaces\n" in new
    assert "evictor" not in new.replace("DefaultEvictor", "")
    assert "anchors and aliases" in convert(text).notices[0].message


def test_aliases_in_a_policy_that_stays_as_it_is_are_not_reported() -> None:
    text = f"{HEAD}profiles: [&p {{name: a}}, *p]\n"

    assert not convert(text).is_changed
    assert "anchors and aliases" not in "".join(map(str, convert(text).notices))


def test_merging_is_not_for_profiles(golden: Golden) -> None:
    (notice,) = [each for each in convert(TEXT, merge=True).notices if each.path == "profiles"]

    assert without_codes(notice) == [golden()]


def test_a_lenient_conversion_makes_a_policy_that_a_strict_reading_takes(golden: Golden) -> None:
    text = (
        "apiVersion: descheduler/v1alpha2\n"
        "ignorePvcPods: true # protects nothing\n"
        "profiles:\n"
        "- {name: p, name: q, typo: 1, plugins: {balance: {enabled: [RemoveDuplicates]}}}\n"
    )
    new = converted(text, lenient=True)

    assert new == golden(head=HEAD) + "\n"
    assert not convert(new).is_changed


def test_values_that_only_a_lenient_reading_takes_stay_and_are_reported() -> None:
    text = f"{HEAD}gracePeriodSeconds: -1\nprofiles: []\nmetricsCollector: {{enabled: true}}\n"

    new = convert(text, lenient=True)

    assert new.needs_lenient
    assert b"gracePeriodSeconds: -1\n" in new.text
    assert "gracePeriodSeconds" in [notice.path for notice in new.notices]
    assert not convert(new.text.decode(), lenient=True).is_changed
    assert not convert(text.replace("-1", "1")).needs_lenient
