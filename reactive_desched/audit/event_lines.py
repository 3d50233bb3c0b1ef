"""Formats an event as one line of text, for lists and stories."""

from reactive_desched.api.event import EventData, Who
from reactive_desched.journal.records import AnyEvent
from reactive_desched.primitives.bounded_text import printable
from reactive_desched.text.workloads import workload_name


def describe_event(event: AnyEvent) -> str:
    """Return an event in one line; empty for an unknown type."""
    return printable(event.data.describe()) if isinstance(event.data, EventData) else ""


def format_owners(pod: Who) -> str:
    """Return the chain of owners, the pod's own controller first."""
    names = (workload_name(one.kind, pod.namespace, one.name) for one in pod.owners)
    return printable(", ".join(names)) or "none"


def cluster_of(source: str) -> str:
    """Return the name that the cluster had when the journal of this source began."""
    return source.removeprefix("//").partition("/")[0]
