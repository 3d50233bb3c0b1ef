"""Follows evaluations that a person asks for, until all that they found has ended.

What is asked for is evaluated as after a change, at once, and passes the same gates and limits.
"""

from collections import deque
from collections.abc import Collection, Generator, Hashable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Final

from msgspec import Struct, field

from reactive_desched.controller.evaluator import Evaluator
from reactive_desched.controller.instances import PluginInstance
from reactive_desched.controller.named_objects import is_pod, known_node, no_pods_of
from reactive_desched.controller.pending import (
    PODS_PER_SLICE,
    PendingContext,
    PendingFinding,
    PendingReason,
    PodProgress,
    summarize_pending,
)
from reactive_desched.errors import ConfigError
from reactive_desched.ledger.eviction import Eviction
from reactive_desched.ledger.ledger import EvictionLedger
from reactive_desched.ledger.participant import EvictionParticipant
from reactive_desched.model.clock_pair import ClockPair
from reactive_desched.model.decisions import Evict
from reactive_desched.model.evaluation import Evaluation
from reactive_desched.model.moves import MoveEnd, end_in_words
from reactive_desched.model.objects import Pod, PodKey
from reactive_desched.model.outcomes import DRY_RUN, POD_LEAVES, Outcome
from reactive_desched.model.subjects import NodeSubject, PodSubject
from reactive_desched.primitives.hints import not_one_of, quote
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.owners import OwnerIndex

MAX_ASKED: Final = 20
"""So many evaluations that were asked for are followed; at the bound the oldest is forgotten."""

MAX_FOUND: Final = 20_000
"""So many pods of one are followed; further ones are only counted."""

MAX_LISTED: Final = 500
"""Pods of one that are listed in one answer."""

FOLLOWED_S: Final = 86_400.0
"""So long one is followed in which something still waits."""

_PODS_PER_SLICE: Final = 2_000


class EvaluationScope(Struct, frozen=True):
    """Names what is evaluated: what all of these have in common; an empty text is everything.

    `pod` is NAMESPACE/NAME or a uid, `owner` NAMESPACE/KIND/NAME or a uid.
    """

    node: str = ""
    owner: str = ""
    namespace: str = ""
    pod: str = ""
    plugin: str = ""
    profile: str = ""

    def __str__(self) -> str:
        values = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return ", ".join(f"{name} {value}" for name, value in values if value) or "everything"

    @property
    def names_pods(self) -> bool:
        """Say whether it names some pods, and not all."""
        return any((self.node, self.owner, self.namespace, self.pod))

    def takes(self, profile: str, plugin: str) -> bool:
        """Say whether a plugin of a profile is to evaluate."""
        return self.profile in ("", profile) and self.plugin in ("", plugin)

    def selects(self, pod: Pod, owners: OwnerIndex) -> bool:
        """Say whether it names a pod."""
        return (
            self.node in ("", pod.node)
            and self.namespace in ("", pod.namespace)
            and (not self.pod or is_pod(pod, self.pod))
            and (not self.owner or owners.belongs_to(pod, self.owner))
        )


class SelectedPods(Struct, frozen=True):
    """The pods that a scope names, and their nodes; `uids` is None for all of them."""

    uids: Collection[PodKey] | None = None
    nodes: Collection[str] = ()

    def concern(self, subject: Hashable) -> bool:
        """Say whether the evaluation of a subject may find one of them.

        Of a plugin that weighs pods against each other every one may.
        """
        if self.uids is None:
            return True
        if isinstance(subject, NodeSubject):
            return subject.node in self.nodes
        return not isinstance(subject, PodSubject) or subject.pod in self.uids

    def has(self, pod: PodKey) -> bool:
        """Say whether a pod is one of them."""
        return self.uids is None or pod in self.uids


def select_pods(
    scope: EvaluationScope, instances: Sequence[PluginInstance], view: ClusterView
) -> Generator[None, None, SelectedPods]:
    """Return the pods of a scope, in steps.

    Raises ConfigError for a plugin that is not in force, and where there is no such pod or node.
    """
    _check_plugin(scope, instances)
    if not scope.names_pods:
        return SelectedPods()
    if scope.node:
        known_node(view, scope.node)
    owners, uids, nodes = view.index(OwnerIndex), set(), {scope.node} - {""}
    for number, uid in enumerate(view.pods(), 1):
        pod = view.pod(uid)
        if pod is not None and scope.selects(pod, owners):
            uids.add(uid)
            nodes.add(pod.node)
        if number % _PODS_PER_SLICE == 0:
            yield
    if not uids:
        _explain_none(scope)
    return SelectedPods(uids, nodes)


