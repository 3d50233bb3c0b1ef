"""A pod claims a device that has a taint which its claim does not tolerate."""

from collections.abc import Iterator

from pydantic import Field

from reactive_desched.api.args import Seconds
from reactive_desched.api.plugin import PodPlugin, View
from reactive_desched.api.scope import ScopedArgs
from reactive_desched.model.changes import NodeAdded, PodBound, PodLabelsChanged, Resynced
from reactive_desched.model.findings import Finding, RequeueAfter
from reactive_desched.model.objects import Pod
from reactive_desched.model.subjects import NodeOrPod
from reactive_desched.state.indexes.closed_devices import (
    ClosedDevice,
    ClosedDevices,
    ClosedDevicesChanged,
)


class DeviceTaintsArgs(ScopedArgs):
    """Arguments: how long a taint stands before it is a reason, and which pods leave."""

    wait: Seconds = Field(default=60.0, description="A taint counts once it has stood for so long.")


class DeviceTaintsPlugin(PodPlugin[DeviceTaintsArgs]):
    """Pods that claim a device with a NoSchedule taint that their claim does not tolerate.

    The taint is the driver's own, of a ResourceSlice, or one that a DeviceTaintRule adds. For one
    with the effect NoExecute Kubernetes deletes the pods itself, at once and without a disruption
    budget. It takes `guards.resourceClaims: fit`: without it the controller does not read devices,
    and the guard keeps the pods. They leave where another node has the devices. A sweep reads no
    devices, so it finds nothing.
    """

    name = "RemovePodsViolatingDeviceTaints"
    indexes = (ClosedDevices,)
    reacts_to = (Resynced, ClosedDevicesChanged, NodeAdded, PodBound, PodLabelsChanged)

    def judge(self, subject: NodeOrPod, view: View) -> Iterator[Finding | RequeueAfter]:
        """Flag every pod with a device that a taint has closed for long enough."""
        if (node_and_pods := view.pods_of(subject)) is None:
            return
        closed, soonest_s = view.index(ClosedDevices), float("inf")
        for pod in node_and_pods[1]:
            if not pod.has_resource_claims or not self.args.covers(pod):
                continue
            for claim, each in closed.of(pod):
                if (left_s := self._left_s(each, view.now_s)) > 0:
                    soonest_s = min(soonest_s, left_s)
                    continue
                device = "/".join(each.device)
                message = f"ResourceClaim {claim} does not tolerate {each.taint} of device {device}"
                details: dict[str, int | str] = {
                    "device": device,
                    "taintKey": each.taint.key,
                    "taintValue": each.taint.value,
                    "taintEffect": each.taint.effect,
                }
                yield Finding(pod, self.name, message, details=details)
                break
        if soonest_s < float("inf"):
            yield RequeueAfter(soonest_s)

    def _left_s(self, closed: ClosedDevice, now_s: float) -> float:
        """Return for how long a taint does not count yet; one of unknown age counts."""
        return 0.0 if closed.since_s is None else closed.since_s + self.args.wait - now_s

    def describe(self, pod: Pod, view: View) -> str:
        """Name the taints that close devices of the pod and do not count yet."""
        closed = [
            f"{each.taint} of {'/'.join(each.device)}"
            for _, each in view.index(ClosedDevices).of(pod)
        ]
        if closed:
            return f"does not count yet, for wait: {', '.join(closed)}"
        return "no taint closes a device of it" if pod.has_resource_claims else ""
