"""Calls the plugins in force: for what a change concerns, and for what they find of a subject.

Each call is timed. Whatever a plugin raises becomes one of its faults: the subject is evaluated
again later, or the plugin is switched off, and the others go on.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from reactive_desched.api.plugin import Opinions, next_opinion
from reactive_desched.controller.evaluation_queue import EvaluationQueue
from reactive_desched.controller.instances import PluginInstance, SubjectKey, Subscriptions
from reactive_desched.controller.plugin_faults import (
    SLOW_CALL_S,
    WHOLE,
    MissedChange,
    MissedVerdict,
    PluginFaults,
    SlowPlugins,
    describe_subject,
)
from reactive_desched.controller.work_queue import Portions
from reactive_desched.gate.profile_view import ProfileView
from reactive_desched.model.changes import Change, Resynced
from reactive_desched.model.checked_opinions import Opinion, checked_finding, checked_opinion
from reactive_desched.model.decisions import Decision
from reactive_desched.model.evaluation import ChangeTrigger, Evaluation
from reactive_desched.model.findings import Finding
from reactive_desched.model.plugin_faults import PluginFault
from reactive_desched.primitives.foreign_code import calls_foreign_code, is_fault
from reactive_desched.primitives.long_answers import InPortions
from reactive_desched.state.index_registry import IndexFault, IndexKey


class PluginCalls:
    """Calls the plugin instances, and enqueues in `queue` the subjects that they name.

    `subscriptions` are those of the instances that are not switched off. Times are monotonic
    seconds; calls are timed by the clock of `slow_plugins`.
    """

    def __init__(
        self,
        instances: Sequence[PluginInstance],
        queue: EvaluationQueue,
        faults: PluginFaults,
        slow_plugins: SlowPlugins,
    ) -> None:
        self._instances: Final = instances
        self._queue = queue
        self._faults = faults
        self._slow_plugins = slow_plugins
        self._clock = slow_plugins.clock
        self.subscriptions = Subscriptions(instances)

    # --- which subjects ---

    @calls_foreign_code
    def enqueue_subjects(
        self,
        change: Change,
        trigger: ChangeTrigger,
        now: float,
        only_in: ProfileView | None = None,
    ) -> None:
        """Enqueue what the plugins say that a change concerns; `only_in`, those of a profile."""
        clock = self._clock
        began = clock()
        for matters, instance in self.subscriptions.by_kind.get(type(change), ()):
            if only_in is not None and instance.view is not only_in:
                continue
            try:
                if matters is None or matters(change):
                    subjects = instance.plugin.subjects(change, instance.view)
                    self._enqueue_named(instance, subjects, trigger, now)
            except BaseException as error:
                if not is_fault(error):
                    raise
                self._missed(instance, trigger, error, now)
            if (ended := clock()) - began > SLOW_CALL_S:
                self._note_slow((instance, change), ended - began)
            began = ended

    def _enqueue_named(
        self,
        instance: PluginInstance,
        subjects: Iterable[Hashable],
        trigger: ChangeTrigger,
        now: float,
    ) -> None:
        if isinstance(subjects, InPortions):
            named = self._named(instance, subjects, trigger, now)
            self._queue.enqueue_in_portions(named, now, trigger)
            return
        enqueue = self._queue.enqueue
        for subject in subjects:
            enqueue((instance, subject), now, trigger)

    @calls_foreign_code
    def _named(
        self,
        instance: PluginInstance,
        subjects: InPortions[Hashable],
        trigger: ChangeTrigger,
        now: float,
    ) -> Portions:
        """Yield what a plugin names in portions."""
        began = self._clock()
        try:
            for number, portion in enumerate(subjects.portions):
                if number:  # the first belongs to the call
                    self._time_call((instance, trigger.change), began)
                yield [(instance, subject) for subject in portion]
                if self._faults.is_off(instance):
                    return
                began = self._clock()
        except BaseException as error:
            if not is_fault(error):
                raise
            self._missed(instance, trigger, error, now)

    @calls_foreign_code
    def all_subjects(self, instance: PluginInstance, now: float) -> Iterator[SubjectKey]:
        """Yield each subject of a plugin; none where it is switched off."""
        if self._faults.is_off(instance):
            return
        began = self._clock()
        try:
            for subject in instance.plugin.subjects(Resynced(), instance.view):
                hash(subject)
                self._time_call((instance, WHOLE), began)
                yield instance, subject
                began = self._clock()
            self._faults.named_all(instance)
        except BaseException as error:
            if not is_fault(error):
                raise
            self.failed((instance, WHOLE), error, now)

    # --- what is found ---

    @calls_foreign_code
    def opinions_on(self, key: SubjectKey, now: float) -> Opinions | None:
        """Ask a plugin about a subject; None where it fails at once."""
        instance, subject = key
        began = self._clock()
        try:
            return instance.plugin.evaluate(subject, instance.view)
        except BaseException as error:
            if not is_fault(error):
                raise
            self.failed(key, error, now)
            return None
        finally:
            self._time_call(key, began)

    @calls_foreign_code
    def next_opinion(
        self, key: SubjectKey, opinions: Opinions, decision: Decision | None, now: float
    ) -> Opinion | PluginFault | None:
        """Return a plugin's next opinion on a subject, or the fault that ended it; None at the end.

        The plugin receives the decision on its last finding.
        """
        began = self._clock()
        try:
            opinion = next_opinion(opinions, decision)
            return None if opinion is None else checked_opinion(opinion, _author(key[0]))
        except BaseException as error:
            if not is_fault(error):
                raise
            return self.failed(key, error, now)
        finally:
            self._time_call(key, began)

    @calls_foreign_code
    def still_found(self, evaluation: Evaluation, now: float) -> Finding | None:
        """Return what the plugin finds now of a pod that is to be evicted, if anything.

        A plugin that fails at that finds nothing: its subject is evaluated again later.
        """
        instance, subject = evaluation.instance, evaluation.subject
        if not isinstance(instance, PluginInstance) or not self.is_in_force(instance):
            return None
        began = self._clock()
        try:
            decided = evaluation.finding
            found = instance.plugin.still_found(decided, subject, instance.view)
            is_checked = found is None or found is decided
            return found if is_checked else checked_finding(found, _author(instance))
        except BaseException as error:
            if not is_fault(error):
                raise
            self.failed((instance, subject), error, now)
            return None
        finally:
            self._time_call((instance, subject), began)

    # --- what they fail on ---

    def is_in_force(self, instance: PluginInstance) -> bool:
        """Say whether a plugin is one of these and not switched off."""
        return instance in self._instances and not self._faults.is_off(instance)

    def is_put_off(self, key: SubjectKey, trigger: ChangeTrigger, now: float) -> bool:
        """Say whether a subject that is due is not evaluated now, for a fault of its plugin."""
        instance, subject = key
        if self._faults.is_off(instance):
            return True
        if subject is WHOLE:
            self._queue.resync_some(self.all_subjects(instance, now), trigger)
            return True
        if (until := self._faults.rests_until(key, now)) is None:
            return False
        self._queue.requeue_at(key, until)
        return True

    def failed(self, key: SubjectKey, error: BaseException, now: float) -> PluginFault:
        """Evaluate a subject again later: the plugin raised an exception on it."""
        fault = self._faults.record(*key, error, now)
        self._follow(fault, key, now)
        return fault

    def gave_no_verdict(
        self, plugin: object, replacement: str, error: BaseException, now: float
    ) -> None:
        """Look at everything later: a plugin could not say whether its move had helped."""
        for instance in self._instances:
            if instance.plugin is plugin and not self._faults.is_off(instance):
                fault = self._faults.record(instance, MissedVerdict(replacement), error, now)
                self._follow(fault, (instance, WHOLE), now)

    def switch_off_readers(self, failed: Mapping[IndexKey, IndexFault]) -> None:
        """Switch off the plugins that read one of these indexes: what they would find is wrong."""
        for instance in self._instances:
            read = instance.plugin.required_indexes
            fault = next((failed[key] for key in read if key in failed), None)
            if fault is not None and not self._faults.is_off(instance):
                self._faults.switch_off(instance, str(fault), fault.error)
                self._drop(instance)

    def _missed(
        self, instance: PluginInstance, trigger: ChangeTrigger, error: BaseException, now: float
    ) -> None:
        """Look at everything later: the plugin could not say what a change concerns."""
        if self._faults.is_off(instance):
            return
        of = trigger.change.object_name
        fault = self._faults.record(instance, MissedChange(of) if of else WHOLE, error, now)
        self._follow(fault, (instance, WHOLE), now)

    def _follow(self, fault: PluginFault, key: SubjectKey, now: float) -> None:
        if fault.is_off:
            self._drop(key[0])
        else:
            self._queue.requeue_at(key, now + fault.retry_s)

    def _drop(self, instance: PluginInstance) -> None:
        """Drop what waits for a plugin's next evaluation; evictions that it began are settled."""
        active = [each for each in self._instances if not self._faults.is_off(each)]
        self.subscriptions = Subscriptions(active)
        self._queue.drop(instance)

    # --- how long they take ---

    def _time_call(self, key: SubjectKey, began: float) -> None:
        """Note a call of a plugin that held the event loop."""
        if (took_s := self._clock() - began) > SLOW_CALL_S:
            self._note_slow(key, took_s)

    def _note_slow(self, key: SubjectKey, took_s: float) -> None:
        instance, subject = key
        if isinstance(subject, Change):
            what = f"a change of {subject.object_name or 'everything'}"
        else:
            what = describe_subject(instance, subject)
        self._slow_plugins.note(instance.name, what, took_s)


def _author(instance: PluginInstance) -> str | None:
    """Return the name that the findings of an instance have; None where it may be any."""
    return None if instance.finds_for_others else instance.name
