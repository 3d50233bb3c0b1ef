import json
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.golden import Golden


def typed(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command line of ours to its end."""
    return subprocess.run(
        [sys.executable, "-m", "reactive_desched", *words],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )


SLOWER = """\
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
budgets: {cluster: {evictions: 1, per: 1h, burst: 1}}
"""


def test_the_demo_ends_well_reads_well_in_a_pipe_and_prints_commands_that_work(
    tmp_path: Path,
) -> None:
    keep = tmp_path / "a journal"
    played = typed("demo", "--keep", str(keep))

    assert played.returncode == 0, played.stdout + played.stderr
    assert played.stderr == ""
    assert played.stdout.count("passed") == 7
    assert "\x1b[" not in played.stdout
    for scene in (
        "tainted",
        "loses a label",
        "joins",
        "flaps",
        "budget",
        "storm",
        "brake",
        "held until resume",
    ):
        assert scene in played.stdout

    printed = [line[2:] for line in played.stdout.splitlines() if line.startswith("$ ")]
    *_, kept, tried = played.stdout.splitlines()
    printed.append(kept.rpartition(", and: ")[2])
    assert [shlex.split(line)[1:3] for line in printed] == [
        ["audit", "show"],
        ["audit", "verify"],
        ["audit", "query"],
    ]
    for line in printed:
        again = typed(*shlex.split(line)[1:])
        assert again.returncode == 0, (line, again.stderr)
        if "query" not in line:
            assert again.stdout.split("\n", 1)[0] in played.stdout

    slower = tmp_path / "slower.yaml"
    slower.write_text(SLOWER, encoding="utf-8")
    words = shlex.split(tried.rpartition(": ")[2].replace("NEW", shlex.quote(str(slower))))
    compared = typed(*words[1:], "-o", "json")
    assert compared.returncode == 0, compared.stderr
    old, new = (json.loads(compared.stdout)[side]["evictions"] for side in ("old", "new"))
    assert new <= 1 < old
    replayed = typed("replay", "--journal", str(keep))
    assert replayed.returncode == 0, replayed.stdout


def test_the_demo_keeps_its_journal_in_a_new_folder_alone(tmp_path: Path, golden: Golden) -> None:
    (tmp_path / "mine").write_text("x", encoding="utf-8")
    refused = typed("demo", "--keep", str(tmp_path))

    assert (refused.returncode, refused.stdout) == (2, "")
    assert golden() in refused.stderr


HOLD = """\
import sys
from pathlib import Path
import anyio
from reactive_desched.demo.day import open_demo_cluster

async def hold():
    async with open_demo_cluster(Path(sys.argv[1])) as url:
        print(url, flush=True)
        await anyio.sleep_forever()

anyio.run(hold)
"""


def test_the_simulated_cluster_of_a_killed_demo_ends(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", HOLD, str(tmp_path / "kubeconfig")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        server = urlsplit(demo.stdout.readline().strip())
        address = (str(server.hostname), server.port or 0)
        assert listens(address)
        demo.kill()

    give_up = time.monotonic() + 60
    while listens(address):
        assert time.monotonic() < give_up, "the simulated cluster still runs"
        time.sleep(0.05)


def listens(address: tuple[str, int]) -> bool:
    try:
        with socket.create_connection(address, timeout=60):
            return True
    except OSError:
        return False
