"""What the text of a converted legacy policy looks like."""

from textwrap import dedent

import pytest

from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.convert.rewriting import ConvertOptions, ConvertResult, convert_policy
from reactive_desched.policy.documents import SourceText
from tests.support.golden import Golden
from tests.support.policy_lines import without_codes

OLD = "apiVersion: descheduler/v1alpha1\nkind: DeschedulerPolicy\n"
NEW = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n"
SETTINGS = "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"


def convert(text: str | bytes, **wishes: bool) -> ConvertResult:
    source = SourceText(dedent(text) if isinstance(text, str) else text, "p.yaml")
    return convert_policy(source, plugin_registry(), ConvertOptions(**wishes))


def converted(text: str, **wishes: bool) -> str:
    return convert(text, **wishes).text.decode()


def told(text: str, **wishes: bool) -> list[str]:
    return [line for each in convert(text, **wishes).notices for line in without_codes(each)]


def test_strategies_under_the_wrong_api_version_are_converted_and_it_says_that_they_will_run(
    golden: Golden,
) -> None:
    strategies = "strategies: {RemovePodsViolatingNodeTaints: {enabled: true}}\n"

    assert converted(NEW + strategies) == converted(OLD + strategies) != NEW + strategies
    (notice,) = told(NEW + strategies)
    assert notice == golden()


TWO = f"""\
{OLD}evictLocalStoragePods: true
ignorePvcPods: true
maxNoOfPodsToEvictPerNode: 10
strategies:
  RemoveDuplicates:
    enabled: true
  PodLifeTime:
    enabled: true
    params:
      podLifeTime: {{maxPodLifeTimeSeconds: 3600, podStatusPhases: [Pending]}}
      thresholdPriority: 500
"""


def test_each_strategy_becomes_a_profile_without_deprecated_forms() -> None:
    assert converted(TWO) == dedent(
        """\
        apiVersion: descheduler/v1alpha2
        kind: DeschedulerPolicy
        maxNoOfPodsToEvictPerNode: 10
        profiles:
          - name: strategy-RemoveDuplicates-profile
            pluginConfig:
              - name: DefaultEvictor
                args:
                  podProtections:
                    defaultDisabled:
                      - PodsWithLocalStorage
                    extraEnabled:
                      - PodsWithPVC
              - name: RemoveDuplicates
            plugins:
              filter:
                enabled:
                  - DefaultEvictor
              preevictionfilter:
                enabled:
                  - DefaultEvictor
              balance:
                enabled:
                  - RemoveDuplicates
          - name: strategy-PodLifeTime-profile
            pluginConfig:
              - name: DefaultEvictor
                args:
                  podProtections:
                    defaultDisabled:
                      - PodsWithLocalStorage
                    extraEnabled:
                      - PodsWithPVC
                  priorityThreshold:
                    value: 500
              - name: PodLifeTime
                args:
                  maxPodLifeTimeSeconds: 3600
                  states:
                    - Pending
            plugins:
              filter:
                enabled:
                  - DefaultEvictor
              preevictionfilter:
                enabled:
                  - DefaultEvictor
              deschedule:
                enabled:
                  - PodLifeTime
        """
    )


def test_what_is_deprecated_can_be_kept() -> None:
    text = converted(TWO, keep_deprecated=True)

    assert (
        text.count("args:\n          evictLocalStoragePods: true\n          ignorePvcPods: tr") == 2
    )
    assert "podProtections" not in text


SAME = f"""\
{OLD}evictLocalStoragePods: true
strategies:
  RemoveDuplicates: {{enabled: true, params: {{nodeFit: true}}}}
  RemoveFailedPods: {{enabled: true, params: {{nodeFit: true}}}}
  RemovePodsViolatingInterPodAntiAffinity: {{enabled: true, params: {{nodeFit: true}}}}
"""


def test_strategies_that_protect_the_same_pods_are_merged_in_their_order() -> None:
    assert converted(SAME, merge=True) == dedent(
        """\
        apiVersion: descheduler/v1alpha2
        kind: DeschedulerPolicy
        profiles:
          - name: default
            pluginConfig:
              - name: DefaultEvictor
                args:
                  podProtections:
                    defaultDisabled:
                      - PodsWithLocalStorage
                  nodeFit: true
              - name: RemoveDuplicates
              - name: RemoveFailedPods
              - name: RemovePodsViolatingInterPodAntiAffinity
            plugins:
              filter:
                enabled:
                  - DefaultEvictor
              preevictionfilter:
                enabled:
                  - DefaultEvictor
              deschedule:
                enabled:
                  - RemoveFailedPods
                  - RemovePodsViolatingInterPodAntiAffinity
              balance:
                enabled:
                  - RemoveDuplicates
        """
    )
    assert told(SAME, merge=True) == []


def test_a_strategy_that_protects_other_pods_is_not_merged_and_is_reported() -> None:
    text = SAME.replace("RemoveFailedPods: {enabled: true, params: {nodeFit: true}}", "").replace(
        "strategies:\n", "strategies:\n  PodLifeTime: {enabled: true, params: {podLifeTime: "
        "{maxPodLifeTimeSeconds: 604800}}}\n"
    )  # fmt: skip

    names = [line.strip() for line in converted(text, merge=True).splitlines() if "- name" in line]

    assert names == [
        "- name: strategy-PodLifeTime-profile",
        "- name: DefaultEvictor",
        "- name: PodLifeTime",
        "- name: default",
        "- name: DefaultEvictor",
        "- name: RemoveDuplicates",
        "- name: RemovePodsViolatingInterPodAntiAffinity",
    ]
    assert [notice.split("; ")[0] for notice in told(text, merge=True)] == [
        "p.yaml:6:3: strategies.RemoveDuplicates: is not merged with PodLifeTime",
        (
            "p.yaml:8:3: strategies.RemovePodsViolatingInterPodAntiAffinity: is not merged with "
            "PodLifeTime"
        ),
    ]


