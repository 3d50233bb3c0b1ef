"""Where a field that is unknown here belongs: the mistakes people make with policies."""

from collections.abc import Iterator, Mapping
from typing import Final

from reactive_desched.policy.decode import Advice, written_fields
from reactive_desched.policy.document import PolicyDocument, ProfileSection
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.hints import did_you_mean, same
from reactive_desched.policy.problems import Path
from reactive_desched.policy.registry import DEFAULT_EVICTOR, POINTS, Registry, names, points_of
from reactive_desched.policy.tree import Entry, Node, Table, plain

_EVICTOR_FIELDS: Final = frozenset(written_fields(DefaultEvictorArgs))
_TOP_FIELDS: Final = frozenset(written_fields(PolicyDocument))
_PROFILE_FIELDS: Final = frozenset(written_fields(ProfileSection))

_OLD_NAMES: Final[Mapping[str, str]] = {
    "includeSoftConstraints": "v1alpha1; write constraints: [DoNotSchedule, ScheduleAnyway]",
    "podStatusPhases": "v1alpha1; write states",
    "thresholdPriority": "v1alpha1; write priorityThreshold: {value: …} in the args of "
    "DefaultEvictor",
    "thresholdPriorityClassName": "v1alpha1; write priorityThreshold: {name: …} in the args of "
    "DefaultEvictor",
    "nodeResourceUtilizationThresholds": "v1alpha1; write what is below it directly in args",
    "podLifeTime": "v1alpha1; write what is below it directly in args",
    "podsHavingTooManyRestarts": "v1alpha1; write what is below it directly in args",
    "removeDuplicates": "v1alpha1; write what is below it directly in args",
    "failedPods": "v1alpha1; write what is below it directly in args",
    "params": "v1alpha1; write args",
}
_WRAPPERS: Final[Mapping[str, str]] = {
    "metadata": "a policy is not a Kubernetes object: it has no metadata and no spec",
    "spec": "a policy is not a Kubernetes object: write what is below spec at the top level",
    "data": "this looks like a ConfigMap: give the text inside it",
    "deschedulerPolicy": "this looks like Helm values: write what is below it at the top level",
    "tracing": "tracing is not configured in the policy",
}


class PolicyAdvice(Advice):
    """Knows the shape of a v1alpha2 policy and the plugins there are."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._names = names(registry)

    def unknown(self, entry: Entry, path: Path, known: frozenset[str]) -> tuple[str, str]:
        """Say where the field belongs, else which known name is near."""
        if path == () and entry.key == "strategies":
            return _strategies(entry.value)
        home = None if same(entry.key, known) else next(self._homes(entry.key, path), None)
        if home is not None:
            return "is not read here", home
        return "unknown field", did_you_mean(entry.key, known)

    def wrong_type(self, path: Path, node: Node | None) -> str:
        """Recognise plugin names written as objects."""
        match path, node:
            case ("profiles", int(), "plugins", *_, "enabled" | "disabled", int()), Table():
                return "write the plugin's name alone"
            case _:
                return ""

    def _homes(self, key: str, path: Path) -> Iterator[str]:
        """Say where a field of this name is read, the most likely place first."""
        match path:
            case ():
                yield from self._from_top(key)
            case ("profiles", int()):
                yield from self._from_profile(key)
            case ("profiles", int(), "plugins"):
                yield from self._from_plugins(key)
            case ("profiles", int(), "pluginConfig", int()):
                yield from self._from_entry(key)
            case ("profiles", int(), "pluginConfig", int(), "args", *_):
                yield from self._from_args(key)
            case _:
                return

    def _from_top(self, key: str) -> Iterator[str]:
        if key in _WRAPPERS:
            yield _WRAPPERS[key]
        if key in _PROFILE_FIELDS:
            yield 'it belongs in a profile: begin one with "- name: …" below profiles'
        yield from _to_evictor(key)
        yield from self._to_plugin(key)

    def _from_profile(self, key: str) -> Iterator[str]:
        if key in _TOP_FIELDS:
            yield "move it to the top level of the policy, beside profiles"
        if key in POINTS:
            yield "move it under plugins"
        if key in ("args", "params"):
            yield "arguments belong in an entry of pluginConfig, beside the plugin's name"
        if key == "enabled":
            yield "enable plugins under plugins.deschedule or plugins.balance"
        if (name := same(key, self._names)) is not None:
            yield f"write it as an entry of pluginConfig: - name: {name}"
        yield from _to_evictor(key)
        yield from self._to_plugin(key)

    def _from_plugins(self, key: str) -> Iterator[str]:
        if key.casefold() in ("evict", "evictor"):
            yield "there is no such extension point; DefaultEvictor is always on at filter"
        if (name := same(key, self._names)) is not None:
            points = points_of(name, self._registry) or frozenset(("deschedule",))
            yield f"write {name} in the list plugins.{min(points)}.enabled"

    def _from_entry(self, key: str) -> Iterator[str]:
        if key in _OLD_NAMES:
            yield _OLD_NAMES[key]
        if key in _PROFILE_FIELDS:
            yield "move it one level up, to the profile"
        if key in POINTS or key == "enabled":
            yield "enable plugins under plugins of the profile"
        if key in _EVICTOR_FIELDS or self._owners(key):
            yield "move it under args"

    def _from_args(self, key: str) -> Iterator[str]:
        if key in _OLD_NAMES:
            yield _OLD_NAMES[key]
        yield from _to_evictor(key)
        yield from self._to_plugin(key)

    def _to_plugin(self, key: str) -> Iterator[str]:
        """Say which plugins take such an argument."""
        if owners := self._owners(key):
            yield f"it is an argument of {' and '.join(owners)}: move it to args there"

    def _owners(self, key: str) -> list[str]:
        """Give the plugins with an argument of this name, the evictor apart."""
        return sorted(
            name
            for name, spec in self._registry.items()
            if name != DEFAULT_EVICTOR and key in written_fields(spec.args)
        )


def _to_evictor(key: str) -> Iterator[str]:
    """Say that an option is one of the evictor's."""
    if (option := same(key, _EVICTOR_FIELDS)) is not None:
        renamed = "" if option == key else f", as {option}"
        yield f"move it to the args of DefaultEvictor{renamed}"


def _strategies(written: Node) -> tuple[str, str]:
    """Say what is lost when the API version moved on and the strategies did not."""
    strategies = plain(written)
    bodies = strategies.values() if isinstance(strategies, dict) else ()
    lost = sum(isinstance(body, dict) and body.get("enabled") is True for body in bodies)
    told = f"{lost} {'strategy' if lost == 1 else 'strategies'} would not run: " if lost else ""
    return (
        "is v1alpha1 and not read under v1alpha2",
        f"{told}write each as a plugin of a profile",
    )
