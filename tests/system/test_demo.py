import subprocess
import sys


def test_the_demo_ends_well_and_reads_well_in_a_pipe() -> None:
    played = subprocess.run(
        [sys.executable, "-m", "reactive_desched", "demo"],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )

    assert played.returncode == 0, played.stdout + played.stderr
    assert played.stderr == ""
    assert played.stdout.count("as it should be") == 7
    assert "\x1b[" not in played.stdout
    for scene in (
        "tainted",
        "affinity",
        "joins",
        "flaps",
        "budget",
        "storm",
        "brake",
        "held until resume",
    ):
        assert scene in played.stdout
