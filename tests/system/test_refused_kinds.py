"""A controller that may read nothing: what it cannot read is named, all at once."""

import re
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.state.resources import RESOURCES_TO_SYNC

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: "{url}"}}}}]
users: [{{name: u, user: {{token: t}}}}]
"""


class Refusing(BaseHTTPRequestHandler):
    """Answers 403 to whatever is asked."""

    def do_GET(self) -> None:
        self.send_response(403)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


class CrowdServer(ThreadingHTTPServer):
    """Lets as many connect at once as there are resources."""

    request_queue_size = 100
    daemon_threads = True


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[Path]:
    """Lead to an API server that refuses everything."""
    path = tmp_path / "kubeconfig"
    with CrowdServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        path.write_text(KUBECONFIG.format(url=f"http://127.0.0.1:{server.server_port}"))
        yield path
        server.shutdown()


def test_everything_that_may_not_be_read_is_named_in_one_line_and_by_readyz(
    start: Callable[..., Any], kubeconfig: Path, policy: Path, tmp_path: Path
) -> None:
    program = start(
        "run",
        *("--policy", str(policy), "--kubeconfig", str(kubeconfig)),
        *("--journal", str(tmp_path / "journal"), "--listen", "127.0.0.1:0"),
    )

    def readyz() -> str:
        with pytest.raises(urllib.error.HTTPError) as answer:
            urllib.request.urlopen(f"{program.url}/readyz?verbose", timeout=30)
        with answer.value as refusal:
            return refusal.read().decode()

    def lines_that_name_all() -> list[str]:
        states = re.findall(r".*\] the controller is (?:starting|out of sync) .*", program.output)
        return [
            line for line in states if set(RESOURCES_TO_SYNC) <= set(re.findall("[a-z]+", line))
        ]

    program.wait_until(lambda: readyz().count("403") == len(RESOURCES_TO_SYNC))
    program.wait_until(lambda: bool(lines_that_name_all()))
    line, text = lines_that_name_all()[0], readyz()
    assert line.count("403") == 1, "said once of all that it holds for"
    assert line.count("kubectl create clusterrole ") == 1
    assert "{apiGroups: [policy], resources: [poddisruptionbudgets], verbs: [list, watch]}" in line
    assert not re.search(r"\[\+\]sync-", text)
    assert text.count("; grant {apiGroups: ") == len({*RESOURCES_TO_SYNC} - {"priorityclasses"})
    assert program.stop() == 0
    assert len(lines_that_name_all()) == 1
