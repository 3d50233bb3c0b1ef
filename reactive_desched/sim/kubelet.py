"""Every simulated node's kubelet: brings bound pods to life, and ends those that are deleted."""

import random
from collections.abc import Mapping
from typing import Final

from reactive_desched.sim import node_status, pod_status
from reactive_desched.sim.clock import parse_time
from reactive_desched.sim.conditions import condition_status
from reactive_desched.sim.controllers.controller import BATCH, Reconciler
from reactive_desched.sim.controllers.node_pressure import EVICTED, why_not_admitted
from reactive_desched.sim.controllers.node_shutdown import SHUTDOWN_REASON, SHUTDOWN_REFUSAL
from reactive_desched.sim.dice import dice_for
from reactive_desched.sim.index import PodIndex
from reactive_desched.sim.node_switch import is_down, is_shutting_down
from reactive_desched.sim.objects import Obj, name_of
from reactive_desched.sim.pods import Key, is_ready, is_terminal, is_terminating, key_of, node_of
from reactive_desched.sim.profiles import (
    COMPLETE,
    CRASH_LOOP,
    FAIL,
    IMAGE_PULL,
    NEVER_READY,
    Pace,
    Profile,
    is_missing,
    profile_of,
)
from reactive_desched.sim.recorder import Recorder
from reactive_desched.sim.store import DeleteOptions, Event, Store

__all__ = ["Kubelets"]

_FIRST_BACKOFF_S: Final = 10
_LONGEST_BACKOFF_S: Final = 300
_KILLED, _TERMINATED = 137, 143

_CONTAINERS_AT_ONCE: Final = 1_000
"""A step ends with the pod that makes it so many: one of thousands of containers is dear."""

_STOP_EVENTS: Final = 25
"""Of a pod's containers so many have an Event when they stop: client-go lets no more through."""


_STARTS_RECORDED: Final = 100
"""Of the containers that start within a second so many have Events; the others have none."""


class _Life:
    """The life of one pod on a kubelet: its behaviour, and when its next step is due."""

    def __init__(self, notes: Obj, profile: Profile) -> None:
        self.notes = notes
        self.profile = profile
        self.next_at: float | None = None
        self.ends_at: float | None = None
        self.pulls = 0
        """How often its images were looked for in vain."""


