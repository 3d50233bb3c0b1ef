"""Formats an event as one line of text, for lists and stories."""

from reactive_desched.api.event import EventData, Who
from reactive_desched.journal.records import AnyEvent
from reactive_desched.primitives.bounded_text import printable


def describe_event(event: AnyEvent) -> str:
    """Return an event in one line; empty for an unknown type."""
    return printable(event.data.describe()) if isinstance(event.data, EventData) else ""


def format_owners(pod: Who) -> str:
    """Return the chain of owners as KIND/NAME, the pod's own controller first."""
    return printable(", ".join(f"{one.kind}/{one.name}" for one in pod.owners)) or "none"


def cluster_of(source: str) -> str:
    """Return the name that the cluster had when the journal of this source began."""
    return source.removeprefix("//").partition("/")[0]
