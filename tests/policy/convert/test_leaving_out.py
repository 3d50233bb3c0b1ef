"""What is wrong in a policy becomes a comment, and nothing runs that the old text kept from it."""

from textwrap import indent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.convert.rewriting import ConvertOptions, ConvertResult, convert_policy
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import check_source
from reactive_desched.policy.policy import Profile
from reactive_desched.policy.yaml.diagnostics import PolicyErrors

PLUGINS = plugin_registry()
POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: one
  pluginConfig:
  - name: DefaultEvictor
    args:
      nodeFit: true
      minReplicas: 2
  - name: PodLifeTime
    args:
      maxPodLifeTimeSeconds: 3600
      states:
      - Pending
  - name: RemoveFailedPods
    args:
      minPodLifetimeSeconds: 60
  plugins:
    deschedule:
      enabled:
      - PodLifeTime
      - RemoveFailedPods
- name: two
  pluginConfig:
  - name: RemovePodsHavingTooManyRestarts
    args:
      podRestartThreshold: 5
  plugins:
    deschedule:
      enabled:
      - RemovePodsHavingTooManyRestarts
"""
KOORDINATOR = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerConfiguration
deschedulingInterval: 60s
profiles:
- name: koord
  plugins:
    evict:
      enabled:
      - name: MigrationController
    balance:
      enabled:
      - name: LowNodeLoad
      - name: RemoveDuplicates
  pluginConfig:
  - name: MigrationController
    args:
      evictQPS: "10"
      namespaces:
        exclude: [kube-system]
  - name: LowNodeLoad
    args:
      lowThresholds: {cpu: 20}
      highThresholds: {cpu: 60}
"""
ENCLOSED = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: policy}
data:
  policy.yaml: |
"""
"""The head of a ConfigMap, in which a policy is a text."""

LEGACY = """\
apiVersion: descheduler/v1alpha1
kind: DeschedulerPolicy
strategies:
  PodLifeTime:
    enabled: true
    params:
      podLifeTime: {maxPodLifeTimeSeconds: 3600}
  RemoveDuplicates:
    enabled: true
