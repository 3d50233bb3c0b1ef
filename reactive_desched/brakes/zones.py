"""Leaves the pods of a zone alone while many of its nodes are not Ready or sick.

The rules are those of the node lifecycle controller. While part of a zone is disrupted, evictions
there are slowed in a large zone and stopped in a small one. From a zone of which no node is Ready
nothing is evicted, and it holds up no other. When no node of any zone is Ready, everything stops:
the controller's own view of the cluster may be what is broken.
"""

from collections.abc import Iterator
from typing import Final

from reactive_desched.ledger.eviction import Eviction
from reactive_desched.ledger.participant import EvictionParticipant
from reactive_desched.model.brakes import CLUSTER, ZONE, BrakeNotice
from reactive_desched.model.decisions import GateReason, Refuse, WaitEnd
from reactive_desched.model.findings import Finding
from reactive_desched.model.node_conditions import Condition
from reactive_desched.model.objects import Node, Pod
from reactive_desched.model.outcomes import Outcome
from reactive_desched.model.wakes import WakeOnPod
from reactive_desched.policy.settings.brakes import ZoneBrakeSettings
from reactive_desched.primitives.bucket_queue import BucketQueue
from reactive_desched.primitives.token_bucket import TokenBucket
from reactive_desched.state.cluster import ClusterView
from reactive_desched.state.indexes.zone_health import (
    Disruption,
    WakeOnZone,
    ZoneHealth,
    ZoneRule,
    ZoneStatus,
    ready_until_released,
    zone_key,
)
from reactive_desched.text.counts import agree, and_more, format_count, place_in_queue

_GATE: Final = "ZoneBrake"
MAX_NAMED: Final = 4
"""So many conditions a message names."""

ZONE_DISRUPTED: Final = GateReason(
    _GATE,
    "ZoneDisrupted",
    "No node of the pod's zone is Ready, or many are not, or have a condition that the policy "
    "names, and the zone is small: nothing is evicted there.",
    "brakes.zones.unhealthyPercent",
)
ZONE_SLOWED: Final = GateReason(
    _GATE,
    "ZoneSlowed",
    "Many nodes of the pod's zone are not Ready, or have a condition that the policy names, and "
    "the zone is large: its slower rate of evictions has no token left.",
    "brakes.zones.largeZoneRate",
)


