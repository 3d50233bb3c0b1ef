"""Finds where an unknown field of a policy belongs, for the hint beside the error."""

from collections.abc import Iterator, Mapping
from typing import Final

from reactive_desched.api.args import Path
from reactive_desched.api.rules import Rule
from reactive_desched.policy.document import PolicyDocument, ProfileSection
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.registry import (
    DEFAULT_EVICTOR,
    EXTENSION_POINTS,
    Registry,
    extension_points_of,
    plugin_names,
)
from reactive_desched.policy.yaml.decode import FieldAdvice, FieldHints, fields_by_key
from reactive_desched.policy.yaml.source_location import SourceLocation
from reactive_desched.policy.yaml.syntax_errors import joined_value_hint
from reactive_desched.policy.yaml.tree import (
    MappingEntry,
    MappingNode,
    ScalarNode,
    SequenceNode,
    YamlNode,
    find,
    to_plain,
    walk,
)
from reactive_desched.primitives.hints import same_ignoring_case
from reactive_desched.text.counts import agree

WRAPPERS: Final[Mapping[str, str]] = {
    "metadata": "a policy is not a Kubernetes object: it has no metadata and no spec",
    "spec": "a policy is not a Kubernetes object: write what is below spec at the top level",
    "data": "this looks like a ConfigMap: give the text inside it",
    "deschedulerPolicy": "this looks like Helm values: write what is below it at the top level",
    "tracing": "tracing is not configured in the policy",
}


_EVICTOR_FIELDS: Final = frozenset(fields_by_key(DefaultEvictorArgs))
_TOP_FIELDS: Final = frozenset(fields_by_key(PolicyDocument))
_PROFILE_FIELDS: Final = frozenset(fields_by_key(ProfileSection))

_OLD_NAMES: Final[Mapping[str, str]] = {
    "includeSoftConstraints": "in v1alpha2 write constraints: [DoNotSchedule, ScheduleAnyway]",
    "podStatusPhases": "in v1alpha2 write states",
    "thresholdPriority": "in v1alpha2 write priorityThreshold: {value: …} in the args of "
    "DefaultEvictor",
    "thresholdPriorityClassName": "in v1alpha2 write priorityThreshold: {name: …} in the args of "
    "DefaultEvictor",
    "nodeResourceUtilizationThresholds": "in v1alpha2 write what is below it directly in args",
    "podLifeTime": "in v1alpha2 write what is below it directly in args",
    "podsHavingTooManyRestarts": "in v1alpha2 write what is below it directly in args",
    "removeDuplicates": "in v1alpha2 write what is below it directly in args",
    "failedPods": "in v1alpha2 write what is below it directly in args",
    "params": "in v1alpha2 write args",
}
_NAMESPACES: Final[Mapping[str, str]] = {
    "namespaces": "this plugin takes namespaces: {include: […]} or {exclude: […]}",
    "evictableNamespaces": "this plugin takes evictableNamespaces: {exclude: […]}",
    "namespaceLabelSelector": "the evictor takes namespaceLabelSelector: {matchLabels: {…}}; "
    "plugins take namespaces",
}
_RESOURCES: Final = frozenset(("cpu", "memory", "pods"))
_RENAMED: Final[Mapping[str, str]] = {"params": "args", "podStatusPhases": "states"}
"""Fields of v1alpha1 that have another name in v1alpha2, and the same values."""

_CAMEL_POINTS: Final = frozenset(("preEvictionFilter", "preSort"))
_MAX_PLUGINS_NAMED: Final = 3
NAMESPACE_LISTS_HINT: Final = "write include: […] or exclude: […] below it"
REMOVE_HINT: Final = "remove it: nothing reads it"
SHARED_HINT: Final = (
    "write the value in the place of the first alias of its anchor, then remove it: nothing "
    "reads it"
)
SETTING_HINT: Final = (
    "it is a setting: move it to a document of its own, behind a line ---, that begins with "
    "apiVersion: reactive-desched/v1alpha1 and kind: ReactiveSettings"
)


