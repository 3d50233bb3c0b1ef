"""Files, several at once, and what to do about those that cannot be read."""

import os
from collections.abc import Mapping
from pathlib import Path
from threading import Thread

import pytest

from reactive_desched.api.rules import Rule
from reactive_desched.errors import ConfigError
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import check_source, load_files, load_sources
from reactive_desched.policy.registry import PluginSpec
from reactive_desched.policy.yaml.diagnostics import Diagnostic, PolicyErrors
from tests.support.golden import Golden
from tests.support.policy_lines import without_codes
from tests.support.policy_texts import load_policy

Registry = Mapping[str, PluginSpec]

SETTINGS = "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"


def test_a_policy_and_settings_come_from_one_file_or_two(
    tmp_path: Path, registry: Registry, head: str
) -> None:
    policy, settings, both = tmp_path / "p.yaml", tmp_path / "s.yaml", tmp_path / "both.yaml"
    policy.write_text(head)
    settings.write_text(f"{SETTINGS}server: {{listen: ':1'}}\n")
    both.write_text(policy.read_text() + "---\n" + settings.read_text())

    apart, together = load_files([settings, policy], registry), load_files([both], registry)

    assert apart.settings == together.settings
    assert apart.settings.server.listen.endswith(":1")
    assert apart.policy.source == str(policy)
    assert apart.policy.revision == load_files([policy], registry).policy.revision


def test_a_file_that_cannot_be_read_is_named_with_the_remedy(
    tmp_path: Path, registry: Registry, golden: Golden
) -> None:
    gone = tmp_path / "gone.yaml"
    with pytest.raises(ConfigError) as caught:
        load_files([gone, tmp_path], registry)
    assert without_codes(caught.value) == [
        golden("no file", gone=gone),
        golden("a folder", tmp_path=tmp_path),
    ]


def test_a_path_that_is_none_is_named_too(registry: Registry, golden: Golden) -> None:
    with pytest.raises(ConfigError) as caught:
        load_files(["a\0b"], registry)

    assert golden() in str(caught.value)


def test_problems_of_all_files_are_reported_at_once(
    tmp_path: Path, registry: Registry, head: str
) -> None:
    policy, settings = tmp_path / "p.yaml", tmp_path / "s.yaml"
    policy.write_text(f"{head}bogus: 1\n")
    settings.write_text("a: [")
    with pytest.raises(PolicyErrors) as caught:
        load_files([policy, settings, tmp_path / "gone"], registry)
    assert {problem.source for problem in caught.value.diagnostics} == {
        str(policy),
        str(settings),
        str(tmp_path / "gone"),
    }


def test_a_file_is_read_no_further_than_its_limit(registry: Registry) -> None:
    with pytest.raises(ConfigError, match=r"/dev/zero: the text is larger than 1 MiB"):
        load_files(["/dev/zero"], registry)


def test_two_policies_or_two_settings_are_one_too_many(
    registry: Registry, head: str, golden: Golden
) -> None:
    policy, settings = (
        SourceText(head, "p.yaml"),
        SourceText(f"\n{SETTINGS}---\n{SETTINGS}", "s.yaml"),
    )
    with pytest.raises(PolicyErrors) as caught:
        load_sources([policy, settings, SourceText(head, "q.yaml")], registry)
    assert without_codes(caught.value) == [
        golden("settings"),
        golden("policies"),
    ]


def test_settings_alone_are_no_policy(registry: Registry) -> None:
    with pytest.raises(PolicyErrors) as caught:
        load_policy(SETTINGS, "s.yaml", registry)
    assert caught.value.diagnostics == (
        Diagnostic(
            "s.yaml",
            0,
            0,
            "",
            "there is no DeschedulerPolicy here",
            "begin one with apiVersion: descheduler/v1alpha2 and kind: DeschedulerPolicy",
            rule=Rule.NO_POLICY,
        ),
    )


def test_a_problem_keeps_its_parts_for_programs(registry: Registry, head: str) -> None:
    with pytest.raises(PolicyErrors) as caught:
        load_policy(f"{head}profiles: [{{name: p, bogus: 1}}]", "p.yaml", registry)
    assert caught.value.diagnostics == (
        Diagnostic(
            source="p.yaml",
            line=3,
            column=22,
            path="profiles[0].bogus",
            message="unknown field",
            hint="known here: name, nodeSelector, pluginConfig, plugins",
            context="profile p",
            forgivable=True,
            rule=Rule.UNKNOWN_FIELD,
        ),
    )


def test_warnings_are_reported_beside_what_is_wrong(registry: Registry, head: str) -> None:
    with pytest.raises(PolicyErrors) as caught:
        load_policy(f"{head}profiles: [{{name: p}}]\nbogus: 1", "p.yaml", registry)
    assert [problem.path for problem in caught.value.diagnostics] == ["bogus"]
    assert [warning.path for warning in caught.value.warnings] == ["profiles[0]"]


def test_a_pipe_is_read_and_one_to_which_nothing_writes_is_an_error(
    registry: Registry, head: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.setattr("reactive_desched.policy.source_files.PIPE_TIMEOUT_S", 0.05)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    (error,) = check_source(pipe, registry).errors
    assert without_codes(error)[-1].endswith(golden())

    monkeypatch.setattr("reactive_desched.policy.source_files.PIPE_TIMEOUT_S", 30.0)
    writer = Thread(target=pipe.write_text, args=(head,))
    writer.start()
    assert check_source(pipe, registry).errors == ()
    writer.join()


def test_json_is_read_as_yaml_is(registry: Registry) -> None:
    text = '{\n\t"apiVersion": "descheduler/v1alpha2",\n\t"kind": "DeschedulerPolicy"\n}'
    assert load_policy(text, "p.json", registry).profiles == ()


def test_the_plugins_built_in_read_their_arguments(head: str) -> None:
    registry = plugin_registry()
    taints, affinity = "RemovePodsViolatingNodeTaints", "RemovePodsViolatingNodeAffinity"
    text = f"""\
{head}profiles:
- plugins: {{deschedule: {{enabled: [{taints}, {affinity}]}}}}
  pluginConfig:
  - name: {taints}
    args:
      namespaces: {{include: [a]}}
      labelSelector: {{matchLabels: {{app: web}}, matchExpressions: null}}
      excludedTaints: [pool=batch]
  - name: {affinity}
    args: {{nodeAffinityType: [requiredDuringSchedulingIgnoredDuringExecution]}}
"""
    (profile,) = load_policy(text, "p.yaml", registry).profiles
    assert profile.args[taints].model_dump(by_alias=True)["namespaces"]["include"] == ("a",)
    with pytest.raises(PolicyErrors, match=r"namespaces\.Include: unknown field; did you mean inc"):
        load_policy(text.replace("include:", "Include:"), "p.yaml", registry)
    with pytest.raises(PolicyErrors, match=r"labelSelector\.matchLabel: unknown field"):
        load_policy(text.replace("matchLabels:", "matchLabel:"), "p.yaml", registry)
