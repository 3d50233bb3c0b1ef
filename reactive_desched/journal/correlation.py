"""Which case an event belongs to: one pod under one plugin, from the finding to its end.

Where a finding has a migration job made, the job's own finding, its eviction and what came of that
belong to the same case.
"""

from collections import OrderedDict

from reactive_desched.model.accounts import DecisionContext
from reactive_desched.model.migration_jobs import MIGRATION_PROFILE

MAX_CASES = 50_000
"""So many cases are remembered; of one that was forgotten, what follows begins another."""


CaseKey = tuple[str, str, str]
"""What makes it the same case: the pod's uid, the profile and the plugin."""


class Case:
    """One story: its id, and how many decisions and eviction requests it had so far."""

    __slots__ = ("attempts", "decisions", "id")

    def __init__(self, id_: str) -> None:
        self.id = id_
        self.decisions = 0
        self.attempts = 0

    def begin_decision(self) -> None:
        """Count a decision; `decision_id` is that of its event from now on."""
        self.decisions += 1

    def begin_attempt(self) -> None:
        """Count an eviction request; `request_id` is that of its event from now on."""
        self.attempts += 1

    @property
    def finding_id(self) -> str:
        """The id of the event it begins with."""
        return f"{self.id}.finding"

    @property
    def decision_id(self) -> str:
        """The id of its latest decision's event; before any, of its finding's."""
        return f"{self.id}.decision.{self.decisions}" if self.decisions else self.finding_id

    @property
    def request_id(self) -> str:
        """The id of its latest eviction request's event."""
        return f"{self.id}.requested.{self.attempts}"


class OpenCases:
    """The open cases; of MAX_CASES the one not looked at for longest is forgotten."""

    def __init__(self) -> None:
        self._cases: OrderedDict[CaseKey, Case] = OrderedDict()  # by when they were last looked at
        self._latest: dict[tuple[str, str], CaseKey] = {}  # by the pod's uid, and the plugin
        self._of_pod: dict[str, CaseKey] = {}  # the one opened last

    def find(self, context: DecisionContext) -> Case | None:
        """Return the case this belongs to, if it is open."""
        finding = context.finding
        key = self._key_of(finding.pod.uid, context.profile, finding.plugin)
        if (case := self._cases.get(key)) is not None:
            self._cases.move_to_end(key)
        return case

    def latest_of(self, uid: str, plugin: str = "") -> Case | None:
        """Return the case of a pod that was opened last, of a plugin where one is named."""
        key = self._latest.get((uid, plugin)) if plugin else self._of_pod.get(uid)
        return None if key is None else self._cases.get(key)

    def open(self, context: DecisionContext, id_: str) -> Case:
        """Open a case."""
        if len(self._cases) >= MAX_CASES:
            oldest, _ = self._cases.popitem(last=False)
            self._forget(oldest)
        finding = context.finding
        key = finding.pod.uid, context.profile, finding.plugin
        self._latest[finding.pod.uid, finding.plugin] = self._of_pod[finding.pod.uid] = key
        case = self._cases[key] = Case(id_)
        return case

    def close(self, uid: str, profile: str, plugin: str) -> None:
        """The pod has left: what is found later is another case."""
        key = self._key_of(uid, profile, plugin)
        if self._cases.pop(key, None) is not None:
            self._forget(key)

    def close_latest(self, uid: str) -> None:
        """The pod was ended by something else: its case that was opened last ends."""
        if (key := self._of_pod.get(uid)) is not None:
            del self._cases[key]
            self._forget(key)

    def _key_of(self, uid: str, profile: str, plugin: str) -> CaseKey:
        """Return the key of a case; that of a job is the key of the plugin that had it made."""
        key = uid, profile, plugin
        return self._latest.get((uid, plugin), key) if profile == MIGRATION_PROFILE else key

    def _forget(self, key: CaseKey) -> None:
        uid, _, plugin = key
        if self._latest.get((uid, plugin)) == key:
            del self._latest[uid, plugin]
        if self._of_pod.get(uid) == key:
            del self._of_pod[uid]
