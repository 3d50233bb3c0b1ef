"""Ways into a cluster that cannot be used: a line that says so, and an end that does not wait."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SECRET = "c4n4ry"
KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: sim
clusters: [{{name: sim, cluster: {{server: "{server}"}}}}]
contexts: [{{name: sim, context: {{cluster: sim, user: sim}}}}]
users: [{{name: sim, user: {user}}}]
"""
HANGS = '{exec: {apiVersion: client.authentication.k8s.io/v1, command: sleep, args: ["50"]}}'


@pytest.fixture
def run_with(start: Callable[..., Any], policy: Path, tmp_path: Path) -> Callable[[str, str], Any]:
    """Start the controller with credentials like these, for a server that is not there."""

    def start_one(user: str, server: str = "http://127.0.0.1:1") -> Any:  # a Program
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(KUBECONFIG.format(server=server, user=user), encoding="utf-8")
        return start(
            "run",
            *("--policy", str(policy), "--kubeconfig", str(kubeconfig)),
            *("--journal", str(tmp_path / "journal"), "--listen", "127.0.0.1:0"),
        )

    return start_one


def test_a_token_of_two_lines_is_refused_at_the_start_on_one_line(
    run_with: Callable[..., Any],
) -> None:
    program = run_with(f'{{token: "{SECRET}\\n{SECRET}"}}')
    assert program.process.wait(60) == 2, program.output
    assert "Traceback" not in program.output
    assert "token" in program.output
    assert SECRET not in program.output


@pytest.mark.parametrize("server", ["ftp://127.0.0.1:1", "127.0.0.1:6443/path"])
def test_a_server_that_is_no_http_address_is_refused_at_the_start(
    server: str, run_with: Callable[..., Any]
) -> None:
    program = run_with("{}", server)
    assert program.process.wait(60) == 2, program.output
    assert server in program.output


def test_a_credential_plugin_that_hangs_does_not_keep_the_controller_from_ending(
    run_with: Callable[..., Any], tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    plugin = HANGS.replace("sleep, ", "sh, ").replace('"50"', f'-c, "touch {begun}; exec sleep 50"')
    program = run_with(plugin)
    program.wait_until(begun.exists)
    assert program.stop() in (0, 1, -15)
