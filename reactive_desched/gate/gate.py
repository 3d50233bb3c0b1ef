"""Every gate in its order: the first refusal or deferral decides, and none means an eviction."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from reactive_desched.api.index import Index
from reactive_desched.gate.approval import APPROVAL_GATE
from reactive_desched.gate.move_sets import MOVE_SET_GATE, TURNS, MoveSets
from reactive_desched.ledger.ledger import EvictionLedger
from reactive_desched.model.decisions import Decision, Defer, Evict, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.moves import is_clean_up
from reactive_desched.model.outcomes import DECISION_OUTDATED

if TYPE_CHECKING:  # with limits and their settings, which a sweep does not load
    from reactive_desched.gate.gang_moves import GangMoves


class GateFilter(Protocol):
    """One gate: it refuses or defers a finding, or returns None. `now` is monotonic seconds."""

    @property
    def name(self) -> str:
        """The gate's name in records and metrics."""
        ...

    def check(self, finding: Finding, now: float) -> Defer | Refuse | None:
        """Return a refusal, a deferral, or None."""
        ...


@runtime_checkable
class QueueingFilter(GateFilter, Protocol):
    """A gate whose `check` gives a pod that must wait a place in a queue."""

    def explain(self, finding: Finding, now: float) -> Defer | Refuse | None:
        """Return what `check` would, and leave the queue as it is."""
        ...


@runtime_checkable
class LastingFilter(GateFilter, Protocol):
    """A gate that is asked again before the request of an eviction that it agreed to."""

    def held_since(self, finding: Finding, now: float) -> str:
        """Say what keeps the pod by now, whose eviction counts already; empty for nothing."""
        ...


def held_since(gates: Iterable[LastingFilter], finding: Finding, now: float) -> str:
    """Say what keeps a pod whose eviction all these gates agreed to; empty for nothing."""
    return next(filter(None, (each.held_since(finding, now) for each in gates)), "")


_Ask = Callable[[Finding, float], Defer | Refuse | None]


def explanations(filters: Iterable[GateFilter]) -> tuple[tuple[str, _Ask], ...]:
    """Return the name of each filter, and what asks it and leaves its queue, if any, as it is.

    To ask for each finding whether a filter has a queue takes longer than most filters.
    """
    return tuple(
        (each.name, each.explain if isinstance(each, QueueingFilter) else each.check)
        for each in filters
    )


class UnlessCleanUp:
    """Asks a filter only of a pod whose eviction ends work, or brings another pod.

    It is for filters that keep workloads running, or look for the place of a replacement.
    """

    def __init__(self, gate_filter: GateFilter) -> None:
        self._filter = gate_filter
        self.name = gate_filter.name
        self._check = gate_filter.check

    @property
    def indexes(self) -> tuple[type[Index], ...]:
        """The indexes that the filter reads."""
        return tuple(getattr(self._filter, "indexes", ()))

    def check(self, finding: Finding, now: float) -> Defer | Refuse | None:
        """Return what the filter says of a pod that is not just cleared away."""
        return None if is_clean_up(finding.pod) else self._check(finding, now)


