"""The command that serves a simulated cluster."""

import os
import re
import signal
import socket
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from reactive_desched.errors import ConfigError
from reactive_desched.sim import command
from reactive_desched.sim.command import SimulationOptions, simulate
from reactive_desched.sim.run import Landscape, Simulation, simulation
from reactive_desched.sim.scenarios import LEAST_NODES, SCENARIOS


def test_it_says_where_it_is_before_the_cluster_is_made_and_ends_well_on_a_signal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "kubeconfig"
    say_ready, known = command._say_ready, []
    run = sys.modules[simulation.__module__]
    populated = vars(run)["populate"]

    def populate_late(*args: Any, **options: Any) -> None:
        url = re.search("server: (.*)", place.read_text())
        assert url is not None
        address = urlsplit(url[1])
        with socket.create_connection((str(address.hostname), address.port or 0), timeout=5):
            known.append(url[1])
        populated(*args, **options)

    def say_and_end(running: Simulation, options: SimulationOptions) -> None:
        say_ready(running, options)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(run, "populate", populate_late)
    monkeypatch.setattr(command, "_say_ready", say_and_end)
    status = simulate(SimulationOptions(nodes=2, pods=4, kubeconfig_file=str(place)))

    url, making, export, ready = capsys.readouterr().out.splitlines()
    assert status == 0
    assert known == [url]
    assert making.startswith("making the cluster")
    assert export == f"export KUBECONFIG={place}"
    assert ready == "ready: scenario fresh, seed 1, 2 nodes, 4 pods; try: kubectl get nodes"
    assert list(tmp_path.iterdir()) == [place]


def test_the_ready_line_says_how_many_pods_the_scenario_adds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    say_ready = command._say_ready

    def say_and_end(running: Simulation, options: SimulationOptions) -> None:
        say_ready(running, options)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(command, "_say_ready", say_and_end)
    simulate(
        SimulationOptions(
            nodes=12, pods=60, scenario="messy", kubeconfig_file=str(tmp_path / "sim.kubeconfig")
        )
    )

    *_, ready = capsys.readouterr().out.splitlines()
    pods, added = re.findall(r"\d+", ready)[-2:]
    assert 0 < int(added) < int(pods) - 40


@pytest.mark.parametrize("kind", ["pipe", "file"])
def test_it_ends_with_its_standard_input_if_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    read, write = os.pipe() if kind == "pipe" else (os.open(os.devnull, os.O_RDONLY), None)
    lines = []

    def write_and_close(running: Simulation, options: SimulationOptions) -> None:
        lines.append(running.url)
        if write is not None:
            os.write(write, b"what it reads means nothing")
            os.close(write)

    monkeypatch.setattr(command, "_say_ready", write_and_close)
    with os.fdopen(read, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        options = SimulationOptions(
            nodes=1, pods=0, kubeconfig_file=str(tmp_path / "k"), until_stdin_ends=True
        )

        assert simulate(options) == 0

    assert lines


def test_a_cluster_that_is_made_again_is_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the controller would take the journal of the first for its own."""
    uids = []

    def note_and_end(running: Simulation, _: SimulationOptions) -> None:
        space = running.store.get("namespaces", "", "kube-system")
        assert space is not None
        uids.append(space["metadata"]["uid"])
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(command, "_say_ready", note_and_end)
    for _ in range(2):
        simulate(SimulationOptions(nodes=1, pods=0, kubeconfig_file=str(tmp_path / "k")))

    first, second = uids
    assert first != second


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        pytest.param(SimulationOptions(nodes=2, pods=-1), "pods at 0", id="numbers"),
        pytest.param(
            SimulationOptions(nodes=5, scenario="messy"), "messy needs 6 nodes or more", id="room"
        ),
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


@pytest.mark.anyio
@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
async def test_every_scenario_has_room_on_the_fewest_nodes(scenario: str) -> None:
    landscape = Landscape(nodes=LEAST_NODES, pods=0, scenario=scenario)
    async with simulation(landscape) as running:
        assert len(running.store.list("nodes")) == LEAST_NODES
