"""A Deployment that shrinks frees a whole node where ScaleDownBinPack has ranked its pods."""

import pytest

from tests.support.control_plane import wait_until
from tests.support.controller_process import RunController
from tests.support.playground import E2ENamespace

pytestmark = pytest.mark.real

COST = "controller.kubernetes.io/pod-deletion-cost"


def costs(playground: E2ENamespace) -> dict[str, int]:
    """Return the cost of each pod by its name, of those that have one."""
    pods = playground.kubectl.get("pods", "-n", playground.namespace, "-l", "app=web")
    annotated = {
        pod["metadata"]["name"]: pod["metadata"].get("annotations", {}).get(COST) for pod in pods
    }
    return {name: int(cost) for name, cost in annotated.items() if cost is not None}


def test_kube_controller_manager_deletes_the_pods_of_one_node_first(
    playground: E2ENamespace, run_controller: RunController
) -> None:
    playground.kubectl.run("apply", "-f", "deploy/deletion-cost/rbac.yaml")
    playground.add_nodes("n1", "n2", "n3")
    selector = {"evictableNamespaces": {"include": [playground.namespace]}}
    playground.balance = {"ScaleDownBinPack": selector}
    pods = playground.deploy("web", 6)
    nodes = {pod.name: pod.node for pod in pods.values()}
    assert sorted(map(list(nodes.values()).count, set(nodes.values()))) == [2, 2, 2]

    with run_controller():
        written = wait_until(
            lambda: found if len(found := costs(playground)) == len(pods) else None,
            within_s=60,
            what="all pods have a cost",
        )
        assert sorted(written.values()) == [*range(6)]
        playground.scale(4, "web")
        left = playground.await_healthy("web", 4)

    by_rank = sorted(written, key=lambda name: written[name])
    assert {pod.name for pod in left.values()} == set(by_rank[2:])
    assert len({nodes[name] for name in by_rank[:2]}) == 1
    assert not {nodes[name] for name in by_rank[:2]} & {pod.node for pod in left.values()}
