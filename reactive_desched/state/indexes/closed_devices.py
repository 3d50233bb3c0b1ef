"""The devices that claims hold, and that have a taint which closes them."""

from collections.abc import Hashable, Iterable, Iterator

from msgspec import Struct

from reactive_desched.api.index import Cluster, Index
from reactive_desched.model.changes import PodsChange
from reactive_desched.model.devices import (
    DeviceId,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
    claim_names,
)
from reactive_desched.model.objects import ClusterObject, Pod
from reactive_desched.model.taints import NO_SCHEDULE, Taint, untolerated
from reactive_desched.state.indexes.devices import Devices


class ClosedDevicesChanged(PodsChange, frozen=True, gc=False):
    """A device that the pods claim got a taint which they do not tolerate, or lost one."""


class ClosedDevice(Struct, frozen=True, gc=False):
    """A device, and a taint that the claim which holds it does not tolerate.

    It stands since `since_s`, in seconds since the epoch, if that is known.
    """

    device: DeviceId
    taint: Taint
    since_s: int | None = None


class ClosedDevices(Index):
    """Keeps the closed devices of each claim, by the taints of slices and of rules.

    A taint with the effect NoExecute is left out: Kubernetes deletes the pods itself.
    """

    kinds = (ResourceClaim, ResourceSlice, DeviceTaintRule)
    announces = (ClosedDevicesChanged,)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._devices = cluster.index(Devices)
        self._claims = cluster.store(ResourceClaim)
        self._closed: dict[str, tuple[ClosedDevice, ...]] = {}
        for claim in self._claims:
            self._look(claim.key)

    def of(self, pod: Pod) -> Iterator[tuple[str, ClosedDevice]]:
        """Yield the closed devices of a pod, each with the name of its claim.

        A claim that is not reserved for the pod is not its own by now.
        """
        of_pod = (key.partition("/")[2] for key in self._devices.claims_of(pod.uid))
        for name in dict.fromkeys((*claim_names(pod), *of_pod)):
            key = f"{pod.namespace}/{name}"
            for closed in self._closed.get(key, ()):
                claim = self._claims.get(key)
                if claim is not None and pod.uid in claim.users:
                    yield name, closed

    def on_object(
        self, old: ClusterObject | None, new: ClusterObject | None
    ) -> tuple[ClosedDevicesChanged, ...]:
        """Follow a claim, and the taints of slices and rules."""
        keys = dict.fromkeys(key for each in (old, new) for key in self._claims_of(each))
        pods: dict[str, None] = {}
        for key in keys:
            if self._look(key) or _users(old) != _users(new):
                users = [
                    claim
                    for claim in (old, new, self._claims.get(key))
                    if isinstance(claim, ResourceClaim) and claim.key == key
                ]
                pods.update(dict.fromkeys(uid for claim in users for uid in claim.users))
        return (ClosedDevicesChanged(tuple(pods)),) if pods else ()

    def answers(self) -> object:
        """Return the closed devices by claim."""
        return self._closed

    def _claims_of(self, of: ClusterObject | None) -> Iterable[str]:
        """Name the claims that an object may concern."""
        if isinstance(of, ResourceClaim):
            return (of.key,)
        if isinstance(of, ResourceSlice):
            slices = (of, *self._devices.slices_of(of.pool))
            names = {device.name for each in slices for device in each.devices}
            devices = [DeviceId(*of.pool, name) for name in sorted(names)]
        elif isinstance(of, DeviceTaintRule):
            devices = [device for device in self._devices.allocated() if of.covers(device)]
        else:
            return ()
        return [key for device in devices for key in self._devices.holders_of(device)]

    def _look(self, key: str) -> bool:
        """Update the closed devices of a claim; return whether they have changed."""
        claim = self._claims.get(key)
        found = () if claim is None else tuple(self._closed_of(claim))
        if found == self._closed.get(key, ()):
            return False
        if found:
            self._closed[key] = found
        else:
            del self._closed[key]
        return True

    def _closed_of(self, claim: ResourceClaim) -> Iterator[ClosedDevice]:
        allocation = claim.allocation
        if allocation is None:
            return
        for number, device in enumerate((*allocation.devices, *allocation.shares)):
            of_all = allocation.tolerations
            tolerations = of_all[number] if number < len(of_all) else ()
            for taint, since_s in self._devices.taints_of(device):
                is_closed = taint.effect == NO_SCHEDULE
                if is_closed and next(untolerated(tolerations, (taint,)), None) is not None:
                    yield ClosedDevice(device, taint, since_s)


def _users(of: ClusterObject | None) -> tuple[str, ...]:
    return of.users if isinstance(of, ResourceClaim) else ()
