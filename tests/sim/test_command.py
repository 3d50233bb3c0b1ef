"""The command that serves a simulated cluster."""

import os
import signal
import socket
from pathlib import Path

import pytest

from reactive_desched.errors import ConfigError
from reactive_desched.sim import command
from reactive_desched.sim.command import SimulationOptions, simulate
from reactive_desched.sim.run import Simulation


def test_it_says_where_it_is_and_ends_well_when_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "kubeconfig"
    announce = command._announce

    def announce_and_end(running: Simulation, options: SimulationOptions) -> None:
        announce(running, options)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(command, "_announce", announce_and_end)
    status = simulate(SimulationOptions(nodes=2, pods=4, kubeconfig_file=str(place)))

    url, hint = capsys.readouterr().out.splitlines()
    assert status == 0
    assert f"server: {url}" in place.read_text()
    assert hint == (f"2 nodes, about 4 pods, seed 1; try: kubectl --kubeconfig {place} get nodes")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        pytest.param(SimulationOptions(nodes=2, pods=-1), "pods at 0", id="numbers"),
        pytest.param(
            SimulationOptions(nodes=1, pods=0, kubeconfig_file="/nowhere/at/all"),
            "cannot write the kubeconfig to /nowhere/at/all",
            id="kubeconfig",
        ),
    ],
)
def test_what_makes_no_sense_is_named(options: SimulationOptions, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        simulate(options)


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(ConfigError, match=f"{port}.*choose another --listen"):
            simulate(SimulationOptions(nodes=1, pods=0, port=port))
