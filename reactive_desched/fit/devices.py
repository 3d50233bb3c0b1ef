"""Finds the nodes that a pod's ResourceClaims rule out, as the filter DynamicResources does.

A claim that stays allocated binds the pod to the nodes of its allocation. What ends with the
evicted pod, a claim from a template or one that no other pod uses, is allocated anew: on each node
devices are sought that are free, suit class and request, and meet the constraints together.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Final

from msgspec import Struct, field

from reactive_desched.fit.device_selectors import DeviceError, DeviceSelectors
from reactive_desched.fit.device_shares import (
    Taken,
    TakenDevice,
    amount,
    amounts,
    leaves_enough,
    taken_of,
)
from reactive_desched.fit.node_sets import NodeSets
from reactive_desched.model.devices import (
    ALL_DEVICES,
    EXACT_COUNT,
    MAX_DEVICES_OF_CLAIM,
    MAX_USERS_OF_CLAIM,
    Attribute,
    Counters,
    Device,
    DeviceAllocation,
    DeviceAlternatives,
    DeviceClass,
    DeviceConstraint,
    DeviceId,
    DeviceRequest,
    PoolName,
    ResourceClaim,
    ResourceSlice,
    claim_names,
)
from reactive_desched.model.objects import Node, Pod, PodKey
from reactive_desched.model.scheduler_profile import SchedulerProfiles
from reactive_desched.model.scheduling import FitReason
from reactive_desched.primitives.bits import slots_in
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.devices import Devices

MAX_STEPS: Final = 5_000
"""So many devices are tried on a node before it is taken not to fit: some twenty milliseconds. The
kube-scheduler gives up after ten seconds."""

MAX_QUESTIONS: Final = 16
"""The answers of so many pods are kept; of others they are found again when next asked for."""

MAX_ALTERNATIVES: Final = 8
"""The API server takes so many in one list, of which the first is worth so many points."""

MAX_REQUESTS: Final = 128
"""A pod with more requests for devices is not judged: each is a level of the search."""

CLAIM_NOT_FOUND: Final = FitReason("ClaimNotFound", "ResourceClaim {} of the pod is not there")
CLAIM_IN_USE: Final = FitReason(
    "ClaimInUse", "ResourceClaim {} is in use by as many pods as can be"
)
CLAIM_AWAITED: Final = FitReason(
    "ClaimAwaited", "ResourceClaim {} has a device without a condition that it is bound by"
)
CLAIM_ELSEWHERE: Final = FitReason("ClaimElsewhere", "resourceclaim not available on the node")
NO_DEVICES: Final = FitReason("NoDevices", "cannot allocate all claims")
CLAIM_NOT_JUDGED: Final = FitReason("ClaimNotJudged", "node(s) were not judged: {}")


Counter = tuple[str, str]
"""A counter of a pool by its set and name."""


class _Pool(Struct, frozen=True):
    """The devices of a pool that a node can use; an incomplete or invalid one gives none.

    `counters` have what is left of each for parts of devices.
    """

    name: PoolName
    devices: tuple[tuple[DeviceId, Device], ...] = ()
    is_usable: bool = True
    is_tried_last: bool = False
    counters: Mapping[Counter, Fraction] = {}


class _Plan(Struct, frozen=True):
    """The claims of a pod that bind it to nodes, and those that get new devices.

    `extended` are its requests for extended resources of device classes, each with the slots of the
    nodes that do not have the resource themselves: there it has a claim for them, too.
    """

    kept: tuple[ResourceClaim, ...] = ()
    fresh: tuple[ResourceClaim, ...] = ()
    extended: tuple[tuple[DeviceAlternatives, int], ...] = ()

    def cannot_bind_on(self, slot: int) -> bool:
        """Say whether the kube-scheduler 1.36 chooses a node, and fails to bind the pod there.

        It makes the claim for extended resources beside others of the pod also where the node has
        all these resources itself, and then misses the devices of it.
        """
        has_others = bool(self.kept or self.fresh)
        return (
            has_others
            and bool(self.extended)
            and not any(sought >> slot & 1 for _, sought in self.extended)
        )

    def fresh_on(self, slot: int) -> Iterator[ResourceClaim]:
        """Yield the claims that need devices on a node."""
        yield from self.fresh
        wanted = tuple(request for request, sought in self.extended if sought >> slot & 1)
        if wanted:
            yield ResourceClaim("", _EXTENDED, requests=wanted)


_EXTENDED: Final = "(extended resources)"


class _Allotted(Struct, frozen=True):
    """The devices that claims would get on a node, and what the alternatives are worth."""

    devices: tuple[TakenDevice, ...] = ()
    points: int = 0


class _Question(Struct, frozen=True):
    """The claims of a pod, and what the answers of all nodes depend on besides.

    `leaving` are the keys of the claims that are given up, `booked` the devices that are reserved
    for other pods, and `seen` the revisions of devices and nodes. `verdicts` are the answers so
    far, by slot, and `points` what the alternatives are worth that are had there.
    """

    plan: _Plan
    leaving: frozenset[str]
    booked: tuple[TakenDevice, ...]
    seen: tuple[int, ...]
    verdicts: dict[int, FitReason | None] = field(default_factory=dict)
    points: dict[int, int] = field(default_factory=dict)

    @property
    def asked(self) -> tuple[object, ...]:
        """Return what equal questions have in common."""
        return self.plan, self.leaving, self.booked, self.seen


class DeviceFilter:
    """The kube-scheduler's filter of devices."""

    def __init__(self, nodes: NodeSets, view: ClusterView, profiles: SchedulerProfiles) -> None:
        self._nodes = nodes
        self._view = view
        self._profiles = profiles
        self._selectors = DeviceSelectors()
        self._questions: OrderedDict[PodKey, _Question] = OrderedDict()

    def judges(self, pod: Pod) -> bool:
        """Say whether the pod has claims by which its scheduler rejects nodes."""
        spec = pod.spec
        return self._profiles.judges_devices(spec) and (
            bool(spec.resource_claims) or any(map(self._class_of, spec.requests))
        )

    def may_judge(self, pod: Pod) -> bool:
        """Say whether it has such, or would have once there is a class for what it requests."""
        spec = pod.spec
        return self._profiles.judges_devices(spec) and (
            bool(spec.resource_claims) or any("/" in resource for resource in spec.requests)
        )

    def sought_on(self, resource: str) -> int:
        """Return the slots where devices of a class are sought for an extended resource."""
        if self._class_of(resource) is None:
            return 0
        return self._nodes.existing & ~self._nodes.offering(resource)

    def prefilter(self, pod: Pod) -> FitReason | None:
        """Return why every node rejects the pod for its claims, or None."""
        if not self.judges(pod):
            return None
        for name in claim_names(pod):
            claim = self._claim(pod, name)
            if claim is None or (claim.is_terminating and claim.pod != pod.uid):
                return CLAIM_NOT_FOUND.about(name or "(to be made)")
            others = [user for user in claim.users if user != pod.uid]
            if claim.allocation is not None and len(others) >= MAX_USERS_OF_CLAIM:
                return CLAIM_IN_USE.about(name)
            kept = None if claim.ends_with(pod.uid) else claim.allocation
            if kept is not None and kept.is_awaited:
                return CLAIM_AWAITED.about(name)
        return None

    def rejections(self, pod: Pod, among: int) -> list[tuple[FitReason, int]]:
        """Return which of the slots reject the pod, by the reason.

        An expression that fails on one device keeps the pod from every node, as it ends the
        kube-scheduler's attempt.
        """
        if not among or not self.judges(pod):
            return []
        question, found = self._question(pod), dict[FitReason, int]()
        for slot in slots_in(among):
            if (reason := self._verdict(question, slot)) is not None:
                if reason.code == CLAIM_NOT_JUDGED.code:
                    return [(reason, among)]
                found[reason] = found.get(reason, 0) | 1 << slot
        return list(found.items())

    def steps_of(self, pod: Pod) -> Iterator[None]:
        """Find out about one node after the other; what is asked next has these answers at hand."""
        if not self.judges(pod) or self.prefilter(pod) is not None:
            return
        question = self._question(pod)
        for slot in slots_in(self._nodes.existing):
            if slot not in question.verdicts:
                self._verdict(question, slot)
                yield

    def closes_with(self, pod: Pod, slot: int, others: Sequence[Pod]) -> bool:
        """Say whether the devices of a slot are too few once the others have theirs."""
        if not self.judges(pod):
            return False
        question = self._question(pod)
        claims = [claim for other in others for claim in self._still_without(other, slot)]
        claims += question.plan.fresh_on(slot)
        try:
            return self._allocate(question, claims, slot) is None
        except DeviceError:
            return True

    def _still_without(self, pod: Pod, slot: int) -> Iterator[ResourceClaim]:
        """Yield the claims of a pod to come that need devices there: it has some while it is bound.

        The kube-scheduler nominates a pod that waits for volumes or devices before it is bound.
        """
        named = {f"{pod.namespace}/{name}" for name in claim_names(pod)}
        store = self._view.store(ResourceClaim)
        made = (store.get(key) for key in self._view.index(Devices).claims_of(pod.uid))
        has_extended = any(
            claim is not None and claim.allocation is not None and claim.key not in named
            for claim in made
        )
        for claim in self._plan(pod).fresh_on(slot):
            if claim.allocation is None and not (claim.name == _EXTENDED and has_extended):
                yield claim

    def devices_for(self, pod: Pod, slot: int) -> tuple[TakenDevice, ...]:
        """Return the devices that the pod would get on a node."""
        if not self.judges(pod):
            return ()
        question = self._question(pod)
        try:
            claims = list(question.plan.fresh_on(slot))
            found = self._allocate(question, claims, slot)
        except DeviceError:
            return ()
        return () if found is None else found.devices

    def points(self, pod: Pod, among: int) -> Mapping[int, int]:
        """Return what the alternatives are worth that slots would give the pod, and those slots.

        The first of a list has the most points. Slots without any are left out.
        """
        if not self.judges(pod) or not any(map(_has_ranks, self._plan(pod).fresh)):
            return {}
        question, found = self._question(pod), dict[int, int]()
        for slot in slots_in(among):
            if self._verdict(question, slot) is None and (points := question.points.get(slot)):
                found[points] = found.get(points, 0) | 1 << slot
        return found

    def has_chosen(self, pod: Pod) -> bool:
        """Say whether a claim that stays was given one of several alternatives: which is not read.

        It is worth the same on all nodes, and what others are worth is in proportion to the whole.
        """
        if not self.judges(pod):
            return False
        plan = self._plan(pod)
        return any(map(_has_ranks, plan.kept)) and any(map(_has_ranks, plan.fresh))

    # --- claims ---

    def _claim(self, pod: Pod, name: str) -> ResourceClaim | None:
        return self._view.store(ResourceClaim).get(f"{pod.namespace}/{name}")

    def _plan(self, pod: Pod) -> _Plan:
        kept: list[ResourceClaim] = []
        fresh: list[ResourceClaim] = []
        for name in claim_names(pod):
            if (claim := self._claim(pod, name)) is not None:
                is_free = claim.allocation is None or claim.ends_with(pod.uid)
                (fresh if is_free else kept).append(claim)
        return _Plan(tuple(kept), tuple(fresh), tuple(self._extended(pod)))

    def _class_of(self, resource: str) -> str | None:
        """Return the class that has devices for an extended resource; None for any other."""
        if "/" not in resource or not self._profiles.watches_devices:
            return None
        return self._view.index(Devices).class_of(resource)

    def _extended(self, pod: Pod) -> Iterator[tuple[DeviceAlternatives, int]]:
        """Yield what the kube-scheduler puts into the claim for extended resources."""
        for resource, number in pod.spec.device_requests or sorted(pod.spec.requests.items()):
            if number and (of := self._class_of(resource)) is not None:
                request = DeviceAlternatives(resource, (DeviceRequest(of, count=number),))
                yield request, self.sought_on(resource)

    def _question(self, pod: Pod) -> _Question:
        """Return the question of a pod: the same as before, where nothing has changed."""
        plan, devices, nodes = self._plan(pod), self._view.index(Devices), self._nodes
        leaving = {claim.key for claim in plan.fresh}.union(devices.claims_of(pod.uid))
        for vacated in nodes.vacated.pods:
            if vacated.has_resource_claims:
                leaving.update(claim.key for claim in self._plan(vacated).fresh)
                leaving.update(devices.claims_of(vacated.uid))
        question = _Question(
            plan,
            frozenset(leaving),
            tuple(nodes.reservations.devices_but_of(pod.uid)),
            (id(devices), devices.revision, nodes.labels_revision),
        )
        known = self._questions.pop(pod.uid, None)
        if known is None or known.asked != question.asked:
            known = question
        self._questions[pod.uid] = known
        if len(self._questions) > MAX_QUESTIONS:
            self._questions.popitem(last=False)
        return known

    def _verdict(self, question: _Question, slot: int) -> FitReason | None:
        """Return why a node does not do for the claims, or None."""
        if slot in question.verdicts:
            return question.verdicts[slot]
        found, node = None, self._nodes.node(slot)
        if node is None or not _are_available(question.plan.kept, node):
            found = CLAIM_ELSEWHERE
        elif question.plan.cannot_bind_on(slot):
            found = NO_DEVICES
        else:
            try:
                claims = list(question.plan.fresh_on(slot))
                if (had := self._allocate(question, claims, slot)) is None:
                    found = NO_DEVICES
                else:
                    question.points[slot] = had.points
            except DeviceError as error:
                found = CLAIM_NOT_JUDGED.about(str(error))
        question.verdicts[slot] = found
        return found

    # --- devices ---

    def _allocate(
        self, question: _Question, claims: Sequence[ResourceClaim], slot: int
    ) -> _Allotted | None:
        """Return devices for claims that have none; None where they lack."""
        if not claims:
            return _Allotted()
        if (node := self._nodes.node(slot)) is None:
            return None
        taken = _TakenDevices(self._view, question)
        pools = [self._pool(name, node, taken) for name in sorted(self._pool_names(node))]
        pools.sort(key=lambda pool: pool.is_tried_last)
        return _Search(pools, taken, self._selectors, self._view).run(claims)

    def _pool_names(self, node: Node) -> Iterable[PoolName]:
        near = self._view.index(Devices).slices_near(node.name)
        return dict.fromkeys(each.pool for each in near if each.covers(node))

    def _pool(self, name: PoolName, node: Node, taken: "_TakenDevices") -> _Pool:
        """Return a pool in its newest generation, as far as the node can use it."""
        slices = sorted(self._view.index(Devices).slices_of(name), key=lambda each: each.name)
        near = [each for each in slices if each.counters or each.covers(node)]
        newest = max(each.generation for each in near)
        near = [each for each in near if each.generation == newest]
        wanted = near[0].slices_of_pool
        if len(near) != wanted:
            if any(each.generation > newest for each in slices):
                return _Pool(name)  # it is being replaced, by devices of other nodes
            if sum(each.generation == newest for each in slices) != wanted:
                return _Pool(name, is_usable=False)
        names = [device.name for each in near for device in each.devices]
        if len(set(names)) < len(names):
            return _Pool(name, is_usable=False)
        devices = (device for each in near for device in each.devices_for(node))
        found = tuple((DeviceId(*name, device.name), device) for device in devices)
        is_last = any(each.is_tried_last for each in near)
        if not any(device.consumes for _, device in found):
            return _Pool(name, found, is_tried_last=is_last)
        of_pool = [each for each in slices if each.generation == newest]
        counters = _counters_left(name, of_pool, taken)
        return (
            _Pool(name, is_usable=False)
            if counters is None
            else _Pool(name, found, is_tried_last=is_last, counters=counters)
        )


