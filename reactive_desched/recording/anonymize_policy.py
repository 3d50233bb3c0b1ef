"""Policies and settings with pseudonyms: what they select is what they selected.

Fields and words of the formats stay, and numbers, durations and times; keys of labels, resources
and any other text are replaced. Sections that decide on no pod, such as addresses of servers and
paths of files, are left out.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from reactive_desched.errors import SelectorError
from reactive_desched.model.labels import Requirement, Selector, parse_selector
from reactive_desched.policy.settings.scheduler_arguments import ARGUMENTS
from reactive_desched.policy.settings.scheduler_plugins import ALL, PLUGINS
from reactive_desched.policy.yaml.reader import read_documents
from reactive_desched.policy.yaml.tree import MappingNode, ScalarNode, YamlNode
from reactive_desched.recording.pseudonyms import Texts

__all__ = ["rename_document", "rename_held_by", "rename_selector"]

_UNDECIDING: Final = frozenset(
    {"client", "server", "leaderElection", "journal", "logging", "events", "sinks", "recording"}
)
"""Sections of the settings that are left out."""

_UNDECIDING_FIELDS: Final = frozenset({"pauseFile", "tokenFile"})
_PLAIN: Final = re.compile(
    r"[-+]?[0-9.]+(%|[a-zA-Zµ]{1,2})?([0-9.]+(ns|us|µs|ms|[smhd]))*"  # numbers and durations
    r"|[-0-9*/,]+( [-0-9A-Za-z*/,]+){4}"  # cron
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.]+(Z|[-+][0-9:]+)?"
    r"|\*"
)
_KEPT_FIELDS: Final = frozenset(
    {"apiVersion", "kind", "operator", "effect", "enabled", "disabled", "schedule", "timeZone"}
    | {"plugins", "status", "source", "nodeAffinityType", "conditionType"}
)
_PLUGIN_LISTS: Final = frozenset({"enabled", "disabled"})
_KEY_FIELDS: Final = frozenset(
    {"key", "topologyKey", "matchLabelKeys", "label", "priceLabel"}
    | {"resource", "resources", "ignoredResources"}
)
_VALUE_FIELDS: Final = frozenset({"values", "value"})
_TAINT_FIELDS: Final = frozenset({"excludedTaints", "includedTaints"})
_SELECTOR_FIELDS: Final = frozenset({"nodeSelector", "labelSelector", "namespaceSelector"})
_OWNER_KIND_FIELDS: Final = frozenset({"replacingOwners", "nonReplacingOwners"})
_BY_PLUGIN: Final = frozenset({"ignoredBy", "perPlugin"})
_LABELS: Final = frozenset({"matchLabels"})
_HEALTH: Final = ("brakes", "health")
_HEALTH_FIELDS: Final = {
    "url": "http://left.out",
    "query": "left_out",
    "knownBy": "left_out",
    "alerts": 'alertname="left out"',
}
"""What stands for how a health check asks: a replay asks nothing."""

_SCHEDULER: Final = ("scheduler", "config")
"""The configurations of schedulers: every key in them is a field, and is read strictly."""

_UNREAD: Final = frozenset({"leaderElection", "clientConnection"})
_EXTENDER: Final = {"urlPrefix": "http://left.out", "filterVerb": "filter"}
"""What stands for an extender: that there is one says that its answers are not known."""

_HELD_BY: Final = frozenset({"namespace", "profile", "plugin"})
"""The labels by which a check holds, where it names no other one."""


def rename_document(text: str, to: Texts) -> str:
    """Return a policy or settings with what stands for their texts; raises PolicyErrors.

    A text that was in force can be read, unless the recording is damaged.
    """
    trees = read_documents(text, "the recorded policy")
    renamed = [_renamed(_plain_value(tree), to, ()) for tree in trees]
    return "".join(f"---\n{json.dumps(each, indent=2)}\n" for each in renamed)


def plugins_in(text: str) -> Iterator[str]:
    """Yield the names of plugins in a policy, which stay as they are; raises PolicyErrors."""
    for tree in read_documents(text, "the recorded policy"):
        yield from _plugins_below(_plain_value(tree), "")


def _plugins_below(value: Any, field: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _plugins_below(each, key)
    elif isinstance(value, list):
        for each in value:
            yield from _plugins_below(each, field)
    elif field in _PLUGIN_LISTS and isinstance(value, str):
        yield value


def _plain_value(node: YamlNode) -> Any:
    if isinstance(node, ScalarNode):
        return node.value
    if isinstance(node, MappingNode):
        return {entry.key: _plain_value(entry.value) for entry in node.entries}
    return [_plain_value(item) for item in node.items]


def _renamed(value: Any, to: Texts, path: tuple[str, ...]) -> Any:
    if isinstance(value, Mapping):
        return dict(_members(value, to, path))
    if isinstance(value, list):
        return [_renamed(each, to, path) for each in value]
    return _leaf(value, to, path) if isinstance(value, str) else value


def _members(value: Mapping[str, Any], to: Texts, path: tuple[str, ...]) -> Iterator[Any]:
    field = path[-1] if path else ""
    if field in _LABELS or (field in _SELECTOR_FIELDS and _is_label_map(value)):
        for key, each in value.items():
            yield to.key(key), to.value(each) if isinstance(each, str) else each
        return
    if path[:2] == _SCHEDULER:
        yield from _scheduler_members(value, to, path)
        return
    for key, each in value.items():
        if (not path and key in _UNDECIDING) or key in _UNDECIDING_FIELDS:
            continue
        is_field = key in _known_fields() or field in _BY_PLUGIN
        yield key if is_field else to.key(key), _renamed(each, to, (*path, key))


def _scheduler_members(value: Mapping[str, Any], to: Texts, path: tuple[str, ...]) -> Iterator[Any]:
    """Yield what decides about nodes: of foreign plugins, and of extenders, that they are there."""
    for key, each in value.items():
        if key in _UNREAD or (key == "args" and value.get("name") not in ARGUMENTS):
            continue
        if key == "extenders":
            yield key, [_EXTENDER for _ in each]
        else:
            yield key, _renamed(each, to, (*path, key))


def _scheduler_leaf(value: str, to: Texts, path: tuple[str, ...]) -> str | None:
    """Return what stands for a text in the configuration of a scheduler; None if any other rule."""
    if path[-1] != "name":
        return value if value in _scheduler_words() else None
    if path[-2] == "resources":
        return to.key(value)
    return value if value in PLUGINS or value == ALL else to.text(value)


def _is_label_map(value: Mapping[str, Any]) -> bool:
    return not ({"matchLabels", "matchExpressions"} & value.keys())


def _leaf(value: str, to: Texts, path: tuple[str, ...]) -> str:
    field = path[-1] if path else ""
    if path[:2] == _SCHEDULER and (said := _scheduler_leaf(value, to, path)) is not None:
        return said
    if field in _KEPT_FIELDS or path[-2:] == ("pluginConfig", "name"):
        return value
    if path[:2] == _HEALTH:
        if field in _HEALTH_FIELDS:
            is_list = "alertmanager" in path and field == "knownBy"
            return _HEALTH_FIELDS["alerts" if is_list else field]
        if field == "label":
            return rename_held_by(value, to)
    if (rename := _RENAMINGS.get(field)) is not None:
        return rename(value, to)
    return value if value in _known_words() or _PLAIN.fullmatch(value) else to.text(value)


def rename_held_by(label: str, to: Texts) -> str:
    """Return what stands for a label by which a health check holds, or for any beside it."""
    return label if label in _HELD_BY else to.text(label)


def rename_selector(value: str, to: Texts) -> str:
    """Return a selector of labels with what stands for its keys and values."""
    try:
        selector = parse_selector(value)
    except SelectorError:
        return to.text(value)
    return str(
        Selector(
            tuple(
                Requirement(to.key(each.key), each.operator, tuple(map(to.value, each.values)))
                for each in selector.requirements
            )
        )
    )


def _taint(value: str, to: Texts) -> str:
    key, equals, word = value.partition("=")
    return f"{to.key(key)}{equals}{to.value(word)}"


def _owner_kind(value: str, to: Texts) -> str:
    kind, dot, group = value.partition(".")
    if value == "*":
        return value
    return f"{to.text(kind)}{dot}{group if group.endswith('.k8s.io') else to.text(group)}"


def _group_of_resources(value: str, to: Texts) -> str:
    """Return what stands for the part of a resource before the slash."""
    return to.key(f"{value}/any").partition("/")[0]


_RENAMINGS: Final[Mapping[str, Callable[[str, Texts], str]]] = {
    **dict.fromkeys(_KEY_FIELDS, lambda value, to: to.key(value)),
    **dict.fromkeys(_VALUE_FIELDS, lambda value, to: to.value(value)),
    **dict.fromkeys(_TAINT_FIELDS, _taint),
    **dict.fromkeys(_SELECTOR_FIELDS, rename_selector),
    **dict.fromkeys(_OWNER_KIND_FIELDS, _owner_kind),
    "ignoredResourceGroups": _group_of_resources,
}


@cache
def _known_fields() -> frozenset[str]:
    """Name the fields of the formats, and the keys that a map of theirs may have."""
    return frozenset(
        name
        for schema in _schemas()
        for name in (
            *schema.get("properties", ()),
            *schema.get("propertyNames", {}).get("enum", ()),
        )
    )


@cache
def _known_words() -> frozenset[str]:
    """Name the words that fields of the formats take."""
    return _words_of(_schemas())


@cache
def _scheduler_words() -> frozenset[str]:
    """Name the words that arguments of the kube-scheduler's plugins take."""
    return _words_of(_below([model.model_json_schema() for model in ARGUMENTS.values()]))


def _words_of(schemas: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    return frozenset(
        word
        for schema in schemas
        for word in (*schema.get("enum", ()), schema.get("const"))
        if isinstance(word, str)
    )


def _schemas() -> Iterator[Mapping[str, Any]]:
    for name in ("v1alpha1.json", "v1alpha2.json", "settings.json"):
        text = (files("reactive_desched.policy") / "schemas" / name).read_text("utf-8")
        yield from _below(json.loads(text))


def _below(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, list):
        for each in value:
            yield from _below(each)
    elif isinstance(value, dict):
        yield value
        for each in value.values():
            yield from _below(each)
