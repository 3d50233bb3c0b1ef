"""Notices about a converted policy, besides the warnings of reading it."""

from collections.abc import Iterator, Sequence
from typing import Final

from reactive_desched.api.rules import Rule
from reactive_desched.policy.detect_kind import DocumentKind
from reactive_desched.policy.documents import Document
from reactive_desched.policy.legacy.conversion import is_true
from reactive_desched.policy.legacy.strategies import STRATEGIES
from reactive_desched.policy.policy import Profile
from reactive_desched.policy.yaml.diagnostics import Diagnostic
from reactive_desched.policy.yaml.outline import Outline
from reactive_desched.policy.yaml.source_location import SourceLocation
from reactive_desched.policy.yaml.tree import MappingNode

_TAINTS: Final = "RemovePodsViolatingNodeTaints"
_TOTAL: Final = "maxNoOfPodsToEvictTotal"
_INCLUDED: Final = "includedTaints"
_NOW_READ: Final = "no release of the SIG descheduler read this in v1alpha1; in v1alpha2 it does"


def conversion_notices(document: Document, found: Outline) -> Iterator[Diagnostic]:
    """Say what becomes different, or is left out, and does not show in the new text."""
    location = document.location
    if found.has_aliases:
        message = "anchors and aliases are written out"
        yield location.diagnostic(
            message, "the new text says the same without them", rule=Rule.ALIASES_WRITTEN_OUT
        )
    if document.kind is DocumentKind.LEGACY_POLICY:
        yield from _enabled_strategy_locations(location)


def unmergeable_strategies(
    location: SourceLocation, profiles: Sequence[Profile]
) -> Iterator[Diagnostic]:
    """Say which strategies cannot be in the same profile as the first one."""
    for profile in profiles:
        if profile.evictor != profiles[0].evictor:
            first, name = _sole_strategy(profiles[0]), _sole_strategy(profile)
            hint = "its nodeFit or its priority threshold is another"
            yield location.below("strategies", name).diagnostic(
                f"is not merged with {first}", hint, rule=Rule.NOT_MERGED
            )


def _sole_strategy(profile: Profile) -> str:
    """Return the strategy that became a profile."""
    return (*profile.deschedule, *profile.balance)[0]


def _enabled_strategy_locations(location: SourceLocation) -> Iterator[Diagnostic]:
    strategies = location.below("strategies")
    names = strategies.node.keys_in_order if isinstance(strategies.node, MappingNode) else ()
    for name in names:
        enabled = strategies.below(name, "enabled")
        if name in STRATEGIES and not enabled.is_null and not is_true(enabled.node):
            at = strategies.below(name)
            yield at.diagnostic(
                "is not enabled",
                "it is left out: nothing in v1alpha2 stands for it",
                rule=Rule.STRATEGY_NOT_ENABLED,
            )
    revived = [location.below(_TOTAL)]
    if is_true(strategies.below(_TAINTS, "enabled").node):
        revived.append(strategies.below(_TAINTS, "params", _INCLUDED))
    for at in revived:
        if not at.is_null:
            yield at.diagnostic("takes effect now", _NOW_READ, rule=Rule.TAKES_EFFECT_NOW)
