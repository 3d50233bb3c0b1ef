"""A controller whose address, or kubeconfig, leads to another cluster does nothing there."""

import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any  # programs and clusters of conftest.py

import pytest

from reactive_desched.api.event import EVICTION_REQUESTED
from reactive_desched.journal.events import read_events
from tests.support.golden import verbatim
from tests.support.tcp_link import TcpLink

NODE = "node-1"
ELECTION = (
    "--leader-elect",
    "--leader-elect-lease-duration=12s",
    "--leader-elect-renew-deadline=9s",
    "--leader-elect-retry-period=400ms",
)


@pytest.fixture
def prod(start: Callable[..., Any], cluster: Any, tmp_path: Path) -> Any:
    """Return a second cluster, with nodes of the same names."""
    program = start(
        *("sim", "--nodes", "6", "--pods", "40"),
        *("--write-kubeconfig", str(tmp_path / "prod.kubeconfig")),
        module="tests.support.prompt_sim",
    )
    url = program.wait_for(r"http://\S+").group()
    found = type(cluster)(program, url, tmp_path / "prod.kubeconfig")
    program.wait_until(lambda: len(found.pods_on(NODE)) > 3)
    return found


@pytest.fixture
def link(cluster: Any) -> Iterator[TcpLink]:
    """Return a tunnel to the first cluster, to which its kubeconfig leads."""
    with TcpLink(port_of(cluster)) as opened:
        text = cluster.kubeconfig.read_text()
        cluster.kubeconfig.write_text(text.replace(cluster.url, f"http://127.0.0.1:{opened.port}"))
        yield opened


def port_of(cluster: Any) -> int:
    return int(cluster.url.rpartition(":")[2])


def readyz(program: Any) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"{program.url}/readyz?verbose", timeout=60) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def written(cluster: Any) -> dict[str, Any]:
    """Return what a controller writes into a cluster, and which pods are where."""
    events = cluster.call("GET", "/apis/events.k8s.io/v1/events")["items"]
    ours = [each for each in events if "descheduler" in each.get("reportingController", "")]
    leases = cluster.call("GET", "/apis/coordination.k8s.io/v1/leases")["items"]
    return {
        "events": ours,
        "leases": [each for each in leases if each["metadata"]["namespace"] == "kube-system"],
        "pods": cluster.pods_on(NODE),
    }


def uid_of(cluster: Any) -> str:
    query = "/api/v1/namespaces?fieldSelector=metadata.name=kube-system"
    [namespace] = cluster.call("GET", query)["items"]
    return str(namespace["metadata"]["uid"])


@pytest.mark.parametrize("election", [(), ELECTION], ids=["alone", "as a leader"])
def test_an_address_that_leads_to_another_cluster_ends_all_requests_and_not_the_process(
    cluster: Any,
    prod: Any,
    link: TcpLink,
    controller: Callable[..., Any],
    tmp_path: Path,
    election: tuple[str, ...],
) -> None:
    program = controller(*election)
    program.wait_for("the cluster is synced")
    before = written(prod)
    prod.taint(NODE, "gpu")

    link.lead_to(port_of(prod))

    program.wait_for("leads to another cluster")
    program.wait_until(lambda: readyz(program)[0] == 503)
    program.wait_until(lambda: "sync/pods failed" in readyz(program)[1])
    code, text = readyz(program)
    assert code == 503
    assert text.count("is sent any more") == 1
    [line] = [each for each in text.splitlines() if each.startswith("[-]cluster")]
    assert uid_of(prod) in line
    assert uid_of(cluster) in line
    if election:
        program.wait_for("the controller stopped leading")
    link.lead_to(port_of(cluster))
    cluster.taint(NODE, "gpu")
    left = cluster.pods_on(NODE)
    prod.taint("node-2", "gpu")  # some time passes
    assert cluster.pods_on(NODE) == left
    assert written(prod) == before
    program.wait_until(lambda: "[!]state: fault" in readyz(program)[1])  # a term ended before
    assert not [e for e in read_events(tmp_path / "journal") if e.type == EVICTION_REQUESTED]
    assert program.process.poll() is None
    assert program.stop() == 0
    assert "Traceback" not in program.output


def test_a_user_that_the_kubeconfig_impersonates_has_no_rights_but_its_own(
    cluster: Any, fork_server: Any, policy: Path
) -> None:
    plan = ("plan", "--policy", str(policy), "--kubeconfig", str(cluster.kubeconfig))
    assert fork_server.run(*plan).returncode == 0
    text = cluster.kubeconfig.read_text()
    assert "user: {}" in text
    cluster.kubeconfig.write_text(text.replace("user: {}", "user: {as: eve, as-groups: [viewers]}"))
    refused = fork_server.run(*plan)
    assert refused.returncode == 1
    assert verbatim('User "eve" cannot list resource "pods"') in refused.stderr