def _check_plugin(scope: EvaluationScope, instances: Sequence[PluginInstance]) -> None:
    profiles = sorted({each.profile for each in instances})
    if scope.profile and scope.profile not in profiles:
        raise ConfigError(f"profile {not_one_of(scope.profile, profiles)}")
    plugins = sorted({each.name for each in instances if scope.profile in ("", each.profile)})
    if scope.plugin and scope.plugin not in plugins:
        raise ConfigError(f"plugin {not_one_of(scope.plugin, plugins)}")


def _explain_none(scope: EvaluationScope) -> None:
    """Raise ConfigError where a scope without a pod is a slip; an empty node is none."""
    if scope.pod:
        raise ConfigError(f"there is no pod {quote(scope.pod)}; write NAMESPACE/NAME or a uid")
    if scope.owner:
        raise no_pods_of(scope.owner)
    if scope.namespace:
        raise ConfigError(f"namespace {quote(scope.namespace)} has no pod")


_UNFINISHED: Final = frozenset({PodProgress.WAITS, PodProgress.EVICTING, PodProgress.LEAVES})


class AskedPod(Struct, rename="camel"):
    """A pod that should leave, by a plugin, and its state; `message` says it in words."""

    namespace: str
    pod: str
    node: str
    profile: str
    plugin: str
    state: PodProgress = PodProgress.WAITS
    message: str = ""

    def wait_by(self, finding: PendingFinding, now: float) -> None:
        """Take what a gate says of it now, in monotonic seconds."""
        self.turn(finding.pod_state, finding.message(now))

    def end_waiting(self) -> None:
        """Note that no gate holds it, and that no eviction of it is under way."""
        if self.state is PodProgress.LEAVES:
            self.turn(PodProgress.ENDED, "it has left")
        elif self.state in (PodProgress.WAITS, PodProgress.STAYS):
            self.turn(PodProgress.NOT_FOUND, "no plugin finds it any more")

    def turn(self, state: PodProgress, message: str = "") -> None:
        """Take another state."""
        self.state, self.message = state, message


class AskedEvaluation(Struct, eq=False):
    """One evaluation that a person asked for; `asked_at` is monotonic seconds.

    `by` and `reason` are what the person wrote. `evaluated` says that every subject was looked at.
    """

    number: int
    scope: EvaluationScope
    selected: SelectedPods
    by: str
    reason: str
    asked_at: float
    evaluated: bool = False
    has_ended: bool = False
    found: dict[PodKey, AskedPod] = field(default_factory=dict)
    unfollowed: int = 0

    def note(self, evaluation: Evaluation) -> None:
        """Note the decision on a finding, if it is one of a pod that was asked about."""
        decision, pod = evaluation.decision, evaluation.finding.pod
        if not self.selected.has(pod.uid):
            return
        if not self.scope.takes(evaluation.profile, evaluation.plugin):
            return
        if (found := self.found.get(pod.uid)) is None:
            if len(self.found) >= MAX_FOUND:
                self.unfollowed += 1
                return
            found = self.found[pod.uid] = AskedPod(
                pod.namespace, pod.name, pod.node, evaluation.profile, evaluation.plugin
            )
        if isinstance(decision, Evict):
            found.turn(PodProgress.EVICTING)
        elif decision.pod_leaves:
            found.turn(PodProgress.LEAVES)
        else:
            found.turn(PodProgress.WAITS)


