"""Reads a file of koordinator's descheduler: checks it as what it is, and gives it as ours."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from reactive_desched.api.args import Path
from reactive_desched.api.rules import Rule
from reactive_desched.model.labels import LabelSelector, parse_label_selector
from reactive_desched.policy import document as policy_document
from reactive_desched.policy.koordinator.differences import (
    file_differences,
    file_obstacles,
    profile_differences,
    profile_errors,
    profile_obstacles,
)
from reactive_desched.policy.koordinator.document import KoordinatorConfiguration
from reactive_desched.policy.koordinator.migration_controller import MigrationControllerArgs
from reactive_desched.policy.koordinator.paces import settings_target
from reactive_desched.policy.koordinator.profiles import (
    DEFAULT_PROFILE,
    RUNNING_POINTS,
    KoordinatorsProfile,
    check_names,
    check_one_controller,
    configured_plugins,
    enabled_plugins,
)
from reactive_desched.policy.koordinator.protections import evictor_args
from reactive_desched.policy.legacy.strategies import TOP_LEVEL_FIELDS
from reactive_desched.policy.registry import DEFAULT_EVICTOR, MIGRATION_CONTROLLER
from reactive_desched.policy.yaml.decode import Decoder, FieldHints, known_fields_only
from reactive_desched.policy.yaml.derived_tree import TargetValue, TreeBuilder
from reactive_desched.policy.yaml.diagnostics import Diagnostic, DiagnosticList
from reactive_desched.policy.yaml.source_location import SourceLocation
from reactive_desched.policy.yaml.tree import MappingNode, to_plain

_IDENTITY: Final = frozenset(("apiVersion", "kind"))
_NODE_SELECTOR: Final = "nodeSelector"


class ReadConfiguration(Struct, frozen=True):
    """A file of koordinator's as a policy and settings of ours.

    Problems found in either name the place in the file as it was written. `obstacles` keep it from
    running: what it asks for is more than what it was made of would do.
    """

    policy: SourceLocation
    settings: SourceLocation | None
    obstacles: tuple[Diagnostic, ...]


class KoordinatorReader:
    """Checks what only koordinator's files have; the rest is for the reader of the policy."""

    def __init__(self, diagnostics: DiagnosticList) -> None:
        self._diagnostics = diagnostics
        self._decoder = Decoder(diagnostics, FieldHints())

    def read(self, document: SourceLocation) -> ReadConfiguration:
        """Check a document, say what acts otherwise here, and give it in our formats."""
        self._warn(
            document.below("kind").diagnostic(
                "this is a file of koordinator's descheduler",
                "it is converted on load; `reactive-desched policy convert` writes it as ours",
                rule=Rule.KOORDINATOR_FORMAT,
            ),
            *file_differences(document),
        )
        self._decoder.decode(KoordinatorConfiguration, document, _IDENTITY)
        places = tuple(document.below("profiles").items())
        check_names(places, self._diagnostics)
        profiles = tuple(map(self._profile, places))
        moving = [each for each in profiles if each.args is not None]
        check_one_controller(moving, self._diagnostics)
        obstacles = [*file_obstacles(document)]
        for each in moving:
            if each.args is not None:
                self._warn(*profile_differences(each, each.args))
                obstacles += profile_obstacles(each, each.args)
                for error in profile_errors(each, each.args):
                    self._diagnostics.add(error)
        policy = self._policy_target(document, profiles)
        settings = settings_target(document, profiles)
        return ReadConfiguration(
            _converted(document, policy),
            None if settings is None else _converted(document, settings),
            tuple(obstacles),
        )

    def _warn(self, *differences: Diagnostic) -> None:
        for each in differences:
            self._diagnostics.warn(each)

    def _profile(self, at: SourceLocation) -> KoordinatorsProfile:
        """Read one profile, the arguments of MigrationController by their own model."""
        enabled = enabled_plugins(at, self._diagnostics)
        configs = configured_plugins(at, self._diagnostics)
        entry = configs.get(MIGRATION_CONTROLLER)
        args = read_controller_args(entry, self._decoder, self._diagnostics)
        is_moving = MIGRATION_CONTROLLER in enabled["evict"]
        if entry is not None and not is_moving:
            self._warn(
                entry.below("name").diagnostic(
                    f"{MIGRATION_CONTROLLER} is configured but not enabled",
                    "add it to plugins.evict.enabled, or remove it",
                    rule=Rule.NOT_ENABLED,
                )
            )
        name = at.below("name").text or ""
        return KoordinatorsProfile(at, name, enabled, configs, args if is_moving else None)

    def _policy_target(
        self, document: SourceLocation, profiles: Sequence[KoordinatorsProfile]
    ) -> TargetValue:
        limits = (field for field in TOP_LEVEL_FIELDS if field != _NODE_SELECTOR)
        moving = [each for each in profiles if each.args is not None]
        grace = TargetValue(_grace_period(moving[0])) if moving else TargetValue((), ())
        return TargetValue(
            (),
            {
                "apiVersion": TargetValue(("apiVersion",), policy_document.API_VERSION),
                "kind": TargetValue(("kind",), policy_document.KIND),
                _NODE_SELECTOR: self._node_selector(document, profiles),
                **{field: TargetValue((field,)) for field in limits},
                "gracePeriodSeconds": grace,
                "profiles": TargetValue(("profiles",), tuple(map(_profile_target, profiles))),
            },
        )

    def _node_selector(
        self, document: SourceLocation, profiles: Sequence[KoordinatorsProfile]
    ) -> TargetValue:
        """Outline the selector of nodes, which holds for all profiles here."""
        top = document.below(_NODE_SELECTOR)
        own = [each.at.below(_NODE_SELECTOR) for each in profiles]
        for at in own[1:]:
            if _plain(at) != _plain(own[0]):
                message = "another nodeSelector than that of the first profile"
                hint = "write the same one, or a file for each"
                self._diagnostics.add(at.diagnostic(message, hint, rule=Rule.KOORDINATOR_ONLY))
        written = [each for each in (top, *own[:1]) if not each.is_null]
        texts = [text for each in written for text in _requirements(_selector(each))]
        place = written[0] if written else top
        return TargetValue(place.path, ",".join(dict.fromkeys(texts)) or ())


