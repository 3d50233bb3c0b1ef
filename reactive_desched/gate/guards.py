"""The guards of reactive mode: one small function for each reason to leave a pod where it is.

A sweep, which acts every five minutes at most, has none of them. A guard returns None, or what
holds the pod and what may end that: the changes that wake the finding, or the time. To add one,
write its function and its line in `GUARDS`, and its name in `policy/guards.py`.
"""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from reactive_desched.api.index import Index
from reactive_desched.model.decisions import GateReason, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.node_marks import NodeMark
from reactive_desched.model.objects import Node
from reactive_desched.model.wakes import WakeOn, WakeOnNode, WakeOnPod
from reactive_desched.policy.guards import GuardName, GuardSettings
from reactive_desched.state.view import ClusterView


class GuardInputs(Struct, frozen=True):
    """What a guard reads besides the finding: the cluster as it is now, and the settings."""

    view: ClusterView
    settings: GuardSettings
    left_marks: Mapping[str, NodeMark]

    def node(self, finding: Finding) -> Node | None:
        """Return the Node that the pod is on."""
        info = self.view.node_info(finding.pod.node)
        return None if info is None else info.node


class Hold(Struct, frozen=True):
    """Why a guard holds a pod, and what may end it besides a change of the pod itself.

    `until_s` is the time at which it ends without any change, in seconds since the epoch.
    """

    message: str
    wakes: tuple[WakeOn, ...] = ()
    until_s: float | None = None


class Guard(Struct, frozen=True):
    """A guard: the reason it gives, its check, and where the rule comes from."""

    reason: GateReason
    check: Callable[[Finding, GuardInputs], Hold | None]
    source: str
    indexes: tuple[type[Index], ...] = ()

    @property
    def name(self) -> GuardName:
        """The name by which settings switch it off."""
        return GuardName(self.reason.gate)


DRAINED_NODE: Final = GateReason(
    GuardName.DRAINED_NODES,
    "NodeDrainedByOthers",
    "A taint on the pod's node says that an autoscaler, the cloud or a maintenance operator "
    "empties the node.",
)


def drained_node(finding: Finding, inputs: GuardInputs) -> Hold | None:
    """Hold pods on nodes that others empty, unless the finding is about their very taint."""
    node = inputs.node(finding)
    if node is None or not node.taints:
        return None
    for taint in node.taints:
        mark = inputs.left_marks.get(taint.key)
        if mark is not None and mark.empties and finding.details.get("taintKey") != taint.key:
            message = f"{mark.set_by} empties node {node.name} (taint {taint.key})"
            return Hold(message, (WakeOnNode(node.name),))
    return None


GUARDS: Final = (
    Guard(
        DRAINED_NODE,
        drained_node,
        "the taints of `guards.scaledDownNodes` and `guards.maintenanceNodes`",
    ),
)
"""Every guard, in the order in which they are asked."""


class Guards:
    """Asks every guard that the settings leave on for the finding's plugin."""

    name = "Guards"

    def __init__(self, view: ClusterView, settings: GuardSettings) -> None:
        self._view = view
        self.reconfigure(settings)

    @property
    def indexes(self) -> tuple[type[Index], ...]:
        """The indexes that the guards read."""
        return tuple(kind for guard in GUARDS for kind in guard.indexes)

    def reconfigure(self, settings: GuardSettings) -> None:
        """Apply other settings."""
        self._inputs = GuardInputs(self._view, settings, settings.left_marks)
        self._by_plugin: dict[str, tuple[Guard, ...]] = {}

    def check(self, finding: Finding, now: float) -> Refuse | None:
        """Refuse with the first guard that holds the pod; `now` is monotonic seconds."""
        for guard in self._active(finding.plugin):
            if (hold := guard.check(finding, self._inputs)) is not None:
                until = hold.until_s
                if until is not None:
                    until = now + max(0.0, until - self._view.now_s)
                wakes = (WakeOnPod(finding.pod.uid), *hold.wakes)
                return guard.reason.refuse(finding, hold.message, wakes, until)
        return None

    def _active(self, plugin: str) -> tuple[Guard, ...]:
        active = self._by_plugin.get(plugin)
        if active is None:
            settings = self._inputs.settings
            active = tuple(each for each in GUARDS if settings.holds(each.name, plugin))
            self._by_plugin[plugin] = active
        return active