class AskedEvaluations(EvictionParticipant):
    """The evaluations that persons asked for of late, each followed until all of it has ended."""

    def __init__(self) -> None:
        self._asked: deque[AskedEvaluation] = deque(maxlen=MAX_ASKED)
        self._followed: tuple[AskedEvaluation, ...] = ()
        self._numbers = 0

    def __iter__(self) -> Iterator[AskedEvaluation]:
        return iter(self._asked)

    def get(self, number: int) -> AskedEvaluation | None:
        """Return the one of a number; None where it is forgotten, or there was none."""
        return next((each for each in self._asked if each.number == number), None)

    def add(
        self, scope: EvaluationScope, selected: SelectedPods, by: str, reason: str, now: float
    ) -> AskedEvaluation:
        """Follow one that is asked for now."""
        self._numbers += 1
        asked = AskedEvaluation(self._numbers, scope, selected, by, reason, now)
        self._asked.append(asked)
        self._drop_ended(now)
        return asked

    def note(self, evaluation: Evaluation) -> None:
        """Note a decision."""
        for asked in self._followed:
            asked.note(evaluation)

    def note_evaluated(self, now: float) -> None:
        """Note that nothing is left to be looked at."""
        if self._followed:
            for asked in self._followed:
                asked.evaluated = True
            self._drop_ended(now)

    def _drop_ended(self, now: float) -> None:
        self._followed = tuple(
            each for each in self._asked if not each.has_ended and now - each.asked_at < FOLLOWED_S
        )

    def _found(self, pod: PodKey) -> Iterator[AskedPod]:
        for asked in self._followed:
            if (found := asked.found.get(pod)) is not None:
                yield found

    def ended(self, eviction: Eviction, outcome: Outcome) -> None:
        """Note the outcome of an eviction."""
        for found in self._found(eviction.pod_uid):
            if outcome.result == DRY_RUN:
                found.turn(PodProgress.DRY_RUN, "it would be evicted")
            elif outcome.result not in POD_LEAVES:
                found.turn(PodProgress.WAITS, outcome.message)
            elif eviction.accepted_at is not None and eviction.is_followed:
                found.turn(PodProgress.LEAVES)
            else:
                found.turn(PodProgress.ENDED, outcome.message)

    def followed_up(self, eviction: Eviction, end: MoveEnd) -> None:
        """Note how the move of a pod ended."""
        for found in self._found(eviction.pod_uid):
            found.turn(PodProgress.ENDED, end_in_words(end.result, end.message))


class AskedStatus(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Says how far an evaluation that was asked for is, as of `time`.

    `states` counts the pods that were found, by their state; `pods` lists some of them, those that
    have not ended first. `reasons` say what holds those that wait or stay. `hold` is why no pod is
    evicted now. `selected` is how many pods the scope names; left out: all.
    """

    number: int
    scope: str
    by: str
    reason: str
    asked: datetime
    time: datetime
    evaluated: bool
    has_ended: bool
    states: dict[str, int]
    reasons: tuple[PendingReason, ...]
    pods: tuple[AskedPod, ...]
    hold: str = ""
    selected: int | None = None
    unfollowed: int = 0


def status_of(
    asked: AskedEvaluation,
    findings: Sequence[PendingFinding],
    evaluator: Evaluator,
    ledger: EvictionLedger,
    hold: str,
    moment: ClockPair,
) -> Generator[None, None, AskedStatus]:
    """Return how far an evaluation is, in steps.

    `findings` are all that wait, and `hold` is why no pod is evicted now.
    """
    held = yield from _held(asked, findings)
    is_evaluating = evaluator.is_evaluating
    counts: dict[str, int] = {}
    for number, (uid, found) in enumerate(tuple(asked.found.items())):
        if uid in held:
            found.wait_by(held[uid], moment.now)
        elif not is_evaluating and ledger.current(uid) is None:
            found.end_waiting()
        counts[found.state] = counts.get(found.state, 0) + 1
        if number % PODS_PER_SLICE == 0:
            yield
    waits = [each for each in held.values() if not each.decision.pod_leaves]
    summary = yield from summarize_pending(waits, PendingContext(), moment)
    asked.has_ended = asked.evaluated and not is_evaluating and not _UNFINISHED & counts.keys()
    order = list(PodProgress)
    listed = sorted(asked.found.values(), key=lambda each: order.index(each.state))
    selected = asked.selected.uids
    return AskedStatus(
        asked.number,
        str(asked.scope),
        asked.by,
        asked.reason,
        moment.time(asked.asked_at),
        moment.time(moment.now),
        asked.evaluated,
        asked.has_ended,
        counts,
        summary.reasons,
        tuple(islice(listed, MAX_LISTED)),
        hold,
        None if selected is None else len(selected),
        asked.unfollowed,
    )


def _held(
    asked: AskedEvaluation, findings: Sequence[PendingFinding]
) -> Generator[None, None, dict[PodKey, PendingFinding]]:
    """Return what gates say of the pods that were found."""
    held: dict[PodKey, PendingFinding] = {}
    for number, each in enumerate(findings):
        finding = each.decision.finding
        if finding.pod.uid in asked.found and asked.scope.takes(each.profile, finding.plugin):
            held[finding.pod.uid] = each
        if number % PODS_PER_SLICE == 0:
            yield
    return held
