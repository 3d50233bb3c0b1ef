"""What has no effect is accepted, as upstream does, and told."""

from collections.abc import Callable

import pytest
from pydantic import BaseModel

from reactive_desched.policy.policy import Configuration

TAINTS = "RemovePodsViolatingNodeTaints"
AFFINITY = "RemovePodsViolatingNodeAffinity"
IN_TAINTS = f"(in profile p, {TAINTS})"
Warnings = Callable[[str], list[str]]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(
            "",
            ["p.yaml:1:1: profiles: there are no profiles; nothing will be evicted"],
            id="no profiles",
        ),
        pytest.param(
            "profiles: [{name: p}]",
            [
                (
                    "p.yaml:3:12: profiles[0]: this profile enables no plugin that evicts; add "
                    "plugins to plugins.deschedule.enabled or plugins.balance.enabled "
                    "(in profile p)"
                )
            ],
            id="nothing enabled",
        ),
        pytest.param(
            f"profiles: [{{name: p, plugins: {{deschedule: {{enabled: [{TAINTS}]}}}}, "
            f"pluginConfig: [{{name: {AFFINITY}, args: {{nodeAffinityType: [x]}}}}]}}]",
            [
                (
                    "p.yaml:3:105: profiles[0].pluginConfig[0].name: "
                    f"{AFFINITY} is configured but not enabled: it will not run; "
                    f"add it to plugins.deschedule.enabled (in profile p, {AFFINITY})"
                )
            ],
            id="configured but not enabled",
        ),
        pytest.param(
            f"profiles: [{{name: p, plugins: {{deschedule: {{enabled: [{TAINTS}, {TAINTS}]}}}}}}]",
            [
                (
                    "p.yaml:3:86: profiles[0].plugins.deschedule.enabled[1]: "
                    f'"{TAINTS}" is enabled twice; it counts once (in profile p)'
                )
            ],
            id="enabled twice",
        ),
        pytest.param(
            f"profiles: [{{name: p, plugins: {{deschedule: {{enabled: [{TAINTS}]}}}}, "
            f"pluginConfig: [{{name: {TAINTS}}}, {{name: {TAINTS}}}]}}]",
            [
                (
                    "p.yaml:3:144: profiles[0].pluginConfig[1].name: "
                    f'"{TAINTS}" is configured already; the first entry counts; remove this one '
                    f"{IN_TAINTS}"
                )
            ],
            id="configured twice",
        ),
        pytest.param(
            f"profiles: [{{name: p, plugins: {{deschedule: {{enabled: [{TAINTS}]}}, "
            "sort: {enabled: [X]}, filter: {disabled: [DefaultEvictor]}}}]",
            [
                (
                    "p.yaml:3:88: profiles[0].plugins.sort: is accepted and not read; remove it "
                    "(in profile p)"
                ),
                (
                    "p.yaml:3:119: profiles[0].plugins.filter.disabled: is accepted and not read; "
                    "a plugin that is not enabled is off; DefaultEvictor is always on "
                    "(in profile p)"
                ),
            ],
            id="parts that upstream does not read either",
        ),
        pytest.param(
            f"profiles: [{{plugins: {{deschedule: {{enabled: [{TAINTS}]}}}}}},"
            f" {{plugins: {{deschedule: {{enabled: [{TAINTS}]}}}}}}]",
            [
                (
                    'p.yaml:3:81: profiles[1]: a profile named "" is there already; '
                    "names identify profiles in logs and metrics"
                )
            ],
            id="two profiles of one name",
        ),
    ],
)
def test_what_has_no_effect_is_accepted_with_a_warning(
    text: str, told: list[str], warnings: Warnings, head: str
) -> None:
    assert warnings(head + text + "\n") == told


def test_a_sound_policy_gets_no_warning(
    read: Callable[[str], Configuration], with_args: Callable[[str, str], str]
) -> None:
    configuration = read(with_args(TAINTS, "most: 3.0\nlabelSelector: null\nweight: 1"))
    assert configuration.warnings == ()
    (profile,) = configuration.policy.profiles
    args: BaseModel = profile.args[TAINTS]
    assert args.model_dump(include={"most", "label_selector"}) == {
        "most": 3,
        "label_selector": None,
    }
