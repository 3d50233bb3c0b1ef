"""The flags that say which records are meant; `audit` and `events` have the same."""

import argparse
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from reactive_desched.journal.summary import EventFilter

FilterValues = Mapping[str, tuple[str, ...]]
"""What each flag was given, by its name."""

_FILTERS: Final = {
    "namespace": ("NAME", "about pods in this namespace"),
    "owner": (
        "NAME",
        "about pods of this workload, as KIND NAMESPACE/NAME, KIND/NAME, NAME or uid",
    ),
    "plugin": ("NAME", "found by this plugin"),
    "type": ("TYPE", "of this type, such as eviction.succeeded, or all of eviction"),
    "pod": ("NAME", "about this pod, as NAMESPACE/NAME, NAME or uid"),
    "node": ("NAME", "about pods on this node"),
    "outcome": ("RESULT", "with this outcome, such as evicted, failed or dry_run"),
    "reason": ("CODE", "decided or ended for this reason, such as DisruptionBudget"),
}


_OF_PODS: Final = ("pod", "namespace", "node", "owner", "plugin")


def add(command: argparse.ArgumentParser) -> "argparse._ArgumentGroup":
    """Describe the flags, each of which may be repeated or hold words with commas."""
    group = command.add_argument_group(
        "which records",
        "all flags must match; of a repeated flag, or a list with commas, one value must match;"
        " in a name, * stands for any text and ? for one character",
    )
    _add_flags(group, _FILTERS)
    return group


def _add_flags(group: "argparse._ArgumentGroup", names: Iterable[str]) -> None:
    for name in names:
        metavar, text = _FILTERS[name]
        flags = ("-n", "--namespace") if name == "namespace" else (f"--{name}",)
        group.add_argument(*flags, metavar=metavar, action="append", default=[], help=text)


def add_pods(command: argparse.ArgumentParser) -> "argparse._ArgumentGroup":
    """Describe those of the flags that choose among pods."""
    group = command.add_argument_group(
        "which pods",
        "all flags must match; of a repeated flag, or a list with commas, one value must match;"
        " in a name, * stands for any text and ? for one character",
    )
    _add_flags(group, _OF_PODS)
    return group


def pod_words(arguments: argparse.Namespace) -> Mapping[str, tuple[str, ...]]:
    """Return what was given of these, by the field of a filter; raises ConfigError."""
    given = {f"{name}s": tuple(_split_values(name, getattr(arguments, name))) for name in _OF_PODS}
    return {field: words for field, words in given.items() if words}


def filter_values(arguments: argparse.Namespace) -> FilterValues:
    """Return what was given."""
    return {name: tuple(getattr(arguments, name)) for name in _FILTERS}


def build_filter(given: FilterValues) -> "EventFilter":
    """Return the filter of words, some of them with commas; raises ConfigError."""
    from reactive_desched.api.event import DATA_TYPES
    from reactive_desched.journal.summary import (
        EventFilter,
        check_outcomes,
        check_reasons,
        check_types,
    )

    fields = {f"{name}s": tuple(_split_values(name, values)) for name, values in given.items()}
    with naming_flags():
        check_types(fields.get("types", ()), tuple(DATA_TYPES))
        check_outcomes(fields.get("outcomes", ()))
        check_reasons(fields.get("reasons", ()))
    if plugins := fields.get("plugins"):
        check_plugins(plugins)
    return EventFilter(**fields)


@contextmanager
def naming_flags() -> Iterator[None]:
    """Put the flag in place of the field of a query that a ConfigError begins with."""
    from reactive_desched.errors import ConfigError

    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"--{error}") from error


def check_plugins(names: Iterable[str]) -> None:
    """Raise ConfigError for a plugin that is not installed; a pattern may mean one that was."""
    from reactive_desched.errors import ConfigError
    from reactive_desched.journal.summary import is_pattern
    from reactive_desched.plugins.registry import plugin_registry
    from reactive_desched.primitives.hints import not_one_of

    installed = sorted(plugin_registry())
    for name in names:
        if name not in installed and not is_pattern(name):
            raise ConfigError(
                f"--plugin {not_one_of(name, installed)}; for a plugin that is not installed here, "
                f"write --plugin '{name}*'"
            )


def _split_values(name: str, values: Iterable[str]) -> Iterator[str]:
    from reactive_desched.errors import ConfigError

    for value in values:
        parts = [part.strip() for part in value.split(",")]
        if not all(parts):
            raise ConfigError(f"--{name} {value!r} holds an empty word: leave it out")
        yield from parts
