"""Reads the configurations that are compared: what no file says is what was in force."""

from contextlib import suppress

from msgspec.structs import replace

from reactive_desched.errors import ConfigError
from reactive_desched.model.labels import parse_selector
from reactive_desched.plan.recorded_moment import (
    read_configuration,
    recorded_texts,
    selector_of_command_line,
)
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.configuration import Configuration, recorded_calendars
from reactive_desched.policy.detect_kind import POLICY_KIND, SETTINGS_KIND
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import check_source, load_sources
from reactive_desched.policy.yaml.diagnostics import PolicyErrors
from reactive_desched.recording.items import ConfigurationInForce

__all__ = ["is_in_force", "read_side"]


def read_side(
    file: str | None, settings: str | None, in_force: ConfigurationInForce | None, *, lenient: bool
) -> tuple[Configuration, tuple[str, ...]]:
    """Read a policy, settings, or both; what is not given is what was in force.

    Returns the names of what it is from, too. Raises ConfigError and PolicyErrors.
    """
    registry = plugin_registry()
    sources: list[SourceText] = []
    has_policy = has_settings = False
    for name in filter(None, (file, settings)):
        checked = check_source(name, registry, lenient=lenient)
        if checked.source is None or checked.errors:
            texts = {} if checked.source is None else {name: checked.source.text}
            raise PolicyErrors(checked.errors, warnings=checked.warnings, texts=texts)
        in_place = settings is not None and name == file and checked.policy is not None
        only = POLICY_KIND if in_place else checked.source.only
        sources.append(replace(checked.source, only=only))
        has_policy = has_policy or checked.policy is not None
        has_settings = has_settings or checked.settings is not None
    names = [each.name for each in sources]
    if in_force is None and not has_policy:
        raise ConfigError(
            "the recording does not say which policy was in force: name a policy file"
        )
    if in_force is not None and not has_policy:
        sources += recorded_texts(in_force, POLICY_KIND)
        names.append("the recorded policy")
    if in_force is not None and not has_settings:
        sources += recorded_texts(in_force, SETTINGS_KIND)
    loaded = load_sources(sources, registry, lenient=lenient)
    if not has_settings and loaded.written is not None:
        names.append("the recorded settings")
    selector = "" if in_force is None else selector_of_command_line(in_force, registry)
    if selector and not loaded.policy.node_selector.requirements:
        policy = replace(loaded.policy, node_selector=parse_selector(selector))
        loaded = replace(loaded, policy=policy)
        names.append(f"the recorded --node-selector {selector}")
    return _with_calendars(loaded, in_force), tuple(names)


def _with_calendars(loaded: Configuration, in_force: ConfigurationInForce | None) -> Configuration:
    """Let a configuration go by what the recorded process had read of the same calendars."""
    if in_force is None or not recorded_calendars(in_force.flags):
        return loaded
    with suppress(PolicyErrors):
        recorded = read_configuration(in_force, plugin_registry(), lenient=True)
        return loaded.keep_calendars(recorded)
    return loaded


def is_in_force(
    configuration: Configuration, in_force: ConfigurationInForce, *, lenient: bool
) -> bool:
    """Say whether a configuration decides as the recorded one did."""
    try:
        recorded = read_configuration(in_force, plugin_registry(), lenient=lenient)
    except PolicyErrors:
        return False
    return (
        recorded.policy.profiles == configuration.policy.profiles
        and recorded.policy.limits == configuration.policy.limits
        and recorded.policy.node_selector == configuration.policy.node_selector
        and recorded.settings == configuration.settings
    )