class Gate:
    """The gates of one profile, cheap and final ones first; what costs a token comes last.

    The evictions that they agree to are those of `profile` in the ledger. `move_sets` come behind
    all of them, for pods that move together; `gangs` have the pods that leave with another one.
    """

    def __init__(
        self,
        filters: tuple[GateFilter, ...],
        ledger: EvictionLedger,
        profile: str = "",
        move_sets: MoveSets | None = None,
        gangs: "GangMoves | None" = None,
    ) -> None:
        self.filters = filters
        self._explanations = explanations(filters)
        self._lasting = [each for each in filters if isinstance(each, LastingFilter)]
        self._ledger = ledger
        self._profile = profile
        self._move_sets = move_sets
        self._gangs = gangs

    @property
    def indexes(self) -> tuple[type[Index], ...]:
        """The indexes that the filters and the ledger read."""
        of_filters = (kind for step in self.filters for kind in getattr(step, "indexes", ()))
        of_sets = () if self._move_sets is None else self._move_sets.indexes
        of_gangs = () if self._gangs is None else self._gangs.indexes
        return (*of_filters, *of_sets, *of_gangs, *self._ledger.indexes)

    def decide(self, finding: Finding, now: float) -> Decision:
        """Return the first gate's refusal or deferral, or Evict: the eviction has begun."""
        if self._gangs is not None:
            finding = self._gangs.widened(finding)
        self._ledger.find(finding, now)
        sets = self._move_sets
        is_rest = finding.gang is not None and finding.gang.is_rest
        if self._gangs is not None and is_rest:
            blocked = self._first_of_companion(self._gangs, finding, now)
        elif sets is not None and sets.asks_for_all(finding, now):
            blocked = self._first_of_set(sets, finding, now)
        elif sets is not None and finding.move_set is not None:
            blocked = self._first_of_begun(sets, finding, now)
        else:
            blocked = self._first(finding, now)
        is_let_go = blocked is None or blocked.gate == APPROVAL_GATE
        if self._gangs is not None and finding.gang is not None and is_let_go and not is_rest:
            decided = self._decide_gang(self._gangs, finding, blocked, now)
            if isinstance(decided, Evict):
                return decided
            blocked = decided
        if blocked is not None:
            self._ledger.block(blocked)
            return blocked
        if sets is not None:
            sets.let_go(finding, now)
        self._ledger.decide(finding, self._profile, now)
        return Evict(finding)

    def held_since(self, finding: Finding, now: float) -> str:
        """Say why a finding that was decided on is no reason to evict its pod any more.

        Empty where it is one still. The finding is as its plugin has it now.
        """
        gates: Iterable[LastingFilter] = self._lasting
        if self._gangs is not None and finding.is_companion:
            left_out = self._gangs.not_asked(finding.pod)
            gates = (each for each in gates if each.name not in left_out)
        lapsed = "" if self._move_sets is None else self._move_sets.lapsed(finding)
        return lapsed or held_since(gates, finding, now)

    def _decide_gang(
        self, gangs: "GangMoves", finding: Finding, asks: Defer | Refuse | None, now: float
    ) -> Decision:
        """Begin the evictions of all pods of a gang, or of none of them.

        Each is asked about beside those before it, as if these had begun. `asks` is what a person
        is asked about the first pod, once nothing else keeps the gang.
        """
        if (other := gangs.blocks(finding, now)) is not None:
            return other
        self._ledger.decide(finding, self._profile, now)
        begun, companions = [finding], []
        blocked: Defer | Refuse | None = None
        for each in gangs.companions(finding):
            if (by := self._first_of_companion(gangs, each, now)) is not None:
                blocked = gangs.kept(finding, by, now)
                break
            self._ledger.decide(each, self._profile, now)
            begun.append(each)
            companions.append(each)
        blocked = blocked or asks or gangs.waits(finding, now)
        if blocked is None:
            gangs.begin(finding, companions, now)
            return Evict(finding, tuple(companions))
        for each in begun:
            self._ledger.end(each.pod.uid, DECISION_OUTDATED.outcome(blocked.message), now)
        return blocked

    def _first_of_companion(
        self, gangs: "GangMoves", finding: Finding, now: float
    ) -> Defer | Refuse | None:
        """Ask the gates of a pod that leaves with another one."""
        left_out = gangs.not_asked(finding.pod)
        for name, explain in self._explanations:
            if name in left_out:
                continue
            if (decision := explain(finding, now)) is not None:
                return decision
        return None

    def _first(self, finding: Finding, now: float) -> Defer | Refuse | None:
        for gate_filter in self.filters:
            if (decision := gate_filter.check(finding, now)) is not None:
                return decision
        return None

    def _first_of_set(self, sets: MoveSets, finding: Finding, now: float) -> Defer | Refuse | None:
        """Ask all gates of a pod whose set has not begun, also those behind one of its turn.

        No place in a queue is taken: nothing leaves before the set has begun.
        """
        waits: Defer | Refuse | None = None
        with sets.after_earlier_moves(finding, now):
            for name, explain in self._explanations:
                if (decision := explain(finding, now)) is None:
                    continue
                if name not in TURNS:
                    return decision
                waits = waits or decision
        return sets.check(finding, now, waits=waits is not None) or waits

    def _first_of_begun(
        self, sets: MoveSets, finding: Finding, now: float
    ) -> Defer | Refuse | None:
        """Ask all gates of a pod whose set has begun; nothing keeps another one of it for good."""
        for other in sets.others_to_ask(finding, now):
            by = self._keeping(other, now)
            if by is not None:
                sets.note_kept(by)
                break
        if (blocked := sets.stopped(finding) or sets.waits_for_earlier(finding, now)) is not None:
            return blocked
        with sets.after_earlier_moves(finding, now):
            return self._first(finding, now)

    def _keeping(self, finding: Finding, now: float) -> Refuse | None:
        """Return what keeps a pod for good: until a person changes something."""
        for name, explain in self._explanations:
            by = None if name in TURNS else explain(finding, now)
            if by is not None:
                return by if isinstance(by, Refuse) and by.keeps else None
        return None

    def explain(self, finding: Finding, now: float) -> Iterator[tuple[str, Defer | Refuse | None]]:
        """Yield each gate's name, in their order, with its refusal or deferral, or None.

        `decide` ends at the first of them. Nothing is reserved, and no place in a queue is taken.
        """
        gangs = self._gangs
        if gangs is not None:
            finding = gangs.widened(finding)
        sets = self._move_sets
        for name, explain in self._explanations:
            if sets is None or finding.move_set is None:
                decision = explain(finding, now)
            else:
                with sets.after_earlier_moves(finding, now):
                    decision = explain(finding, now)
            yield name, decision
        if self._move_sets is not None and finding.move_set is not None:
            yield MOVE_SET_GATE, self._move_sets.explain(finding, now)
        if gangs is not None and finding.gang is not None and not finding.gang.is_rest:
            yield gangs.name, self._explain_gang(gangs, finding, now)

    def _explain_gang(
        self, gangs: "GangMoves", finding: Finding, now: float
    ) -> Defer | Refuse | None:
        if (other := gangs.blocks(finding, now)) is not None:
            return other
        for each in gangs.companions(finding):
            if (by := self._first_of_companion(gangs, each, now)) is not None:
                return gangs.kept(finding, by, now)
        return None
