"""The gate's decision on a finding: evict, decide again later, or refuse, with a reason code."""

from typing import ClassVar, Final

from msgspec import Struct
from msgspec.structs import replace

from reactive_desched.model.clock_pair import ClockPair
from reactive_desched.model.findings import Finding
from reactive_desched.model.wakes import WakeOn
from reactive_desched.primitives.bounded_text import shown
from reactive_desched.text.ages import format_age, format_left
from reactive_desched.text.times import format_time_seen_at

TURN_COMES_S: Final = 120.0
"""A pod that waits for another one's move has its turn soon, as a rule, unless the move began as
long ago as this: a replacement that is not Ready by then may never be."""


class CapacityHint(Struct, frozen=True, gc=False):
    """Findings that wait for `wake` may fit on some node now.

    At most `slots` of them fit (None: any number), and none of a pod on the node `exclude_node`.
    `after_fit` says that only another pod's fit speaks for it: what was evaluated together with
    that pod has been considered. `is_observed` says that the findings are of plugins that only
    observe.
    """

    wake: WakeOn
    slots: int | None = None
    exclude_node: str = ""
    after_fit: bool = False
    is_observed: bool = False


class Evict(Struct, frozen=True, gc=False):
    """Every gate agreed; the eviction holds its rate limit tokens.

    `companions` are the findings of other pods that leave with it, to which they agreed as well.
    """

    finding: Finding
    companions: tuple[Finding, ...] = ()
    pod_leaves: ClassVar[bool] = True
    scope_exhausted: ClassVar[str] = ""
    turn: ClassVar[str] = ""


class WaitEnd(Struct, frozen=True, gc=False):
    """The end of a wait, as a message says it: words before the time, the time, words after it.

    A decision is read long after it was made. So its message has no time that is left, which only
    `left` puts in, at the moment of the question; records have the moment itself, by `moment`.
    `at_s` is monotonic seconds. A time that `is_bare` has no "in" or "at" before it. One that is
    not to be said, as the message names it already, has no words at all: see `silent_end`.
    """

    before: str
    at_s: float
    after: str = ""
    is_bare: bool = False
    is_said: bool = True

    def left(self, now: float) -> str:
        """Say how long it is until then."""
        if not self.is_said:
            return ""
        left_s = self.at_s - now
        when = format_age(max(1, round(left_s))) if self.is_bare else format_left(left_s)
        return f"{self.before} {when}{self.after}"

    def moment(self, clocks: ClockPair) -> str:
        """Say at which time of day that is."""
        if not self.is_said:
            return ""
        time = format_time_seen_at(clocks.wall_s(self.at_s), clocks.wall_now)
        return f"{self.before} {'' if self.is_bare else 'at '}{time}{self.after}"


def silent_end(at_s: float) -> WaitEnd:
    """Return the end of a wait whose message names it: lists show it, and nothing is added."""
    return WaitEnd("", at_s, is_said=False)


class _Reasoned(Struct, frozen=True, gc=False):
    """The gate that lets the pod stay, and its reason.

    `gate` and `reason`, a CamelCase code, identify the decision; `message` is for people, and true
    for as long as the decision stands.
    """

    finding: Finding
    gate: str
    reason: str
    message: str


class _Blocked(_Reasoned, frozen=True, gc=False, kw_only=True):
    """A reason not to evict the pod now: all that Defer and Refuse have in common.

    `scope_exhausted` is "cluster", "node" or "namespace" when a limit of that scope is spent:
    further pods of the same scope get the same answer, so a balance plugin stops proposing them.
    `setting` names the field of the settings or the policy that would change the decision; empty
    where none would. `turn` names the row in which the pod waits for one that leaves before it,
    such as its workload: its turn comes soon, as a rule. It is empty for one that waits otherwise.
    `end` adds to the message when the wait ends, as `says` or `record` write.
    """

    scope_exhausted: str = ""
    setting: str = ""
    turn: str = ""
    end: WaitEnd | None = None

    def says(self, now: float) -> str:
        """Return the message as of now (monotonic seconds): with how long the wait takes still."""
        return self.message if self.end is None else f"{self.message}{self.end.left(now)}"

    def record(self, clocks: ClockPair) -> str:
        """Return the message as it stays true in a record: with the moment at which it ends."""
        return self.message if self.end is None else f"{self.message}{self.end.moment(clocks)}"


