"""What someone who converts a policy should know, besides what reading it tells."""

from collections.abc import Iterator, Sequence
from typing import Final

from reactive_desched.policy.conversion import is_true
from reactive_desched.policy.detect_kind import Kind
from reactive_desched.policy.diagnostics import Problem
from reactive_desched.policy.documents import Document
from reactive_desched.policy.outline import Outline
from reactive_desched.policy.policy import Profile
from reactive_desched.policy.source_location import Place
from reactive_desched.policy.strategies import STRATEGIES
from reactive_desched.policy.tree import Table

_TAINTS: Final = "RemovePodsViolatingNodeTaints"
_TOTAL: Final = "maxNoOfPodsToEvictTotal"
_INCLUDED: Final = "includedTaints"
_REVIVED: Final = "no release of the SIG descheduler read this in v1alpha1; in v1alpha2 it does"


def notices(document: Document, found: Outline) -> Iterator[Problem]:
    """Say what becomes different, or is left out, and does not show in the new text."""
    place = document.place
    if found.shares:
        message = "anchors and aliases are written out"
        yield place.problem(message, "the new text says the same without them")
    if document.kind is Kind.LEGACY_POLICY:
        yield from _of_strategies(place)


def apart(place: Place, profiles: Sequence[Profile]) -> Iterator[Problem]:
    """Say which strategies cannot be in the same profile as the first one."""
    for profile in profiles:
        if profile.evictor != profiles[0].evictor:
            first, name = _only(profiles[0]), _only(profile)
            hint = "its nodeFit or its priority threshold is another"
            yield place.below("strategies", name).problem(f"is not merged with {first}", hint)


def _only(profile: Profile) -> str:
    """Give the strategy that became a profile."""
    return (*profile.deschedule, *profile.balance)[0]


def _of_strategies(place: Place) -> Iterator[Problem]:
    strategies = place.below("strategies")
    names = strategies.node.keys_in_order if isinstance(strategies.node, Table) else ()
    for name in names:
        enabled = strategies.below(name, "enabled")
        if name in STRATEGIES and not enabled.is_null and not is_true(enabled.node):
            at = strategies.below(name)
            yield at.problem("is not enabled", "it is left out: nothing in v1alpha2 stands for it")
    revived = [place.below(_TOTAL)]
    if is_true(strategies.below(_TAINTS, "enabled").node):
        revived.append(strategies.below(_TAINTS, "params", _INCLUDED))
    for at in revived:
        if not at.is_null:
            yield at.problem("takes effect now", _REVIVED)