"""


def convert(text: str) -> ConvertResult:
    return convert_policy(SourceText(text, "p.yaml"), PLUGINS, ConvertOptions())


def profiles(new: ConvertResult) -> dict[str, Profile]:
    """Return the profiles of a new text, which `policy check` takes."""
    found = check_source(SourceText(new.text, "new.yaml"), PLUGINS)
    assert found.errors == ()
    assert found.policy is not None
    return {each.name: each for each in found.policy.profiles}


def running(new: ConvertResult) -> set[str]:
    return {name for each in profiles(new).values() for name in (*each.deschedule, *each.balance)}


def comment_lines(new: ConvertResult) -> list[str]:
    """Return the comments as one line each word of which is single-spaced."""
    return [line.strip() for line in new.text.decode().splitlines() if "#" in line]


def comments(new: ConvertResult) -> str:
    return " ".join(line.lstrip("# ") for line in comment_lines(new))


def test_with_an_argument_that_is_refused_its_plugin_is_not_enabled() -> None:
    new = convert(POLICY.replace("      states:\n", "      sttaes:\n"))

    assert [(each.path, each.line) for each in new.left_out] == [
        ("profiles[0].pluginConfig[1].args.sttaes", 13)
    ]
    assert running(new) == {"RemoveFailedPods", "RemovePodsHavingTooManyRestarts"}
    assert {"# sttaes:", "#   - Pending", "# - PodLifeTime"} <= {*comment_lines(new)} | {
        line.replace("# - Pending", "#   - Pending") for line in comment_lines(new)
    }
    assert "line 13: profiles[0].pluginConfig[1].args.sttaes" in comments(new)
    assert new.left_out[0].hint in comments(new)


def test_with_an_argument_of_the_evictor_no_plugin_of_its_profile_is_enabled() -> None:
    new = convert(POLICY.replace("minReplicas: 2", "minReplicas: two"))

    assert running(new) == {"RemovePodsHavingTooManyRestarts"}
    assert profiles(new)["one"].evictor.node_fit


def test_what_upstream_does_not_read_is_left_out_alone() -> None:
    new = convert(POLICY.replace("profiles:\n", "ignorePvcPods: true\nprofiles:\n"))

    assert [each.path for each in new.left_out] == ["ignorePvcPods"]
    assert running(new) == running(convert(POLICY))
    assert "# ignorePvcPods: true" in comment_lines(new)


def test_what_is_not_read_in_a_policy_that_never_ran_keeps_all_plugins_from_running() -> None:
    new = convert(
        POLICY.replace("profiles:\n", "ignorePvcPods: true\nprofiles:\n").replace(
            "podRestartThreshold: 5", "podRestartThreshold: five"
        )
    )

    assert running(new) == set()


def test_a_plugin_at_a_wrong_place_is_not_enabled_and_the_others_are() -> None:
    new = convert(POLICY.replace("      - PodLifeTime\n", "      - RemoveDuplicates\n"))

    assert running(new) == {"RemoveFailedPods", "RemovePodsHavingTooManyRestarts"}


def test_a_filter_that_is_not_here_keeps_every_plugin_of_its_profile_from_running() -> None:
    keeps = "    filter:\n      enabled:\n      - KeepsPods\n    deschedule:\n"
    new = convert(POLICY.replace("    deschedule:\n", keeps, 1))

    assert running(new) == {"RemovePodsHavingTooManyRestarts"}


def test_an_argument_in_braces_goes_with_all_of_them() -> None:
    braces = "    args: {podRestartThreshold: 5, podRestartTreshold: 6}\n"
    new = convert(POLICY.replace("    args:\n      podRestartThreshold: 5\n", braces))

    assert running(new) == {"PodLifeTime", "RemoveFailedPods"}
    assert f"# {braces.strip()}" in comment_lines(new)


def test_what_is_missing_because_it_is_a_comment_is_no_error_of_its_own() -> None:
    new = convert(POLICY.replace("podRestartThreshold: 5", "podRestartThreshold: five"))

    assert [each.path for each in new.left_out] == [
        "profiles[1].pluginConfig[0].args.podRestartThreshold"
    ]


def test_a_strategy_with_a_mistake_is_a_comment_as_a_whole() -> None:
    new = convert(LEGACY.replace("3600", "soon"))

    assert running(new) == {"RemoveDuplicates"}
    assert "# podLifeTime: {maxPodLifeTimeSeconds: soon}" in [
        line.replace("#     ", "# ") for line in comment_lines(new)
    ]


@pytest.mark.parametrize(
    "text",
    [
        LEGACY.replace("strategies:\n", "maxNoOfPodsToEvictPerNode: few\nstrategies:\n"),
        POLICY.replace("- name: one\n", "- name: [one\n"),
        POLICY + "---\napiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\nmoevs: 1\n",
        POLICY.replace("apiVersion: descheduler/v1alpha2", "apiVersion: descheduler/v1alpha9"),
        ENCLOSED + indent(POLICY, "    "),
        ENCLOSED + indent(KOORDINATOR, "    "),
    ],
    ids=[
        "a limit of all profiles",
        "no YAML",
        "settings",
        "an unknown version",
        "a ConfigMap",
        "a ConfigMap of koordinator's",
    ],
)
def test_where_what_is_sound_does_not_stand_alone_nothing_is_converted(text: str) -> None:
    with pytest.raises(PolicyErrors):
        convert(text)


def test_a_file_of_koordinators_is_converted_without_the_plugin_that_is_wrong() -> None:
    wrong = "      evictableNamespaces:\n        include the following: [a]\n"
    new = convert(KOORDINATOR + wrong)

    assert running(new) == {"RemoveDuplicates"}
    assert b"evictQPS: 10.0" in new.text
    assert "# include the following: [a]" in comment_lines(new)
    assert "line 25: profiles[0].pluginConfig[1].args.evictableNamespaces" in comments(new)


def test_an_argument_of_the_migration_controller_keeps_all_its_plugins_from_running() -> None:
    new = convert(KOORDINATOR.replace("exclude: [kube-system]", "exlude: [kube-system]"))

    assert running(new) == set()


def test_what_acts_otherwise_than_in_koordinator_is_a_comment() -> None:
    new = convert(KOORDINATOR)

    assert new.left_out == ()
    for each in new.notices:
        assert f"line {each.line}: " in comments(new)
        assert each.hint in comments(new)


@given(line=st.integers(3, POLICY.count("\n") - 1), how=st.sampled_from(["zz", "z: 1", ": ["]))
def test_a_mistake_anywhere_lets_no_plugin_do_more_than_before(line: int, how: str) -> None:
    lines = POLICY.splitlines()
    lines[line] = lines[line] + how if how != "zz" else lines[line].replace("e", "zz", 1)
    before = profiles(convert(POLICY))
    try:
        new = convert("\n".join(lines) + "\n")
    except PolicyErrors:
        return
    if not new.left_out:
        return
    for each in profiles(new).values():
        for name in (*each.deschedule, *each.balance):
            was = next(was for was in before.values() if name in (*was.deschedule, *was.balance))
            assert (name, each.args[name]) == (name, was.args[name])
            assert each.evictor == was.evictor