def read_controller_args(
    entry: SourceLocation | None, decoder: Decoder, diagnostics: DiagnosticList
) -> MigrationControllerArgs | None:
    """Read the arguments of MigrationController; its defaults where no entry is there."""
    if entry is None:
        return MigrationControllerArgs()
    args = decoder.decode(MigrationControllerArgs, entry.below("args"), _IDENTITY)
    for warning in () if args is None else args.warnings():
        diagnostics.warn(entry.below("args").error(warning))
    return args


def _plain(at: SourceLocation) -> object:
    """Return the value at a place as plain data; None where there is none."""
    return None if at.node is None else to_plain(at.node)


def _selector(at: SourceLocation) -> LabelSelector:
    """Parse a selector; what is wrong with one was said when it was decoded."""
    try:
        return parse_label_selector(_plain(at))
    except ValueError:
        return LabelSelector()


def _requirements(selector: LabelSelector) -> Iterator[str]:
    """Write a selector of labels as the text form has it."""
    yield from (f"{key}={value}" for key, value in selector.match_labels.items())
    for each in selector.match_expressions:
        values = ",".join(each.values)
        match each.operator:
            case "In" | "NotIn":
                yield f"{each.key} {each.operator.lower()} ({values})"
            case "Exists":
                yield each.key
            case _:
                yield f"!{each.key}"


def _converted(document: SourceLocation, target: TargetValue) -> SourceLocation:
    known = known_fields_only(document.root, KoordinatorConfiguration)
    conversion = TreeBuilder(document.root, known).convert(target)
    return SourceLocation(document.source, conversion.tree, origin=conversion.origin)


def _grace_period(profile: KoordinatorsProfile) -> Path:
    return (*profile.args_at.path, "defaultDeleteOptions", "gracePeriodSeconds")


def _profile_target(profile: KoordinatorsProfile) -> TargetValue:
    """Outline a profile: what its MigrationController protects is for DefaultEvictor."""
    at = profile.at.path
    plugins = {
        point: TargetValue(
            (*at, "plugins", point),
            {
                "enabled": TargetValue(
                    (*at, "plugins", point, "enabled"),
                    tuple(TargetValue(place.path) for place in profile.enabled[point].values()),
                )
            },
        )
        for point in RUNNING_POINTS
    }
    return TargetValue(
        at,
        {
            "name": TargetValue((*at, "name"), profile.name or DEFAULT_PROFILE),
            "pluginConfig": TargetValue((*at, "pluginConfig"), tuple(_configs(profile))),
            "plugins": TargetValue((*at, "plugins"), plugins),
        },
    )


def _configs(profile: KoordinatorsProfile) -> Iterator[TargetValue]:
    """Outline pluginConfig: DefaultEvictor first, then each plugin that is here."""
    if profile.args is not None:
        entry = profile.configs.get(MIGRATION_CONTROLLER)
        at = profile.at.path if entry is None else entry.path
        yield _config(
            at, DEFAULT_EVICTOR, profile.args_at.path, evictor_args(profile, profile.args)
        )
    evictor = {MIGRATION_CONTROLLER} | ({DEFAULT_EVICTOR} if profile.args is not None else set())
    for name, entry in profile.configs.items():
        if name not in evictor:
            args = entry.below("args")
            fields = args.node.keys_in_order if isinstance(args.node, MappingNode) else ()
            kept = {
                field: TargetValue((*args.path, field))
                for field in fields
                if field not in _IDENTITY
            }
            yield _config(entry.path, name, args.path, kept)


def _config(at: Path, name: str, args_at: Path, args: Mapping[str, TargetValue]) -> TargetValue:
    return TargetValue(
        at, {"name": TargetValue((*at, "name"), name), "args": TargetValue(args_at, args)}
    )
