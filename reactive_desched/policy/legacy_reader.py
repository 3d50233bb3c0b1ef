"""Reads the legacy format: checks a document as what it is, and gives it in today's format."""

from collections.abc import Iterator
from typing import Final

from reactive_desched.policy.conversion import convert, is_true
from reactive_desched.policy.decode import Decoder, known_part
from reactive_desched.policy.diagnostics import Problem, ProblemList, ProblemsElsewhere, quoted
from reactive_desched.policy.hints import did_you_mean
from reactive_desched.policy.legacy_advice import LegacyAdvice
from reactive_desched.policy.registry import DEFAULT_EVICTOR
from reactive_desched.policy.source_location import Place
from reactive_desched.policy.strategies import STATES, STRATEGIES, THRESHOLDS, Below
from reactive_desched.policy.tree import Items, Node, Scalar, Table
from reactive_desched.policy.v1alpha1 import API_VERSION, LegacyPolicy, StrategyParameters

_IDENTITY: Final = frozenset(("apiVersion", "kind"))
_AGE: Final[Below] = ("podLifeTime", "maxPodLifeTimeSeconds")
_KNOWN_STATES: Final = (
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

    def __init__(self, found: ProblemList) -> None:
        self._found = found
        self._decoder = Decoder(found, LegacyAdvice())

    def converted(self, document: Place) -> Place:
        """Check what only this format has, and give the document in today's format.

        Problems found in what is returned name the place in the document as it was written.
        """
        hint = "it is converted on load; `reactive-desched policy convert` writes the new one"
        message = f"{API_VERSION} is the legacy format"
        self._found.warn(document.below("apiVersion").problem(message, hint))
        self._decoder.decode(LegacyPolicy, document, _IDENTITY)
        root = document.root
        if not isinstance(root, Table):
            return document
        strategies, found = document.below("strategies"), ProblemsElsewhere(self._found)
        if isinstance(strategies.node, Table):
            for name in strategies.node.keys_in_order:
                _check(name, strategies.below(name), found)
        conversion = convert(root)
        if conversion.tree.get("profiles") is None:
            message = "no strategy is enabled"
            self._found.warn(strategies.problem(message, "nothing will be evicted"))
        return Place(document.source, conversion.tree, origin=conversion.origin)


def _check(name: str, at: Place, found: ProblemList) -> None:
    """Check one strategy."""
    is_enabled = is_true(at.below("enabled").node)
    if name not in STRATEGIES:
        found.add(_unknown(name, at, is_enabled=is_enabled))
    elif not is_enabled:
        if at.below("enabled").is_null:
            found.warn(at.problem("is not enabled", "it runs only with enabled: true"))
    else:
        for problem in _refusals(name, at.below("params")):
            found.add(problem)
        for problem in _idle_parts(name, at):
            found.warn(problem)


def _unknown(name: str, at: Place, *, is_enabled: bool) -> Problem:
    """Say that there is no such strategy; upstream lets a disabled evictor pass."""
    if name == DEFAULT_EVICTOR:
        hint = "write its options at the top level of the policy"
        return at.problem(f"{name} is no strategy", hint, forgivable=not is_enabled)
    hint = did_you_mean(name, frozenset(STRATEGIES)) or "remove it: there are only the ten"
    return at.problem(f"there is no strategy {quoted(name)}", hint)


def _refusals(name: str, params: Place) -> Iterator[Problem]:
    """Give what the last release that read this format refused, and today's would not."""
    number, word = (params.below(*path) for path in THRESHOLDS.values())
    if not number.is_null and word.word:
        message = f"priority threshold misconfigured for plugin {name}"
        hint = "keep one of thresholdPriority and thresholdPriorityClassName"
        yield number.problem(message, hint)
    if name == "PodLifeTime":
        yield from _age_refusals(params)


def _age_refusals(params: Place) -> Iterator[Problem]:
    """Give what PodLifeTime could not do without, and the states it did not know."""
    if params.below(*_AGE).is_null:
        hint = "v1alpha2 does without where states are given"
        yield params.below(*_AGE).problem("is required in this format", hint)
    for path in STATES:
        for state, at in params.below(*path).words():
            if state not in _KNOWN_STATES:
                hint = did_you_mean(state, _KNOWN_STATES) or f"known are {', '.join(_KNOWN_STATES)}"
                yield at.problem(f"{quoted(state)} is not a state v1alpha1 knows", hint)


def _idle_parts(name: str, at: Place) -> Iterator[Problem]:
    """Give what is written for a strategy and has no effect on it."""
    if not at.below("weight").is_null:
        yield at.below("weight").problem("has no effect", "it never had one: remove it")
    params = at.below("params")
    written = known_part(params.node, StrategyParameters) if params.node is not None else None
    for path in _said(written, ()):
        if not STRATEGIES[name].reads(path):
            yield params.below(*path).problem("has no effect", _readers(name, path))


def _said(node: Node | None, path: Below) -> Iterator[Below]:
    """Give the paths, at most two keys long, at which something is said."""
    for entry in node.entries if isinstance(node, Table) else ():
        below = (*path, entry.key)
        if isinstance(entry.value, Table) and len(path) == 0 and _is_block(below):
            yield from _said(entry.value, below)
        elif _says_something(entry.value):
            yield below


def _is_block(path: Below) -> bool:
    """Say whether a parameter is a block that some strategy reads a part of."""
    paths = (each for it in STRATEGIES.values() for each in (*it.copies.values(), *it.makes))
    return any(len(each) > 1 and each[0] == path[0] for each in paths)


def _says_something(node: Node) -> bool:
    match node:
        case Scalar(value=value):
            return value not in (None, False, "")
        case Items(items=parts) | Table(entries=parts):
            return bool(parts)


def _readers(name: str, path: Below) -> str:
    """Say who reads a parameter that a strategy does not."""
    readers = [each for each, strategy in STRATEGIES.items() if strategy.reads(path)]
    if len(readers) > len(STRATEGIES) // 2:
        return f"{name} does not read it"
    return f"{name} does not read it, {' and '.join(readers)} would"
