"""A plugin that balances proposes, a chat is told, and a person approves: the whole program."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from reactive_desched.cli import main
from reactive_desched.model.approvals import short_id
from tests.support.chat_rules import teams_faults
from tests.support.limits import UNLIMITED
from tests.system.test_measured_use import (
    NODE,
    POLICY,
    SEVERAL_POLLS_S,
    TARGET,
    heat,
    join,
    used_percent,
)


@contextmanager
def chat() -> Iterator[tuple[str, list[bytes]]]:
    """Serve the webhook of a chat; yield its URL, and what it was sent."""
    messages: list[bytes] = []

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            messages.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(202)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/hook", messages
        server.shutdown()


def groups_of(server: str, capsys: pytest.CaptureFixture[str]) -> list[Any]:
    """Return the groups that are proposed."""
    capsys.readouterr()
    assert main(["proposals", "--server", server, "-o", "json"]) == 0
    groups: list[Any] = json.loads(capsys.readouterr().out)["groups"]
    return groups


def relieve(share: float, groups: list[Any]) -> bool:
    """Whether all that is proposed relieves the node, if each pod uses so much of it."""
    proposed: int = sum(each["total"] for each in groups)
    return 90 - proposed * share <= TARGET + 1


def test_so_many_pods_are_proposed_as_relieve_the_node_and_go_once_approved(
    cluster: Any,
    controller: Callable[..., Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with chat() as (url, messages):
        (tmp_path / "url").write_text(url)
        to_chat = f"chat: {{form: teams, urlFile: {tmp_path / 'url'}, every: 10s}}\n"
        text = f"{POLICY}{UNLIMITED}mode: propose\n{to_chat}"
        (tmp_path / "policy.yaml").write_text(text, encoding="utf-8")
        program = controller()
        program.wait_for("the cluster is synced")
        join(cluster, "node-7")
        share = heat(cluster, NODE, 90)
        wanted = partial(relieve, share)  # a node that is not hot yet needs fewer
        program.wait_until(lambda: wanted(groups_of(program.url, capsys)))
        program.wait_until(lambda: bool(messages))

    [group] = groups_of(program.url, capsys)
    assert (group["node"], group["plugin"]) == (NODE, "LowNodeUtilization")
    assert wanted([group])
    assert 90 - (group["total"] - 1) * share > TARGET - 1, "no more than have to"
    assert "] evicted " not in program.output
    assert used_percent(cluster, NODE) > TARGET
    [message] = messages
    assert teams_faults(json.loads(message), len(message)) == []
    assert f"approve --group {short_id(group['id'])}" in message.decode()

    assert main(["approve", "--group", group["id"], "--server", program.url, "--by", "ann"]) == 0
    program.wait_until(lambda: used_percent(cluster, NODE) <= TARGET)
    time.sleep(SEVERAL_POLLS_S)

    assert 0 < program.output.count("] evicted ") <= group["total"]
    assert groups_of(program.url, capsys) == []
    assert program.stop() == 0
