"""A pod's node violates its required affinity, or another meets the preferred one better."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace
from pydantic import Field, ValidationInfo, field_validator

from reactive_desched.api.args import FieldError, FieldErrors, Path, fix_to, raise_field_errors
from reactive_desched.api.index import Index
from reactive_desched.api.plugin import PodPlugin, View
from reactive_desched.api.rules import Rule
from reactive_desched.api.scope import ScopedArgs
from reactive_desched.model.changes import (
    Change,
    NodeAdded,
    NodeLabelsChanged,
    PodBound,
    PodChange,
    PodLabelsChanged,
    PodSpecChanged,
    Resynced,
)
from reactive_desched.model.findings import Finding
from reactive_desched.model.node_affinity import (
    mismatch_wait_s,
    missed_preference_wait_s,
    satisfies_required,
)
from reactive_desched.model.objects import Node, Pod
from reactive_desched.model.subjects import NodeOrPod
from reactive_desched.primitives.hints import did_you_mean, quote, sole_near_name
from reactive_desched.state.indexes.pod_attraction import PodAttraction
from reactive_desched.state.indexes.preferred_affinity import (
    BestPreferenceChanged,
    PreferredAffinity,
)
from reactive_desched.state.indexes.replica_places import ReplicaPlaces

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"

MAX_NAMED: Final = 3
"""A message names so many better nodes; if there are more, it counts them."""


class _Misplaced(Struct, frozen=True):
    """The rule that a pod's node breaks; `targets` are nodes to move it to, None for any."""

    affinity_type: str
    message: str
    figures: Mapping[str, int] = {}
    targets: frozenset[str] | None = None


Check = Callable[[Pod, Node, View], _Misplaced | None]

Wait = Callable[[Pod, Node, View], float]


