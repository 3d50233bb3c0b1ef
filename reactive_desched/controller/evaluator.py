"""The heart: changes mark subjects, due subjects are judged, blocked ones wait to be woken.

Synchronous and free of clocks: everything is told the time (monotonic seconds). Work is done in
small bites so that whoever drives it can let others run in between.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from reactive_desched.api.plugin import View
from reactive_desched.controller.backoff import Backoff
from reactive_desched.controller.blocked import Blocked, Parking, makes_room
from reactive_desched.controller.evaluation import Cause, Judgement, Report
from reactive_desched.controller.subscriptions import Instance, Key, Routes
from reactive_desched.model.changes import Change, DisruptionBudgetChanged, Resynced, TimePassed
from reactive_desched.model.decisions import Decision, Defer, Evict, Refuse, Room
from reactive_desched.model.findings import Finding, LookAgain
from reactive_desched.model.outcomes import BUDGET_REFUSED, LEFT, Outcome
from reactive_desched.model.subjects import OnePod, OnNode
from reactive_desched.primitives.deadline_heap import Timers
from reactive_desched.primitives.debounce import Debounce


class Engine:
    """Everything between a change and a decision, for all plugin instances.

    Until `resync` is called nothing is judged: the first picture is state, not news. `looks`
    counts how often a subject was judged.
    """

    def __init__(
        self,
        instances: Iterable[Instance],
        view: View,
        report: Report,
        *,
        backoff: Backoff,
        room_grew: Callable[[], None],
        room_news: Callable[[], Iterable[Room]] = tuple,
    ) -> None:
        self._view = view
        self._report = report
        self._backoff = backoff
        self._room_grew = room_grew
        self._room_news = room_news
        self.started = False
        self.looks = 0
        self._install(instances)

    def _install(self, instances: Iterable[Instance]) -> None:
        self._instances = tuple(instances)
        self._routes = Routes(self._instances)
        self._dirty = {i: Debounce[Key, Cause](i.pause) for i in self._instances}
        self._busy: dict[Instance, Debounce[Key, Cause]] = {}  # those with anything dirty
        self._timers: Timers[Key] = Timers()
        self._parking: Parking[Key, Cause] = Parking()
        self._sweeps: list[tuple[Iterator[Key], Cause]] = []

    @property
    def dirty(self) -> int:
        """How many subjects wait to be judged."""
        return sum(map(len, self._dirty.values()))

    @property
    def parked(self) -> dict[str, int]:
        """How many findings are blocked, by gate."""
        return self._parking.by_gate()

    def resync(self, now: float) -> None:
        """Look at everything, spread over the coming work."""
        self.started = True
        cause = Cause(Resynced(), now)
        self._sweeps = [(self._everything(instance), cause) for instance in self._instances]

    def adopt(self, instances: Iterable[Instance], now: float) -> None:
        """Go on with other instances, and look at everything again.

        What the old ones had dirty, parked or timed is dropped: it was about their opinions.
        Evictions they began still settle, and pods that rest after a failure go on resting.
        """
        self._install(instances)
        if self.started:
            self.resync(now)

    def observe(self, changes: Iterable[Change], now: float, version: int = 0) -> None:
        """Mark what these changes may have made right or wrong.

        `version` is the resourceVersion of the object whose event led to them.
        """
        if not self.started:
            return
        for change in changes:
            cause = Cause(change, now, version)
            for instance in self._routes.interested(change):
                for subject in instance.plugin.subjects(change, self._view):
                    self._touch((instance, subject), now, cause)
            if makes_room(change):
                self._room_grew()
            for key in self._parking.woken_by(change):
                self._wake(key, cause, now)
            self._tell_of_room(cause, now)

    def work(self, now: float, enough: Callable[[], bool]) -> None:
        """Judge what is due, until nothing is or the caller has had enough."""
        while (due := self._pop_due(now)) is not None:
            self._judge(*due, now)
            if enough():
                return

    def next_due(self, now: float) -> float | None:
        """Return when there is work again; `now` or earlier means at once."""
        if self._sweeps:
            return now
        earliest = self._timers.next_due()
        for dirty in self._busy.values():
            due = dirty.next_due()
            if due is not None and (earliest is None or due < earliest):
                earliest = due
        return earliest

    def settled(self, judgement: Judgement, outcome: Outcome, now: float) -> None:
        """Take in how an eviction ended; what did not happen is looked at again later."""
        key, finding = judgement.key, judgement.finding
        pod = finding.pod
        key[0].gate.settled(pod, outcome, now)
        if outcome.result in LEFT:
            self._backoff.forget(pod.uid)
            return
        until = self._backoff.failed(pod.uid, outcome, now)
        if key[0] in self._dirty:  # else it is not in force any more, and the pod merely rests
            self._block(key, _later(finding, outcome, until), judgement.cause)
        told = Cause(judgement.cause.change, judgement.cause.at)  # by no event of the cluster
        for other in self._parking.waiting_for(("eviction", pod.uid)):
            self._touch(other, now, told)
        self._tell_of_room(told, now)

    def waiting_with(self, key: Key) -> Blocked | None:
        """Return the verdict a blocked subject waits with."""
        return self._parking.verdict(key)

    def _everything(self, instance: Instance) -> Iterator[Key]:
        for subject in instance.plugin.subjects(Resynced(), self._view):
            yield instance, subject

    def _pop_due(self, now: float) -> tuple[Key, Cause] | None:
        for instance, dirty in self._busy.items():
            if (due := dirty.pop_due(now)) is not None:
                if not dirty:
                    del self._busy[instance]
                return due
        if (key := self._timers.pop_due(now)) is not None:
            return key, self._parking.cause(key) or Cause(TimePassed(), now)
        while self._sweeps:
            sweep, cause = self._sweeps[0]
            if (next_key := next(sweep, None)) is not None:
                return next_key, cause
            self._sweeps.pop(0)
        return None

    def _wake(self, key: Key, cause: Cause, now: float) -> None:
        if isinstance(cause.change, DisruptionBudgetChanged):
            verdict = self._parking.verdict(key)
            assert verdict is not None
            self._backoff.budget_changed(verdict.finding.pod.uid, now)
        self._touch(key, now, cause)

    def _touch(self, key: Key, now: float, cause: Cause) -> None:
        dirty = self._busy[key[0]] = self._dirty[key[0]]
        dirty.touch(key, now, cause)

    def _tell_of_room(self, cause: Cause, now: float) -> None:
        """Wake as many as may fit now, among those who are not to look again anyway."""
        for news in self._room_news():
            left = news.places
            for key in self._parking.may_wake(news):
                if left == 0:
                    break
                if key not in self._dirty[key[0]]:
                    self._touch(key, now, cause)
                    left = None if left is None else left - 1

    def _judge(self, key: Key, cause: Cause, now: float) -> None:
        instance, subject = key
        self.looks += 1
        before = self._parking.leave_family(key)
        self._timers.cancel(key)
        for outdated in before:
            self._timers.cancel(outdated)
        findings = []
        for opinion in instance.plugin.judge(subject, self._view):
            if isinstance(opinion, LookAgain):
                self._timers.set_if_sooner(self._whole(key), now + opinion.after_s)
            else:
                findings.append(opinion)
        for finding in sorted(findings, key=_rank) if len(findings) > 1 else findings:
            self._decide(key, finding, cause, now, before)
        if findings:
            self._tell_of_room(cause, now)

    def _whole(self, key: Key) -> Key:
        """Return what rings for a subject: its pod's node, or there would be a timer per pod."""
        instance, subject = key
        bound = self._view.bound(subject.pod) if isinstance(subject, OnePod) else None
        return key if bound is None else (instance, OnNode(bound[1].name))

    def _decide(
        self, key: Key, finding: Finding, cause: Cause, now: float, before: Mapping[Key, Blocked]
    ) -> None:
        own = _own_key(key, finding)
        was = before.get(own)
        rest = self._backoff.resting(finding.pod.uid, now)
        decision: Decision = (
            key[0].gate.decide(finding, now)
            if rest is None
            else _later(finding, rest.outcome, rest.until)
        )
        if not isinstance(decision, Evict):
            self._block(own, decision, cause)
        is_news = (
            was is None
            or isinstance(decision, Evict)
            or (was.gate, was.reason) != (decision.gate, decision.reason)
        )
        self._report(Judgement(own, decision, cause, now, is_news))

    def _block(self, key: Key, verdict: Blocked, cause: Cause) -> None:
        self._parking.park(key, verdict, cause, _family(key, verdict.finding))
        if verdict.until is not None:
            self._timers.set_if_sooner(key, verdict.until)


def _rank(finding: Finding) -> tuple[int, ...]:
    return finding.rank


def _own_key(key: Key, finding: Finding) -> Key:
    """Return what to look at again for this finding: of a node's pods, the one it is about."""
    instance, subject = key
    return (instance, OnePod(finding.pod.key)) if isinstance(subject, OnNode) else key


def _family(key: Key, finding: Finding) -> Key:
    """Return whose judgement answers for this finding too: its pod's node, for places."""
    instance, subject = key
    return (instance, OnNode(finding.pod.node)) if isinstance(subject, OnePod) else key


def _later(finding: Finding, outcome: Outcome, until: float) -> Blocked:
    """Say what a finding waits for whose eviction did not happen."""
    if outcome.result != BUDGET_REFUSED:
        return Defer(finding, "Eviction", outcome.detail or outcome.result, until)
    wakes = (("budgets", finding.pod.namespace), ("pod", finding.pod.uid))
    return Refuse(finding, "DisruptionBudget", outcome.detail, wakes, until)
