"""Short ways to ask what the policy reader makes of a plugin's arguments."""

from collections.abc import Callable
from textwrap import dedent, indent

import pytest
from pydantic import BaseModel

from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import load_sources
from reactive_desched.policy.yaml.diagnostics import PolicyErrors
from tests.support.policy_lines import without_codes

Read = Callable[[str, str], BaseModel]
Ask = Callable[[str, str], list[str]]


def configured(plugin: str, args: str) -> Configuration:
    """Read a policy that enables one plugin, with its arguments as YAML text."""
    (point,) = plugin_registry()[plugin].points
    text = (
        "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\nprofiles:\n- name: p\n"
        f"  plugins: {{{point}: {{enabled: [{plugin}]}}}}\n  pluginConfig:\n  - name: {plugin}\n"
        f"    args:\n{indent(dedent(args), ' ' * 6)}\n"
    )
    return load_sources([SourceText(text, "p.yaml")], plugin_registry())


def without_place(plugin: str, line: str) -> str:
    """Leave the path below args and what is said."""
    (line,) = without_codes(line)
    said = line.split(": ", 1)[1].removesuffix(f" (in profile p, {plugin})")
    return said.removeprefix("profiles[0].pluginConfig[0].args").removeprefix(".")


@pytest.fixture
def read_args() -> Read:
    """Read a plugin's arguments out of a whole policy."""
    return lambda plugin, args: configured(plugin, args).policy.profiles[0].args[plugin]


@pytest.fixture
def refused() -> Ask:
    """Give what is wrong with a plugin's arguments, each with its path below args."""

    def ask(plugin: str, args: str) -> list[str]:
        with pytest.raises(PolicyErrors) as caught:
            configured(plugin, args)
        return [without_place(plugin, line) for line in str(caught.value).splitlines()]

    return ask


@pytest.fixture
def warned() -> Ask:
    """Give what is worth saying of a plugin's arguments, each with its path below args."""

    def ask(plugin: str, args: str) -> list[str]:
        return [without_place(plugin, str(it)) for it in configured(plugin, args).warnings]

    return ask