class _TakenDevices:
    """The devices that are taken, by claims that stay and for the replacements of other pods."""

    def __init__(self, view: ClusterView, question: _Question) -> None:
        self._claims = view.store(ResourceClaim)
        self._holders_of = view.index(Devices).holders_of
        self._leaving = question.leaving
        self._booked: dict[DeviceId, list[TakenDevice]] = {}
        for each in question.booked:
            self._booked.setdefault(each.device, []).append(each)

    def as_a_whole(self, device: DeviceId) -> bool:
        """Say whether a claim has all of a device."""
        if any(each.share is None for each in self._booked.get(device, ())):
            return True
        return any(device in allocation.devices for allocation in self._allocations(device))

    def at_all(self, device: DeviceId) -> bool:
        """Say whether a claim has a device, or a share of it."""
        return device in self._booked or bool(self._allocations(device))

    def shares_of(self, device: DeviceId) -> list[Taken]:
        """Return what is taken of a device's capacities, by share; none that takes nothing."""
        found = [each.share for each in self._booked.get(device, ()) if each.share]
        for allocation in self._allocations(device):
            found += amounts(allocation.shares_of(device))
        return found

    def _allocations(self, device: DeviceId) -> list[DeviceAllocation]:
        """Return the allocations of claims that have a device or a share of it, and stay."""
        found = []
        for key in self._holders_of(device):
            if key not in self._leaving:
                claim = self._claims.get(key)
                if claim is not None and claim.allocation is not None:
                    found.append(claim.allocation)
        return found


