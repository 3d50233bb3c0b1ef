"""What the reader says of wrong profiles: misplaced fields, wrong plugin names."""

from collections.abc import Callable

import pytest

Ask = Callable[[str], list[str]]

TAINTS = "RemovePodsViolatingNodeTaints"
AFFINITY = "RemovePodsViolatingNodeAffinity"
IN_TAINTS = f"(in profile p, {TAINTS})"
ARGS = "profiles[0].pluginConfig[0].args"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(
            "profiles: [5]",
            "p.yaml:3:12: profiles[0]: must be a mapping of fields, not the number 5",
            id="a profile that is no mapping",
        ),
        pytest.param(
            "profiles: [{nam: x}]",
            "p.yaml:3:13: profiles[0].nam: unknown field; did you mean name?",
            id="a mistyped field of a profile",
        ),
        pytest.param(
            "profiles: [{name: p, nodeFit: true}]",
            "p.yaml:3:22: profiles[0].nodeFit: is not read here; "
            "move it to the args of DefaultEvictor (in profile p)",
            id="an option of the evictor in a profile",
        ),
        pytest.param(
            "profiles: [{name: p, nodeSelector: a}]",
            "p.yaml:3:22: profiles[0].nodeSelector: is not read here; "
            "move it to the top level of the policy, beside profiles (in profile p)",
            id="a field of the policy in a profile",
        ),
        pytest.param(
            "profiles: [{name: p, balance: {}}]",
            "p.yaml:3:22: profiles[0].balance: is not read here; move it under plugins "
            "(in profile p)",
            id="an extension point in a profile",
        ),
        pytest.param(
            "profiles: [{name: p, args: {}}]",
            "p.yaml:3:22: profiles[0].args: is not read here; "
            "arguments belong in an entry of pluginConfig, beside the plugin's name (in profile p)",
            id="arguments in a profile",
        ),
        pytest.param(
            "profiles: [{name: p, removeDuplicates: {}}]",
            "p.yaml:3:22: profiles[0].removeDuplicates: is not read here; "
            "write it as an entry of pluginConfig: - name: RemoveDuplicates (in profile p)",
            id="a plugin in a profile",
        ),
        pytest.param(
            "profiles: [{name: p, includedTaints: []}]",
            "p.yaml:3:22: profiles[0].includedTaints: is not read here; "
            f"it is an argument of {TAINTS}: move it to args there (in profile p)",
            id="an argument in a profile",
        ),
        pytest.param(
            "profiles: [{name: p, plugins: {preEvictionFilter: {}}}]",
            "p.yaml:3:32: profiles[0].plugins.preEvictionFilter: is not read here; "
            "extension points are written in lower case: preevictionfilter (in profile p)",
            id="the spelling in upstream's documentation",
        ),
        pytest.param(
            "profiles: [{name: p, plugins: {evictor: {}}}]",
            "p.yaml:3:32: profiles[0].plugins.evictor: is not read here; there is no such "
            "extension point; DefaultEvictor is always on at filter (in profile p)",
            id="an extension point that does not exist",
        ),
        pytest.param(
            "profiles: [{name: p, plugins: {evict: {}}}]",
            "p.yaml:3:32: profiles[0].plugins.evict: is not read here; there is no such "
            "extension point; DefaultEvictor is always on at filter (in profile p)",
            id="koordinator's extension point",
        ),
        pytest.param(
            "profiles: [{name: p, plugins: {LowNodeUtilization: {}}}]",
            "p.yaml:3:32: profiles[0].plugins.LowNodeUtilization: is not read here; "
            "write LowNodeUtilization in the list plugins.balance.enabled (in profile p)",
            id="a plugin for an extension point",
        ),
        pytest.param(
            f"profiles: [{{name: p, plugins: {{deschedule: {{enabled: [{{name: {TAINTS}}}]}}}}}}]",
            "p.yaml:3:55: profiles[0].plugins.deschedule.enabled[0]: must be text, not a mapping; "
            "write the plugin's name alone (in profile p)",
            id="a plugin enabled as an object",
        ),
        pytest.param(
            "profiles: [{name: p, plugins: {deschedule: {enabled: true}}}]",
            "p.yaml:3:45: profiles[0].plugins.deschedule.enabled: must be a list, "
            "not the true-or-false value true; write a list: [true] (in profile p)",
            id="a point switched on",
        ),
        pytest.param(
            "profiles: [{name: p, plugins: {deschedule: {enabled: [PodLifetime]}}}]",
            "p.yaml:3:55: profiles[0].plugins.deschedule.enabled[0]: "
            'there is no plugin "PodLifetime"; did you mean PodLifeTime? (in profile p)',
            id="a mistyped plugin",
        ),
        pytest.param(
            "profiles: [{name: p, plugins: {deschedule: {enabled: [Xyz]}}}]",
            "p.yaml:3:55: profiles[0].plugins.deschedule.enabled[0]: "
            'there is no plugin "Xyz"; remove it, or install the package that offers it '
            "(in profile p)",
            id="an unknown plugin",
        ),
        pytest.param(
            "profiles: [{name: p, plugins: {deschedule: {enabled: [RemoveDuplicates]}}}]",
            "p.yaml:3:55: profiles[0].plugins.deschedule.enabled[0]: "
            "RemoveDuplicates cannot be enabled at deschedule; "
            "it belongs under plugins.balance, not plugins.deschedule (in profile p)",
            id="a plugin at the wrong point",
        ),
        pytest.param(
            "profiles: [{name: p, plugins: {balance: {enabled: [DefaultEvictor]}}}]",
            "p.yaml:3:52: profiles[0].plugins.balance.enabled[0]: "
            "DefaultEvictor cannot be enabled at balance; it belongs under plugins.filter and "
            "plugins.preevictionfilter, not plugins.balance (in profile p)",
            id="the evictor at the wrong point",
        ),
        pytest.param(
            f"profiles: [{{name: p, plugins: {{filter: {{enabled: [{TAINTS}]}}}}}}]",
            "p.yaml:3:51: profiles[0].plugins.filter.enabled[0]: "
            f"{TAINTS} cannot be enabled at filter; "
            "it belongs under plugins.deschedule, not plugins.filter (in profile p)",
            id="a plugin that does not filter",
        ),
        pytest.param(
            f"profiles: [{{name: p, plugins: {{deschedule: {{enabled: [{AFFINITY}]}}}}}}]",
            "p.yaml:3:55: profiles[0].plugins.deschedule.enabled[0]: "
            f"{AFFINITY} is enabled but has no arguments; "
            "configure it in pluginConfig; required: nodeAffinityType (in profile p)",
            id="required arguments left out altogether",
        ),
        pytest.param(
            f"profiles: [{{name: p, pluginConfig: [{{name: {AFFINITY}}}]}}]",
            f"p.yaml:3:37: {ARGS}.nodeAffinityType: is required (in profile p, {AFFINITY})",
            id="args left out",
        ),
        pytest.param(
            f"profiles: [{{name: p, pluginConfig: [{{name: {AFFINITY}, args: {{}}}}]}}]",
            f"p.yaml:3:77: {ARGS}.nodeAffinityType: is required (in profile p, {AFFINITY})",
            id="a required argument left out",
        ),
        pytest.param(
            f"profiles: [{{name: p, pluginConfig: "
            f"[{{name: {AFFINITY}, args: {{nodeAffinityType: []}}}}]}}]",
            f"p.yaml:3:84: {ARGS}.nodeAffinityType: must not be empty (in profile p, {AFFINITY})",
            id="a required argument left empty",
        ),
        pytest.param(
            "profiles: [{name: p, pluginConfig: [{name: PodLifetime}]}]",
            "p.yaml:3:38: profiles[0].pluginConfig[0].name: "
            'there is no plugin "PodLifetime"; did you mean PodLifeTime? '
            "(in profile p, PodLifetime)",
            id="arguments of a mistyped plugin",
        ),
        pytest.param(
            "profiles: [{name: p, pluginConfig: [{args: {}}]}]",
            "p.yaml:3:37: profiles[0].pluginConfig[0].name: is required (in profile p)",
            id="arguments of nobody",
        ),
        pytest.param(
            f"profiles: [{{name: p, pluginConfig: [{{name: {TAINTS}, args: [a]}}]}}]",
            f"p.yaml:3:75: {ARGS}: must be a mapping, not a list {IN_TAINTS}",
            id="arguments as a list",
        ),
        pytest.param(
            f"profiles: [{{name: p, pluginConfig: [{{name: {TAINTS}, includedTaints: []}}]}}]",
            "p.yaml:3:75: profiles[0].pluginConfig[0].includedTaints: is not read here; "
            f"move it under args {IN_TAINTS}",
            id="an argument beside args",
        ),
        pytest.param(
            f"profiles: [{{name: p, pluginConfig: [{{name: {TAINTS}, params: {{}}}}]}}]",
            "p.yaml:3:75: profiles[0].pluginConfig[0].params: is not read here; "
            f"v1alpha1; write args {IN_TAINTS}",
            id="v1alpha1 params",
        ),
        pytest.param(
            f"profiles: [{{name: p, pluginConfig: [{{name: {TAINTS}, plugins: {{}}}}]}}]",
            "p.yaml:3:75: profiles[0].pluginConfig[0].plugins: is not read here; "
            f"move it one level up, to the profile {IN_TAINTS}",
            id="plugins inside an entry",
        ),
        pytest.param(
            f"profiles: [{{name: p, pluginConfig: [{{name: {TAINTS}, enabled: true}}]}}]",
            "p.yaml:3:75: profiles[0].pluginConfig[0].enabled: is not read here; "
            f"enable plugins under plugins of the profile {IN_TAINTS}",
            id="enabled inside an entry",
        ),
        pytest.param(
            "profiles:\n- name: p\n  name: q",
            "p.yaml:5:3: profiles[0].name: is written twice; the first is on line 4; keep one: "
            "upstream reads the last (in profile p)",
            id="a key written twice",
        ),
    ],
)
def test_a_wrong_profile_is_told_with_its_place_and_the_remedy(
    text: str, told: str, problems: Ask, head: str
) -> None:
    assert problems(head + text + "\n") == [told]


def test_a_plugin_that_does_not_exist_is_told_once_where_it_is_enabled(
    problems: Ask, head: str
) -> None:
    lines = problems(
        f"{head}profiles: [{{pluginConfig: [{{name: PodLifetime, args: {{a: 1}}}}], "
        "plugins: {deschedule: {enabled: [PodLifetime]}}}]"
    )
    assert [line.split(": ")[1] for line in lines] == ["profiles[0].plugins.deschedule.enabled[0]"]
