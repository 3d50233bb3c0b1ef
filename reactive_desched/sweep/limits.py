"""A policy's `maxNoOfPodsToEvict…` as upstream counts them: per cycle."""

from collections import Counter
from collections.abc import Iterator, Mapping

from reactive_desched.model.decisions import EVICTION_LIMIT_GATE, LIMIT_REASONS, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import Pod


class CycleLimits:
    """Counts evictions in the cluster, per node and per namespace, checked in upstream's order.

    A limit of None is no limit; 0 forbids every eviction.
    """

    name = EVICTION_LIMIT_GATE

    def __init__(self, limits: Mapping[str, int | None]) -> None:
        self._limits = limits
        self._counts: Counter[tuple[str, str]] = Counter()

    def check(self, finding: Finding) -> Refuse | None:
        """Refuse an eviction beyond the limit of the cluster, the pod's node or its namespace."""
        for scope, name in _scopes(finding.pod):
            limit = self._limits.get(scope)
            if limit is not None and self._counts[scope, name] >= limit:
                message = (
                    f"{f'{scope} {name}'.rstrip()} had {limit} evictions in this cycle, the limit"
                )
                return LIMIT_REASONS[scope].refuse(finding, message, scope_exhausted=scope)
        return None

    def count(self, pod: Pod) -> None:
        """Count an eviction that happened."""
        for key in _scopes(pod):
            self._counts[key] += 1


def _scopes(pod: Pod) -> Iterator[tuple[str, str]]:
    yield "cluster", ""
    yield "node", pod.node
    yield "namespace", pod.namespace
