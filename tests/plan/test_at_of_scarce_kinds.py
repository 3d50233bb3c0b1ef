"""So are moments answered at which pods have devices, Reservations, gangs, and room made for them.

Few clusters have objects of these kinds; each of them can decide whether a pod fits on a node.
"""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import pytest

from reactive_desched.kube.codec import make_codecs
from reactive_desched.recording.frames import RECORDING_FOLDER
from reactive_desched.recording.items import ObjectChanged, ObjectFound
from reactive_desched.recording.reader import read_items
from reactive_desched.recording.segments import ignore_damage, recording_paths
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.status import StatusError
from reactive_desched.state.kinds.interning import InternTables
from tests.plan.test_at_property import Asked, answered_again, ask
from tests.safety import story
from tests.safety.knowledge import GANG
from tests.safety.referee import Referee
from tests.safety.story import STEADY, play_story
from tests.safety.world import World, remove_quietly
from tests.support.sim_world import workload

GROUPS: Final = "podgroups.scheduling.sigs.k8s.io"


@pytest.fixture
def all_kinds_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have devices decide, and findings make jobs that reserve a place first.

    The referee's rules are those of evictions without jobs.
    """
    written = story.policy_text

    def with_all(rng: Random) -> str:
        text = written(rng).replace("evictions: {", "evictions: {evictor: migration, ")
        text = text.replace("nodeFit: false", "nodeFit: true")
        text = text.replace("\nguards: {", "\nguards: {resourceClaims: fit, ")
        more = "skipEvictionGates: [ExpectedReplicas], schedulerNames: [default-scheduler]"
        return f"{text}migration: {{defaultJobMode: ReservationFirst, {more}}}\n"

    monkeypatch.setattr(story, "policy_text", with_all)
    for name in ("check", "check_end", "raise_violations"):
        monkeypatch.setattr(Referee, name, lambda _: None)


class ScarceKinds:
    """Changes of objects of these kinds, drawn by a source of randomness of their own."""

    def __init__(self, world: World, rng: Random) -> None:
        self._world = world
        self._rng = rng
        self._codecs = make_codecs(InternTables())

    def change(self) -> None:
        changes = (self._slice, self._claim, self._pods, self._group, self._reservation)
        for change in self._rng.sample(changes, 2):
            try:
                change()
            except StatusError as error:
                if error.code not in (404, 409):  # it is gone already, or there
                    raise

    def _make(self, resource: str, name: str, namespace: str = "", **fields: Any) -> None:
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        self._world.store.create(resource, {"metadata": metadata, **fields})

    def _node(self) -> str:
        nodes = self._world.store.list("nodes")
        return str(self._rng.choice(nodes)["metadata"]["name"])

    def _slice(self) -> None:
        """Let a node have some devices, or none any more."""
        node = self._node()
        self._delete("resourceslices", f"gpus-{node}")
        if self._rng.random() < 0.8:
            devices = [{"name": f"gpu-{number}"} for number in range(self._rng.choice([1, 4]))]
            pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
            spec = {"driver": "gpu", "pool": pool, "nodeName": node, "devices": devices}
            self._make("resourceslices", f"gpus-{node}", spec=spec)
        self._make("deviceclasses", "gpu", spec={"selectors": []})

    def _claim(self) -> None:
        """Allocate a device to the claim of pods, or to nobody."""
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
        node = self._node()
        result = {"driver": "gpu", "pool": node, "device": "gpu-0", "request": "gpu"}
        self._delete("resourceclaims", "shared", "jobs")
        allocation = {"devices": {"results": [result]}}
        users = [
            {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
            for pod in self._world.store.list("pods")
            if pod["metadata"]["labels"].get("app") == "claimers"
        ]
        status = self._rng.choice([{}, {"allocation": allocation, "reservedFor": users}])
        spec = {"devices": {"requests": [request]}}
        self._make("resourceclaims", "shared", "jobs", spec=spec, status=status)

    def _pods(self) -> None:
        """Create pods with the claim, or remove them."""
        if self._rng.random() < 0.3:
            self._delete("deployments", "claimers", "jobs")
            return
        spec = workload("claimers", 2, cpu="100m")
        pod = spec["template"]["spec"]
        pod["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "shared"}]
        pod["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
        self._make("deployments", "claimers", "jobs", spec=spec)

    def _group(self) -> None:
        """Say how many pods of a gang have to run, where a watch would."""
        life = self._world.life
        if life is None or GROUPS in life.unsynced:
            return
        obj: Obj = {
            "metadata": {"name": "web", "namespace": "default", "uid": "web-gang"},
            "spec": {"minMember": self._rng.choice([1, 2, 8])},
        }
        record = self._codecs[GROUPS].decode_object(msgspec.json.encode(obj))
        handler = life.pipeline.event_handlers[GROUPS]
        (handler.remove if self._rng.random() < 0.2 else handler.upsert)(record)
        for pod in self._world.store.list("pods", "default"):
            labels = {**pod["metadata"]["labels"], GANG: "web"}
            if labels.get("app") == "web":
                self._relabel(pod, labels)

    def _reservation(self) -> None:
        """Let a person keep most of a node, or give it back."""
        self._delete("reservations", "kept")
        if self._rng.random() < 0.2:
            return
        containers = [{"name": "main", "resources": {"requests": {"cpu": "3500m"}}}]
        template = {"metadata": {"namespace": "default"}, "spec": {"containers": containers}}
        owner = {"object": {"kind": "Pod", "namespace": "default", "name": "nobody"}}
        self._make("reservations", "kept", spec={"template": template, "owners": [owner]})

    def _relabel(self, pod: Obj, labels: Obj) -> None:
        meta = pod["metadata"]

        def relabelled(stored: Obj) -> Obj:
            return {**stored, "metadata": {**stored["metadata"], "labels": labels}}

        self._world.store.modify("pods", meta["namespace"], meta["name"], relabelled)

    def _delete(self, resource: str, name: str, namespace: str = "") -> None:
        remove_quietly(self._world.store, resource, namespace, name)


def recorded_kinds(journal: Path) -> Counter[str]:
    """Count the objects and changes of each resource in a recording."""
    items = read_items(recording_paths(journal / RECORDING_FOLDER), ignore_damage)
    return Counter(each.resource for each in items if isinstance(each, ObjectFound | ObjectChanged))


SCARCE: Final = {"deviceclasses", "resourceclaims", "resourceslices", "reservations", GROUPS}


@pytest.mark.usefixtures("all_kinds_decide")
@pytest.mark.parametrize("seed", [3, 5, 8])
def test_a_moment_of_devices_reservations_and_gangs_is_answered_as_it_was_then(
    seed: int, tmp_path: Path
) -> None:
    asked: list[Asked] = []
    rng = Random(f"scarce kinds of {seed}")

    async def after_step(world: World) -> None:
        ScarceKinds(world, rng).change()
        await ask(world, asked)

    play_story(
        Random(seed), tmp_path, steps=15, records=True, actions=STEADY, after_step=after_step
    )

    assert answered_again(asked, tmp_path) > 3
    assert SCARCE - recorded_kinds(tmp_path).keys() == set()