class Kubelets(Reconciler):
    """One for all nodes; remembers one record per bound pod that has not ended.

    A node that is switched off freezes: its pods stay as they are until it is back. With
    `records_starts` there are Events of containers that start, three for each.
    """

    watches = frozenset({"nodes", "pods"})

    def __init__(
        self,
        store: Store,
        index: PodIndex,
        rng: random.Random,
        pace: Pace,
        *,
        records_starts: bool = False,
    ) -> None:
        super().__init__(store)
        self._index = index
        self._rng = rng
        self._pace = pace
        self._recorder = Recorder(store, "kubelet")
        self._lives: dict[Key, _Life] = {}
        self._addresses = 0
        self._records_starts = records_starts
        self._recorded = 0
        self._recorded_at = 0.0

    def observe(self, event: Event) -> None:
        """Look at a pod that changed; look at a whole node when it is new or back."""
        if event.resource == "nodes":
            self._observe_node(event)
            return
        key = key_of(event.object)
        if event.type == "DELETED":
            self._lives.pop(key, None)
        elif node_of(event.object):
            self.soon(key)

    def step(self, now: float) -> None:
        """Look after up to a hundred pods and nodes, fewer where pods have many containers."""
        left = _CONTAINERS_AT_ONCE
        for key in self.work_set.take_due(now, BATCH):
            pod = self.store.get("pods", *key) if key[0] else None
            self.reconcile(key, now)
            left -= 0 if pod is None else _containers_of(pod)
            if left <= 0:
                return

    def reconcile(self, key: Key, now: float) -> None:
        """Take the step of the pod, or of the node's pods, that is due now."""
        if not key[0]:
            self._tend_node(key, now)
            return
        pod = self.store.get("pods", *key)
        if pod is None or not self._is_up(node_of(pod)):
            return
        life = self._life_of(pod)
        if is_terminating(pod):
            self._shut_down(pod, life, now)
        elif is_terminal(pod):
            self._lives.pop(key, None)
        elif "startTime" not in pod.get("status", {}):
            self._admit(pod, life, now)
        else:
            self._live_on(pod, life, now)

    def _observe_node(self, event: Event) -> None:
        if event.type == "DELETED":
            return
        node, before = event.object, event.previous
        if before is None or is_down(before) != is_down(node) or _ready(before) != _ready(node):
            self.soon(("", name_of(node)))

    def _tend_node(self, key: Key, now: float) -> None:
        """Report for a node that is up but not Ready, and look after all its pods again."""
        node = self.store.get("nodes", *key)
        if node is None or is_down(node):
            return
        if node_status.needs_report(node):
            status = node_status.reported(node, now)
            self.store.replace_status("nodes", *key, status)
            if _ready(node) != "True":
                note = f"Node {key[1]} status is now: NodeReady"
                self._recorder.normal(node, "NodeReady", "NodeReady", note, draws_uid=False)
        for pod in self._index.on_node(key[1]):
            self.soon(key_of(pod))

    def _is_up(self, node: str) -> bool:
        found = self.store.get("nodes", "", node) if node else None
        return found is not None and not is_down(found)

    def _life_of(self, pod: Obj) -> _Life:
        """Return the pod's record; a pod that is annotated again behaves again."""
        key = key_of(pod)
        notes = pod["metadata"].get("annotations") or {}
        life = self._lives.get(key)
        if life is None:
            life = self._lives[key] = _Life(notes, profile_of(pod, self._pace))
        elif life.notes != notes:
            fresh = profile_of(pod, self._pace)
            if fresh != life.profile:
                life.profile, life.next_at = fresh, None
            life.notes = notes
        return life

    def _plan(self, pod: Obj, life: _Life, at: float | None) -> None:
        life.next_at = at
        if at is not None:
            self.soon(key_of(pod), at)

    def _write(self, pod: Obj, status: Obj) -> None:
        self.store.replace_status("pods", *key_of(pod), status)

    def _admit(self, pod: Obj, life: _Life, now: float) -> None:
        node = self.store.get("nodes", "", node_of(pod)) or {}
        if is_shutting_down(node):
            self._refuse(pod, SHUTDOWN_REASON, SHUTDOWN_REFUSAL, now)
            return
        if refusal := why_not_admitted(pod, node):
            self._refuse(pod, EVICTED, refusal, now)
            return
        dice = dice_for(self._rng, "start", *key_of(pod))
        delay = life.profile.start_s + dice.uniform(0, self._pace.jitter_s)
        self._plan(pod, life, now + delay)
        host = node_status.internal_ip(node)
        pod_ip = host if pod["spec"].get("hostNetwork") else self._next_address()
        self._write(pod, pod_status.admitted(pod, host, pod_ip, now))

    def _refuse(self, pod: Obj, reason: str, message: str, now: float) -> None:
        self._write(pod, pod_status.ended(pod, now, 1, reason, message))
        self._recorder.warning(pod, reason, "Admission", message)

    def _next_address(self) -> str:
        """Hand out pod addresses in turn; they repeat after sixteen million pods."""
        self._addresses = self._addresses % (2**24 - 2) + 1
        high, low = divmod(self._addresses, 256)
        return f"10.{high // 256}.{high % 256}.{low}"

    def _live_on(self, pod: Obj, life: _Life, now: float) -> None:
        """Take the next step of a pod that was admitted, if its time has come."""
        if life.next_at is None:
            self._resume(pod, life, now)
        elif now < life.next_at:
            self.soon(key_of(pod), life.next_at)
        elif pod["status"]["phase"] == "Pending":
            self._start(pod, life, now)
        else:
            self._run(pod, life, now)

    def _resume(self, pod: Obj, life: _Life, now: float) -> None:
        """Mend what others wrote, or take over a pod that was running before we came."""
        if pod["status"].get("phase") == "Pending":
            self._plan(pod, life, now + life.profile.start_s)
        elif life.profile.kind in (CRASH_LOOP, COMPLETE, FAIL):
            self._plan(pod, life, now + life.profile.run_s)
        else:
            wanted = life.profile.kind != NEVER_READY
            if wanted != is_ready(pod) and self._has_good_node(pod):
                self._write(pod, pod_status.readiness(pod, now, ready=wanted))

    def _has_good_node(self, pod: Obj) -> bool:
        """Say whether the node is Ready, so that its pods may be shown as ready too."""
        return _ready(self.store.get("nodes", "", node_of(pod)) or {}) == "True"

    def _start(self, pod: Obj, life: _Life, now: float) -> None:
        profile = life.profile
        if missing := _missing_images(pod, profile):
            self._pull_in_vain(pod, life, missing, now)
            return
        ready = profile.ready_s <= 0 and profile.kind != NEVER_READY
        self._plan(pod, life, self._after_start(profile, now, ready=ready))
        self._write(pod, pod_status.running(pod, now, ready=ready))
        self._record_start(pod, now)

    def _record_start(self, pod: Obj, now: float) -> None:
        """Record that a pod's containers start; every image was there already."""
        if not self._records_starts:
            return
        if now - self._recorded_at >= 1:
            self._recorded, self._recorded_at = 0, now
        for kind in ("initContainers", "containers"):
            for container in pod["spec"].get(kind) or ():
                self._recorded += 1
                if self._recorded > _STARTS_RECORDED:
                    return
                image = f'Container image "{container.get("image")}"'
                present = f"{image} already present on machine and can be accessed by the pod"
                for reason, note in (
                    ("Pulled", present),
                    ("Created", "Container created"),
                    ("Started", "Container started"),
                ):
                    self._recorder.normal(
                        pod,
                        reason,
                        reason,
                        note,
                        field=f"spec.{kind}{{{container['name']}}}",
                        draws_uid=False,
                    )

    def _pull_in_vain(self, pod: Obj, life: _Life, missing: Mapping[str, str], now: float) -> None:
        """Look for the images, or wait ever longer before the next time."""
        backs_off = pod_status.waits_for(pod, pod_status.PULL_FAILED)
        self._write(pod, pod_status.pulling_in_vain(pod, now, missing, backs_off=backs_off))
        wait = min(_FIRST_BACKOFF_S * 2 ** min(life.pulls, 5), _LONGEST_BACKOFF_S)
        self._plan(pod, life, now + (wait if backs_off else 1))
        if backs_off:
            life.pulls += 1
        if life.profile.kind == IMAGE_PULL:
            if life.pulls == 1:  # no Event more: names are drawn behind it
                self._recorder.warning(pod, "Failed", "Pulling", "Error: ImagePullBackOff")
            return
        for image in missing.values():
            if backs_off:
                note = f'Back-off pulling image "{image}"'
                self._recorder.normal(pod, "BackOff", "Pulling", note)
            else:
                self._recorder.normal(pod, "Pulling", "Pulling", f'Pulling image "{image}"')
                note = f'Failed to pull image "{image}": {pod_status.not_found(image)}'
                self._recorder.warning(pod, "Failed", "Pulling", note)
        said = "ImagePullBackOff" if backs_off else pod_status.PULL_FAILED
        self._recorder.warning(pod, "Failed", "Pulling", f"Error: {said}")

    def _after_start(self, profile: Profile, now: float, *, ready: bool) -> float | None:
        if not ready and profile.kind != NEVER_READY:
            return now + profile.ready_s
        return now + profile.run_s if profile.kind in (CRASH_LOOP, COMPLETE, FAIL) else None

    def _run(self, pod: Obj, life: _Life, now: float) -> None:
        """Let a running pod become ready, end, or be restarted."""
        profile = life.profile
        if not is_ready(pod) and not _is_backing_off(pod):
            self._plan(pod, life, self._after_start(profile, now, ready=True))
            self._write(pod, pod_status.readiness(pod, now, ready=True))
        elif profile.kind == FAIL or _stays_ended(pod, profile):
            self._end(pod, life, now)
        elif _is_backing_off(pod):
            self._plan(pod, life, now + profile.run_s)
            self._write(pod, pod_status.restarted(pod, now))
            self._record_start(pod, now)
        else:
            self._crash(pod, life, now)

    def _end(self, pod: Obj, life: _Life, now: float) -> None:
        code, reason = life.profile.exit_code, life.profile.reason
        self._write(pod, pod_status.ended(pod, now, code, reason))

    def _crash(self, pod: Obj, life: _Life, now: float) -> None:
        wait = min(_FIRST_BACKOFF_S * 2 ** min(_restarts(pod), 5), _LONGEST_BACKOFF_S)
        self._plan(pod, life, now + wait)
        self._write(pod, pod_status.crashed(pod, now, life.profile.exit_code, wait))
        note = "Back-off restarting failed container"
        self._recorder.warning(pod, "BackOff", "Restarting", note)

    def _shut_down(self, pod: Obj, life: _Life, now: float) -> None:
        """End a deleted pod when it has shut down, or when its grace is over."""
        grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        if life.ends_at is None:
            took = life.profile.shutdown_s if pod["status"].get("phase") == "Running" else 0.0
            life.ends_at = now + min(grace, took)
            for container in pod["spec"].get("containers", ())[:_STOP_EVENTS]:
                note = f"Stopping container {container['name']}"
                self._recorder.normal(pod, "Killing", "Killing", note)
        # A second, shorter deletion moves the end forward; a longer one changes nothing.
        end = min(life.ends_at, max(now, parse_time(pod["metadata"]["deletionTimestamp"]) + 1))
        if now < end:
            self.soon(key_of(pod), end)
            return
        if not is_terminal(pod):
            code = _KILLED if life.profile.shutdown_s > grace else _TERMINATED
            self._write(pod, pod_status.ended(pod, now, code))
        if self.store.get("pods", *key_of(pod)) is not None:
            options = DeleteOptions(grace_period_seconds=0, uid=pod["metadata"]["uid"])
            self.store.delete("pods", *key_of(pod), options)


