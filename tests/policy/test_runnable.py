"""A policy may be sound and yet not run: a plugin it enables is still to be built."""

from collections.abc import Callable

import pytest

from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.runnable import require_runnable
from reactive_desched.policy.yaml.diagnostics import PolicyErrors
from tests.support.golden import Golden
from tests.support.policy_lines import without_codes

Read = Callable[[str], Configuration]

RUN = "this version cannot run"
SAYS = "; remove it from the policy, or upgrade to a version that has it"
POLICY = """\
profiles:
- name: day
  pluginConfig:
  - name: LowNodeUtilization
  plugins:
    deschedule: {enabled: [RemovePodsViolatingNodeTaints, PodLifeTime]}
- name: night
  plugins:
    balance:
      enabled:
      - RemoveDuplicates
    deschedule: {enabled: [PodLifeTime]}
"""


def test_a_policy_that_enables_plugins_to_come_is_read_and_each_is_reported_where_it_is_enabled(
    read: Read, head: str
) -> None:
    told = [line for each in read(head + POLICY).unimplemented for line in without_codes(each)]

    assert [line.split(SAYS)[0] for line in told] == [
        f"p.yaml:8:59: profiles[0].plugins.deschedule.enabled[1]: {RUN} PodLifeTime yet",
        f"p.yaml:14:28: profiles[1].plugins.deschedule.enabled[0]: {RUN} PodLifeTime yet",
        f"p.yaml:13:9: profiles[1].plugins.balance.enabled[0]: {RUN} RemoveDuplicates yet",
    ]


def test_such_a_policy_cannot_be_run(read: Read, head: str) -> None:
    configuration = read(head + POLICY)

    with pytest.raises(PolicyErrors) as caught:
        require_runnable(configuration)

    assert [problem.line for problem in caught.value.diagnostics] == [8, 13, 14]


def test_a_plugin_that_is_only_configured_stops_nothing(read: Read, head: str) -> None:
    configuration = read(
        f"{head}profiles: [{{name: p, pluginConfig: [{{name: RemoveDuplicates}}], "
        "plugins: {deschedule: {enabled: [RemovePodsViolatingNodeTaints]}}}]"
    )

    assert configuration.unimplemented == ()
    require_runnable(configuration)


def test_the_arguments_of_a_plugin_to_come_are_checked(
    problems: Callable[[str], list[str]], head: str, golden: Golden
) -> None:
    assert problems(
        f"{head}profiles: [{{name: p, pluginConfig: [{{name: PodLifeTime, args: {{maxAge: -1}}}}],"
        " plugins: {deschedule: {enabled: [PodLifeTime]}}}]"
    ) == [golden()]


def test_strategies_of_the_legacy_format_are_reported_only_where_they_are_enabled(
    read: Read,
) -> None:
    (problem,) = read(
        """\
        apiVersion: descheduler/v1alpha1
        kind: DeschedulerPolicy
        strategies:
          RemoveDuplicates: {enabled: true}
          LowNodeUtilization: {enabled: false}
          HighNodeUtilization:
          RemovePodsViolatingNodeTaints: {enabled: true}
        """
    ).unimplemented

    assert (problem.line, problem.path) == (4, "strategies.RemoveDuplicates")
    assert problem.message == "this version cannot run RemoveDuplicates yet"
