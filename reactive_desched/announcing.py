"""Says in Kubernetes Events what became of evictions and of the policy, for readers of kubectl."""

from collections.abc import Callable, Iterable, Mapping

from reactive_desched.errors import Malformed
from reactive_desched.gate.windows import Windows
from reactive_desched.kube.events import CONTROLLER, Event, Regarding
from reactive_desched.model.changes import Change
from reactive_desched.model.decisions import Evict
from reactive_desched.model.objects import Pod
from reactive_desched.model.outcomes import (
    BUDGET_REFUSED,
    DENIED,
    EVICTED,
    FAILED,
    OVERLOADED,
    Outcome,
)
from reactive_desched.policy.load import Configuration
from reactive_desched.react.judgement import Judgement

DESCHEDULED, EVICTION_FAILED = "Descheduled", "EvictionFailed"
RELOAD, RELOADED, REJECTED = "ReloadPolicy", "PolicyReloaded", "PolicyRejected"

_NOT_EVICTED = frozenset({BUDGET_REFUSED, OVERLOADED, DENIED, FAILED})


class Announcer:
    """A listener that makes Events of what is worth one, as the policy and settings in force say.

    An eviction has one beside its pod. One that failed, or that a limit of the policy stopped, has
    one if the policy sets `evictionFailureEventNotification`. A policy has one beside `own_pod`,
    if that is known.
    """

    def __init__(
        self,
        record: Callable[[Event], None],
        in_force: Callable[[], Configuration],
        own_pod: Regarding | None = None,
    ) -> None:
        self._record = record
        self._in_force = in_force
        self._own_pod = own_pod

    def changed(self, changes: Iterable[Change]) -> None:
        """Say nothing: what changed is known to whoever changed it."""

    def judged(self, judgement: Judgement) -> None:
        """Say that a limit of the policy stopped an eviction, once."""
        decision = judgement.decision
        if isinstance(decision, Evict) or decision.gate != Windows.name or not judgement.is_news:
            return
        self._failed(judgement, decision.reason)

    def ended(self, judgement: Judgement, outcome: Outcome, _: float, /) -> None:
        """Say that a pod was evicted, or why not; one that was gone anyway is no news."""
        if outcome.result == EVICTED:
            self._evicted(judgement)
        elif outcome.result in _NOT_EVICTED:
            self._failed(judgement, outcome.detail or outcome.result)

    def held_back(self, reason: str | None) -> None:
        """Say nothing: it is about no object."""

    def malformed(self, resource: str, error: Malformed, /) -> None:
        """Say nothing: an object that cannot be read may have no name."""

    def reloaded(self, note: str) -> None:
        """Say that another policy is in force."""
        if self._own_pod is not None:
            self._say(Event(self._own_pod, RELOADED, RELOAD, note))

    def rejected(self, note: str) -> None:
        """Say that a policy was refused."""
        if self._own_pod is not None:
            self._say(Event(self._own_pod, REJECTED, RELOAD, note, is_warning=True))

    def _evicted(self, judgement: Judgement) -> None:
        finding = judgement.finding
        note = f"{_eviction(finding.pod)}: {_why(judgement)}"
        self._say(Event(_regarding(finding.pod), finding.plugin, DESCHEDULED, note))

    def _failed(self, judgement: Judgement, detail: str) -> None:
        if not self._in_force().policy.eviction_failure_event_notification:
            return
        pod = judgement.finding.pod
        note = f"{_eviction(pod)} failed: {detail} ({_why(judgement)})"
        self._say(Event(_regarding(pod), EVICTION_FAILED, DESCHEDULED, note, is_warning=True))

    def _say(self, event: Event) -> None:
        if self._in_force().settings.events.kubernetes:
            self._record(event)


def own_pod(environ: Mapping[str, str]) -> Regarding | None:
    """Find out which pod we are, from what the Deployment tells us; None when it does not."""
    name, namespace = environ.get("POD_NAME"), environ.get("POD_NAMESPACE")
    if not name or not namespace:
        return None
    return Regarding("Pod", namespace, name, environ.get("POD_UID", ""))


def _eviction(pod: Pod) -> str:
    return f"pod eviction from {pod.node} node by {CONTROLLER}"


def _why(judgement: Judgement) -> str:
    finding = judgement.finding
    return f"{finding.plugin} of profile {judgement.instance.profile}: {finding.reason}"


def _regarding(pod: Pod) -> Regarding:
    return Regarding("Pod", pod.namespace, pod.name, pod.uid)
