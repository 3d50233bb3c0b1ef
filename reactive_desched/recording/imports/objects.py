"""Objects as other programs recorded them: JSON to what the state keeps, and what was missing."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from reactive_desched.errors import Malformed
from reactive_desched.kube.codec import make_codecs
from reactive_desched.model.objects import ClusterObject
from reactive_desched.recording.items import Instant
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.state.resources import NODES, PODS, WATCHED_KINDS

__all__ = ["Json", "Note", "ObjectReader", "later"]

Json = dict[str, Any]
"""A JSON object, as msgspec or YAML read it."""

Note = Callable[[str], None]
"""Takes a sentence on what is missing from an imported recording."""

_MAX_NAMED: Final = 20
_MATTERS: Final = {
    NODES: "there are no Nodes, so no pod has a place: a policy finds nothing",
    PODS: "there are no Pods, so a policy finds nothing",
    "poddisruptionbudgets": "there are no PodDisruptionBudgets: nothing is held by one",
    "priorityclasses": "there are no PriorityClasses: a policy that names one cannot be tried",
    "persistentvolumes": "there are no PersistentVolumes: node fit ignores where volumes are",
}


def later(at: Instant, began_s: float, after_s: float) -> Instant:
    """Return the time so long after a recording began, or `at`, if that is later."""
    monotonic_s = max(after_s, at.monotonic_s)
    return Instant(began_s + monotonic_s, monotonic_s)


class ObjectReader:
    """Decodes objects of the kinds that the controller watches, and counts all others."""

    def __init__(self) -> None:
        self._codecs: Final = make_codecs(InternTables())
        self._resources: Final = {
            (kind.group, kind.kind): kind.resource for kind in WATCHED_KINDS.values()
        }
        self._seen: Final = Counter[str]()
        self._others: Final = Counter[str]()
        self._malformed: Final = Counter[str]()
        self._version = 0

    def resource_of(self, obj: Mapping[str, Any]) -> str | None:
        """Return the resource of an object; None for a kind that is not watched."""
        kind, version = obj.get("kind"), obj.get("apiVersion")
        if not (isinstance(kind, str) and isinstance(version, str)):
            self._others["(no kind)"] += 1
            return None
        resource = self._resources.get((version.rpartition("/")[0], kind))
        if resource is None:
            self._others[kind] += 1
        return resource

    def read(self, resource: str, obj: Json) -> ClusterObject | None:
        """Decode an object, as one that is newer than those before; None where it is malformed."""
        self._version += 1
        metadata = obj.get("metadata")
        if isinstance(metadata, dict):
            obj = {**obj, "metadata": {**metadata, "resourceVersion": str(self._version)}}
        try:
            read = self._codecs[resource].decode_object(msgspec.json.encode(obj))
        except (Malformed, TypeError, ValueError) as error:
            self._malformed[str(error)[:200]] += 1
            return None
        self._seen[resource] += 1
        found: ClusterObject = read
        return found

    def counts(self) -> dict[str, int]:
        """Return how many objects of each resource were decoded so far."""
        return dict(self._seen)

    def missing(self) -> Iterator[str]:
        """Yield what the objects lack for the decisions of a policy."""
        for resource, sentence in _MATTERS.items():
            if not self._seen[resource]:
                yield sentence
        if self._others:
            kinds = ", ".join(f"{number} {kind}" for kind, number in self._others.most_common(10))
            yield f"the controller watches no objects of these kinds, which are left out: {kinds}"
        for message, number in self._malformed.most_common(_MAX_NAMED):
            yield f"left out {number} times: {message}"
