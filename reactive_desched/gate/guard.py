"""Defines a guard: a check of a finding, which reads the cluster and may hold the pod."""

from collections.abc import Callable

from msgspec import Struct

from reactive_desched.api.index import Index
from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.gate.workloads import Workloads
from reactive_desched.model.decisions import GateReason
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import Node
from reactive_desched.model.wakes import WakeOn
from reactive_desched.policy.settings.guards import GuardName, GuardSettings
from reactive_desched.state.cluster import ClusterView


class GuardInputs(Struct, frozen=True):
    """The cluster as it is now, and the settings, which a guard reads besides the finding.

    `balancing` names the plugins whose findings are about no fault of a pod's place. Without
    `node_fit` nothing is foreseen of the kube-scheduler.
    """

    view: ClusterView
    settings: GuardSettings
    workloads: Workloads
    balancing: frozenset[str]
    node_fit: SchedulerNodeFit | None = None

    def node(self, finding: Finding) -> Node | None:
        """Return the Node that the pod is on."""
        info = self.view.node_info(finding.pod.node)
        return None if info is None else info.node


class Hold(Struct, frozen=True):
    """The reason why a guard holds a pod, and what may end it besides a change of the pod itself.

    `wait_s` is in how many seconds it ends without any change; the message says that in the words
    `ends`. `turn` is as in a decision: the row in which the pod waits for one that leaves before
    it. `setting` is the one that would change this, where it is not that of the reason.
    `scope_exhausted` is "node" where the same holds all pods of the node, as in a decision.
    """

    reason: GateReason
    message: str
    wakes: tuple[WakeOn, ...] = ()
    wait_s: float | None = None
    turn: str = ""
    setting: str = ""
    ends: str = ""
    scope_exhausted: str = ""


class Guard(Struct, frozen=True):
    """A guard: its name in the settings, its check, and where the rule comes from."""

    name: GuardName
    check: Callable[[Finding, GuardInputs], Hold | None]
    source: str
    indexes: tuple[type[Index], ...] = ()