class ZoneBrake(EvictionParticipant):
    """A gate filter; it also holds the tokens of partially disrupted large zones.

    There is one bucket for each such zone, from its first eviction to the end of the disruption.
    Pods of nodes that are not Ready are never found, so of a zone that is lost as a whole there is
    nothing left to hold but what was decided before.
    """

    name = _GATE

    def __init__(
        self,
        view: ClusterView,
        settings: ZoneBrakeSettings | None,
        sick: frozenset[Condition] = frozenset(),
    ) -> None:
        self._view = view
        self._settings = settings
        self._rule = _rule_of(settings, sick)
        self._buckets: dict[str, TokenBucket] = {}
        self._queues: dict[str, BucketQueue] = {}
        self._reported: dict[str, ZoneStatus] = {}
        self._stop_reason = ""

    def reconfigure(
        self, settings: ZoneBrakeSettings | None, sick: frozenset[Condition] = frozenset()
    ) -> None:
        """Apply other thresholds and sick conditions.

        The buckets begin again, without a burst of more than theirs.
        """
        self._settings = settings
        self._rule = _rule_of(settings, sick)
        self._buckets.clear()
        self._queues.clear()

    @property
    def keys(self) -> tuple[tuple[type[ZoneHealth], object], ...]:
        """The index that the brake reads, with its arguments."""
        return () if self._rule is None else ((ZoneHealth, self._rule),)

    @property
    def stop_reason(self) -> str:
        """Return why nothing may be evicted in the cluster; empty while some node is Ready."""
        health = self._health
        if health is None or not health.are_all_lost:
            return ""
        zones = f"({format_count(health.zones, 'zone')})"
        if any(status.sick for status in health.disrupted.values()):
            has = self._sick_conditions(" or ")
            return f"every node of every zone is not Ready or has {has} {zones}"
        return f"no node of any zone is Ready {zones}"

    @property
    def release_text(self) -> str:
        """Say how it ends: where Ready nodes count as sick, once they are well."""
        statuses = () if self._health is None else self._health.disrupted.values()
        sick = any(status.sick for status in statuses)
        well = f" without {self._sick_conditions(' and ')}" if sick else ""
        return f"by itself, once more of its nodes are Ready{well}"

    def check(self, finding: Finding, now: float) -> Refuse | None:
        """Refuse a pod of a disrupted zone; where evictions are slowed it waits in a queue."""
        return self._ask(finding, now, waits=True)

    def explain(self, finding: Finding, now: float) -> Refuse | None:
        """Return what `check` would; takes no place in a queue."""
        return self._ask(finding, now, waits=False)

    def _ask(self, finding: Finding, now: float, *, waits: bool) -> Refuse | None:
        if (disrupted := self._disrupted_zone(finding.pod)) is None:
            return None
        zone, status = disrupted
        wakes = (WakeOnZone(zone), WakeOnPod(finding.pod.uid))
        if message := self.reason_to_keep(finding.pod):
            return ZONE_DISRUPTED.refuse(finding, message, wakes, scope_exhausted="node")
        bucket = self._bucket(zone, now)
        if bucket is None or bucket.has_token(now):
            return None
        queue = self._queues.setdefault(zone, BucketQueue())
        place = (queue.wait if waits else queue.look)(finding.pod.uid, bucket, now)
        where = place_in_queue(place.place, place.of, f"the brake's rate in {_name(zone)}")
        message = f"{self._describe(zone, status)}: {where}"
        end = WaitEnd(": at least", place.at, f" at {bucket.rate}", is_bare=True)
        refusal = ZONE_SLOWED.refuse(finding, message, wakes, place.look_at, scope_exhausted="node")
        return refusal.ending(end)

    def reason_to_keep(self, pod: Pod) -> str:
        """Return why the pod's zone forbids its eviction, whatever tokens there are; else empty."""
        disrupted = self._disrupted_zone(pod)
        if disrupted is None or self._rule is None or _is_slowed(disrupted[1]):
            return ""
        more = ready_until_released(disrupted[1], self._rule)
        state = f"Ready{self._and_well(disrupted[1])}"
        return (
            f"{self._describe(*disrupted)}: nothing is evicted there until"
            f" {more:,} more of them {agree(more, 'is', 'are')} {state};"
            " `kubectl get nodes` shows which are not"
            f"{_SHOWS_CONDITIONS if disrupted[1].sick else ''}"
        )

    def _and_well(self, status: ZoneStatus) -> str:
        """Name the conditions that keep Ready nodes from counting as Ready."""
        return f" without {self._sick_conditions(' and ')}" if status.sick else ""

    def _sick_conditions(self, joined_by: str) -> str:
        """Name the conditions by which a Ready node counts as one that is not."""
        rule = self._rule
        named = [] if rule is None else sorted(f"{kind}={value}" for kind, value in rule.sick)
        text, left = joined_by.join(named[:MAX_NAMED]), len(named) - MAX_NAMED
        return f"{text} {and_more(left)}" if left > 0 else text

    def _describe(self, zone: str, status: ZoneStatus) -> str:
        has = f", or have {self._sick_conditions(' or ')} ({status.sick})" if status.sick else ""
        if status.disruption is Disruption.FULL and not status.sick:
            return f"none of {status.nodes} nodes of {_name(zone)} is Ready"
        return f"{status.not_ready} of {status.nodes} nodes of {_name(zone)} are not Ready{has}"

    def is_disrupted(self, node: Node) -> bool:
        """Say whether evictions from the zone of a node are stopped or slowed."""
        health = self._health
        return health is not None and zone_key(node) in health.disrupted

    def decided(self, eviction: Eviction) -> None:
        """Hold a token of the pod's zone, if that is slowed."""
        pod, now = eviction.pod, eviction.decided_at
        if pod is None or (disrupted := self._disrupted_zone(pod)) is None:
            return
        if (bucket := self._bucket(disrupted[0], now)) is not None:
            if (queue := self._queues.get(disrupted[0])) is not None:
                queue.leave(eviction.pod_uid)
            bucket.reserve(now)
            eviction.hold_token(bucket)

    def ended(self, eviction: Eviction, outcome: Outcome) -> None:
        """Spend the token that is held for a pod, or free it."""
        del outcome
        if (bucket := eviction.zone_token) is not None:
            assert eviction.ended_at is not None
            bucket.release(eviction.ended_at, consumed=eviction.leaves)

    def update(self) -> Iterator[BrakeNotice]:
        """Yield what engaged and what was released since the last call."""
        health = self._health
        reason, before_reason = self.stop_reason, self._stop_reason
        self._stop_reason = reason
        if bool(reason) != bool(before_reason):
            yield BrakeNotice(ZONE, CLUSTER, bool(reason), reason or "nodes are Ready again")
        if reason:
            return  # what it is like in each zone is said when some are Ready again
        disrupted = {} if health is None else dict(health.disrupted)
        for zone, status in disrupted.items():
            before = self._reported.get(zone)
            if before is None or _effect(before) != _effect(status):
                message = self._describe_effect(zone, status)
                yield BrakeNotice(ZONE, f"zone {zone}".rstrip(), engaged=True, message=message)
        for zone in self._reported.keys() - disrupted.keys():
            message = f"{_name(zone)} is back"
            yield BrakeNotice(ZONE, f"zone {zone}".rstrip(), engaged=False, message=message)
        for zone in [zone for zone in self._buckets if zone not in disrupted]:
            del self._buckets[zone]
            self._queues.pop(zone, None)
        self._reported = disrupted

    @property
    def message(self) -> str:
        """Say which zones are braked; empty for none."""
        zones = "; ".join(self._describe_effect(*each) for each in self._reported.items())
        return self._stop_reason or zones

    @property
    def scope(self) -> str:
        """Return which pods are held: those of the cluster, or of the named zones."""
        if self._stop_reason:
            return CLUSTER
        return ", ".join(map(_name, self._reported))

    @property
    def _health(self) -> ZoneHealth | None:
        return None if self._rule is None else self._view.index(ZoneHealth, self._rule)

    def _describe_effect(self, zone: str, status: ZoneStatus) -> str:
        """Say what is wrong in a zone, and where it is only slowed that its pods go on leaving."""
        text = self._describe(zone, status)
        if not _is_slowed(status):
            return text
        limit = None if self._settings is None else self._settings.large_zone_rate
        rate = "" if limit is None else f" at {limit.rate}"
        return f"{text}, and as the zone is large its pods go on leaving{rate}"

    def _disrupted_zone(self, pod: Pod) -> tuple[str, ZoneStatus] | None:
        """Return the zone of a pod's node, if it is disrupted."""
        if self._rule is None:
            return None
        health = self._view.index(ZoneHealth, self._rule)
        if not health.disrupted:
            return None
        info = self._view.node_info(pod.node)
        if info is None or info.node is None:
            return None
        zone = zone_key(info.node)
        status = health.disrupted.get(zone)
        return None if status is None else (zone, status)

    def _bucket(self, zone: str, now: float) -> TokenBucket | None:
        """Return the bucket of a disrupted large zone; None where its rate is unlimited."""
        limit = None if self._settings is None else self._settings.large_zone_rate
        if limit is None:
            return None
        bucket = self._buckets.get(zone)
        if bucket is None:
            bucket = self._buckets[zone] = TokenBucket(limit.rate, now)
        return bucket


_SHOWS_CONDITIONS: Final = ", and `kubectl describe node` the conditions"


def _name(zone: str) -> str:
    return f"zone {zone}" if zone else "the nodes without a zone"


def _rule_of(settings: ZoneBrakeSettings | None, sick: frozenset[Condition]) -> ZoneRule | None:
    """Return from when on a zone is disrupted, and large; None where the brake is switched off."""
    if settings is None:
        return None
    return ZoneRule(settings.unhealthy_percent, settings.large_zone_nodes, sick)


def _is_slowed(status: ZoneStatus) -> bool:
    """Say whether a disrupted zone goes on giving pods, at a slower rate."""
    return status.disruption is Disruption.PARTIAL and status.is_large


def _effect(status: ZoneStatus) -> tuple[Disruption, bool]:
    return status.disruption, status.is_large