def _counters_left(
    name: PoolName, slices: Sequence[ResourceSlice], taken: _TakenDevices
) -> dict[Counter, Fraction] | None:
    """Return what devices that are taken leave of a pool's counters; None where one is not there.

    Devices of all nodes take them, and a driver may have allocated more than there is.
    """
    left: dict[Counter, Fraction] = {}
    for of, counter, quantity in (each for part in slices for each in part.counters):
        if (of, counter) in left:
            return None
        left[of, counter] = amount(quantity)
    for device in (device for part in slices for device in part.devices):
        is_taken = bool(device.consumes) and taken.at_all(DeviceId(*name, device.name))
        for of, counter, quantity in device.consumes:
            if (of, counter) not in left:
                return None
            if is_taken:
                left[of, counter] -= amount(quantity)
    return left


def _has_ranks(claim: ResourceClaim) -> bool:
    return any(request.has_ranks for request in claim.requests)


def _are_available(claims: Iterable[ResourceClaim], node: Node) -> bool:
    for claim in claims:
        selector = None if claim.allocation is None else claim.allocation.node_selector
        if selector is not None and not selector.matches(node.name, node.labels):
            return False
    return True


class _Constraint:
    """A constraint, and the values of the devices that were taken under it.

    As the kube-scheduler 1.36 has it: devices that are to differ are compared with the one that
    each request took last, and one that is given back leaves its request without any.
    """

    def __init__(self, rule: DeviceConstraint) -> None:
        self.rule = rule
        self._attribute = rule.match_attribute or rule.distinct_attribute
        self._wants_equal = bool(rule.match_attribute)
        self._values: dict[str, tuple[type, Attribute]] = {}
        self._number = 0

    def add(self, request: str, device: Device, driver: str) -> bool:
        """Take a device for a request, if it agrees with those before it."""
        value = device.attribute(driver, self._attribute)
        if value is None:
            return False
        typed = type(value), value
        if self._number and any(
            (known == typed) is not self._wants_equal for known in self._values.values()
        ):
            return False
        self._values["" if self._wants_equal else request] = typed
        self._number += 1
        return True

    def remove(self, request: str) -> None:
        """Give back the device that was taken last, which was for this request."""
        self._number -= 1
        if not self._wants_equal:
            self._values.pop(request, None)


