"""A registry of small plugins, and short ways to ask what the reader says of a text."""

from collections.abc import Callable, Mapping
from textwrap import dedent

import pytest

from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import load_sources
from reactive_desched.policy.registry import PluginSpec
from reactive_desched.policy.yaml.diagnostics import PolicyErrors
from tests.support.policy_lines import without_codes
from tests.support.small_plugins import HEAD, REGISTRY, policy_with_args


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
        return without_codes(caught.value)

    return ask


@pytest.fixture
def warnings(read: Callable[[str], Configuration]) -> Callable[[str], list[str]]:
    """Give the warnings of a text that is accepted."""
    return lambda text: [line for each in read(text).warnings for line in without_codes(each)]


@pytest.fixture
def with_args() -> Callable[[str, str], str]:
    """Write a policy that enables one plugin with the given arguments, from line 9 on."""
    return policy_with_args
