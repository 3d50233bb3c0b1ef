"""A new watched kind is one file: it is listed, watched, stored and shown in readiness."""

import json
import subprocess
import sys
from pathlib import Path

from reactive_desched.state.kinds.kind import Purpose
from reactive_desched.state.resources import WATCHED_KINDS

KIND = '''
"""StorageClasses."""

from msgspec import Struct

from reactive_desched.model.changes import Change
from reactive_desched.state.kinds.interning import parse_resource_version
from reactive_desched.state.kinds.kind import Metadata, WatchedKind, WireStruct


class StorageClass(Struct, frozen=True, gc=False):
    name: str
    uid: str
    resource_version: int
    provisioner: str

    @property
    def key(self):
        return self.name


class StorageClassChanged(Change, frozen=True, gc=False):
    name: str


class WireStorageClass(WireStruct, frozen=True, gc=False):
    metadata: Metadata
    provisioner: str = ""


def read(wire):
    metadata = wire.metadata
    version = parse_resource_version(metadata.resource_version)
    return StorageClass(metadata.name, metadata.uid, version, wire.provisioner)


STORAGE_CLASS = WatchedKind(
    kind="StorageClass",
    resource="storageclasses",
    api_version="storage.k8s.io/v1",
    namespaced=False,
    record=StorageClass,
    wire=WireStorageClass,
    make_reader=lambda _: read,
    make_change=lambda each: StorageClassChanged(each.name),
    read_for="the provisioner of a volume",
)
'''

PROGRAM = """
import json, random, sys, urllib.request
from functools import partial
from pathlib import Path

import anyio

import reactive_desched.state.kinds as kinds

folder = Path(sys.argv[1])
kinds.__path__.append(str(folder / "kinds"))

from reactive_desched.app.controller import open_controller
from reactive_desched.app.options import Options, load_dependencies
from reactive_desched.plan.snapshot import SnapshotBuilder
from reactive_desched.sim.clock import VirtualClock
from reactive_desched.sim.seed import seed
from reactive_desched.sim.server import serve
from reactive_desched.sim.store import Store
from tools.watched_kinds import watched_kinds_page, written_files


def fetch(url):
    return urllib.request.urlopen(url).read().decode()


async def main():
    store = Store(VirtualClock(1_800_000_000.0), random.Random(7))
    seed(store)
    store.create("storageclasses", {"metadata": {"name": "fast"}, "provisioner": "disks"})
    async with serve(store) as url:
        (folder / "kubeconfig").write_text((folder / "kubeconfig").read_text() % url)
        options = Options(
            str(folder / "policy.yaml"),
            kubeconfig=str(folder / "kubeconfig"),
            journal_dir=str(folder / "journal"),
            listen="127.0.0.1:0",
            log_format="json",
        )
        async with open_controller(load_dependencies(options)) as running:
            with anyio.fail_after(30):
                await until(lambda: not running.controller.pauses.check())
                get = partial(running.controller.state.get, "storageclasses")
                listed = get("fast")
                slow = {"metadata": {"name": "slow"}, "provisioner": "tape"}
                store.create("storageclasses", slow)
                await until(lambda: get("slow") is not None)
                ready = await anyio.to_thread.run_sync(fetch, running.url + "/readyz?verbose")
                metrics = await anyio.to_thread.run_sync(fetch, running.url + "/metrics")
    print(json.dumps({
        "listed": listed.provisioner,
        "ready": ready,
        "metrics": metrics,
        "plan": sorted(SnapshotBuilder().build().objects),
        "role": [text for file, text in written_files().items() if file.name == "rbac.yaml"][0],
        "page": watched_kinds_page(),
    }))


async def until(condition):
    while not condition():
        await anyio.sleep(0.01)


anyio.run(main)
"""
POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: test
  plugins: {deschedule: {enabled: [RemovePodsViolatingNodeTaints]}}
"""
KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: c, cluster: {server: "%s"}}]
users: [{name: u, user: {token: secret}}]
contexts: [{name: here, context: {cluster: c, user: u}}]
"""


def test_one_file_makes_a_kind_listed_watched_stored_and_shown(tmp_path: Path) -> None:
    (tmp_path / "kinds").mkdir()
    (tmp_path / "kinds" / "storage_class.py").write_text(KIND, encoding="utf-8")
    (tmp_path / "policy.yaml").write_text(POLICY, encoding="utf-8")
    (tmp_path / "kubeconfig").write_text(KUBECONFIG, encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        check=False,
        capture_output=True,
        timeout=120,
        cwd=Path(__file__).resolve().parents[2],
    )

    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["listed"] == "disks"
    assert "[+]sync/storageclasses ok" in found["ready"]
    assert 'reactive_desched_reflector_synced{resource="storageclasses"} 1' in found["metrics"]
    assert "storageclasses" in found["plan"]
    assert "storageclasses" in found["role"]
    assert "`storageclasses`" in found["page"]


def test_only_node_fit_and_records_do_without_a_kind() -> None:
    for kind in WATCHED_KINDS.values():
        assert kind.read_for
        assert kind.optional == (kind.purpose is not Purpose.DECISIONS)
