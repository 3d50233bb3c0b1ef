"""A policy's `maxNoOfPodsToEvict…` as upstream counts them: per cycle."""

from collections import Counter
from collections.abc import Iterator, Mapping

from reactive_desched.model.decisions import Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import Pod
from reactive_desched.telemetry.sig_compat import NAMESPACE_REACHED, NODE_REACHED, TOTAL_REACHED

_MESSAGES: Mapping[str, str] = {
    "cluster": TOTAL_REACHED,
    "node": NODE_REACHED,
    "namespace": NAMESPACE_REACHED,
}


class CycleLimits:
    """Counts evictions in all, per node and per namespace; asked in this order, as upstream.

    A limit that is None is none; 0 forbids every eviction.
    """

    name = "EvictionLimit"

    def __init__(self, limits: Mapping[str, int | None]) -> None:
        self._limits = limits
        self._counts: Counter[tuple[str, str]] = Counter()

    def check(self, finding: Finding) -> Refuse | None:
        """Refuse what would be one too many."""
        for scope, name in _scopes(finding.pod):
            limit = self._limits.get(scope)
            if limit is not None and self._counts[scope, name] >= limit:
                return Refuse(
                    finding, self.name, f"{_MESSAGES[scope]} ({limit})", scope_exhausted=scope
                )
        return None

    def count(self, pod: Pod) -> None:
        """Count an eviction that happened."""
        for key in _scopes(pod):
            self._counts[key] += 1


def _scopes(pod: Pod) -> Iterator[tuple[str, str]]:
    yield "cluster", ""
    yield "node", pod.node
    yield "namespace", pod.namespace
