"""Finds where a field that the legacy format does not know belongs, for a hint in the error."""

from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import BaseModel

from reactive_desched.api.args import Path
from reactive_desched.api.rules import Rule
from reactive_desched.policy.document import PolicyDocument
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.legacy.strategies import STRATEGIES
from reactive_desched.policy.legacy.v1alpha1 import (
    LegacyFailedPods,
    LegacyPodLifeTime,
    LegacyPolicy,
    LegacyRemoveDuplicates,
    LegacyTooManyRestarts,
    LegacyUtilizationThresholds,
    StrategyParameters,
)
from reactive_desched.policy.unknown_fields import NAMESPACE_LISTS_HINT, REMOVE_HINT, WRAPPERS
from reactive_desched.policy.yaml.decode import FieldAdvice, FieldHints, fields_by_key
from reactive_desched.policy.yaml.source_location import SourceLocation
from reactive_desched.policy.yaml.tree import (
    MappingEntry,
    MappingNode,
    ScalarNode,
    SequenceNode,
    YamlNode,
)
from reactive_desched.primitives.hints import quote, same_ignoring_case
from reactive_desched.text.counts import format_count

_BLOCKS: Final[Mapping[str, type[BaseModel]]] = {
    "nodeResourceUtilizationThresholds": LegacyUtilizationThresholds,
    "podsHavingTooManyRestarts": LegacyTooManyRestarts,
    "podLifeTime": LegacyPodLifeTime,
    "removeDuplicates": LegacyRemoveDuplicates,
    "failedPods": LegacyFailedPods,
}
_PARAMETERS: Final = frozenset(fields_by_key(StrategyParameters))
_TOP: Final = frozenset(fields_by_key(LegacyPolicy))
_V1ALPHA2_FIELDS: Final = frozenset(fields_by_key(PolicyDocument)) | frozenset(
    fields_by_key(DefaultEvictorArgs)
)
_NEW_NAMES: Final[Mapping[str, str]] = {
    "constraints": "in v1alpha1 write includeSoftConstraints: true for soft ones too",
    "evictableNamespaces": "in v1alpha1 write namespaces: {exclude: […]}",
    "priorityThreshold": "in v1alpha1 write thresholdPriority or thresholdPriorityClassName",
    "topologyBalanceNodeFit": "v1alpha2; it is always on in this format",
}
_V1ALPHA2_ONLY_HINT: Final = (
    "only v1alpha2 has it: `reactive-desched policy convert` writes the policy in that format"
)
_RESOURCES: Final = frozenset(("cpu", "memory", "pods"))


class LegacyFieldHints(FieldHints):
    """Hints by the fields of a v1alpha1 policy."""

    allows_lenient = True

    def unknown_field(
        self, entry: MappingEntry, at: SourceLocation, known_fields: frozenset[str]
    ) -> FieldAdvice:
        """Say where the field belongs, else which known name is near."""
        if at.path == () and entry.key == "profiles":
            return _leftover_profiles_hint(entry.value)
        if same_ignoring_case(entry.key, known_fields) is None:
            home = next(_possible_locations(entry.key, at.path), None)
            if home is not None:
                return FieldAdvice.misplaced(home)
        return FieldAdvice.near(entry.key, known_fields, REMOVE_HINT)

    def wrong_type(self, path: Path, node: YamlNode | None) -> str:
        """Recognise what people write in another form."""
        match path, node:
            case ("nodeSelector",), MappingNode():
                return 'write labels as one text, for example "pool=blue,zone in (a,b)"'
            case ("strategies",), SequenceNode():
                return "write each strategy as a key with what it is below: PodLifeTime: {…}"
            case ("strategies", name), ScalarNode():
                return f"write {name}: {{enabled: true}}"
            case (*_, "thresholdPriority"), ScalarNode(value=str() as plural):
                return f"write thresholdPriorityClassName: {quote(plural)[1:-1]}"
            case (*_, "namespaces"), SequenceNode():
                return NAMESPACE_LISTS_HINT
            case _:
                return ""

    def upstream_ignores(self, path: Path) -> bool:
        """Upstream read this format so at every level."""
        del path
        return True


def _possible_locations(key: str, path: Path) -> Iterator[str]:
    """Say where a field of this name is read, the most likely place first."""
    match path:
        case ():
            yield from _from_top(key)
        case ("strategies", name):
            yield from _from_strategy(key, str(name))
        case ("strategies", name, "params"):
            yield from _from_params(key, str(name))
        case ("strategies", str(), "params", block):
            yield from _from_block(key, str(block))
        case _:
            return


def _from_top(key: str) -> Iterator[str]:
    if key in WRAPPERS:
        yield WRAPPERS[key]
    if (name := same_ignoring_case(key, STRATEGIES)) is not None:
        yield f"move it below strategies, as {name}"
    if key in _PARAMETERS or key in _BLOCKS:
        yield "move it to the params of the strategies it is meant for"
    if (home := _block_of(key, "")) is not None:
        yield f"move it to the params of its strategy, below {home}"
    if key in _V1ALPHA2_FIELDS:
        yield _V1ALPHA2_ONLY_HINT


def _from_strategy(key: str, name: str) -> Iterator[str]:
    if key == "args":
        yield "v1alpha1 calls it params"
    if key == "name":
        yield "the name is the key above"
    if key in _PARAMETERS:
        yield "move it below params"
    if (home := _block_of(key, name)) is not None:
        yield f"move it below params.{home}"
    yield from _from_v1alpha2(key)


def _from_params(key: str, name: str) -> Iterator[str]:
    if (home := _block_of(key, name)) is not None:
        yield f"move it below {home}"
    if key in _RESOURCES:
        yield "move it below nodeResourceUtilizationThresholds.thresholds or targetThresholds"
    yield from _from_v1alpha2(key)


def _from_block(key: str, block: str) -> Iterator[str]:
    if key in _PARAMETERS:
        yield "move it one level up, to params"
    if block == "nodeResourceUtilizationThresholds" and key in _RESOURCES:
        yield "move it below thresholds or targetThresholds"
    yield from _from_v1alpha2(key)


def _from_v1alpha2(key: str) -> Iterator[str]:
    if key in _NEW_NAMES:
        yield _NEW_NAMES[key]
    if key in _TOP:
        yield "move it to the top level of the policy"
    if same_ignoring_case(key, STRATEGIES) is not None:
        yield "move it up, below strategies"
    if key in _V1ALPHA2_FIELDS:
        yield _V1ALPHA2_ONLY_HINT


def _block_of(key: str, name: str) -> str | None:
    """Return the block of params that has such a field, that of the strategy if it has one."""
    fields = {
        block: same_ignoring_case(key, fields_by_key(model)) for block, model in _BLOCKS.items()
    }
    blocks = [(block, field) for block, field in fields.items() if field is not None]
    strategy = STRATEGIES.get(name)
    own = (each for each in blocks if strategy is not None and strategy.reads(each))
    home = next(own, blocks[0] if blocks else None)
    if home is None:
        return None
    return home[0] if home[1] == key else f"{home[0]}, as {home[1]}"


def _leftover_profiles_hint(written: YamlNode) -> FieldAdvice:
    """Say what is lost when profiles are written under the old version."""
    count = len(written.items) if isinstance(written, SequenceNode) else 0
    message = f"{format_count(count, 'profile')} would not run: " if count else ""
    return FieldAdvice(
        Rule.OTHER_VERSION_FIELD,
        "is v1alpha2 and not read under v1alpha1",
        f"{message}write apiVersion: descheduler/v1alpha2",
    )
