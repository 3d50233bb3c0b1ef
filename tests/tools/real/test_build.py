"""`make real-tools` with a stand-in for Go, so that its promises are checked in a moment."""

import hashlib
import json
import re
import runpy
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.golden import Golden

TOOLS = Path(__file__).resolve().parents[3] / "tools"
BUILD = TOOLS / "real" / "build.py"
PARTS = {
    "etcd",
    "etcdctl",
    "kwok",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
}
# Notes each call; "builds" files, hands out a module folder, and fails where it is asked to.
# Shells, which start in a tenth of the time of Python; without `cat` and the like on the PATH.
FAKE_GO = """\
#!/bin/sh
here=${0%/*}
echo "$GOFLAGS $*" >> "$here/calls"
for last; do :; done
if [ -e "$here/fail" ]; then
  read -r wrong < "$here/fail" || :
  case "$last" in *"$wrong"*) exit 1;; esac
fi
if [ "$1" = build ]; then
  while [ "$1" != -o ]; do shift; done
  target=$2
  case "$target" in
    */) for package; do
          case "$package" in k8s.io/kubernetes/cmd*) printf built > "$target${package##*/}";; esac
        done;;
    *) printf built > "$target";;
  esac
else
  printf '{"Dir": "%s"}\\n' "$here/module"
fi
"""


# Notes each call; "fetches" jars, and spoils or adds some where it is asked to.
FAKE_MAVEN = """\
#!/bin/sh
here=${{0%/*}}
echo "$*" >> "$here/maven-calls"
for last; do :; done
target=${{last#*=}}
/bin/mkdir -p "${{target%/*}}" && /bin/mkdir "$target" || exit 1
for name in {jars}; do printf %s "$name" > "$target/$name"; done
while read -r name content; do printf %s "$content" > "$target/$name"; done < "$here/other-jars"
[ ! -e "$here/fail-maven" ]
"""
JARS = ("kafka-server.jar", "kafka-clients.jar")


THERE = {"AXE_JS": __file__, "OPERATOR_CRDS": str(Path(__file__).parent)}
"""What is fetched apart from the rest, and tested there."""


@dataclass
class Bench:
    """A cache folder, a PATH with or without Go, Maven and Java, and the script under test.

    The script is a copy whose list of jars is that of the stand-in for Maven.
    """

    folder: Path

    @property
    def script(self) -> Path:
        return self.folder / "tools" / "real" / "build.py"

    def run(self, *options: str, go: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
        folders = [self.folder / "go" if go else None, self.folder / "kafka"]
        cache = str(self.folder / "cache")
        path = ":".join(str(each) for each in folders if each)
        return subprocess.run(
            (sys.executable, str(self.script), *options),
            env={"PATH": path, "REACTIVE_DESCHED_REAL_TOOLS": cache, **THERE, **env},
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

    def kafka(self) -> dict[str, str | None]:
        found: dict[str, str | None] = json.loads(self.run("--where").stdout)["kafka"]
        return found

    def maven_calls(self) -> list[str]:
        log = self.folder / "kafka" / "maven-calls"
        return log.read_text().splitlines() if log.exists() else []

    def give_jar(self, name: str, content: str) -> None:
        (self.folder / "kafka" / "other-jars").write_text(f"{name} {content}\n")

    def mend(self) -> None:
        (self.folder / "go" / "fail").unlink()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    go = tmp_path / "go"
    go.mkdir()
    (go / "go").write_text(FAKE_GO)
    (go / "go").chmod(0o755)
    for stage in runpy.run_path(str(BUILD))["STAGES"]:
        path = go / "module" / "kustomize" / "stage" / stage
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a stage")
    shutil.copytree(TOOLS, tmp_path / "tools", ignore=shutil.ignore_patterns("__pycache__"))
    sums = (f"{hashlib.sha256(name.encode()).hexdigest()}  {name}\n" for name in JARS)
    (tmp_path / "tools" / "real" / "kafka" / "SHA256SUMS").write_text("".join(sums))
    kafka = tmp_path / "kafka"
    kafka.mkdir()
    (kafka / "other-jars").write_text("")
    (kafka / "mvn").write_text(FAKE_MAVEN.format(jars=" ".join(JARS)))
    (kafka / "java").write_text("#!/bin/sh\n")
    for program in ("chromium", "prometheus"):
        (kafka / program).write_text("#!/bin/sh\n")
    for program in ("mvn", "java", "chromium", "prometheus"):
        (kafka / program).chmod(0o755)
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
    told = done.stderr.splitlines()[-1]
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


def test_kafka_is_fetched_with_the_checksums_of_the_server_respected(bench: Bench) -> None:
    assert bench.run().returncode == 0

    libs = Path(bench.kafka()["libs"] or "")
    assert {jar.name for jar in libs.iterdir()} == set(JARS)
    assert libs.parent.name.startswith(f"kafka-{bench.kafka()['version']}_")
    (call,) = bench.maven_calls()
    assert "--strict-checksums" in call


def test_kafka_that_is_there_needs_no_maven(bench: Bench) -> None:
    bench.run()
    (bench.folder / "kafka" / "mvn").unlink()

    assert bench.run().returncode == 0
    assert len(bench.maven_calls()) == 1


@pytest.mark.parametrize(
    ("name", "content"),
    [("kafka-server.jar", "tampered"), ("more.jar", "unknown")],
    ids=["a jar is not what it was", "a jar is there that nobody listed"],
)
def test_jars_that_are_not_those_we_know_are_not_used(
    bench: Bench, name: str, content: str
) -> None:
    bench.give_jar(name, content)

    done = bench.run()

    assert done.returncode == 1
    assert name in done.stderr.splitlines()[-1]
    assert bench.kafka()["libs"] is None
    assert bench.built() == PARTS


def test_half_of_kafka_counts_as_nothing_and_is_fetched_again(bench: Bench) -> None:
    (bench.folder / "kafka" / "fail-maven").touch()
    assert bench.run().returncode == 1
    assert bench.kafka()["libs"] is None

    (bench.folder / "kafka" / "fail-maven").unlink()
    assert bench.run().returncode == 0
    assert bench.kafka()["libs"] is not None


def test_a_jar_that_was_deleted_is_noticed_and_fetched_again(bench: Bench) -> None:
    bench.run()
    (Path(bench.kafka()["libs"] or "") / JARS[0]).unlink()
    assert bench.kafka()["libs"] is None

    assert bench.run().returncode == 0
    assert bench.kafka()["libs"] is not None


@pytest.mark.parametrize(
    "program",
    ["mvn", "java"],
)
def test_what_kafka_needs_and_is_missing_is_named_and_keeps_nothing_else_from_being_built(
    bench: Bench, program: str, golden: Golden
) -> None:
    (bench.folder / "kafka" / program).unlink()

    done = bench.run()

    assert done.returncode == 1
    assert golden() in done.stderr.splitlines()[-1]
    assert bench.kafka()["libs"] is None
    assert bench.built() == PARTS


def test_java_is_found_where_java_home_says(bench: Bench, tmp_path: Path) -> None:
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("")

    found = json.loads(bench.run("--where", JAVA_HOME=str(home)).stdout)["kafka"]

    assert found["java"] == str(home / "bin" / "java")


def test_the_jars_we_know_are_pinned_each_on_a_line(bench: Bench) -> None:
    lines = (TOOLS / "real" / "kafka" / "SHA256SUMS").read_text().splitlines()

    assert all(re.fullmatch(r"[0-9a-f]{64}  \S+\.jar", line) for line in lines)
    version = bench.kafka()["version"]
    assert f"kafka-clients-{version}.jar" in {line.split()[1] for line in lines}
