"""`plan` and `run --once` measure a live cluster once, if the policy's plugins go by it."""

from typing import Any, cast

import pytest

from reactive_desched.errors import Unreachable
from reactive_desched.kube.client.clock import SystemClock
from reactive_desched.kube.client.responses import ApiResponse
from reactive_desched.plan.measured_use import with_measured_use
from reactive_desched.plan.snapshot import Snapshot, SnapshotBuilder
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import load_sources
from reactive_desched.testing.builders import node, pod
from tests.support.golden import Golden

pytestmark = pytest.mark.anyio

POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
metricsProviders: [%s]
profiles:
- name: p
  plugins: {balance: {enabled: [LowNodeUtilization]}}
  pluginConfig:
  - name: LowNodeUtilization
    args:
      thresholds: {%s: 20}
      targetThresholds: {%s: 50}
      %s
"""
METRICS = ("{source: KubernetesMetrics}", "cpu", "cpu", "metricsUtilization: {metricsServer: true}")
PROMETHEUS = (
    "{source: Prometheus, prometheus: {url: 'https://127.0.0.1:1'}}",
    *["MetricResource"] * 2,
    "metricsUtilization: {source: Prometheus, prometheus: {query: up}}",
)
REQUESTS = ("", "cpu", "cpu", "")


class Session:
    """A metrics-server, or none."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error
        self.asked: list[str] = []

    async def request(self, _method: str, path: str, **_: object) -> ApiResponse:
        self.asked.append(path.rpartition("/")[2])
        if self._error is not None:
            raise self._error
        name, usage = ("n1", '"usage":{"cpu":"1"}') if path.endswith("nodes") else ("a", "")
        measured = usage or '"containers":[{"usage":{"cpu":"7m"}}]'
        item = '{"metadata":{"name":"%s","namespace":"default"},"timestamp":"%s",%s}'
        body = item % (name, "2026-11-21T07:17:02Z", measured)
        return ApiResponse(200, {}, f'{{"metadata":{{}},"items":[{body}]}}'.encode())


def snapshot() -> Snapshot:
    builder = SnapshotBuilder()
    builder.add("nodes", node("n1"))
    builder.add("pods", pod("a", on="n1"))
    return builder.build()


async def measured(
    policy: tuple[str, ...], session: Session | None = None, *, show_nodes: bool = False
) -> Snapshot:
    configuration = load_sources([SourceText(POLICY % policy, "policy")], plugin_registry())
    sent = cast("Any", session or Session())  # of a session it sends requests
    return await with_measured_use(
        snapshot(), configuration, sent, SystemClock(), show_nodes=show_nodes
    )


async def test_every_node_is_measured_once_with_its_pods() -> None:
    session = Session()
    (sample,) = (found := await measured(METRICS, session)).samples

    assert (sample.node, sample.usage, sample.pods) == (
        "n1",
        {"cpu": 1000},
        {"default/a": {"cpu": 7}},
    )
    assert found.usage_problems == {}
    assert session.asked == ["nodes", "pods"]


async def test_what_cannot_be_measured_is_reported() -> None:
    found = await measured(METRICS, Session(Unreachable("GET", "gone", sent=False)))

    assert found.samples == ()
    assert found.usage_problems == {"KubernetesMetrics": "error getting node usage: GET: gone"}


async def test_prometheus_is_asked_where_the_policy_says(golden: Golden) -> None:
    found = await measured(PROMETHEUS)

    ((source, problem),) = found.usage_problems.items()
    assert source == "Prometheus/up"
    assert problem == golden()


async def test_a_source_that_the_policy_does_not_provide_is_not_asked() -> None:
    session = Session()
    found = await measured(("", *METRICS[1:]), session)

    assert (found.samples, found.usage_problems, session.asked) == ((), {}, [])


async def test_to_show_nodes_metrics_server_is_asked_though_no_plugin_reads_it() -> None:
    session = Session()
    (sample,) = (await measured(REQUESTS, session, show_nodes=True)).samples

    assert (sample.source, sample.usage, sample.pods) == ("KubernetesMetrics", {"cpu": 1000}, {})
    assert session.asked == ["nodes"]


async def test_to_show_nodes_what_a_plugin_reads_is_not_asked_twice() -> None:
    session = Session()
    await measured(METRICS, session, show_nodes=True)

    assert session.asked == ["nodes", "pods"]


async def test_nodes_are_shown_without_metrics_server() -> None:
    gone = Session(Unreachable("GET", "gone", sent=False))
    found = await measured(REQUESTS, gone, show_nodes=True)

    assert found.usage_problems == {"KubernetesMetrics": "error getting node usage: GET: gone"}
    assert (found.samples, found.is_complete) == ((), True)


async def test_without_such_a_plugin_nothing_is_asked() -> None:
    session = Session()
    await measured(REQUESTS, session)

    assert session.asked == []
