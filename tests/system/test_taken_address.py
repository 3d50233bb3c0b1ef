"""Who cannot have the address to serve at has begun nothing: no journal, and no sink at work."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any


def test_a_taken_address_is_said_in_a_line_before_anything_is_begun(
    controller: Callable[..., Any], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as others:
        address = f"127.0.0.1:{others.getsockname()[1]}"
        program = controller("--listen", address)

        assert program.process.wait(60) == 2
    [said] = program.output.splitlines()
    assert address in said
    assert "choose another address with --listen" in said
    assert not (tmp_path / "journal").exists()
