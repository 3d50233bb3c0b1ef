"""Commands, tokens and certificates against a controller that requires both."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.cli import main
from tests.support.authority import CertificateAuthority
from tests.support.limits import UNLIMITED

RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture
def settings(tmp_path: Path) -> str:
    """Require a token of every client, over TLS."""
    authority = CertificateAuthority()
    authority.write(tmp_path / "ca.crt")
    cert, key = authority.issue(tmp_path, "server", "desched.svc")
    tls = f"tls: {{certFile: {cert}, keyFile: {key}}}"
    return f"server: {{requireToken: true, {tls}}}\nsinks: {{stream: {{}}}}\n{UNLIMITED}"


def test_commands_reach_a_controller_that_requires_a_token_and_do_what_rbac_lets_them(
    cluster: Any, controller: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = controller("--log-format", "json")
    url = program.wait_for(r'"url": ?"(https://[^"]+)"').group(1)
    program.wait_for("the cluster is synced")
    token, authority = tmp_path / "token", tmp_path / "ca.crt"
    made = cluster.create("/api/v1/namespaces/default/serviceaccounts/default/token", {"spec": {}})
    token.write_text(made["status"]["token"] + "\n")
    trusted = ("--server", url, "--certificate-authority", str(authority))
    named = (*trusted, "--tls-server-name", "desched.svc")
    known = (*named, "--token-file", str(token))

    def fails(*words: str) -> str:
        assert main([*words]) == 1
        return capsys.readouterr().err

    assert "Then write https://" in fails("status", "--server", url.replace("https", "http"))
    assert "certificate is not trusted" in fails("status", "--server", url)
    assert "not trusted" in fails("status", *trusted), "it is for another name"
    assert "wants a valid token" in fails("status", *named)
    assert "wants a valid token" in fails("events", "tail", *named)
    assert "default may not get /debug/status" in fails("status", *known)

    rules = [{"nonResourceURLs": ["/debug/*", "/events"], "verbs": ["get"]}]
    cluster.create(f"{RBAC}/clusterroles", {"metadata": {"name": "r"}, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}
    subject = {"kind": "ServiceAccount", "namespace": "default", "name": "default"}
    binding = {"metadata": {"name": "r"}, "roleRef": role, "subjects": [subject]}
    cluster.create(f"{RBAC}/clusterrolebindings", binding)

    assert main(["why", "--node", "node-1", *known]) == 0
    assert main(["events", "tail", *known]) == 0
    assert "policy.loaded" in capsys.readouterr().out
    assert "default may not post /operator/pause" in fails("pause", *known)
