"""`make real-tools` with a stand-in for Go, so that its promises are checked in a moment."""

import json
import runpy
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

BUILD = Path(__file__).resolve().parents[3] / "tools" / "real" / "build.py"
PARTS = {
    "etcd",
    "etcdctl",
    "kwok",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
}
# Notes each call; "builds" files, hands out a module folder, and fails where it is told to.
FAKE_GO = """#!{python}
import json, os, pathlib, sys
here = pathlib.Path(__file__).parent
with (here / "calls").open("a") as calls:
    calls.write(os.environ["GOFLAGS"] + " " + " ".join(sys.argv[1:]) + chr(10))
if (here / "fail").exists() and (here / "fail").read_text() in sys.argv[-1]:
    sys.exit(1)
if sys.argv[1] == "build":
    target = sys.argv[sys.argv.index("-o") + 1]
    many = [target + p.split("/")[-1] for p in sys.argv if p.startswith("k8s.io/kubernetes/cmd")]
    for path in many if target.endswith("/") else [target]:
        pathlib.Path(path).write_text("built")
else:
    print(json.dumps({{"Dir": str(here / "module")}}))
"""


@dataclass
class Bench:
    """A cache folder, a PATH with or without Go, and the script under test."""

    folder: Path

    def run(self, *options: str, go: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
        path = str(self.folder / "go") if go else str(self.folder / "nothing")
        cache = str(self.folder / "cache")
        return subprocess.run(
            (sys.executable, str(BUILD), *options),
            env={"PATH": path, "REACTIVE_DESCHED_REAL_TOOLS": cache, **env},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def where(self, **env: str) -> dict[str, str | None]:
        answer = self.run("--where", go=True, **env).stdout
        tools: dict[str, str | None] = json.loads(answer)["tools"]
        return tools

    def built(self) -> set[str]:
        return {name for name, path in self.where().items() if path}

    def calls(self) -> list[str]:
        log = self.folder / "go" / "calls"
        return log.read_text().splitlines() if log.exists() else []

    def fail_at(self, package: str) -> None:
        (self.folder / "go" / "fail").write_text(package)

    def mend(self) -> None:
        (self.folder / "go" / "fail").unlink()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    go = tmp_path / "go"
    go.mkdir()
    (go / "go").write_text(FAKE_GO.format(python=sys.executable))
    (go / "go").chmod(0o755)
    for stage in runpy.run_path(str(BUILD))["STAGES"]:
        path = go / "module" / "kustomize" / "stage" / stage
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a stage")
    return Bench(tmp_path)


def assets(folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        (folder / name).write_text("brought along")
    return folder


def test_every_part_is_built_with_its_lock_respected(bench: Bench) -> None:
    assert bench.run().returncode == 0

    assert bench.built() == PARTS
    assert all("-mod=readonly" in call for call in bench.calls())


def test_a_second_run_builds_nothing_and_needs_no_go(bench: Bench) -> None:
    bench.run()
    before = bench.calls()

    assert bench.run().returncode == 0
    assert bench.run(go=False).returncode == 0
    assert bench.calls() == before


def test_a_half_built_folder_counts_as_nothing_and_is_built_again(bench: Bench) -> None:
    bench.fail_at("kubectl")
    assert bench.run().returncode == 1
    assert bench.built() == set()

    bench.mend()
    assert bench.run().returncode == 0
    assert bench.built() == PARTS


def test_a_part_that_was_deleted_is_built_again_alone(bench: Bench) -> None:
    bench.run()
    before = len(bench.calls())
    Path(bench.where()["kwok"] or "").unlink()

    assert bench.run().returncode == 0

    assert bench.built() == PARTS
    assert [
        call for call in bench.calls()[before:] if " build " in call and "kwok" not in call
    ] == []


def test_stages_that_were_deleted_are_copied_again_without_a_build(bench: Bench) -> None:
    bench.run()
    before = len(bench.calls())
    stages = Path(json.loads(bench.run("--where").stdout)["stages"])
    shutil.rmtree(stages)

    assert bench.run().returncode == 0

    assert stages.is_dir()
    assert [call for call in bench.calls()[before:] if " build " in call] == []


def test_without_go_one_sentence_names_what_is_missing_and_the_remedy(bench: Bench) -> None:
    done = bench.run(go=False)

    assert done.returncode == 1
    (told,) = done.stderr.splitlines()
    assert "No Go toolchain was found" in told
    assert "kube-apiserver" in told
    assert "install Go 1.26 or newer" in told


def test_the_assets_of_other_test_suites_are_used_instead_of_built(
    bench: Bench, tmp_path: Path
) -> None:
    mine = assets(tmp_path / "assets", "kube-apiserver", "etcd", "kubectl")

    assert bench.run(KUBEBUILDER_ASSETS=str(mine)).returncode == 0

    found = bench.where(KUBEBUILDER_ASSETS=str(mine))
    assert {name for name, path in found.items() if path == str(mine / name)} == {
        "kube-apiserver",
        "etcd",
        "kubectl",
    }
    assert bench.built() == PARTS - {"kube-apiserver", "etcd", "kubectl"}


def test_assets_that_are_not_whole_are_not_used(bench: Bench, tmp_path: Path) -> None:
    mine = assets(tmp_path / "assets", "kube-apiserver", "etcd")

    done = bench.run(KUBEBUILDER_ASSETS=str(mine))

    assert "lacks" in done.stderr
    assert bench.built() == PARTS


def test_a_single_binary_can_be_brought_along(bench: Bench, tmp_path: Path) -> None:
    mine = assets(tmp_path / "assets", "my-etcd") / "my-etcd"

    assert bench.where(TEST_ASSET_ETCD=str(mine))["etcd"] == str(mine)


def test_a_binary_that_is_not_there_is_an_error_that_names_the_variable(bench: Bench) -> None:
    done = bench.run(TEST_ASSET_KUBE_APISERVER="/nowhere/kube-apiserver")

    assert done.returncode == 1
    assert "TEST_ASSET_KUBE_APISERVER=/nowhere/kube-apiserver is not a file" in done.stderr
