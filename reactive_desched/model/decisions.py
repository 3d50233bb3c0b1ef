"""The gate's verdict on a finding: evict, look again later, or refuse; always naming the gate."""

from typing import ClassVar

from msgspec import Struct

from reactive_desched.model.findings import Finding
from reactive_desched.model.wakes import WakeOn


class CapacityHint(Struct, frozen=True, gc=False):
    """News that those who wait for `wake` may fit somewhere now.

    So many of them at most (None: all), and none that sits on the node `beside`.
    """

    wake: WakeOn
    slots: int | None = None
    exclude_node: str = ""


class Evict(Struct, frozen=True, gc=False):
    """Every gate agreed; the eviction holds its rate limit tokens."""

    finding: Finding
    pod_leaves: ClassVar[bool] = True
    scope_exhausted: ClassVar[str] = ""


class Defer(Struct, frozen=True, gc=False):
    """Not now: `gate` says why, and `retry_at_s` (monotonic seconds) when to evaluate afresh.

    `scope_exhausted` is "cluster", "node" or "namespace" when a limit of that scope is spent:
    further pods of the same scope get the same answer, so a balance plugin stops proposing them.
    """

    finding: Finding
    gate: str
    message: str
    retry_at_s: float
    scope_exhausted: str = ""
    pod_leaves: ClassVar[bool] = False


class Refuse(Struct, frozen=True, gc=False):
    """Not as things are: `wake_on` names what could change the answer.

    A refusal that time alone can lift also has `retry_at_s` (monotonic seconds). `detail` has
    numbers that differ from one evaluation to the next although the reason stays the same.
    `scope_exhausted` is as in Defer. `pod_leaves` says that the pod leaves all the same: it is
    terminating, or its eviction is under way.
    """

    finding: Finding
    gate: str
    message: str
    wake_on: tuple[WakeOn, ...] = ()
    retry_at_s: float | None = None
    detail: str = ""
    scope_exhausted: str = ""
    pod_leaves: bool = False


Decision = Evict | Defer | Refuse