class PolicyFieldHints(FieldHints):
    """Hints by the fields of a v1alpha2 policy and the arguments of installed plugins."""

    allows_lenient = True

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._names = plugin_names(registry)

    def unknown_field(
        self, entry: MappingEntry, at: SourceLocation, known_fields: frozenset[str]
    ) -> FieldAdvice:
        """Say where the field belongs, else which known name is near."""
        if _is_leftover_strategies(entry.key, at.path):
            return _leftover_strategies_hint(entry.value, at.root)
        if (joined := joined_value_hint(entry.key, known_fields)) is not None:
            return FieldAdvice(Rule.UNKNOWN_FIELD, "unknown field", joined)
        if same_ignoring_case(entry.key, known_fields) is None or entry.key in _CAMEL_POINTS:
            homes = self._possible_locations(entry, at, known_fields)
            if (home := next(homes, None)) is not None:
                return FieldAdvice.misplaced(home, _new_name(entry.key, known_fields))
        is_shared = _is_used_elsewhere(entry, at.root)
        return FieldAdvice.near(entry.key, known_fields, SHARED_HINT if is_shared else REMOVE_HINT)

    def upstream_ignores(self, path: Path) -> bool:
        """Upstream reads nothing strictly but arguments."""
        return not _is_in_args(path)

    def wrong_type(self, path: Path, node: YamlNode | None) -> str:
        """Recognise plugin names written as objects."""
        match path, node:
            case ("profiles", int(), "plugins", *_, "enabled" | "disabled", int()), MappingNode():
                return "write the plugin's name alone"
            case (*_, "namespaces"), SequenceNode():
                return NAMESPACE_LISTS_HINT
            case _:
                return ""

    def _possible_locations(
        self, entry: MappingEntry, at: SourceLocation, known_fields: frozenset[str]
    ) -> Iterator[str]:
        """Say where a field of this name is read, the most likely place first."""
        key = entry.key
        match at.path:
            case ():
                yield from self._from_top(key)
            case ("profiles", int()):
                yield from self._from_profile(key, at)
            case ("profiles", int(), "plugins"):
                yield from self._from_plugins(key)
            case ("profiles", int(), "pluginConfig", int()):
                yield from self._from_entry(key, at)
            case ("profiles", int(), "pluginConfig", int(), "args"):
                yield from _namespace_form_hint(key, known_fields)
                yield from _unindented_thresholds_hint(entry, known_fields)
                yield from _koordinator_hint(key, known_fields)
                yield from self._from_args(key)
            case ("profiles", int(), "pluginConfig", int(), "args", *_):
                yield from _nested_namespaces_hint(key, known_fields)
                yield from self._from_nested(key, at)
                yield from self._from_args(key)
            case _:
                return

    def _from_top(self, key: str) -> Iterator[str]:
        if key in WRAPPERS:
            yield WRAPPERS[key]
        if _is_setting(key) and key not in _PROFILE_FIELDS:
            yield SETTING_HINT
        if key in _PROFILE_FIELDS:
            yield 'it belongs in a profile: begin one with "- name: …" below profiles'
        yield from _evictor_hint(key)
        yield from self._plugin_hint(key)

    def _from_profile(self, key: str, at: SourceLocation) -> Iterator[str]:
        if key in _TOP_FIELDS:
            yield "move it to the top level of the policy, beside profiles"
        if key in EXTENSION_POINTS:
            yield "move it under plugins"
        if key in ("args", "params") and (plugin := self._plugin_as_profile(at)) is not None:
            yield f"{plugin} is not a profile: write it as an entry of pluginConfig of a profile"
        if key in ("args", "params"):
            yield "arguments belong in an entry of pluginConfig, beside the plugin's name"
        if key == "enabled":
            yield "enable plugins under plugins.deschedule or plugins.balance"
        if (name := same_ignoring_case(key, self._names)) is not None:
            yield f"write it as an entry of pluginConfig: - name: {name}"
        yield from _evictor_hint(key)
        yield from self._plugin_hint(key)

    def _plugin_as_profile(self, at: SourceLocation) -> str | None:
        """Return the plugin a profile is named for."""
        name = at.node.text("name") if isinstance(at.node, MappingNode) else ""
        return name if name in self._registry else None

    def _from_plugins(self, key: str) -> Iterator[str]:
        if key.casefold() in ("evict", "evictor"):
            yield "there is no such extension point; DefaultEvictor is always on at filter"
        if (point := same_ignoring_case(key, EXTENSION_POINTS)) is not None:
            yield f"extension points are written in lower case: {point}"
        if (name := same_ignoring_case(key, self._names)) is not None:
            points = extension_points_of(name, self._registry) or frozenset(("deschedule",))
            yield f"write {name} in the list plugins.{min(points)}.enabled"

    def _from_entry(self, key: str, at: SourceLocation) -> Iterator[str]:
        fields = self._args_of_entry(at.path, at.root)
        if key not in fields:
            yield from _namespace_form_hint(key, fields, "in args, ")
        if key in _OLD_NAMES:
            yield _OLD_NAMES[key]
        if key in _PROFILE_FIELDS:
            yield "move it one level up, to the profile"
        if key in EXTENSION_POINTS or key == "enabled":
            yield "enable plugins under plugins of the profile"
        if key in _EVICTOR_FIELDS and key not in fields:
            yield from _evictor_hint(key)
        if key in fields or self._plugins_with_arg(key):
            yield "move it under args"

    def _from_nested(self, key: str, at: SourceLocation) -> Iterator[str]:
        """Recognise an argument that is indented too far."""
        if key in self._args_of_entry(at.path, at.root):
            yield "it is indented too far: move it up, directly below args"

    def _from_args(self, key: str) -> Iterator[str]:
        if key in _OLD_NAMES:
            yield _OLD_NAMES[key]
        yield from _evictor_hint(key)
        yield from self._plugin_hint(key)

    def _args_of_entry(self, path: Path, root: YamlNode) -> frozenset[str]:
        """Return the arguments of the plugin whose entry of pluginConfig the path leads into."""
        entry = find(root, path[:4])
        spec = self._registry.get(entry.text("name")) if isinstance(entry, MappingNode) else None
        return frozenset(fields_by_key(spec.args)) if spec is not None else frozenset()

    def _plugin_hint(self, key: str) -> Iterator[str]:
        """Say which plugins take such an argument."""
        owners = self._plugins_with_arg(key)
        if len(owners) > _MAX_PLUGINS_NAMED:
            yield "it is an argument of single plugins: move it to the args of each it is meant for"
        elif owners:
            yield f"it is an argument of {' and '.join(owners)}: move it to args there"

    def _plugins_with_arg(self, key: str) -> list[str]:
        """Return the plugins with an argument of this name, the evictor apart."""
        return sorted(
            name
            for name, spec in self._registry.items()
            if name != DEFAULT_EVICTOR and key in fields_by_key(spec.args)
        )


