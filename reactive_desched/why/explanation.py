"""The explanation of one pod: the answers of plugins and gates, the nodes, and the next step.

The answers come from the controller's own plugins and gates, at the moment of the question. Nothing
is reserved or evaluated for it.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.controller.controller import Controller
from reactive_desched.controller.coverage import (
    Coverage,
    is_covered,
    node_not_covered,
    not_covered_by,
    pod_not_covered,
)
from reactive_desched.controller.instances import PluginInstance
from reactive_desched.controller.job_listing import JobRow, job_rows
from reactive_desched.controller.pending import PendingFinding, TurnRow, turn_row
from reactive_desched.controller.public_state import ControllerState
from reactive_desched.controller.turn_forecast import QUEUED, as_foreseen
from reactive_desched.gate.evictor import EvictorFilters
from reactive_desched.gate.gate import Gate
from reactive_desched.gate.guards import Guards
from reactive_desched.gate.turns import Turn
from reactive_desched.ledger.eviction import Eviction, owner_of
from reactive_desched.migration.job_gate import JobGate
from reactive_desched.migration.rounds import PLUGIN as MIGRATION_JOBS
from reactive_desched.model.clock_pair import ClockPair
from reactive_desched.model.decisions import Defer, Refuse
from reactive_desched.model.disruptions import RememberedEnd
from reactive_desched.model.evaluation import Evaluation
from reactive_desched.model.findings import Finding
from reactive_desched.model.modes import ACT
from reactive_desched.model.moves import MoveEnd, MoveOrigin
from reactive_desched.model.objects import Pod
from reactive_desched.model.plugin_faults import ask_for_obstacles, ask_for_text
from reactive_desched.model.subjects import NodeSubject, PodSubject
from reactive_desched.model.wakes import awaited
from reactive_desched.moves.memory import RememberedMove
from reactive_desched.primitives.bounded_text import shown
from reactive_desched.state.indexes.owners import OwnerIndex
from reactive_desched.text.times import format_second, utc_time

EVICTING: Final = "evicting"
MOVED: Final = "moved"
WAITS: Final = "waits"
STAYS: Final = "stays"
TAKEN: Final = "taken"
NOT_COVERED: Final = "not looked at"

GONE: Final = "Gone"
"""The phase of an evicted pod that there is no more."""

STATES: Final = {
    EVICTING: "An eviction was decided, and its outcome is not known yet.",
    MOVED: "The pod was evicted; its replacement is awaited.",
    TAKEN: "Something else than this controller ends the pod, or has ended it.",
    WAITS: "A plugin wants the pod to leave its node, and a gate does not allow it now.",
    STAYS: "The plugins that look at the pod find nothing wrong, or something keeps it there.",
    NOT_COVERED: "No plugin looks at the pod; none does on standby, or before the first sync.",
}
"""What each state of a pod means."""

_BEFORE_ANY_LOOK: Final = frozenset((ControllerState.STANDBY, ControllerState.STARTING))
"""The states in which nothing is evaluated before the controller comes out of them."""

FOUND, NOTHING, LEFT_OUT, OFF = "finding", "nothing found", "not looked at", "off"


class PluginAnswer(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The answer of one plugin: a finding, nothing, that it is off, or why it leaves the pod out.

    Of a finding that a gate blocks, `since` is when it was blocked for this reason first, and
    `until` when it is evaluated again at the latest; with `isLeast` something holds all evictions,
    and it is not before then. `queued` says that the plugin will be asked again as soon as its
    debounce allows. `mode` is left out where what it finds is carried out.
    """

    profile: str
    plugin: str
    answer: str
    message: str
    since: datetime | None = None
    until: datetime | None = None
    queued: bool = False
    is_least: bool = False
    mode: str = ACT