def _missing_images(pod: Obj, profile: Profile) -> dict[str, str]:
    """Return the images that are not found, by the container that has them."""
    kinds = ("containers",) if profile.kind == IMAGE_PULL else ("initContainers", "containers")
    return {
        each["name"]: image
        for kind in kinds
        for each in pod["spec"].get(kind) or ()
        if is_missing(image := str(each.get("image", ""))) or profile.kind == IMAGE_PULL
    }


def _containers_of(pod: Obj) -> int:
    return sum(len(pod["spec"].get(kind) or ()) for kind in ("initContainers", "containers"))


def _ready(node: Obj) -> str | None:
    return condition_status(node, "Ready")


def _stays_ended(pod: Obj, profile: Profile) -> bool:
    """Say whether the pod's restart policy leaves ended containers alone."""
    policy = pod["spec"].get("restartPolicy")
    return policy == "Never" or (policy == "OnFailure" and profile.exit_code == 0)


def _is_backing_off(pod: Obj) -> bool:
    return any(
        "waiting" in container.get("state", {})
        for container in pod["status"].get("containerStatuses") or ()
    )


def _restarts(pod: Obj) -> int:
    statuses = pod["status"].get("containerStatuses") or ()
    return max((int(status.get("restartCount", 0)) for status in statuses), default=0)