def _is_setting(key: str) -> bool:
    from reactive_desched.policy.settings.reactive_settings import (
        ReactiveSettings,  # loaded for this hint alone
    )

    return key in fields_by_key(ReactiveSettings)


def _is_used_elsewhere(entry: MappingEntry, root: YamlNode) -> bool:
    """Say whether an alias elsewhere stands for a value in this entry: both are one node."""
    inside = {id(node) for node in walk(entry.value)}
    return any(id(node) in inside for node in walk(root, skipped=entry))


def _new_name(key: str, known_fields: frozenset[str]) -> str:
    """Return today's name of a field that was only renamed, or the spelling of a point."""
    name = _RENAMED.get(key) or same_ignoring_case(key, known_fields) or ""
    return name if name in known_fields else ""


def _is_leftover_strategies(key: str, path: Path) -> bool:
    return path == () and key == "strategies"


def _is_in_args(path: Path) -> bool:
    match path:
        case ("profiles", int(), "pluginConfig", int(), "args", *_):
            return True
        case _:
            return False


def _evictor_hint(key: str) -> Iterator[str]:
    """Say that an option is one of the evictor's."""
    if (option := same_ignoring_case(key, _EVICTOR_FIELDS)) is not None:
        renamed = "" if option == key else f", as {option}"
        yield f"move it to the args of DefaultEvictor{renamed}"


def _namespace_form_hint(key: str, known_fields: frozenset[str], where: str = "") -> Iterator[str]:
    """Say in which form this plugin takes namespaces."""
    if key in _NAMESPACES:
        yield from (where + form for field, form in _NAMESPACES.items() if field in known_fields)


def _koordinator_hint(key: str, known_fields: frozenset[str]) -> Iterator[str]:
    """Recognise what the plugin of koordinator calls these thresholds."""
    for prefix, field in (("low", "thresholds"), ("high", "targetThresholds")):
        if field in known_fields and key.casefold().removesuffix("s") == f"{prefix}threshold":
            yield f"koordinator's LowNodeLoad calls it so: write {field}"


def _nested_namespaces_hint(key: str, known_fields: frozenset[str]) -> Iterator[str]:
    """Recognise one form of namespaces inside another."""
    if key in _NAMESPACES and "exclude" in known_fields:
        yield "leave this level out: write exclude: […] directly"


def _unindented_thresholds_hint(entry: MappingEntry, known_fields: frozenset[str]) -> Iterator[str]:
    """Recognise thresholds that are not indented."""
    is_number = isinstance(entry.value, ScalarNode) and type(entry.value.value) in (int, float)
    homes = [field for field in ("thresholds", "targetThresholds") if field in known_fields]
    if homes and is_number and entry.key in _RESOURCES:
        yield f"indent it, below {' or '.join(homes)}"


def _leftover_strategies_hint(written: YamlNode, root: YamlNode) -> FieldAdvice:
    """Say what does not run when the API version moved on and the strategies did not."""
    strategies = to_plain(written)
    bodies = strategies.values() if isinstance(strategies, dict) else ()
    lost = sum(isinstance(body, dict) and body.get("enabled") is True for body in bodies)
    effect = "none of it runs"
    if lost:
        effect = f"{lost} {agree(lost, 'strategy does', 'strategies do')} not run"
    remedy = "`reactive-desched policy convert` writes them as profiles"
    if find(root, ("profiles",)) is not None:
        remedy = "remove it, or move it to a file of its own with apiVersion: descheduler/v1alpha1"
    message = f"belongs to v1alpha1 and is not read in v1alpha2: {effect}"
    return FieldAdvice(Rule.OTHER_VERSION_FIELD, message, remedy)
