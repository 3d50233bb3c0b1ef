"""Reads a policy or settings from one text, where the program reads files."""

from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import check_source, load_sources
from reactive_desched.policy.policy import Policy
from reactive_desched.policy.registry import Registry
from reactive_desched.policy.settings.reactive_settings import ReactiveSettings
from reactive_desched.policy.yaml.diagnostics import PolicyErrors


def load_policy(text: str | bytes, source: str, registry: Registry) -> Policy:
    """Read the policy of one text; settings beside it are checked and left. Raises PolicyErrors."""
    return load_sources([SourceText(text, source)], registry).policy


def load_settings(text: str | bytes, source: str) -> ReactiveSettings:
    """Read the settings of one text; raises PolicyErrors."""
    result = check_source(SourceText(text, source), plugin_registry())
    if result.errors:
        raise PolicyErrors(result.errors)
    return result.settings or ReactiveSettings()