class _Task(Struct, frozen=True):
    """One request of a claim, with the constraints of all of the claim."""

    claim: int
    request: DeviceAlternatives
    constraints: tuple[_Constraint, ...]


class _Search:
    """Seeks devices for claims on one node: every way is tried, up to a number of steps."""

    def __init__(
        self,
        pools: Sequence[_Pool],
        taken: _TakenDevices,
        selectors: DeviceSelectors,
        view: ClusterView,
    ) -> None:
        self._pools = pools
        self._taken_before = taken
        self._selectors = selectors
        self._classes = view.store(DeviceClass)
        self._rule_taints = view.index(Devices).rule_taints
        self._taken: list[tuple[TakenDevice, int]] = []
        self._counters = {pool.name: dict(pool.counters) for pool in pools}
        self._suitable: dict[DeviceRequest, list[tuple[DeviceId, Device]]] = {}
        self._steps = 0
        self._points = 0

    def run(self, claims: Sequence[ResourceClaim]) -> _Allotted | None:
        """Return the devices for all claims; None where they lack, or the search takes too long.

        Raises DeviceError where a claim or class cannot be judged.
        """
        tasks: list[_Task] = []
        for number, claim in enumerate(claims):
            rules = tuple(map(_Constraint, claim.constraints))
            if any(not (c.match_attribute or c.distinct_attribute) for c in claim.constraints):
                raise DeviceError(f"ResourceClaim {claim.key} has a constraint of unknown kind")
            tasks += (_Task(number, request, rules) for request in claim.requests)
            least = sum(
                min((self._validate(claim, choice) for choice in request.choices), default=0)
                for request in claim.requests
            )
            if least > MAX_DEVICES_OF_CLAIM:
                raise DeviceError(f"ResourceClaim {claim.key} asks for {least} devices")
        if len(tasks) > MAX_REQUESTS:
            raise DeviceError(f"the pod has {len(tasks)} requests for devices")
        return self._solve(tasks)

    def _validate(self, claim: ResourceClaim, request: DeviceRequest) -> int:
        """Return for how many devices a request asks."""
        whose = f"ResourceClaim {claim.key}"
        if request.mode == ALL_DEVICES:
            if (pool := next((p for p in self._pools if not p.is_usable), None)) is not None:
                named = "/".join(pool.name)
                raise DeviceError(f"{whose} asks for all devices, and pool {named} is incomplete")
            return len(self._all_devices_for(request))
        if request.mode != EXACT_COUNT:
            raise DeviceError(f"{whose} has a request of unknown mode {request.mode}")
        return request.count

    def _solve(self, tasks: Sequence[_Task]) -> _Allotted | None:
        if not tasks:
            return _Allotted(tuple(device for device, _ in self._taken), self._points)
        for _ in self._ways(tasks[0]):
            if (found := self._solve(tasks[1:])) is not None:
                return found
            if self._steps > MAX_STEPS:
                break
        return None

    def _ways(self, task: _Task) -> Iterator[None]:
        """Take the devices of one request in one way after the other; give them back in between."""
        for place, choice in enumerate(task.request.choices):
            points = MAX_ALTERNATIVES - place if task.request.has_ranks else 0
            is_all = choice.mode == ALL_DEVICES
            suitable = self._all_devices_for(choice) if is_all else self._devices_for(choice)
            count = len(suitable) if is_all else choice.count
            before = sum(claim == task.claim for _, claim in self._taken)
            if (is_all and not count) or before + count > MAX_DEVICES_OF_CLAIM:
                continue
            self._points += points
            yield from self._combinations(task, choice, suitable, count)
            self._points -= points

    def _combinations(
        self,
        task: _Task,
        choice: DeviceRequest,
        suitable: Sequence[tuple[DeviceId, Device]],
        count: int,
    ) -> Iterator[None]:
        if not count:
            yield
            return
        for number, (device_id, device) in enumerate(suitable):
            if len(suitable) - number < count:
                return
            self._steps += 1
            if self._steps > MAX_STEPS:
                return
            if not self._may_take(task, choice, device_id, device):
                continue
            share = self._share(choice, device_id, device, beside=self._taken)
            if share is None:
                continue
            agreed = self._agree(task, choice, device_id, device)
            if agreed is None:
                if choice.mode == ALL_DEVICES:
                    raise DeviceError("a constraint keeps a claim from having all devices")
                continue
            consumed = () if self._is_in_shares(device_id, device) else device.consumes
            taken = TakenDevice(device_id, share if device.is_shared else None)
            self._taken.append((taken, task.claim))
            self._consume(device_id, consumed, -1)
            yield from self._combinations(task, choice, suitable[number + 1 :], count - 1)
            self._consume(device_id, consumed, 1)
            self._taken.pop()
            for constraint in agreed:
                constraint.remove(task.request.name)

    def _may_take(
        self, task: _Task, choice: DeviceRequest, device_id: DeviceId, device: Device
    ) -> bool:
        takers = [claim for taken, claim in self._taken if taken == (device_id, None)]
        if choice.is_admin:
            if task.claim in takers:
                return False
        elif takers or self._taken_before.as_a_whole(device_id):
            return False
        if device.takes_counters and not device.consumes:
            return False  # of counters that were not read
        if device.repels(choice, self._rule_taints(device_id)):
            return False
        if self._is_in_shares(device_id, device):
            return True
        left = self._counters[PoolName(device_id.driver, device_id.pool)]
        return all(
            left.get((of, counter), 0) >= amount(quantity)
            for of, counter, quantity in device.consumes
        )

    def _share(
        self,
        choice: DeviceRequest,
        device_id: DeviceId,
        device: Device,
        beside: Iterable[tuple[TakenDevice, int]],
    ) -> Taken | None:
        """Return what a request takes of a device's capacities; None where it lacks them."""
        others = self._taken_before.shares_of(device_id)
        if not (choice.capacity or device.is_shared or others):
            return {}
        wanted = taken_of(device, choice.capacity)
        if wanted is None:
            return None
        others += [taken.share or {} for taken, _ in beside if taken.device == device_id]
        return wanted if leaves_enough(device, wanted, others) else None

    def _is_in_shares(self, device_id: DeviceId, device: Device) -> bool:
        """Say whether a share of a device is taken, so that it has its counters already.

        One before this search counts where it takes a capacity, as the kube-scheduler has it.
        """
        return device.is_shared and (
            any(taken.device == device_id for taken, _ in self._taken)
            or bool(self._taken_before.shares_of(device_id))
        )

    def _consume(self, device_id: DeviceId, consumed: Counters, sign: int) -> None:
        """Take what a device consumes of its pool's counters, or give it back."""
        left = self._counters[PoolName(device_id.driver, device_id.pool)]
        for of, counter, quantity in consumed:
            left[of, counter] += sign * amount(quantity)

    def _agree(
        self, task: _Task, choice: DeviceRequest, device_id: DeviceId, device: Device
    ) -> list[_Constraint] | None:
        """Take a device under its constraints; None where it breaks one."""
        agreed: list[_Constraint] = []
        sub = choice.name if len(task.request.choices) > 1 or choice.name else ""
        for constraint in task.constraints:
            if not constraint.rule.is_about(task.request.name, sub):
                continue
            if not constraint.add(task.request.name, device, device_id.driver):
                for each in agreed:
                    each.remove(task.request.name)
                return None
            agreed.append(constraint)
        return agreed

    def _all_devices_for(self, request: DeviceRequest) -> Sequence[tuple[DeviceId, Device]]:
        """Return the devices that a request for all of them means."""
        return [
            (device_id, device)
            for device_id, device in self._devices_for(request)
            if self._share(request, device_id, device, beside=()) is not None
        ]

    def _devices_for(self, request: DeviceRequest) -> Sequence[tuple[DeviceId, Device]]:
        """Return the devices that a request selects, free or not."""
        found = self._suitable.get(request)
        if found is None:
            device_class = self._classes.get(request.device_class)
            if device_class is None:
                raise DeviceError(f"DeviceClass {request.device_class} is not there")
            expressions = (*device_class.selectors, *request.selectors)
            found = self._suitable[request] = [
                (device_id, device)
                for pool in self._pools
                if pool.is_usable
                for device_id, device in pool.devices
                if all(self._selectors.matches(e, device_id.driver, device) for e in expressions)
            ]
        return found
