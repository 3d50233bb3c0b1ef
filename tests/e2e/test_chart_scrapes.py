"""A real Prometheus scrapes a controller with TLS and tokens as the chart's monitors say."""

import base64
import json
import os
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import do_without
from tests.support.authority import CertificateAuthority
from tests.support.component import ChildProcess
from tests.support.control_plane import ControlPlane, wait_until
from tests.support.helm import Helm
from tests.support.kustomize import pod_template
from tests.support.ports import free_port
from tests.support.prometheus import prometheus_of
from tools.real import prometheus

pytestmark = pytest.mark.real

Object = dict[str, Any]  # a Kubernetes object as JSON
NAME = "chart-scrape"
CREATED = ("ServiceAccount", "Secret", "ClusterRole", "ClusterRoleBinding")


@pytest.fixture
def objects(helm: Helm, control_plane: ControlPlane, tmp_path: Path) -> Iterator[list[Object]]:
    """A release with TLS and tokens, of which the accounts, tokens and roles are installed."""
    authority = CertificateAuthority()
    authority.write(tmp_path / "ca.crt")
    cert, key = authority.issue(tmp_path, "tls", f"{NAME}-reactive-desched.{NAME}.svc")
    secret = {"secret": {"name": "tls", "key": "ca.crt"}}
    found = helm.template(
        {
            "settings": {
                "server": {
                    "requireToken": True,
                    "tls": {"certFile": str(cert), "keyFile": str(key)},
                }
            },
            "monitoring": {"serviceMonitor": {"enabled": True, "tlsConfig": {"ca": secret}}},
        },
        NAME,
        NAME,
    )
    kubectl = control_plane.kubectl()
    kubectl.run("create", "namespace", NAME)
    items = [each for each in found if each["kind"] in CREATED]
    stdin = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    kubectl.run("apply", "-f", "-", stdin=stdin)
    yield found
    kubectl.run("delete", "namespace", NAME, "--wait=false")
    for kind in ("clusterrole", "clusterrolebinding"):
        kubectl.run("delete", kind, "-l", f"app.kubernetes.io/instance={NAME}")


def arguments(objects: list[Object], folder: Path, address: str) -> list[str]:
    """Return the arguments of the container, with files and addresses of this machine."""
    (workload,) = (each for each in objects if each["kind"] == "Deployment")
    (config,) = (each for each in objects if "policy.yaml" in each.get("data", {}))
    (container,) = pod_template(workload)["spec"]["containers"]
    policy = folder / "policy.yaml"
    policy.write_text(config["data"]["policy.yaml"])
    here = {
        "/etc/reactive-desched/policy.yaml": str(policy),
        "0.0.0.0:10258": address,
        "0.0.0.0:8081": "127.0.0.1:0",
    }
    return [here.get(word, word) for word in container["args"]]


def as_prometheus_has_it(endpoint: Object, folder: Path, token: str) -> Object:
    """Return what the Prometheus operator makes of an endpoint."""
    (authorization, tls) = endpoint["authorization"], endpoint["tlsConfig"]
    assert tls.keys() == {"ca", "serverName"}
    return {
        "scheme": endpoint["scheme"],
        "tls_config": {"ca_file": str(folder / "ca.crt"), "server_name": tls["serverName"]},
        "authorization": {"type": authorization["type"], "credentials": token},
    }


def test_prometheus_scrapes_as_the_service_monitor_says_and_not_without_the_token(
    control_plane: ControlPlane, objects: list[Object], tmp_path: Path
) -> None:
    program = prometheus.find(os.environ) or do_without(["Prometheus"])
    kubectl = control_plane.kubectl()
    (monitor,) = (each for each in objects if each["kind"] == "ServiceMonitor")
    (endpoint,) = monitor["spec"]["endpoints"]
    port = free_port()
    kubeconfig = control_plane.service_account_kubeconfig(NAME, f"{NAME}-reactive-desched")
    argv = [
        *(sys.executable, "-m", "reactive_desched"),
        *arguments(objects, tmp_path, f"127.0.0.1:{port}"),
        f"--kubeconfig={kubeconfig}",
        f"--journal={tmp_path / 'journal'}",
    ]
    credentials = endpoint["authorization"]["credentials"]
    secret = ("secret", credentials["name"], "-n", NAME)
    kubectl.run("wait", *secret, "--for=jsonpath={.data.token}", "--timeout=60s")
    (found,) = kubectl.get("secret", "-n", NAME, "--field-selector", f"metadata.name={secret[1]}")
    token = base64.b64decode(found["data"][credentials["key"]]).decode()
    scraped = as_prometheus_has_it(endpoint, tmp_path, token)

    controller = ChildProcess("reactive-desched", tuple(argv), tmp_path / "controller.log")
    controller.start()
    try:
        wait_for_scrape(program, tmp_path, port, scraped, "reactive_desched_build_info")
        denied = scraped | {"authorization": {"type": "Bearer", "credentials": "another"}}
        wait_for_scrape(program, tmp_path, port, denied, "up == 0")
    finally:
        controller.kill()


def wait_for_scrape(program: Path, folder: Path, port: int, scraped: Object, query: str) -> None:
    """Run a Prometheus until it finds something; raises TimeoutError if it does not."""
    place = folder / query.partition(" ")[0]
    place.mkdir()
    with prometheus_of(program, place, f"127.0.0.1:{port}", "chart", scraped) as url:
        asked = f"{url}/api/v1/query?{urllib.parse.urlencode({'query': query})}"

        def found() -> bool:
            with urllib.request.urlopen(asked) as answer:
                return bool(json.load(answer)["data"]["result"])

        wait_until(found, within_s=60, what=query)