class Defer(_Blocked, frozen=True, gc=False):
    """A gate defers the eviction: the finding is evaluated afresh at `retry_at_s` (monotonic s)."""

    retry_at_s: float
    pod_leaves: ClassVar[bool] = False
    keeps: ClassVar[bool] = False


class Refuse(_Blocked, frozen=True, gc=False):
    """A gate refuses the eviction until one of `wake_on` changes, or until `retry_at_s`.

    `pod_leaves` says that the pod leaves all the same: it is terminating, or its eviction is under
    way. `keeps` says that it is not waited for: the pod stays until a person changes the pod, the
    policy or the settings.
    """

    wake_on: tuple[WakeOn, ...] = ()
    retry_at_s: float | None = None
    pod_leaves: bool = False
    keeps: bool = False

    def ending(self, end: WaitEnd | None) -> "Refuse":
        """Return the refusal with what its message says of its end."""
        return self if end is None else replace(self, end=end)


Decision = Evict | Defer | Refuse


class GateReason(Struct, frozen=True, gc=False):
    """One reason of one gate not to evict a pod: `code` is what decisions carry as `reason`.

    `meaning` explains the code in docs/reference/reasons.md. `setting` names the field of the
    settings or the policy that would change the decision; a decision may name it more exactly.
    With `keeps` a refusal without an end keeps the pod for good: no eviction of it is waited for.
    """

    gate: str
    code: str
    meaning: str
    setting: str = ""
    keeps: bool = False

    def defer(
        self,
        finding: Finding,
        message: str,
        retry_at_s: float,
        *,
        scope_exhausted: str = "",
        setting: str = "",
        turn: str = "",
        end: WaitEnd | None = None,
    ) -> Defer:
        """Return a decision to judge the finding again at a time (monotonic seconds)."""
        return Defer(
            finding,
            self.gate,
            self.code,
            shown(message),
            retry_at_s,
            scope_exhausted=scope_exhausted,
            setting=setting or self.setting,
            turn=turn,
            end=end,
        )

    def refuse(
        self,
        finding: Finding,
        message: str,
        wake_on: tuple[WakeOn, ...] = (),
        retry_at_s: float | None = None,
        *,
        scope_exhausted: str = "",
        pod_leaves: bool = False,
        setting: str = "",
        turn: str = "",
    ) -> Refuse:
        """Return a refusal that holds until a wake key changes or the time comes."""
        return Refuse(
            finding,
            self.gate,
            self.code,
            shown(message),
            wake_on,
            retry_at_s,
            pod_leaves,
            self.keeps and retry_at_s is None,
            scope_exhausted=scope_exhausted,
            setting=setting or self.setting,
            turn=turn,
        )


EVICTION_LIMIT_GATE: Final = "EvictionLimit"

TOTAL_LIMIT_REACHED: Final = GateReason(
    EVICTION_LIMIT_GATE,
    "TotalLimitReached",
    "The cluster had as many evictions as `maxNoOfPodsToEvictTotal` allows.",
    "maxNoOfPodsToEvictTotal",
)
NODE_LIMIT_REACHED: Final = GateReason(
    EVICTION_LIMIT_GATE,
    "NodeLimitReached",
    "The pod's node had as many evictions as `maxNoOfPodsToEvictPerNode` allows.",
    "maxNoOfPodsToEvictPerNode",
)
NAMESPACE_LIMIT_REACHED: Final = GateReason(
    EVICTION_LIMIT_GATE,
    "NamespaceLimitReached",
    "The pod's namespace had as many evictions as `maxNoOfPodsToEvictPerNamespace` allows.",
    "maxNoOfPodsToEvictPerNamespace",
)
LIMIT_REASONS: Final = {
    "cluster": TOTAL_LIMIT_REACHED,
    "node": NODE_LIMIT_REACHED,
    "namespace": NAMESPACE_LIMIT_REACHED,
}
"""The reason for each scope of the policy's limits, in sweeps and in sliding windows alike."""

LIMIT_REASON_CODES: Final = frozenset(reason.code for reason in LIMIT_REASONS.values())

DISRUPTION_BUDGET: Final = GateReason(
    "DisruptionBudget",
    "DisruptionBudget",
    "The PodDisruptionBudget of the pod allows no eviction now, by its status or by the API "
    "server's answer.",
)
"""Given by the gate before a request, and by the evaluator after the API server's refusal."""
