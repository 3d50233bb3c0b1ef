"""The devices of every node, and which of them claims hold."""

from collections.abc import Collection, Hashable, Iterator
from itertools import zip_longest

from reactive_desched.api.index import Cluster, Index
from reactive_desched.model.changes import Change, DevicesChanged
from reactive_desched.model.devices import (
    IMPLICIT_RESOURCE,
    DeviceClass,
    DeviceId,
    DeviceTaintRule,
    PoolName,
    ResourceClaim,
    ResourceSlice,
)
from reactive_desched.model.objects import ClusterObject, PodKey
from reactive_desched.model.taints import Taint
from reactive_desched.primitives.groups import Groups


class Devices(Index):
    """The slices of each pool and node, and the claims that each device is allocated to."""

    kinds = (ResourceClaim, ResourceSlice, DeviceClass, DeviceTaintRule)
    announces = (DevicesChanged,)

    def __init__(self, cluster: Cluster, args: Hashable = None) -> None:
        super().__init__(cluster, args)
        self._claims = cluster.store(ResourceClaim)
        self._slices = cluster.store(ResourceSlice)
        self._rules = cluster.store(DeviceTaintRule)
        self._of_pool = Groups[PoolName, str]()
        self._local = Groups[str, str]()
        self._shared: dict[str, None] = {}
        self._holders = Groups[DeviceId, str]()
        self._of_pod = Groups[PodKey, str]()
        self._classes = cluster.store(DeviceClass)
        self._of_resource = Groups[str, str]()
        self.revision = 0
        """How many objects have changed: answers of an equal one are still true."""
        for each in self._slices:
            self._add_slice(each)
        for claim in self._claims:
            self._add_claim(claim)
        for device_class in self._classes:
            self._add_class(device_class)

    def slices_near(self, node: str) -> Iterator[ResourceSlice]:
        """Yield the slices of a node, and those of no single node."""
        return self._named([*self._local.of(node), *self._shared])

    def count_on(self, node: str, driver: str) -> int:
        """Count the devices of a driver that a node alone has."""
        pools = {each.pool for each in self._named(self._local.of(node))}
        slices = [each for each in self._named(self._local.of(node)) if each.pool.driver == driver]
        newest = {pool: max(s.generation for s in self.slices_of(pool)) for pool in pools}
        return sum(len(s.devices) for s in slices if s.generation == newest[s.pool])

    def slices_of(self, pool: PoolName) -> Iterator[ResourceSlice]:
        """Yield the slices of a pool, of any generation."""
        return self._named(self._of_pool.of(pool))

    def holders_of(self, device: DeviceId) -> Collection[str]:
        """Return the keys of the claims that a device, or a share of it, is allocated to."""
        return self._holders.of(device)

    def claims_of(self, pod: PodKey) -> Collection[str]:
        """Return the keys of the claims that were made for a pod, and end with it."""
        return self._of_pod.of(pod)

    def class_of(self, resource: str) -> str | None:
        """Return the name of the class that has devices for an extended resource.

        Of several the youngest is taken, as by the kube-scheduler.
        """
        if resource.startswith(IMPLICIT_RESOURCE):
            implied = resource.removeprefix(IMPLICIT_RESOURCE)
            return implied if self._classes.get(implied) is not None else None
        found = [self._classes.get(name) for name in self._of_resource.of(resource)]
        known = sorted((-each.created_s, each.name) for each in found if each is not None)
        return known[0][1] if known else None

    def rule_taints(self, device: DeviceId) -> tuple[Taint, ...]:
        """Return the taints that rules add to a device, beside those of its slice."""
        return tuple(rule.taint for rule in self._rules if rule.covers(device))

    def taints_of(self, device: DeviceId) -> Iterator[tuple[Taint, int | None]]:
        """Yield the taints of a device, and since when each stands; none of one that is gone."""
        slices = list(self.slices_of(PoolName(device.driver, device.pool)))
        newest = max((each.generation for each in slices), default=0)
        for each in slices:
            if each.generation == newest:
                for found in each.devices:
                    if found.name == device.device:
                        yield from zip_longest(found.taints, found.taint_times)
        for rule in self._rules:
            if rule.covers(device):
                yield rule.taint, rule.since_s

    def allocated(self) -> Collection[DeviceId]:
        """Return the devices that claims hold."""
        return self._holders.groups()

    def on_object(self, old: ClusterObject | None, new: ClusterObject | None) -> list[Change]:
        """Follow a claim, slice, class or rule."""
        self.revision += 1
        if isinstance(old, ResourceSlice):
            self._remove_slice(old)
        if isinstance(new, ResourceSlice):
            self._add_slice(new)
        if isinstance(old, ResourceClaim):
            self._remove_claim(old)
        if isinstance(new, ResourceClaim):
            self._add_claim(new)
        if isinstance(old, DeviceClass) and old.extended_resource:
            self._of_resource.discard(old.extended_resource, old.name)
        if isinstance(new, DeviceClass):
            self._add_class(new)
        return [] if _only_takes(old, new) else [DevicesChanged()]

    def answers(self) -> object:
        """Return the slices by pool and node, and the holders of devices."""
        groups = (self._of_pool, self._local, self._holders, self._of_pod, self._of_resource)
        return [each.as_sets() for each in groups], set(self._shared)

    def _named(self, names: Collection[str]) -> Iterator[ResourceSlice]:
        return (found for name in names if (found := self._slices.get(name)) is not None)

    def _add_slice(self, each: ResourceSlice) -> None:
        self._of_pool.add(each.pool, each.name)
        if each.scope is not None and each.scope.node:
            self._local.add(each.scope.node, each.name)
        else:
            self._shared[each.name] = None

    def _remove_slice(self, each: ResourceSlice) -> None:
        self._of_pool.discard(each.pool, each.name)
        if each.scope is not None and each.scope.node:
            self._local.discard(each.scope.node, each.name)
        else:
            self._shared.pop(each.name, None)

    def _add_class(self, each: DeviceClass) -> None:
        if each.extended_resource:
            self._of_resource.add(each.extended_resource, each.name)

    def _add_claim(self, claim: ResourceClaim) -> None:
        if claim.pod:
            self._of_pod.add(claim.pod, claim.key)
        if claim.allocation is not None:
            for device in (*claim.allocation.devices, *claim.allocation.shares):
                self._holders.add(device, claim.key)

    def _remove_claim(self, claim: ResourceClaim) -> None:
        if claim.pod:
            self._of_pod.discard(claim.pod, claim.key)
        if claim.allocation is not None:
            for device in (*claim.allocation.devices, *claim.allocation.shares):
                self._holders.discard(device, claim.key)


def _only_takes(old: ClusterObject | None, new: ClusterObject | None) -> bool:
    """Say whether a claim has only got its devices, which helps no pod but its own."""
    return (
        isinstance(old, ResourceClaim)
        and isinstance(new, ResourceClaim)
        and old.uid == new.uid
        and old.allocation is None
        and new.allocation is not None
        and not new.is_terminating
    )
