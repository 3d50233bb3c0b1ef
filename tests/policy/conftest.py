"""A registry of small plugins, and short ways to ask what the reader says of a text."""

from collections.abc import Callable, Mapping
from textwrap import dedent, indent

import pytest
from pydantic import Field

from reactive_desched.api.args import Count, PluginArgs, Seconds, SelectorObject
from reactive_desched.policy.diagnostics import PolicyErrors
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import load_sources
from reactive_desched.policy.policy import Configuration
from reactive_desched.policy.registry import PluginSpec

HEAD = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n"


class Window(PluginArgs):
    longest: Seconds = 0.0


class TaintsArgs(PluginArgs):
    include_prefer_no_schedule: bool = False
    excluded_taints: tuple[str, ...] | None = None
    included_taints: tuple[str, ...] | None = None
    label_selector: SelectorObject | None = None
    weight: float = 1.0
    most: Count = 5
    window: Window = Window()


class AffinityArgs(PluginArgs):
    node_affinity_type: tuple[str, ...] = Field(min_length=1)


class AgeArgs(PluginArgs):
    max_age: Count = 5


COMING = {
    "PodLifeTime": frozenset({"deschedule"}),
    "RemoveFailedPods": frozenset({"deschedule"}),
    "RemovePodsHavingTooManyRestarts": frozenset({"deschedule"}),
    "RemoveDuplicates": frozenset({"balance"}),
    "LowNodeUtilization": frozenset({"balance"}),
    "HighNodeUtilization": frozenset({"balance"}),
    "LowNodeLoad": frozenset({"balance"}),
}

REGISTRY: Mapping[str, PluginSpec] = {
    "RemovePodsViolatingNodeTaints": PluginSpec(TaintsArgs, frozenset({"deschedule"})),
    "RemovePodsViolatingNodeAffinity": PluginSpec(AffinityArgs, frozenset({"deschedule"})),
    **{name: PluginSpec(AgeArgs, points, is_implemented=False) for name, points in COMING.items()},
}


@pytest.fixture
def registry() -> Mapping[str, PluginSpec]:
    return REGISTRY


@pytest.fixture
def head() -> str:
    """The first two lines of every policy."""
    return HEAD


@pytest.fixture
def read() -> Callable[[str], Configuration]:
    """Read one text called p.yaml."""
    return lambda text: load_sources([SourceText(dedent(text), "p.yaml")], REGISTRY)


@pytest.fixture
def problems(read: Callable[[str], Configuration]) -> Callable[[str], list[str]]:
    """Give the problems of a text, one line each."""

    def ask(text: str) -> list[str]:
        with pytest.raises(PolicyErrors) as caught:
            read(text)
        return str(caught.value).splitlines()

    return ask


@pytest.fixture
def warnings(read: Callable[[str], Configuration]) -> Callable[[str], list[str]]:
    """Give the warnings of a text that is accepted."""
    return lambda text: [str(warning) for warning in read(text).warnings]


@pytest.fixture
def with_args() -> Callable[[str, str], str]:
    """Write a policy that enables one plugin with the given arguments, from line 9 on."""

    def write(plugin: str, args: str) -> str:
        point = "filter" if plugin == "DefaultEvictor" else "deschedule"
        return (
            f"{HEAD}profiles:\n- name: p\n  plugins: {{{point}: {{enabled: [{plugin}]}}}}\n"
            f"  pluginConfig:\n  - name: {plugin}\n    args:\n{indent(dedent(args), ' ' * 6)}"
        )

    return write
