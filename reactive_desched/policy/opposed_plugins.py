"""Plugins of a policy that undo each other: one fills or spreads what another empties or packs."""

from collections.abc import Iterable, Iterator
from itertools import permutations, product
from typing import Final

from msgspec import Struct

from reactive_desched.api.args import MovesBetweenNodes, NodeBand
from reactive_desched.api.rules import Rule
from reactive_desched.model.labels import LabelSelector, Requirement
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.policy import Policy, Profile
from reactive_desched.policy.yaml.diagnostics import Diagnostic
from reactive_desched.policy.yaml.source_location import SourceLocation

_HINT: Final = (
    "enable one of them, or limit them to different pods by the labelSelector of each profile's "
    "DefaultEvictor, or"
)

Requirements = tuple[Requirement, ...]


class _Mover(Struct, frozen=True):
    """A plugin that moves pods between nodes, for one of its pools of nodes."""

    name: str
    profile: Profile
    band: NodeBand
    at: SourceLocation

    def named_beside(self, other: "_Mover") -> str:
        """Name the plugin, and its profile where the other one is in another."""
        if self.profile.name == other.profile.name:
            return self.name
        return f"{self.name} of profile {self.profile.name}"


def opposed_plugins(policy: Policy, location: SourceLocation) -> Iterator[Diagnostic]:
    """Name each pair of plugins of which one fills the nodes that the other takes pods from."""
    reported: set[tuple[str, str, str, str]] = set()
    for filler, taker in permutations(_movers(policy, location), 2):
        pair = filler.profile.name, filler.name, taker.profile.name, taker.name
        if pair[:2] == pair[2:] or pair in reported or _are_apart(filler, taker):
            continue
        if (found := _opposition(filler, taker)) is not None:
            reported.add(pair)
            yield found


def _movers(policy: Policy, location: SourceLocation) -> Iterator[_Mover]:
    for profile, at in zip(policy.profiles, location.below("profiles").items(), strict=True):
        for name in profile.balance:
            args = profile.args.get(name)
            if isinstance(args, MovesBetweenNodes):
                for band in args.node_bands():
                    yield _Mover(name, profile, band, _place_of(name, at))


def _place_of(name: str, profile: SourceLocation) -> SourceLocation:
    """Return where a plugin is configured, else where the profile enables it."""
    configured = (entry.below("name") for entry in profile.below("pluginConfig").items())
    enabled = (at for _, at in profile.below("plugins", "balance", "enabled").texts())
    found = (at for at in (*configured, *enabled) if at.text == name)
    return next(found, profile)


def _opposition(filler: _Mover, taker: _Mover) -> Diagnostic | None:
    """Return what is wrong where a node that one plugin fills is one that the other empties."""
    fills, empties, drains = filler.band.fills, taker.band.empties, taker.band.drains
    if filler.band.spreads and taker.band.packs:
        message = (
            f"{filler.named_beside(taker)} spreads {filler.band.spreads}, and "
            f"{taker.named_beside(filler)} moves pods to as few nodes as it can: each undoes some "
            "of what the other does"
        )
        change = "write constraints with DoNotSchedule, which both keep"
        return taker.at.diagnostic(message, f"{_HINT} {change}", rule=Rule.OPPOSED_PLUGINS)
    if fills and taker.band.empties_any:
        message = (
            f"{filler.named_beside(taker)} fills nodes that are used little, and "
            f"{taker.named_beside(filler)} empties nodes, whatever they use: each undoes what the "
            "other does"
        )
        change = "limit both to different nodes by a nodeSelector"
        return taker.at.diagnostic(message, f"{_HINT} {change}", rule=Rule.OPPOSED_PLUGINS)
    for resource in sorted(fills.keys() & (empties.keys() | drains.keys())):
        low = fills[resource]
        if (limit := empties.get(resource)) is not None and limit > low:
            does, bound = f"empties nodes that use at most {limit:g} % of it", "thresholds"
        elif (limit := drains.get(resource)) is not None and limit < low:
            does, bound = f"takes pods from nodes that use more than {limit:g} %", ""
        else:
            continue
        message = (
            f"{filler.named_beside(taker)} fills nodes that use at most {low:g} % of their"
            f" {resource}, and {taker.named_beside(filler)} {does}: each undoes what the other does"
        )
        change = f"lower {bound}.{resource} to {low:g}" if bound else f"raise it to {low:g}"
        return taker.at.diagnostic(message, f"{_HINT} {change}", rule=Rule.OPPOSED_PLUGINS)
    return None


def _are_apart(one: _Mover, other: _Mover) -> bool:
    """Say whether two plugins never have a pod or a node in common."""
    if _exclude(_requirements(one.band.nodes), _requirements(other.band.nodes)):
        return True
    return any(
        _exclude(first, second)
        for first, second in zip(
            _scopes(one.profile.evictor), _scopes(other.profile.evictor), strict=True
        )
    )


def _scopes(evictor: DefaultEvictorArgs) -> tuple[Requirements, ...]:
    """Return what limits a profile to pods, to namespaces, and to nodes that may take pods."""
    return (
        _requirements(evictor.label_selector),
        _requirements(evictor.namespace_label_selector),
        evictor.node_selector.requirements if evictor.node_fit else (),
    )


def _requirements(selector: LabelSelector | None) -> Requirements:
    if selector is None:
        return ()
    labels = selector.match_labels.items()
    own = tuple(Requirement(key, "In", (value,)) for key, value in labels)
    return (*own, *selector.match_expressions)


def _exclude(one: Iterable[Requirement], other: Iterable[Requirement]) -> bool:
    """Say whether no labels can meet both."""
    pairs = [(first, second) for first, second in product(one, other) if first.key == second.key]
    return any(_contradict(first, second) or _contradict(second, first) for first, second in pairs)


def _contradict(one: Requirement, other: Requirement) -> bool:
    """Say whether no value of the label meets both; asked in both orders."""
    match one.operator, other.operator:
        case "In", "In":
            return not set(one.values) & set(other.values)
        case "In", "NotIn":
            return set(one.values) <= set(other.values)
        case "DoesNotExist", "In" | "Exists":
            return True
        case _:
            return False