def test_two_groups_of_strategies_have_two_names() -> None:
    text = f"""\
{OLD}strategies:
  RemoveDuplicates: {{enabled: true, params: {{nodeFit: true}}}}
  RemoveFailedPods: {{enabled: true}}
  RemovePodsViolatingNodeTaints: {{enabled: true, params: {{nodeFit: true}}}}
  RemovePodsViolatingInterPodAntiAffinity: {{enabled: true}}
"""
    lines = converted(text, merge=True).splitlines()

    assert [line.strip() for line in lines if line.startswith("  - name")] == [
        "- name: default",
        "- name: default-2",
    ]


def test_lists_are_indented_as_in_the_old_text() -> None:
    text = f"""\
{OLD}strategies:
  RemovePodsViolatingNodeTaints:
    enabled: true
    params:
      excludedTaints:
      - a
"""
    assert "\nprofiles:\n- name: strategy-" in converted(text)
    assert "      excludedTaints:\n      - a\n" in converted(text)


def test_values_keep_their_quotes_and_brackets_where_they_are_short() -> None:
    names = ", ".join(f"namespace-{number}" for number in range(9))
    text = f"""\
{OLD}nodeSelector: 'a in (b,c)'
strategies:
  RemovePodsViolatingNodeTaints:
    enabled: yes
    params:
      nodeFit: on
      excludedTaints: [ "a,b",c, 'd' ]
      namespaces: {{exclude: [{names}]}}
      labelSelector: {{matchLabels: {{on: "y", "1": '2'}}}}
"""
    new = converted(text)

    assert "\nnodeSelector: 'a in (b,c)'\n" in new
    assert "\n          nodeFit: true\n" in new
    assert """\n          excludedTaints: ["a,b", c, 'd']\n""" in new
    assert "\n            exclude:\n              - namespace-0\n              - name" in new
    assert """\n          labelSelector: {matchLabels: {"on": "y", "1": '2'}}\n""" in new


def test_texts_of_several_lines_are_written_on_one() -> None:
    text = f"""\
{OLD}strategies:
  RemoveFailedPods:
    enabled: true
    params:
      failedPods:
        reasons:
        - |
          a
          # b
        - >-
          c
          d
        - e
          f
        - !!str 5
        - "\\x7f"
"""
    lines = [line.strip() for line in converted(text).splitlines()]
    assert lines[lines.index("reasons:") + 1 :][:5] == [
        '- "a\\n# b\\n"',
        '- "c d"',
        "- e f",
        '- "5"',
        '- "\\U0000007F"',
    ]


def test_aliases_and_merge_keys_are_written_out_and_reported(golden: Golden) -> None:
    text = f"""\
{OLD}strategies:
  RemovePodsViolatingNodeTaints: &taints
    enabled: true
    params: {{labelSelector: &web {{matchLabels: {{app: web}}}}, excludedTaints: [a]}}
  RemovePodsViolatingInterPodAntiAffinity:
    <<: *taints
    params: {{labelSelector: *web}}
"""
    new = converted(text)

    assert new.count("labelSelector: {matchLabels: {app: web}}") == 2
    assert "- RemovePodsViolatingInterPodAntiAffinity\n" in new
    assert not set("&*") & set(new)
    assert told(text) == [golden()]


def test_a_word_that_had_no_quotes_gets_them_inside_brackets() -> None:
    text = f"""\
{OLD}strategies:
  RemoveFailedPods:
    enabled: true
    params:
      failedPods:
        reasons:
        - &reason a, b
        excludeOwnerKinds: [*reason, c]
"""
    assert "\n      - a, b\n" in converted(text)
    assert '\n      excludeOwnerKinds: ["a, b", c]\n' in converted(text)


def test_json_becomes_yaml() -> None:
    text = (
        '{"apiVersion": "descheduler/v1alpha1", "kind": "DeschedulerPolicy",'
        ' "strategies": {"RemoveDuplicates": {"enabled": true}}}'
    )
    assert converted(text).startswith(
        f"{NEW}profiles:\n  - name: strategy-RemoveDuplicates-profile\n"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", f"---\n{SETTINGS}# end\n\n"),
        (f"# x\n---  # y\n{SETTINGS}---\n", ""),
        ("%YAML 1.1\n--- # z\n", "...\n"),
        ("---\n# nothing\n---\n", f"\n---\n{SETTINGS}"),
    ],
    ids=["after", "before", "directives", "an empty one"],
)
def test_what_is_beside_the_policy_stays_as_it_is(before: str, after: str) -> None:
    new = converted(f"{before}{TWO}{after}")

    assert new == f"{before}{converted(TWO)}{after}"


def test_a_policy_on_the_line_that_begins_its_document_moves_below() -> None:
    policy = "{apiVersion: descheduler/v1alpha1, kind: DeschedulerPolicy, strategies: {}}"

    assert converted(f"--- {policy}") == f"---\n{NEW}"


def test_line_breaks_and_a_byte_order_mark_stay_as_they_are() -> None:
    raw = b"\xef\xbb\xbf" + TWO.replace("\n", "\r\n").encode()

    new = convert(raw).text

    assert new == b"\xef\xbb\xbf" + converted(TWO).replace("\n", "\r\n").encode()
