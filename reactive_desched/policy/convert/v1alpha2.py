"""Deprecated forms of a policy in today's format, written as what replaces them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from reactive_desched.api.args import Path
from reactive_desched.model.usage import MetricsSourceKind
from reactive_desched.policy.convert.draft import (
    Block,
    Draft,
    DraftPart,
    Leaf,
    map_parts,
    text_leaf,
    with_value,
)
from reactive_desched.policy.protections import Protection
from reactive_desched.policy.registry import DEFAULT_EVICTOR

_PROTECTIONS: Final = "podProtections"
_OFF_LIST: Final = "defaultDisabled"
_ON_LIST: Final = "extraEnabled"
DEPRECATED_SWITCHES: Final[Mapping[str, tuple[str, Protection]]] = {
    "evictLocalStoragePods": (_OFF_LIST, Protection.LOCAL_STORAGE),
    "evictDaemonSetPods": (_OFF_LIST, Protection.DAEMON_SET),
    "evictSystemCriticalPods": (_OFF_LIST, Protection.SYSTEM_CRITICAL),
    "evictFailedBarePods": (_OFF_LIST, Protection.FAILED_BARE),
    "ignorePvcPods": (_ON_LIST, Protection.PVC),
    "ignorePodsWithoutPDB": (_ON_LIST, Protection.WITHOUT_PDB),
}
"""The deprecated switches of the evictor: the list that replaces each, and its entry there."""

_COLLECTOR: Final = "metricsCollector"
_PROVIDERS: Final = "metricsProviders"
_SERVER: Final = "metricsServer"
_SOURCE: Final = "source"


def replace_deprecated(policy: Draft) -> Draft:
    """Replace what is deprecated; a policy without it stays the same object."""
    inside = map_parts(policy, _replace_in_part)
    return _replace_collector(inside) if isinstance(inside, Block) else inside


def _replace_in_part(path: Path, part: DraftPart) -> DraftPart:
    """Replace what is deprecated in the entry of a plugin."""
    match path, part.value:
        case ("profiles", int(), "pluginConfig", int()), Block() as entry:
            return _replace_evictor_switches(part, entry)
        case (
            ("profiles", int(), "pluginConfig", int(), "args", "metricsUtilization"),
            Block() as use,
        ):
            return _replace_metrics_switch(part, use)
        case _:
            return part


def _replace_evictor_switches(part: DraftPart, entry: Block) -> DraftPart:
    """Put the switches of the evictor into the lists that replace them."""
    args = entry.part("args")
    if (
        entry.scalar_value("name") != DEFAULT_EVICTOR
        or args is None
        or not isinstance(args.value, Block)
    ):
        return part
    switches = [each for each in args.value.parts if each.key in DEPRECATED_SWITCHES]
    if not switches:
        return part
    old = args.value.part(_PROTECTIONS)
    new = _protections(old, [each for each in switches if _is_on(each)])
    lists = _replace_parts(args.value, [*([] if old is None else [old]), *switches], new)
    return with_value(
        part, _replace_parts(entry, [args], with_value(args, lists) if lists.parts else None)
    )


def _protections(old: DraftPart | None, switches: Sequence[DraftPart]) -> DraftPart | None:
    """Add to the lists what the switches say."""
    if not switches:
        return old
    inside = old.value if old is not None and isinstance(old.value, Block) else Block(())
    lists = filter(None, (_list(name, inside, switches) for name in (_OFF_LIST, _ON_LIST)))
    rest = (each for each in inside.parts if each.key not in (_OFF_LIST, _ON_LIST))
    return with_value(
        old or DraftPart(_PROTECTIONS, inside), replace(inside, parts=(*lists, *rest))
    )


def _list(name: str, inside: Block, switches: Sequence[DraftPart]) -> DraftPart | None:
    """Return one of the lists with what the switches add, or None if nothing is in it."""
    pairs = ((DEPRECATED_SWITCHES[each.key or ""], each) for each in switches)
    added = tuple(
        DraftPart(None, text_leaf(pair[1]), each.source_path)
        for pair, each in pairs
        if pair[0] == name
    )
    old = inside.part(name)
    if old is not None and isinstance(old.value, Block):
        return _with_items(old, *added)
    return DraftPart(name, Block(added, is_list=True)) if added else None


def _replace_metrics_switch(part: DraftPart, utilization: Block) -> DraftPart:
    """Name the source of metrics that a switch stood for."""
    switch, has_source = utilization.part(_SERVER), bool(utilization.scalar_value(_SOURCE))
    if switch is None or not (has_source or _is_on(switch)):
        return part
    named = (
        None
        if has_source
        else DraftPart(_SOURCE, text_leaf(MetricsSourceKind.KUBERNETES), switch.source_path)
    )
    old = [each for each in utilization.parts if each.key == _SOURCE and not has_source]
    return with_value(part, _replace_parts(utilization, [switch, *old], named))


def _replace_collector(policy: Block) -> Block:
    """Make a provider of metrics of the switch that stood for one."""
    collector, providers = policy.part(_COLLECTOR), policy.part(_PROVIDERS)
    if collector is None:
        return policy
    inside = collector.value
    if not (isinstance(inside, Block) and inside.scalar_value("enabled") is True):
        return _replace_parts(policy, [collector], None)
    source = DraftPart(_SOURCE, text_leaf(MetricsSourceKind.KUBERNETES), (_COLLECTOR, "enabled"))
    if providers is None or not isinstance(providers.value, Block):
        provider = Block((DraftPart(None, Block((source,))),), is_list=True)
        new = DraftPart(_PROVIDERS, provider, collector.source_path)
    else:
        new = _with_items(providers, DraftPart(None, Block((source,)), collector.source_path))
    return _replace_parts(policy, [*([] if providers is None else [providers]), collector], new)


def _with_items(part: DraftPart, *added: DraftPart) -> DraftPart:
    """Return a list with more items."""
    if not (added and isinstance(part.value, Block)):
        return part
    return with_value(part, replace(part.value, parts=(*part.value.parts, *added)))


def _is_on(part: DraftPart) -> bool:
    return isinstance(part.value, Leaf) and part.value.value is True


def _replace_parts(block: Block, old: Sequence[DraftPart], new: DraftPart | None) -> Block:
    """Put a part in the place of the first of those that are taken out."""
    made: list[DraftPart] = []
    for part in block.parts:
        if part is old[0] and new is not None:
            made.append(new)
        elif all(part is not each for each in old):
            made.append(part)
    return replace(block, parts=tuple(made))
