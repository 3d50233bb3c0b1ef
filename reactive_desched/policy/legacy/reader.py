"""Reads the legacy format: checks a document as what it is, and gives it in today's format."""

from collections.abc import Iterator
from typing import Final

from reactive_desched.api.args import Fix, fix_to
from reactive_desched.api.rules import Rule
from reactive_desched.policy.legacy.conversion import convert, is_true
from reactive_desched.policy.legacy.field_advice import LegacyFieldHints
from reactive_desched.policy.legacy.strategies import STATES, STRATEGIES, THRESHOLDS, ParamPath
from reactive_desched.policy.legacy.v1alpha1 import API_VERSION, LegacyPolicy, StrategyParameters
from reactive_desched.policy.registry import DEFAULT_EVICTOR
from reactive_desched.policy.yaml.decode import Decoder, known_fields_only
from reactive_desched.policy.yaml.diagnostics import (
    Diagnostic,
    DiagnosticDeduplicator,
    DiagnosticList,
)
from reactive_desched.policy.yaml.source_location import SourceLocation
from reactive_desched.policy.yaml.tree import MappingNode, ScalarNode, SequenceNode, YamlNode
from reactive_desched.primitives.hints import did_you_mean, quote, sole_near_name

_IDENTITY: Final = frozenset(("apiVersion", "kind"))
_MAX_AGE_PARAM: Final[ParamPath] = ("podLifeTime", "maxPodLifeTimeSeconds")
_V1ALPHA1_STATES: Final = (
    "ContainerCreating",
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "NodeAffinity",
    "NodeLost",
    "Pending",
    "PodInitializing",
    "Running",
    "Shutdown",
    "UnexpectedAdmissionError",
    "Unknown",
)
"""What the last release that read this format took for a state; v1alpha2 has more of them."""


class LegacyReader:
    """Checks documents in the legacy format.

    Types are checked everywhere, as upstream does; the rest only where a strategy is enabled.
    """

    def __init__(self, diagnostics: DiagnosticList) -> None:
        self._diagnostics = diagnostics
        self._decoder = Decoder(diagnostics, LegacyFieldHints())

    def read(self, document: SourceLocation) -> SourceLocation:
        """Check what only this format has, and give the document in today's format.

        Problems found in what is returned name the place in the document as it was written.
        """
        hint = "it is converted on load; `reactive-desched policy convert` writes the new one"
        message = f"{API_VERSION} is the legacy format"
        self._diagnostics.warn(
            document.below("apiVersion").diagnostic(message, hint, rule=Rule.LEGACY_FORMAT)
        )
        self._decoder.decode(LegacyPolicy, document, _IDENTITY)
        root = document.root
        if not isinstance(root, MappingNode):
            return document
        strategies, diagnostics = (
            document.below("strategies"),
            DiagnosticDeduplicator(self._diagnostics),
        )
        if isinstance(strategies.node, MappingNode):
            for name in strategies.node.keys_in_order:
                _check_strategy(name, strategies.below(name), diagnostics)
        conversion = convert(root)
        if conversion.tree.get("profiles") is None:
            message = "no strategy is enabled"
            self._diagnostics.warn(
                strategies.diagnostic(message, "nothing will be evicted", rule=Rule.NO_STRATEGY)
            )
        return SourceLocation(document.source, conversion.tree, origin=conversion.origin)


def _check_strategy(name: str, at: SourceLocation, diagnostics: DiagnosticList) -> None:
    """Check one strategy."""
    is_enabled = is_true(at.below("enabled").node)
    if name not in STRATEGIES:
        diagnostics.add(_unknown_strategy(name, at, is_enabled=is_enabled))
    elif not is_enabled:
        if at.below("enabled").is_null:
            diagnostics.warn(
                at.diagnostic(
                    "is not enabled",
                    "it runs only with enabled: true",
                    rule=Rule.STRATEGY_NOT_ENABLED,
                )
            )
    else:
        for problem in _v1alpha1_errors(name, at.below("params")):
            diagnostics.add(problem)
        for problem in _unused_params(name, at):
            diagnostics.warn(problem)


