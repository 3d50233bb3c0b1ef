"""Profiles of a DeschedulerPolicy that move pods as koordinator's do, by `plugins.evict`.

Such a profile enables MigrationController there, with koordinator's arguments in its pluginConfig.
They are read as settings of migration jobs; the rest of the profile is a policy's.
"""

from typing import Final

from msgspec import Struct

from reactive_desched.api.rules import Rule
from reactive_desched.policy.koordinator.differences import (
    profile_differences,
    profile_errors,
    profile_obstacles,
)
from reactive_desched.policy.koordinator.paces import settings_target
from reactive_desched.policy.koordinator.profiles import KoordinatorsProfile, check_one_controller
from reactive_desched.policy.koordinator.reader import read_controller_args
from reactive_desched.policy.registry import EVICT, MIGRATION_CONTROLLER
from reactive_desched.policy.yaml.decode import Decoder, FieldHints
from reactive_desched.policy.yaml.derived_tree import TreeBuilder
from reactive_desched.policy.yaml.diagnostics import Diagnostic, DiagnosticList
from reactive_desched.policy.yaml.source_location import SourceLocation
from reactive_desched.primitives.hints import quote

_HINT: Final = (
    f"write {MIGRATION_CONTROLLER}, or leave plugins.{EVICT} out: pods are then evicted directly"
)


class ReadJobProfiles(Struct, frozen=True):
    """The job profiles of a policy; while there are `obstacles` it does not run."""

    settings: SourceLocation | None
    obstacles: tuple[Diagnostic, ...]


def read_job_profiles(document: SourceLocation, diagnostics: DiagnosticList) -> ReadJobProfiles:
    """Read what the profiles of a DeschedulerPolicy say of migration jobs."""
    profiles = tuple(_read(each, diagnostics) for each in document.below("profiles").items())
    moving = [each for each in profiles if each.args is not None]
    check_one_controller(moving, diagnostics)
    obstacles: list[Diagnostic] = []
    for each in moving:
        assert each.args is not None, "it moves pods"
        for difference in profile_differences(each, each.args):
            diagnostics.warn(difference)
        for error in profile_errors(each, each.args):
            diagnostics.add(error)
        obstacles += profile_obstacles(each, each.args)
    if not moving or (target := settings_target(document, profiles)) is None:
        return ReadJobProfiles(None, tuple(obstacles))
    derived = TreeBuilder(document.root, document.root).convert(target)
    settings = SourceLocation(document.source, derived.tree, origin=derived.origin)
    return ReadJobProfiles(settings, tuple(obstacles))


def _read(at: SourceLocation, diagnostics: DiagnosticList) -> KoordinatorsProfile:
    names = dict(at.below("plugins", EVICT, "enabled").texts())
    for name, place in names.items():
        if name != MIGRATION_CONTROLLER:
            message = f"{quote(name)} does not evict"  # the SIG descheduler drops plugins.evict
            unknown = place.diagnostic(message, _HINT, rule=Rule.UNKNOWN_PLUGIN, lenient_ok=True)
            diagnostics.add(unknown)
    entries = at.below("pluginConfig").items()
    named = (each for each in entries if each.below("name").text == MIGRATION_CONTROLLER)
    entry, args = next(named, None), None
    if MIGRATION_CONTROLLER in names:
        args = read_controller_args(entry, Decoder(diagnostics, FieldHints()), diagnostics)
    configs = {} if entry is None else {MIGRATION_CONTROLLER: entry}
    return KoordinatorsProfile(at, at.below("name").text or "", {}, configs, args)