class NodeAffinityArgs(ScopedArgs):
    """Arguments: the kinds of node affinity that pods are held to."""

    node_affinity_type: tuple[str, ...] = Field(description=f"{REQUIRED} and/or {PREFERRED}.")

    @field_validator("node_affinity_type")
    @classmethod
    def _validate_types(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if not value:
            complaint = FieldError(
                "no kind of affinity is listed", f"write [{REQUIRED}]", rule=Rule.NO_CRITERION
            )
            raise FieldErrors([complaint])
        if info.mode == "json" and _CHECKS.keys().isdisjoint(value):
            raise_field_errors(_skipped_type_errors(value, ()), info.context)
        return value

    def warnings(self) -> Iterator[FieldError]:
        """Say which types are skipped, as upstream does, beside one that is not."""
        if not _CHECKS.keys().isdisjoint(self.node_affinity_type):
            yield from _skipped_type_errors(self.node_affinity_type, ("nodeAffinityType",))


def _skipped_type_errors(written: tuple[str, ...], path: Path) -> Iterator[FieldError]:
    """Report types that do not exist: upstream skips them, and they are probably misspelt."""
    for index, kind in enumerate(written):
        if kind not in _CHECKS:
            hint = did_you_mean(kind, _CHECKS)
            message = f"{quote(kind)} is not a nodeAffinityType: it is skipped"
            yield FieldError(
                message,
                hint,
                (*path, index),
                lenient_ok=True,
                rule=Rule.UNKNOWN_VALUE,
                fix=fix_to(sole_near_name(kind, _CHECKS)),
            )


class NodeAffinityPlugin(PodPlugin[NodeAffinityArgs]):
    """Pods whose node violates required affinity, or is not the best by preferred affinity.

    As upstream, a bare nodeSelector does not qualify a pod, but counts once it has required
    affinity; and a pod goes only if some node fits it, whatever `nodeFit` says. In reactive mode,
    a pod that prefers other nodes goes only if one of those fits it that have a higher weight than
    its own: elsewhere it would be no better off. It waits until one of them has room. A label of
    its node that is gone or differs must stay so for 25 s there, and one that programs set and that
    is gone for 5 min (`guards.standingTimes.nodeLabels` and `systemLabels`): they take labels away
    and set them again when they restart. A sweep evicts at once.
    """

    name = "RemovePodsViolatingNodeAffinity"
    reacts_to = (
        Resynced,
        NodeAdded,
        NodeLabelsChanged,
        BestPreferenceChanged,
        PodBound,
        PodLabelsChanged,
        PodSpecChanged,
    )

    def __init__(self, args: NodeAffinityArgs) -> None:
        super().__init__(args)
        checks = (_CHECKS.get(kind) for kind in args.node_affinity_type)
        self._checks = tuple(check for check in checks if check is not None)

    @property
    def required_indexes(self) -> Iterable[tuple[type[Index], Hashable]]:
        """The weights of nodes, and what the guard `ScoredElsewhere` reads for its answer."""
        if PREFERRED in self.args.node_affinity_type:
            yield from ((kind, None) for kind in (PreferredAffinity, ReplicaPlaces, PodAttraction))

    def matters(self, change: Change) -> bool:
        """Ignore pods without node affinity."""
        return not isinstance(change, PodChange) or change.pod.spec.node_affinity is not None

    def judge(self, subject: NodeOrPod, view: View) -> Iterator[Finding]:
        """Flag every pod that its node fails in one of the configured types."""
        for pod, node, misplaced in self._misplaced(subject, view, self._checks):
            found = misplaced
            if misplaced.affinity_type == PREFERRED:
                found = _naming_better_nodes(pod, node, misplaced, view)
            wait_s = _WAITS[found.affinity_type](pod, node, view)
            yield self._finding(pod, found, view.now_s + wait_s if wait_s else 0.0)

    def sweep(self, view: View) -> Iterator[list[Finding]]:
        """Check all nodes for one type of affinity before the next, as upstream does."""
        for check in self._checks:
            for subject in self.subjects(Resynced(), view):
                misplaced = self._misplaced(subject, view, (check,))
                yield [self._finding(pod, found) for pod, _, found in misplaced]

    def describe(self, pod: Pod, view: View) -> str:
        """Say what the pod requires and prefers of its node."""
        affinity = pod.spec.node_affinity
        if affinity is None or (found := view.pod_and_node(pod.uid)) is None:
            return "the pod has no node affinity"
        node, texts = found[1], []
        if affinity.required is not None and REQUIRED in self.args.node_affinity_type:
            texts.append(f"required node affinity matches {node.name}")
        if affinity.preferred and PREFERRED in self.args.node_affinity_type:
            weight, best = view.index(PreferredAffinity).weights(affinity, node.name)
            texts.append(f"preferred weight {weight} on {node.name}, best is {best}")
        return "; ".join(texts) or "its node affinity is of no type that nodeAffinityType lists"

    def _misplaced(
        self, subject: NodeOrPod, view: View, checks: tuple[Check, ...]
    ) -> Iterator[tuple[Pod, Node, _Misplaced]]:
        if (node_and_pods := view.pods_of(subject)) is None:
            return
        node, pods = node_and_pods
        for pod in pods:
            if pod.spec.node_affinity is None:
                continue
            for check in checks:
                if (found := check(pod, node, view)) is not None:
                    if self.args.covers(pod):
                        yield pod, node, found
                    break

    def _finding(self, pod: Pod, found: _Misplaced, counts_from_s: float = 0.0) -> Finding:
        return Finding(
            pod,
            self.name,
            found.message,
            needs_fit=True,
            targets=found.targets,
            details={"affinityType": found.affinity_type, **found.figures},
            counts_from_s=counts_from_s,
            by_score=found.targets is not None,
            place_rank=found.figures.get("weight"),
        )


def _violates_required(pod: Pod, node: Node, _: View) -> _Misplaced | None:
    affinity = pod.spec.node_affinity
    if affinity is None or affinity.required is None:
        return None
    if satisfies_required(pod.spec.node_selector, affinity, node.name, node.labels):
        return None
    return _Misplaced(REQUIRED, f"required node affinity does not match {node.name}")


def _prefers_other_node(pod: Pod, node: Node, view: View) -> _Misplaced | None:
    affinity = pod.spec.node_affinity
    if affinity is None or not affinity.preferred:
        return None
    weight, best = view.index(PreferredAffinity).weights(affinity, node.name)
    if best <= weight:
        return None
    message = f"prefers another node: weight {weight} on {node.name}, best is {best}"
    return _Misplaced(PREFERRED, message, {"weight": weight, "bestWeight": best})


def _naming_better_nodes(pod: Pod, node: Node, found: _Misplaced, view: View) -> _Misplaced:
    """Return what is wrong with the nodes that the pod prefers as the only ones to move it to."""
    assert pod.spec.node_affinity is not None
    better = view.index(PreferredAffinity).better_nodes(pod.spec.node_affinity, node.name)
    named = ", ".join(sorted(better)) if len(better) <= MAX_NAMED else f"{len(better)} nodes"
    return replace(
        found,
        message=f"{found.message}; better than {node.name}: {named}",
        targets=better,
        figures={**found.figures, "betterNodes": len(better)},
    )


def _violated_wait_s(pod: Pod, node: Node, view: View) -> float:
    affinity = pod.spec.node_affinity
    assert affinity is not None, "it violates its node affinity"
    wait_s = partial(view.label_wait_s, node)
    return mismatch_wait_s(pod.spec.node_selector, affinity, node.name, node.labels, wait_s)


def _missed_wait_s(pod: Pod, node: Node, view: View) -> float:
    affinity = pod.spec.node_affinity
    assert affinity is not None, "it prefers another node"
    wait_s = partial(view.label_wait_s, node)
    return missed_preference_wait_s(affinity.preferred, node.name, node.labels, wait_s)


_WAITS: Final[dict[str, Wait]] = {
    REQUIRED: _violated_wait_s,
    PREFERRED: _missed_wait_s,
}

_CHECKS: Final[dict[str, Check]] = {
    REQUIRED: _violates_required,
    PREFERRED: _prefers_other_node,
}
