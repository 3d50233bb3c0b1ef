"""Asks metrics-server, through the API server, what all nodes and pods use: one list of each."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from reactive_desched.errors import ClusterError, Malformed, UsageUnavailable
from reactive_desched.kube.client.clock import Clock
from reactive_desched.kube.client.responses import Body
from reactive_desched.kube.client.session import Transport
from reactive_desched.kube.codec import ResourceCodec
from reactive_desched.kube.watch.yielding import Yielder
from reactive_desched.model.objects import Pod
from reactive_desched.model.resources import ResourceList
from reactive_desched.model.usage import NodeUsage
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.usage.metrics_api import (
    KUBERNETES_METRICS,
    NODE_METRICS,
    POD_METRICS,
    NodeMetrics,
    PodMetrics,
    make_sample,
)

__all__ = ["MetricsServer"]

_STEPS_PER_SLICE: Final = 50

AnyCodec = ResourceCodec[Any, Any]  # nodes and pods have records of their own


class MetricsServer:
    """The source KubernetesMetrics.

    Pods are asked for less often than nodes: they are many, and which pods leave a node matters
    less than which node they leave; with None they are not asked for. An object that cannot be
    read is left out.
    """

    name = KUBERNETES_METRICS
    measures_pods = True

    def __init__(
        self,
        session: Transport,
        clock: Clock,
        pods_on: Callable[[str], Iterable[Pod]],
        *,
        pod_interval_s: float | None = 0.0,
    ) -> None:
        self._session = session
        self._clock = clock
        self._pods_on = pods_on
        self._pod_interval_s = pod_interval_s
        tables = InternTables()
        self._node_codec: AnyCodec = ResourceCodec(NODE_METRICS, tables)
        self._pod_codec: AnyCodec = ResourceCodec(POD_METRICS, tables)
        self._pods: dict[str, PodMetrics] = {}
        self._last_by_node: dict[str, tuple[tuple[Pod, ...], Mapping[str, ResourceList]]] = {}
        self._pods_listed_at = float("-inf")

    async def measure(self) -> Iterator[NodeUsage]:
        """List nodes, and pods if it is time; raises UsageUnavailable."""
        nodes = await self._list(self._node_codec)
        began_at, interval_s = self._clock.now(), self._pod_interval_s
        if interval_s is not None and began_at >= self._pods_listed_at + interval_s:
            self._pods = {pod.key: pod for pod in await self._list(self._pod_codec)}
            self._pods_listed_at = began_at
            self._last_by_node = {}
        return self._samples(nodes)

    def _samples(self, nodes: Iterable[NodeMetrics]) -> Iterator[NodeUsage]:
        """Make the samples; a node whose pods are the same shares what they use with its last."""
        last, self._last_by_node = self._last_by_node, {}
        for node in nodes:
            pods, before = tuple(self._pods_on(node.key)), last.get(node.key)
            used = before[1] if before is not None and before[0] == pods else None
            if used is None:
                used = self._use_of(pods)
            self._last_by_node[node.key] = pods, used
            yield make_sample(node, used)

    def _use_of(self, pods: Iterable[Pod]) -> Mapping[str, ResourceList]:
        """Return the use of each pod; one measured before the pod was created is a namesake's."""
        return {
            measured.key: measured.usage
            for pod in pods
            if (measured := self._pods.get(str(pod))) is not None
            and measured.sampled_s > pod.created_s
        }

    async def _list(self, codec: AnyCodec) -> list[Any]:  # records of the codec's kind
        call = f"list {codec.path}"
        try:
            response = await self._session.request("GET", codec.path)
        except ClusterError as error:
            raise UsageUnavailable(str(error)) from error
        if not response.ok:
            refusal = response.error
            text = f"{call}: {response.status} {refusal.advice or refusal.reason}".rstrip()
            raise UsageUnavailable(text)
        try:
            return await self._decode(codec, response.body)
        except Malformed as error:
            raise UsageUnavailable(f"{call}: {error}") from error

    async def _decode(self, codec: AnyCodec, body: Body) -> list[Any]:  # as above
        found, yielder = [], Yielder(self._clock, _STEPS_PER_SLICE)
        for obj in codec.decode_page(codec.read_page(body)):
            if not isinstance(obj, Malformed):
                found.append(obj)
            if yielder.slice_over():
                await yielder.yield_now()
        return found