class GateAnswer(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The answer of one gate: it passes, or it rejects with a code, a message and a setting.

    The message of one that passes names the annotation by which it does, if there is one.
    `until` is when it is asked again at the latest, `waitsFor` which changes may alter its answer.
    """

    gate: str
    passes: bool
    reason: str = ""
    message: str = ""
    setting: str = ""
    until: datetime | None = None
    waits_for: tuple[str, ...] = ()


class ProfileAnswer(Struct, frozen=True, rename="camel"):
    """The gates of one profile in their order, for the finding of a plugin.

    `assumed` says that no plugin of the profile has found anything: the gates were asked what they
    would say if `plugin` did.
    """

    profile: str
    plugin: str
    assumed: bool
    gates: tuple[GateAnswer, ...]
    nodes: str


class PastMove(Struct, frozen=True, rename="camel", omit_defaults=True):
    """An earlier eviction of the same workload, and what became of it."""

    ended: datetime
    pod: str
    from_node: str
    plugin: str
    result: str
    replacement: str = ""
    to_node: str = ""
    helped: bool = False


class PodState(Struct, frozen=True, rename="camel"):
    """One pod of a node or workload: its state, the code of the reason, and a sentence."""

    namespace: str
    name: str
    node: str
    state: str
    reason: str
    summary: str


class PodExplanation(Struct, frozen=True, kw_only=True, rename="camel"):
    """Everything `why` says of one pod at `time`; `paused` is why nothing at all is evicted now.

    Of a pod that waits, `setting` names the setting that would let it go, and `waits_for` says
    which changes may: both by the decision that `reason` and `summary` are of. Of an evicted pod
    that is gone, `node` is where it was and `created` is not known; no plugin and no gate is asked
    about it.
    """

    time: datetime
    namespace: str
    name: str
    uid: str
    node: str
    phase: str
    created: datetime | None = None
    owners: tuple[str, ...]
    state: str
    summary: str
    paused: str
    reason: str = ""
    setting: str = ""
    waits_for: tuple[str, ...] = ()
    turn: TurnRow | None = None
    jobs: tuple[JobRow, ...] = ()
    plugins: tuple[PluginAnswer, ...] = ()
    profiles: tuple[ProfileAnswer, ...] = ()
    history: tuple[PastMove, ...] = ()


class Explainer:
    """Explains the pods of one controller at one moment.

    `findings` are those that wait, of its pods and of others on their nodes; it is `moment`.
    """

    def __init__(
        self,
        controller: Controller,
        findings: Iterable[PendingFinding],
        moment: ClockPair,
    ) -> None:
        self._controller = controller
        self._view = controller.view
        self._now = moment.now
        self._moment = moment
        self._obstacles: dict[PluginInstance, Callable[[Pod], str]] = {}
        self._waiting_texts: dict[tuple[PluginInstance, str], str] = {}
        self._pending: dict[str, list[PendingFinding]] = {}
        self._first_of_node: dict[tuple[str, str, str], PendingFinding] = {}
        for each in sorted(findings, key=lambda each: each.decision.keeps):
            finding = each.decision.finding
            self._pending.setdefault(finding.pod.uid, []).append(each)
            place = each.profile, finding.plugin, finding.pod.node
            self._first_of_node.setdefault(place, each)

    @property
    def time(self) -> datetime:
        """As of when the answers are."""
        return self._moment.time(self._now)

    def explain(self, pod: Pod) -> PodExplanation:
        """Return what is known of a pod."""
        chain = self._view.index(OwnerIndex).chain(pod)
        waiting = self._pending.get(pod.uid, [])
        not_covered = self._not_covered(pod)
        state, reason, summary = self._state(pod, waiting, not_covered)
        owner = owner_of(pod, chain)
        blocked_by = waiting[0] if waiting and state in (WAITS, STAYS) else None
        turn = None if blocked_by is None else blocked_by.turn
        profiles = tuple(self._profiles(pod, waiting)) if not_covered is None else ()
        if state == WAITS:
            summary += _held_besides(profiles, reason)
        return PodExplanation(
            time=self.time,
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            node=pod.node,
            phase="Terminating" if pod.is_terminating else pod.status.phase,
            created=utc_time(pod.created_s),
            owners=tuple(str(each) for each in chain or pod.owners),
            state=state,
            summary=summary,
            reason=reason,
            paused=self._controller.pauses.state().hold,
            setting="" if blocked_by is None else blocked_by.setting,
            waits_for=() if blocked_by is None else _awaited(blocked_by.decision),
            turn=None if turn is None else turn_row(turn, self._moment),
            jobs=self._jobs_of(pod, waiting),
            plugins=tuple(self._plugins(pod, waiting, not_covered)),
            profiles=profiles,
            history=self._history_of(owner.uid),
        )

    def explain_gone(self, name: str) -> PodExplanation | None:
        """Return what became of a pod that is gone, by NAMESPACE/NAME or uid.

        None for one of whose eviction, and of whose end by something else, nothing is remembered.
        """
        for move in self._controller.ledger:
            if move.origin.is_named(name):
                return self._gone(move.origin, _replacement_so_far(move))
        if (ended := self._controller.memory.move_of(name)) is not None:
            return self._gone(ended.origin, _became(ended.end))
        if (taken := self._controller.disruptions.find(name)) is not None:
            return self._taken(taken)
        return None

    def _taken(self, end: RememberedEnd) -> PodExplanation:
        at = format_second(end.ended_s)
        return PodExplanation(
            time=self.time,
            namespace=end.namespace,
            name=end.name,
            uid=end.uid,
            node=end.node,
            phase=GONE,
            owners=(end.owner,) if end.owner else (),
            state=TAKEN,
            summary=f"{end.cause} at {at}{end.message and f': {end.message}'}",
            paused=self._controller.pauses.state().hold,
        )

    def _gone(self, origin: MoveOrigin, became: str) -> PodExplanation:
        owner = origin.owner
        return PodExplanation(
            time=self.time,
            namespace=owner.namespace,
            name=origin.pod_name,
            uid=origin.pod_uid,
            node=origin.node,
            phase=GONE,
            owners=() if owner.uid == origin.pod_uid else (f"{owner.kind}/{owner.name}",),
            state=MOVED,
            summary=f"{origin.plugin} had it evicted from {origin.node}; {became}",
            paused=self._controller.pauses.state().hold,
            history=self._history_of(owner.uid),
        )

    def _history_of(self, owner_uid: str) -> tuple[PastMove, ...]:
        return tuple(map(self._past_move, self._controller.memory.moves_of(owner_uid)))

    def _jobs_of(self, pod: Pod, waiting: list[PendingFinding]) -> tuple[JobRow, ...]:
        migrations = self._controller.migrations
        if migrations is None:
            return ()
        return tuple(job_rows(migrations.jobs_of(pod), migrations, waiting, self._now))

    def brief(self, pod: Pod) -> PodState:
        """Return the state of a pod, with the finding or the outcome behind it."""
        waiting = self._pending.get(pod.uid, [])
        return PodState(
            pod.namespace, pod.name, pod.node, *self._state(pod, waiting, self._not_covered(pod))
        )

    def _not_covered(self, pod: Pod) -> Coverage | None:
        """Return why no plugin looks at the pod; None when one does."""
        if (why := node_not_covered(pod.node, self._view)) is not None:
            return why
        plugins = [instance.plugin for instance in self._instances()]
        if any(is_covered(plugin, pod) for plugin in plugins):
            return None
        return pod_not_covered(pod, plugins)

    def _state(
        self, pod: Pod, waiting: list[PendingFinding], not_covered: Coverage | None
    ) -> tuple[str, str, str]:
        """Return the pod's state, the code of its reason, and a sentence."""
        if (evaluation := self._evaluation(pod)) is not None:
            finding = evaluation.finding
            return EVICTING, "", f"{finding.plugin} decided to evict it: {finding.message}"
        for move in self._controller.ledger:
            if move.origin.pod_uid == pod.uid:
                return MOVED, "", f"{move.origin.plugin} had it evicted; it leaves now"
        if (taken := self._controller.disruptions.end_of(pod.uid)) is not None:
            return TAKEN, "", f"{taken.cause}: {taken.message}" if taken.message else taken.cause
        if waiting:
            first = waiting[0]
            plugin, message = first.decision.finding.plugin, first.message(self._now)
            state = STAYS if first.decision.keeps else WAITS
            return state, first.decision.reason, f"{plugin}: {message}"
        if not_covered is not None:
            summary = not_covered.message
            for instance in self._instances() if pod.is_pending else ():
                if said := self._of_waiting(instance, pod):
                    summary = f"{summary}; {instance.plugin.name}: {said}"
            return NOT_COVERED, not_covered.reason, summary
        held = self._controller.pauses.state()
        if held.name in _BEFORE_ANY_LOOK:
            return NOT_COVERED, "", f"no plugin looks at it now: {held.hold}"
        obstacles = filter(None, (self._obstacle(each, pod) for each in self._instances()))
        return STAYS, "", next(obstacles, "no plugin finds anything wrong with its place")

    def _evaluation(self, pod: Pod) -> Evaluation | None:
        """Return the evaluation of the pod's eviction while that has no outcome yet."""
        eviction = self._controller.ledger.decided_here(pod.uid)
        return None if eviction is None else eviction.evaluation

    def _instances(self) -> Iterable[PluginInstance]:
        return self._controller.evaluator.instances

    def _obstacle(self, instance: PluginInstance, pod: Pod) -> str:
        """Say why a plugin has no finding of a pod whose place is wrong by it; else nothing."""
        if not is_covered(instance.plugin, pod):
            return ""
        if (ask := self._obstacles.get(instance)) is None:
            ask = self._obstacles[instance] = ask_for_obstacles(
                partial(instance.plugin.obstacles, instance.view)
            )
        if not (text := ask(pod)):
            return ""
        return f"{instance.plugin.name}: {text}{self._waiting_before(instance, pod)}"

    def _waiting_before(self, instance: PluginInstance, pod: Pod) -> str:
        """Say for what another pod of the node waits, which the plugin would move before this."""
        found = self._first_of_node.get((instance.profile, instance.plugin.name, pod.node))
        if found is None:
            return ""
        decision, message = found.decision, found.message(self._now)
        return f"; {decision.finding.pod} waits ({decision.reason}): {message}"

    def _plugins(
        self, pod: Pod, waiting: list[PendingFinding], not_covered: Coverage | None
    ) -> Iterator[PluginAnswer]:
        for instance in self._instances():
            answer = self._plugin(instance, pod, waiting, not_covered)
            yield replace(answer, mode=instance.mode)

    def _plugin(
        self,
        instance: PluginInstance,
        pod: Pod,
        waiting: list[PendingFinding],
        not_covered: Coverage | None,
    ) -> PluginAnswer:
        evaluation, name = self._evaluation(pod), instance.plugin.name
        queued = any(map(self._controller.evaluator.queue.__contains__, _subjects(instance, pod)))
        if evaluation and _is_of(instance, evaluation.profile, evaluation.plugin):
            message = evaluation.finding.message
            return PluginAnswer(instance.profile, name, FOUND, message, queued=queued)
        if (found := _finding_of(instance, waiting)) is not None:
            message, since = found.decision.finding.message, self._time(found.since)
            until = None if found.until is None else self._time(found.until)
            return PluginAnswer(
                instance.profile, name, FOUND, message, since, until, queued, found.is_least
            )
        if not_covered is not None:
            if pod.is_pending and (said := self._of_waiting(instance, pod)):
                return PluginAnswer(instance.profile, name, NOTHING, said, queued=queued)
            return PluginAnswer(instance.profile, name, LEFT_OUT, not_covered.message)
        if not is_covered(instance.plugin, pod):
            why = not_covered_by(instance.plugin, pod).message
            return PluginAnswer(instance.profile, name, LEFT_OUT, why)
        for fault in self._controller.evaluator.faults.standing():
            if fault.is_off and _is_of(instance, fault.profile, fault.plugin):
                return PluginAnswer(instance.profile, name, OFF, fault.message)
        message = ask_for_text(partial(instance.plugin.describe, pod, instance.view))
        return PluginAnswer(instance.profile, name, NOTHING, message, queued=queued)

    def _of_waiting(self, instance: PluginInstance, pod: Pod) -> str:
        """Return what a plugin says of a pod that waits for a node."""
        key = instance, pod.uid
        if key not in self._waiting_texts:
            ask = partial(instance.plugin.describe_waiting, pod, instance.view)
            self._waiting_texts[key] = ask_for_text(ask)
        return self._waiting_texts[key]

    def _profiles(self, pod: Pod, waiting: list[PendingFinding]) -> Iterator[ProfileAnswer]:
        """Ask the gates of each profile about its finding, or what they would say of one."""
        evaluation = self._evaluation(pod)
        for name, instances in self._by_profile().items():
            found = [each.decision.finding for each in waiting if each.profile == name]
            if evaluation and evaluation.profile == name:
                found.insert(0, evaluation.finding)
            finding = found[0] if found else Finding(pod, instances[0].plugin.name, "assumed")
            of = (each for each in instances if each.plugin.name == finding.plugin)
            gate = next(of, instances[0]).gate
            assert isinstance(gate, Gate | JobGate), "the controller builds no other"
            yield ProfileAnswer(
                name,
                finding.plugin,
                not found,
                tuple(self._gates(gate, finding)),
                self._nodes(pod, instances[0]),
            )

    def _by_profile(self) -> dict[str, list[PluginInstance]]:
        profiles: dict[str, list[PluginInstance]] = {}
        for instance in self._instances():
            profiles.setdefault(instance.profile, []).append(instance)
        return profiles

    def _gates(self, gate: Gate | JobGate, finding: Finding) -> Iterator[GateAnswer]:
        for name, decision in gate.explain(finding, self._now):
            if decision is None:
                yield GateAnswer(name, passes=True, message=_remark(gate, name, finding))
                continue
            turn = self._turn_of(decision)
            said = as_foreseen(decision, self._controller) if turn is None else decision
            yield self._rejection(said, turn)
            if name == EvictorFilters.name:
                yield from _other_rejections(gate, finding.pod, decision.reason)
            elif name == Guards.name:
                yield from self._other_holds(gate, finding, decision.reason)

    def _other_holds(
        self, gate: Gate | JobGate, finding: Finding, named: str
    ) -> Iterator[GateAnswer]:
        """Yield the other guards that hold the pod: the gate names the first alone."""
        for guards in (each for each in gate.filters if isinstance(each, Guards)):
            for refusal in guards.refusals(finding, self._now):
                if refusal.reason != named:
                    yield self._rejection(refusal, None)

    def _turn_of(self, decision: Defer | Refuse) -> Turn | None:
        """Return the turn of a pod that waits in a queue, as every other answer has it."""
        if decision.gate not in QUEUED:
            return None
        found = self._pending.get(decision.finding.pod.uid, ())
        turns = (each.turn for each in found if each.decision.gate == decision.gate)
        return next((turn for turn in turns if turn is not None), None)

    def _rejection(self, decision: Defer | Refuse, turn: Turn | None) -> GateAnswer:
        until = decision.retry_at_s if turn is None else turn.at
        return GateAnswer(
            decision.gate,
            passes=False,
            reason=decision.reason,
            message=decision.says(self._now) if turn is None else turn.message(self._now),
            setting=decision.setting if turn is None else f"budgets.{turn.scope}",
            until=None if until is None else self._time(until),
            waits_for=_awaited(decision),
        )

    def _nodes(self, pod: Pod, instance: PluginInstance) -> str:
        """Say which other node fits the pod best, and why the rest do not.

        Where the scores of its scheduler are not known, it says why instead.
        """
        fit = self._controller.node_fit
        best, diagnosis = fit.explain_other_nodes(pod, instance.view.target_selector)
        unknown = fit.unknown_scores(pod) if diagnosis.available else ""
        if unknown:
            return f"{diagnosis}; which node is taken first is not known: {unknown}"
        if not best:
            return str(diagnosis)
        equal = f", or another of {len(best)} with the same score" if len(best) > 1 else ""
        return f"{diagnosis}; {best[0]} is taken first{equal}"

    def _past_move(self, move: RememberedMove) -> PastMove:
        origin, end = move.origin, move.end
        return PastMove(
            self._time(move.ended_at),
            origin.pod_name,
            origin.node,
            origin.plugin,
            end.result,
            end.replacement,
            end.node,
            end.helped,
        )

    def _time(self, seconds: float) -> datetime:
        return self._moment.time(seconds)


def _held_besides(profiles: Iterable[ProfileAnswer], reason: str) -> str:
    """Say which gate keeps a pod when it waits no longer for the reason that is known."""
    answers = (each for profile in profiles if not profile.assumed for each in profile.gates)
    for each in answers:
        if not each.passes and each.reason != reason:
            return f"; it is held besides ({each.reason}): {each.message}"
    return ""


def _awaited(decision: Defer | Refuse) -> tuple[str, ...]:
    """Say which changes may alter the decision."""
    wakes = decision.wake_on if isinstance(decision, Refuse) else ()
    return awaited(wakes, decision.finding.pod.uid)


def _replacement_so_far(move: Eviction) -> str:
    if (pod := move.replacement) is None:
        return "its replacement is awaited" if move.match_key else "no controller replaces it"
    where = f"on {pod.node}" if pod.node else "and is not scheduled yet"
    return f"{pod.name} takes its place {where}"


def _became(end: MoveEnd) -> str:
    """Say how a move ended."""
    if not end.replacement_uid:
        return end.words
    text = f"{end.replacement or 'another pod'} took its place"  # an earlier process knew its name
    if end.node:
        text += f" on {end.node}"
    if end.ready_s is not None:
        text += f", Ready after {end.ready_s:.1f} s"
    if end.helped:
        return text
    return f"{text}; that did not help: {end.message or end.result}"


def _other_rejections(gate: Gate | JobGate, pod: Pod, named: str) -> Iterator[GateAnswer]:
    """Yield what else the evictor's filters say against a pod: a gate names the first alone."""
    evictors = [each for each in gate.filters if isinstance(each, EvictorFilters)]
    rejections = [each for evictor in evictors for each in evictor.rejections(pod)]
    for reason, message in rejections:
        if reason.code != named:
            yield GateAnswer(
                reason.gate,
                passes=False,
                reason=reason.code,
                message=message,
                setting=reason.setting,
            )


def _remark(gate: Gate | JobGate, name: str, finding: Finding) -> str:
    """Say which annotation lets a pod pass a gate, where one does."""
    filters = (each for each in gate.filters if isinstance(each, EvictorFilters | Guards))
    return shown(next((each.remark(finding) for each in filters if each.name == name), ""))


def _subjects(
    instance: PluginInstance, pod: Pod
) -> Iterable[tuple[PluginInstance, PodSubject | NodeSubject]]:
    return (instance, PodSubject(pod.uid)), (instance, NodeSubject(pod.node))


def _is_of(instance: PluginInstance, profile: str, plugin: str) -> bool:
    """Say whether a finding is one of an instance; migration jobs bear the names of others, too."""
    return instance.profile == profile and instance.plugin.name in (plugin, MIGRATION_JOBS)


def _finding_of(instance: PluginInstance, waiting: list[PendingFinding]) -> PendingFinding | None:
    for each in waiting:
        if _is_of(instance, each.profile, each.decision.finding.plugin):
            return each
    return None
