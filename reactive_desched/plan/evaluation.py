"""The result of a preview, and each of its decisions as the report has it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from reactive_desched.gate.evictor import EvictorFilters
from reactive_desched.gate.filters import UPSTREAM_RULES, EvictorRules, pod_filters
from reactive_desched.gate.profile_view import ProfileView
from reactive_desched.model.decisions import Decision, Defer, Evict
from reactive_desched.model.moves import MovedPods
from reactive_desched.model.objects import Pod
from reactive_desched.model.plugin_faults import PluginFault
from reactive_desched.plan.defaults import is_default_uid
from reactive_desched.plan.report import (
    DecisionCounts,
    GateRejection,
    PlannedDecision,
    PlanSummary,
    PodRef,
    RunPreview,
)
from reactive_desched.policy.policy import Profile
from reactive_desched.state.cluster import ClusterView

__all__ = ["DecisionFormatter", "PlanResult", "first_owner", "pod_ref", "summarize"]


def summarize(decisions: Iterable[PlannedDecision]) -> PlanSummary:
    """Count them all, and per plugin, profile, node, namespace and gate."""
    decisions = list(decisions)
    return PlanSummary(
        total=_count_by(decisions, lambda _: "").get("", DecisionCounts()),
        by_plugin=_count_by(decisions, lambda decision: decision.plugin),
        by_profile=_count_by(decisions, lambda decision: decision.profile),
        by_node=_count_by(decisions, lambda decision: decision.node),
        by_namespace=_count_by(decisions, lambda decision: decision.pod.namespace),
        by_gate=dict(
            sorted(Counter(each.gate for each in decisions if each.gate is not None).items())
        ),
    )


def _count_by(
    decisions: Iterable[PlannedDecision], key: Callable[[PlannedDecision], str]
) -> Mapping[str, DecisionCounts]:
    counted = Counter((key(decision), decision.action) for decision in decisions)
    return {
        name: DecisionCounts(*(counted[name, action] for action in ("Evict", "Refuse", "Defer")))
        for name in sorted({name for name, _ in counted})
    }


class PlanResult(Struct, frozen=True):
    """The result of a preview; the view shows the cluster without the pods that would be gone.

    `views` are the views of the profiles' plugins, by the names of the profiles. `moved_before` are
    the pods that plugins had moved to nodes when it began, as a journal has them. `plugin_faults`
    are exceptions of plugins, whose findings are not complete.
    """

    decisions: tuple[PlannedDecision, ...]
    skipped: str | None
    view: ClusterView
    views: Mapping[str, ProfileView]
    preview: RunPreview | None = None
    moved_before: tuple[MovedPods, ...] = ()
    plugin_faults: tuple[PluginFault, ...] = ()


class DecisionFormatter:
    """Puts decisions into words, adding to a protection's refusal what the others say."""

    def __init__(
        self, profiles: Sequence[Profile], view: ClusterView, rules: EvictorRules = UPSTREAM_RULES
    ) -> None:
        asked = {profile.name: pod_filters(profile.evictor, rules) for profile in profiles}
        self._names: Final = {guard.name for each in asked.values() for guard in each}
        self._guards: Final[Mapping[str, EvictorFilters]] = {
            name: EvictorFilters(each, view, mandatory_no_eviction=False)
            for name, each in asked.items()
        }

    def format(self, profile: str, decision: Decision) -> PlannedDecision:
        """Describe one decision of a profile before the snapshot changes again."""
        finding = decision.finding
        rejections = tuple(self._rejections(profile, decision))
        return PlannedDecision(
            action=_action(decision),
            pod=pod_ref(finding.pod),
            node=finding.pod.node,
            owner=first_owner(finding.pod),
            profile=profile,
            plugin=finding.plugin,
            finding=finding.message,
            gate=rejections[0].gate if rejections else None,
            reason=rejections[0].reason if rejections else None,
            rejections=rejections,
        )

    def _rejections(self, profile: str, decision: Decision) -> Iterator[GateRejection]:
        if isinstance(decision, Evict):
            return
        yield GateRejection(decision.gate, decision.reason, decision.message)
        if decision.gate in self._names and profile in self._guards:
            rejections = self._guards[profile].rejections(decision.finding.pod)
            for reason, message in rejections:
                if reason.gate != decision.gate:
                    yield GateRejection(reason.gate, reason.code, message)


def _action(decision: Decision) -> str:
    match decision:
        case Evict():
            return "Evict"
        case Defer():
            return "Defer"
        case _:
            return "Refuse"


def pod_ref(pod: Pod) -> PodRef:
    """Name a pod."""
    return PodRef(pod.namespace, pod.name, None if is_default_uid(pod.uid) else pod.uid)


def first_owner(pod: Pod) -> str | None:
    """Name a pod's first owner."""
    return str(pod.owners[0]) if pod.owners else None