def _unknown_strategy(name: str, at: SourceLocation, *, is_enabled: bool) -> Diagnostic:
    """Say that there is no such strategy; upstream lets a disabled evictor pass."""
    if name == DEFAULT_EVICTOR:
        hint = "write its options at the top level of the policy"
        return at.diagnostic(
            f"{name} is not a strategy",
            hint,
            lenient_ok=not is_enabled,
            rule=Rule.UNKNOWN_STRATEGY,
            at_key=True,
        )
    hint = did_you_mean(name, frozenset(STRATEGIES)) or "remove it, or write one of " + ", ".join(
        STRATEGIES
    )
    return at.diagnostic(
        f"there is no strategy {quote(name)}",
        hint,
        rule=Rule.UNKNOWN_STRATEGY,
        fix=fix_to(sole_near_name(name, STRATEGIES)),
        at_key=True,
    )


def _v1alpha1_errors(name: str, params: SourceLocation) -> Iterator[Diagnostic]:
    """Return what the last release that read this format refused, and today's would not."""
    number, class_name = (params.below(*path) for path in THRESHOLDS.values())
    if not number.is_null and class_name.text:
        message = "only one of thresholdPriority and thresholdPriorityClassName can count"
        hint = "keep one of them"
        yield number.diagnostic(message, hint, rule=Rule.EXCLUSIVE_FIELDS)
    if name == "PodLifeTime":
        yield from _pod_life_time_errors(params)


def _pod_life_time_errors(params: SourceLocation) -> Iterator[Diagnostic]:
    """Return what PodLifeTime could not do without, and the states it did not know."""
    if params.below(*_MAX_AGE_PARAM).is_null:
        hint = "v1alpha2 does without where states are given"
        yield params.below(*_MAX_AGE_PARAM).diagnostic(
            "is required in this format", hint, rule=Rule.MISSING_FIELD
        )
    for path in STATES:
        for state, at in params.below(*path).texts():
            if state not in _V1ALPHA1_STATES:
                hint = (
                    did_you_mean(state, _V1ALPHA1_STATES)
                    or f"known are {', '.join(_V1ALPHA1_STATES)}"
                )
                yield at.diagnostic(
                    f"{quote(state)} is no state of v1alpha1",
                    hint,
                    rule=Rule.UNKNOWN_VALUE,
                    fix=fix_to(sole_near_name(state, _V1ALPHA1_STATES)),
                )


def _unused_params(name: str, at: SourceLocation) -> Iterator[Diagnostic]:
    """Return what is written for a strategy and has no effect on it."""
    if not at.below("weight").is_null:
        yield at.below("weight").diagnostic(
            "has no effect",
            "it never had one: remove it",
            rule=Rule.UNREAD_PARAMETER,
            fix=Fix(None),
            at_key=True,
        )
    params = at.below("params")
    written = (
        known_fields_only(params.node, StrategyParameters) if params.node is not None else None
    )
    for path in _set_paths(written, ()):
        if not STRATEGIES[name].reads(path):
            yield params.below(*path).diagnostic(
                "has no effect",
                _unread_hint(name, path),
                rule=Rule.UNREAD_PARAMETER,
                at_key=True,
            )


def _set_paths(node: YamlNode | None, path: ParamPath) -> Iterator[ParamPath]:
    """Return the paths, at most two keys long, at which something is said."""
    for entry in node.entries if isinstance(node, MappingNode) else ():
        below = (*path, entry.key)
        if isinstance(entry.value, MappingNode) and len(path) == 0 and _is_block(below):
            yield from _set_paths(entry.value, below)
        elif _has_value(entry.value):
            yield below


def _is_block(path: ParamPath) -> bool:
    """Say whether a parameter is a block that some strategy reads a part of."""
    paths = (
        each
        for it in STRATEGIES.values()
        for each in (*it.copied_params.values(), *it.derived_params)
    )
    return any(len(each) > 1 and each[0] == path[0] for each in paths)


def _has_value(node: YamlNode) -> bool:
    match node:
        case ScalarNode(value=value):
            return value not in (None, False, "")
        case SequenceNode(items=parts) | MappingNode(entries=parts):
            return bool(parts)


def _unread_hint(name: str, path: ParamPath) -> str:
    """Name the strategies that read a parameter that this one ignores."""
    readers = [each for each, strategy in STRATEGIES.items() if strategy.reads(path)]
    if len(readers) > len(STRATEGIES) // 2:
        return f"{name} does not read it"
    return f"{name} does not read it, {' and '.join(readers)} would"
