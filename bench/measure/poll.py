"""The peer to compare with: list everything, parse everything, judge everything, again and again.

It is naive on purpose, as many such programs are, and fair: pages are dropped once judged, only
what the judgements need is kept, and the collector is off, which would cost it four times more.
"""

import gc
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from bench.measure.machine import Stopwatch
from bench.measure.numbers import Quantiles

Obj = dict[str, Any]  # Any: an object as json.loads returns it
_PAGE = 500
_RESTARTS = 100
_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "m": 0.001}


@dataclass
class PollingCycle:
    """What one pass gathers on its way."""

    nodes: dict[str, Obj] = field(default_factory=dict)
    pods: int = 0
    findings: int = 0
    used: Counter[tuple[str, str]] = field(default_factory=Counter)
    siblings: Counter[tuple[str, ...]] = field(default_factory=Counter)
    domains: Counter[tuple[str, ...]] = field(default_factory=Counter)

    def add_node(self, node: Obj) -> None:
        """Take in a node; all nodes come before the first pod."""
        self.nodes[node["metadata"]["name"]] = node

    def judge_pod(self, pod: Obj) -> None:
        """Judge what one pod shows, and count it."""
        _judge(self, pod)

    def judge_aggregates(self) -> None:
        """Judge what needs every pod: duplicates on a node, and nodes that are too full."""
        self.findings += sum(count - 1 for count in self.siblings.values() if count > 1)
        for (name, resource), used in self.used.items():
            room = _quantity(self.nodes[name]["status"]["allocatable"][resource]) * 1000
            self.findings += used > room


async def run_polling_cycle(http: aiohttp.ClientSession, url: str) -> Quantiles:
    """Run one pass over the cluster that the server shows and say what it cost."""
    watch, cycle = Stopwatch(), PollingCycle()
    gc.disable()
    try:
        async for node in _list_items(http, f"{url}/api/v1/nodes"):
            cycle.add_node(node)
        async for pod in _list_items(http, f"{url}/api/v1/pods"):
            cycle.judge_pod(pod)
        cycle.judge_aggregates()
    finally:
        gc.enable()
    return {
        "cpu_s": round(watch.cpu_s, 3),
        "wall_s": round(watch.wall_s, 3),
        "pods": cycle.pods,
        "findings": cycle.findings,
    }


async def _list_items(http: aiohttp.ClientSession, url: str) -> AsyncIterator[Obj]:
    token = ""
    while True:
        page = f"{url}?limit={_PAGE}{token}"
        async with http.get(page, headers={"Accept-Encoding": "identity"}) as reply:
            answer = json.loads(await reply.read())
        for item in answer["items"]:
            yield item
        if not (following := answer["metadata"].get("continue")):
            return
        token = f"&continue={following}"


def _judge(cycle: PollingCycle, pod: Obj) -> None:
    cycle.pods += 1
    node = cycle.nodes[pod["spec"]["nodeName"]]
    restarts = sum(status["restartCount"] for status in pod["status"]["containerStatuses"])
    cycle.findings += restarts >= _RESTARTS
    cycle.findings += not all(_tolerated(pod, taint) for taint in node["spec"].get("taints", ()))
    cycle.findings += not _matches_affinity(pod, node)
    _count(cycle, pod, node)


def _tolerated(pod: Obj, taint: Obj) -> bool:
    return taint["effect"] != "NoSchedule" or any(
        toleration.get("key") in (None, taint["key"])
        and toleration.get("effect") in (None, taint["effect"])
        for toleration in pod["spec"]["tolerations"]
    )


def _matches_affinity(pod: Obj, node: Obj) -> bool:
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    labels = node["metadata"]["labels"]
    return any(
        all(_meets_requirement(rule, labels) for rule in term.get("matchExpressions", ()))
        for term in required["nodeSelectorTerms"]
    )


def _meets_requirement(rule: Obj, labels: Mapping[str, str]) -> bool:
    among = labels.get(rule["key"]) in rule["values"]
    return among if rule["operator"] == "In" else not among


def _count(cycle: PollingCycle, pod: Obj, node: Obj) -> None:
    name = node["metadata"]["name"]
    images = sorted(container["image"] for container in pod["spec"]["containers"])
    for owner in pod["metadata"].get("ownerReferences", ()):
        cycle.siblings[name, owner["uid"], *images] += 1
    for container in pod["spec"]["containers"]:
        for resource, amount in container["resources"]["requests"].items():
            cycle.used[name, resource] += int(_quantity(amount) * 1000)
    for constraint in pod["spec"].get("topologySpreadConstraints", ()):
        selector = json.dumps(constraint["labelSelector"], sort_keys=True)
        domain = node["metadata"]["labels"][constraint["topologyKey"]]
        cycle.domains[pod["metadata"]["namespace"], selector, domain] += 1


def _quantity(text: str) -> float:
    for unit, factor in _UNITS.items():
        if text.endswith(unit):
            return float(text[: -len(unit)]) * factor
    return float(text)
