"""What is told when a policy is converted, and why it may not be converted."""

from textwrap import dedent

import pytest

from reactive_desched.errors import ConversionError
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.convert import rewriting
from reactive_desched.policy.convert.rewriting import ConvertOptions, ConvertResult, convert_policy
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.yaml.diagnostics import PolicyErrors
from tests.support.golden import Golden
from tests.support.policy_lines import without_codes

OLD = "apiVersion: descheduler/v1alpha1\nkind: DeschedulerPolicy\n"
SETTINGS = "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"


def convert(text: str | bytes, **wishes: bool) -> ConvertResult:
    source = SourceText(dedent(text) if isinstance(text, str) else text, "p.yaml")
    return convert_policy(source, plugin_registry(), ConvertOptions(**wishes))


def converted(text: str, **wishes: bool) -> str:
    return convert(text, **wishes).text.decode()


def told(text: str, **wishes: bool) -> list[str]:
    return [line for each in convert(text, **wishes).notices for line in without_codes(each)]


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


def test_what_is_dropped_is_reported_with_its_line(golden: Golden) -> None:
    text = f"""\
{OLD}strategies:
  PodLifeTime:
    enabled: true
    weight: 3
    params:
      nodeFit: true
      podLifeTime: {{maxPodLifeTimeSeconds: 604800}}
  RemoveDuplicates: {{enabled: false}}
  RemoveFailedPods:
"""
    assert told(text) == [
        golden("weight"),
        golden("nodeFit"),
        golden("left out"),
        golden("not enabled"),
    ]


def test_what_no_release_has_read_is_reported() -> None:
    text = f"""\
{OLD}maxNoOfPodsToEvictTotal: 5
strategies:
  RemovePodsViolatingNodeTaints: {{enabled: true, params: {{includedTaints: [a]}}}}
"""
    paths = [notice.path for notice in convert(text).notices]

    assert paths == [
        "maxNoOfPodsToEvictTotal",
        "strategies.RemovePodsViolatingNodeTaints.params.includedTaints",
    ]
    assert "maxNoOfPodsToEvictTotal: 5\n" in converted(text)
    assert "includedTaints: [a]\n" in converted(text)


def test_what_is_of_a_strategy_that_is_off_does_not_take_effect() -> None:
    text = f"""\
{OLD}strategies:
  RemovePodsViolatingNodeTaints: {{enabled: false, params: {{includedTaints: [a]}}}}
"""
    assert "takes effect" not in "".join(told(text))


def test_all_errors_are_reported_at_once_and_nothing_is_converted() -> None:
    with pytest.raises(PolicyErrors) as caught:
        convert(
            f"{OLD}bogus: 1\nstrategies: {{PodLifetime: {{enabled: true}}}}\n---\n{SETTINGS}x: 1"
        )

    assert [problem.line for problem in caught.value.diagnostics] == [3, 4, 8]


def test_a_lenient_conversion_leaves_out_what_is_not_read_and_keeps_what_is_said_of_it(
    golden: Golden,
) -> None:
    text = f"{OLD}bogus: 1 # why\nstrategies: {{RemoveDuplicates: {{enabled: true, args: {{}}}}}}\n"

    new = converted(text, lenient=True)

    assert "bogus: 1" not in new
    assert new.startswith(golden())
    assert [notice.split(": ")[1] for notice in told(text, lenient=True)] == [
        "bogus",
        "strategies.RemoveDuplicates.args",
    ]
    assert not convert(new).is_changed


def test_a_document_without_api_version_is_refused_even_by_a_lenient_conversion() -> None:
    with pytest.raises(PolicyErrors, match=r"apiVersion: is required.*which format"):
        convert("kind: DeschedulerPolicy\nprofiles: []\n", lenient=True)


def test_helm_values_are_recognised() -> None:
    with pytest.raises(PolicyErrors, match="this looks like Helm values"):
        convert("deschedulerPolicyAPIVersion: x\ndeschedulerPolicy:\n  strategies: {}\n")


def test_a_text_that_would_say_something_else_is_not_written(
    monkeypatch: pytest.MonkeyPatch,
    golden: Golden,
) -> None:
    monkeypatch.setattr(rewriting, "replace_deprecated", lambda draft: type(draft)(draft.parts[:2]))

    with pytest.raises(ConversionError) as caught:
        convert(TWO)

    assert golden() in str(caught.value)


def test_a_text_that_would_change_the_settings_is_not_written(
    monkeypatch: pytest.MonkeyPatch,
    golden: Golden,
) -> None:
    changed = f"{TWO}---\n{SETTINGS}debounce: {{quiet: 7s}}\n"
    monkeypatch.setattr(rewriting, "_splice", lambda *_: changed)

    with pytest.raises(ConversionError) as caught:
        convert(TWO)

    assert golden() in str(caught.value)


def test_a_text_that_could_not_be_read_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "replace_deprecated", lambda draft: type(draft)(draft.parts[1:]))

    with pytest.raises(ConversionError, match=r"cannot be read: .*apiVersion: is required"):
        convert(TWO)
