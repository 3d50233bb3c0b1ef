"""Gives a controller that runs over a recording what the recorded one was given."""

from collections.abc import Collection, Iterable, Mapping

from reactive_desched.controller.pauses import EvictionPauses
from reactive_desched.controller.readiness import STARTUP, SYNC_PREFIX, Readiness
from reactive_desched.model.objects import ClusterObject
from reactive_desched.model.usage import NodeUsage
from reactive_desched.recording.items import OrderGiven
from reactive_desched.state.cluster import ClusterState
from reactive_desched.state.resources import WATCHED_KINDS


def load_picture(
    state: ClusterState,
    denied: Collection[str],
    objects: Mapping[str, Iterable[ClusterObject]],
    samples: Iterable[NodeUsage],
) -> None:
    """Load what a picture has: the objects of each resource in their order, and measured use."""
    for resource in denied:
        state.set_readable(resource, readable=False)
    for resource in WATCHED_KINDS:
        state.load(list(objects.get(resource, ())))
    for sample in samples:
        state.upsert(sample)


def end_start(readiness: Readiness) -> None:
    """End the pauses of a start: a recording begins when every resource was in sync."""
    readiness.resume(STARTUP)
    for name in list(readiness.pauses):
        if name.startswith(SYNC_PREFIX):
            readiness.resume(name)


def obey_pause(pauses: EvictionPauses, order: OrderGiven) -> None:
    """Carry out an order of a person to pause or to resume; any other does nothing here."""
    by, said = order.who or "command", order.arguments
    reason = said.get("reason", "")
    if order.order == "pause":
        for_s = said.get("forSeconds")
        pauses.pause(by, reason, None if for_s is None else float(for_s))
    elif order.order == "resume":
        pauses.resume(by, reason)
