"""A day on which pods end in every way that there is: the record names the cause of each end."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
from trio.testing import MockClock

from reactive_desched.api.event import DISRUPTION_OBSERVED, EVICTION_SUCCEEDED
from reactive_desched.journal.events import read_events
from reactive_desched.sim.deletion import DeleteOptions
from reactive_desched.sim.eviction import evict
from reactive_desched.sim.node_switch import ANNOTATION, DOWN, SHUTDOWN
from reactive_desched.sim.objects import Obj, labels_of
from reactive_desched.sim.pods import controller_of, is_active, node_of
from reactive_desched.sim.profiles import Pace
from reactive_desched.sim.status import StatusError
from tests.safety.story import Story, read_policy
from tests.safety.world import World
from tests.support.sim_world import node, workload
from tests.support.trio_order import task_order

POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: day
  plugins:
    deschedule: {enabled: [RemovePodsViolatingNodeTaints]}
---
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
guards: {minPodAge: 0s, minReadyTime: 0s, standingTimes: {otherTaints: 0s, nodeLabels: 0s}}
events: {disruptions: {record: all}}
"""
HOUR_S = 3600.0
OURS = "evicted by this controller"
EXPECTED = {
    "preempted": "PreemptionByScheduler",
    "tainted": "DeletionByTaintManager",
    "pressed": "TerminationByKubelet",
    "shut-down": "TerminationByKubelet",
    "lost": "DeletionByPodGC",
    "evicted": "EvictionByEvictionAPI",
    "scaled": "ScaledDown",
    "rolled": "RolledOut",
    "orphaned": "OwnerGone",
    "foreground": "OwnerGone",
    "set-foreground": "OwnerGone",
    "job-foreground": "OwnerGone",
    "homeless": "NamespaceGone",
    "deleted": "Deleted",
    "drained": "EvictionByEvictionAPI",
    "unreachable": "DeletionByTaintManager",
    "autoscaled": "ScaledDown",
    "set-scaled": "ScaledDown",
    "set-rolled": "RolledOut",
    "job-failed": "JobEnded",
    "job-suspended": "JobEnded",
    "job-narrowed": "ScaledDown",
    "job-late": "JobEnded",
    "job-gone": "OwnerGone",
    "job-refused": "JobEnded",
    "job-succeeded": "JobEnded",
    "job-expired": "JobEnded",
    "tolerated": "DeletionByTaintManager",
    "disk": "TerminationByKubelet",
    "budgeted": "Deleted",
    "unmatched": "EvictionByEvictionAPI",
    "daemon": "RolledOut",
    "daemon-gone": "OwnerGone",
    "daemon-closed": "ScaledDown",
    "daemon-lost": "DeletionByPodGC",
    "replicas-gone": "OwnerGone",
    "replicas-scaled": "ScaledDown",
    "replaced": "OwnerGone",
    "released": "ScaledDown",
    "ours": OURS,
}
"""The cause of the end of the pods of each workload, which runs on a node of its own.

One whose name begins with `set` is a StatefulSet, with `job` a Job of two pods, with `daemon` a
DaemonSet, with `replicas` a ReplicaSet, else a Deployment.
"""


class Day(Story):
    """Workloads on a node each; every hour something ends a pod of one, or all of them."""

    def prepare(self) -> None:
        """Create a node and a workload for each cause, and one node for what comes after it."""
        store = self.world.store
        store.create("namespaces", {"metadata": {"name": "home"}})
        for name, value in (("low", 10), ("high", 1000)):
            store.create("priorityclasses", {"metadata": {"name": name}, "value": value})
        store.create("nodes", node("spare", cpu="64", labels={"spare": "true"}))
        for app in EXPECTED:
            store.create("nodes", node(app, labels={"for": app}))
            meta = {"name": app, "namespace": "home" if app == "homeless" else "default"}
            store.create(_resource(app), {"metadata": meta, "spec": _spec(app)})

    async def play_day(self) -> None:
        """End the pods of each workload in its way, one an hour."""
        await anyio.sleep(HOUR_S)
        for app in EXPECTED:
            getattr(self, f"end_{app.replace('-', '_')}")()
            await anyio.sleep(HOUR_S)

    def end_preempted(self) -> None:
        """Create a pod of high priority that fits only there."""
        made = workload(
            "urgent", 1, cpu="3", priorityClassName="high", nodeSelector={"for": "preempted"}
        )
        meta = {"name": "urgent", "namespace": "default"}
        self.world.store.create("deployments", {"metadata": meta, "spec": made})

    def end_tainted(self) -> None:
        """Give the node a taint that pods may not stay with."""
        self._taint_node("tainted", "broken:NoExecute")

    def end_pressed(self) -> None:
        """Let the pod use all memory of its node."""
        self._annotate_pod("pressed", {"sim.reactive-desched/usage-memory": "8Gi"})

    def end_shut_down(self) -> None:
        """Shut the node down."""
        self._set_annotations("nodes", {"name": "shut-down"}, {ANNOTATION: SHUTDOWN})

    def end_lost(self) -> None:
        """Take the node away."""
        self.world.store.delete("nodes", "", "lost")

    def end_evicted(self) -> None:
        """Evict the pod as another client."""
        evict(
            self.world.store, "default", self._pod("evicted")["metadata"]["name"], DeleteOptions()
        )

    def end_scaled(self) -> None:
        """Want no pod any more."""
        self._edit("scaled", replicas=0)

    def end_rolled(self) -> None:
        """Want another template."""
        self._edit("rolled", template=workload("rolled", 1, cpu="2")["template"])

    def end_orphaned(self) -> None:
        """Delete the owner."""
        self.world.store.delete("deployments", "default", "orphaned")

    def end_foreground(self) -> None:
        """Delete the owner once its pods are gone."""
        self._delete_in_foreground("foreground")

    def end_set_foreground(self) -> None:
        """Delete a StatefulSet once its pods are gone."""
        self._delete_in_foreground("set-foreground")

    def end_job_foreground(self) -> None:
        """Delete a Job once its pods are gone."""
        self._delete_in_foreground("job-foreground")

    def end_homeless(self) -> None:
        """Delete the namespace."""
        self.world.store.delete("namespaces", "", "home")

    def end_deleted(self) -> None:
        """Delete the pod."""
        self.world.store.delete("pods", "default", self._pod("deleted")["metadata"]["name"])

    def end_drained(self) -> None:
        """Drain the node as `kubectl drain` does: cordon it, and evict its pod."""
        store = self.world.store
        store.modify(
            "nodes", "", "drained", lambda it: {**it, "spec": {**it["spec"], "unschedulable": True}}
        )
        evict(store, "default", self._pod("drained")["metadata"]["name"], DeleteOptions())

    def end_unreachable(self) -> None:
        """Switch the node's kubelet off for ten minutes."""
        self._set_annotations("nodes", {"name": "unreachable"}, {ANNOTATION: DOWN})

    def end_autoscaled(self) -> None:
        """Scale by a measure of which the pods use next to nothing; the lost node is back."""
        self._set_annotations("nodes", {"name": "unreachable"}, {})
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "autoscaled"}
        limit = {"type": "Utilization", "averageUtilization": 80}
        metric = {"type": "Resource", "resource": {"name": "cpu", "target": limit}}
        spec = {"scaleTargetRef": target, "maxReplicas": 2, "metrics": [metric]}
        meta = {"name": "autoscaled", "namespace": "default"}
        self.world.store.create("horizontalpodautoscalers", {"metadata": meta, "spec": spec})

    def end_set_scaled(self) -> None:
        """Want no pod of a StatefulSet any more."""
        self._edit("set-scaled", replicas=0)

    def end_set_rolled(self) -> None:
        """Want another template of a StatefulSet."""
        self._edit("set-rolled", template=workload("set-rolled", 1, cpu="2")["template"])

    def end_job_failed(self) -> None:
        """Have one of its pods fail, which ends the Job and its other pod."""
        pod, *_ = self._pods("job-failed")
        name = pod["metadata"]["name"]

        def fail(current: Obj) -> Obj:
            return {**current, "status": {**current["status"], "phase": "Failed"}}

        self.world.store.modify("pods", "default", name, fail, subresource="status")

    def end_job_suspended(self) -> None:
        """Suspend the Job."""
        self._edit("job-suspended", suspend=True)

    def end_job_narrowed(self) -> None:
        """Let no pod of the Job run at a time."""
        self._edit("job-narrowed", parallelism=0)

    def end_job_late(self) -> None:
        """Give the Job a deadline that has passed."""
        self._edit("job-late", activeDeadlineSeconds=60)

    def end_job_gone(self) -> None:
        """Delete the Job."""
        self.world.store.delete("jobs", "default", "job-gone")

    def end_job_refused(self) -> None:
        """Have one of its pods end with a code that the failure policy of the Job names."""
        self._end_pod("job-refused", "Failed", 42)

    def end_job_succeeded(self) -> None:
        """Have the one pod succeed that is enough for the Job."""
        self._end_pod("job-succeeded", "Succeeded", 0)

    def end_job_expired(self) -> None:
        """Have the Job end as the one before; it goes a minute later, and its pods with it."""
        self._end_pod("job-expired", "Succeeded", 0)

    def end_tolerated(self) -> None:
        """Give the node a taint with which the pod may stay for ten minutes."""
        self._taint_node("tolerated", "later:NoExecute")

    def end_disk(self) -> None:
        """Let the pod fill the disk of its node."""
        self._annotate_pod("disk", {"sim.reactive-desched/usage-ephemeral-storage": "10Ti"})

    def end_budgeted(self) -> None:
        """Have another client's eviction refused by a budget, and a person delete the pod."""
        name = self._pod("budgeted")["metadata"]["name"]
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "budgeted"}}}
        meta = {"name": "budgeted", "namespace": "default"}
        self.world.store.create("poddisruptionbudgets", {"metadata": meta, "spec": spec})
        self.world.cluster.settle()
        with pytest.raises(StatusError) as refused:
            evict(self.world.store, "default", name, DeleteOptions())
        assert refused.value.code == 429
        self.world.store.delete("pods", "default", name)

    def end_unmatched(self) -> None:
        """Evict the pod as another client, whose replacement a quota then refuses."""
        meta = {"name": "none", "namespace": "default"}
        spec = {"hard": {"count/pods": "0"}}
        self.world.store.create("resourcequotas", {"metadata": meta, "spec": spec})
        name = self._pod("unmatched")["metadata"]["name"]
        evict(self.world.store, "default", name, DeleteOptions())

    def end_daemon(self) -> None:
        """Want another template of a DaemonSet."""
        self.world.store.delete("resourcequotas", "default", "none")
        self._edit("daemon", template=_spec("daemon", cpu="2")["template"])

    def end_daemon_gone(self) -> None:
        """Delete a DaemonSet."""
        self.world.store.delete("daemonsets", "default", "daemon-gone")

    def end_daemon_closed(self) -> None:
        """Take the label from the node that the DaemonSet wants its pod on."""
        self.world.store.modify(
            *("nodes", "", "daemon-closed"),
            lambda it: {**it, "metadata": {**it["metadata"], "labels": {}}},
        )

    def end_daemon_lost(self) -> None:
        """Take the node of a DaemonSet's pod away."""
        self.world.store.delete("nodes", "", "daemon-lost")

    def end_replicas_gone(self) -> None:
        """Delete a ReplicaSet that has no Deployment."""
        self.world.store.delete("replicasets", "default", "replicas-gone")

    def end_replicas_scaled(self) -> None:
        """Want no pod of a ReplicaSet that has no Deployment."""
        self._edit("replicas-scaled", replicas=0)

    def end_replaced(self) -> None:
        """Delete the ReplicaSet of a Deployment, which makes another."""
        self.world.store.delete("replicasets", "default", self._replica_set("replaced"))

    def end_released(self) -> None:
        """Delete a Deployment without its ReplicaSet, and let that want no pod any more."""
        store, name = self.world.store, self._replica_set("released")
        orphan = DeleteOptions(propagation_policy="Orphan")
        store.delete("deployments", "default", "released", orphan)
        self.world.cluster.settle()
        store.modify(
            "replicasets", "default", name, lambda it: {**it, "spec": {**it["spec"], "replicas": 0}}
        )

    def end_ours(self) -> None:
        """Give the node a taint that the policy is about."""
        self._taint_node("ours", "gpu:NoSchedule")

    def _delete_in_foreground(self, app: str) -> None:
        options = DeleteOptions(propagation_policy="Foreground")
        self.world.store.delete(_resource(app), "default", app, options)

    def _end_pod(self, app: str, phase: str, code: int) -> None:
        """Have the container of the first pod of a Job exit."""
        pod = min(self._pods(app), key=lambda each: str(each["metadata"]["name"]))
        state = {"terminated": {"exitCode": code}}

        def end(current: Obj) -> Obj:
            status = current["status"]
            (container,) = status["containerStatuses"]
            ended = {**container, "state": state, "ready": False}
            return {**current, "status": {**status, "phase": phase, "containerStatuses": [ended]}}

        name = pod["metadata"]["name"]
        self.world.store.modify("pods", "default", name, end, subresource="status")

    def _replica_set(self, app: str) -> str:
        """Return the name of the one that has the pod of a Deployment."""
        owner = controller_of(self._pod(app))
        assert owner is not None, "a pod of a Deployment has one"
        return str(owner["name"])

    def _pod(self, app: str) -> Obj:
        (pod,) = self._pods(app)
        return pod

    def _pods(self, app: str) -> list[Obj]:
        return [each for each in self.world.store.list("pods") if _is_of(each, app)]

    def _annotate_pod(self, app: str, annotations: Mapping[str, str]) -> None:
        meta = self._pod(app)["metadata"]
        self._set_annotations("pods", meta, {**(meta.get("annotations") or {}), **annotations})

    def _edit(self, app: str, **fields: Any) -> None:
        self.world.store.modify(
            _resource(app), "default", app, lambda it: {**it, "spec": {**it["spec"], **fields}}
        )


def _resource(app: str) -> str:
    kinds = {
        "set": "statefulsets",
        "job": "jobs",
        "daemon": "daemonsets",
        "replicas": "replicasets",
    }
    return kinds.get(app.partition("-")[0], "deployments")


def _spec(app: str, cpu: str = "") -> Obj:
    """Return the spec of a workload, whose pods are one or two."""
    resource = _resource(app)
    has_two = resource == "jobs" or app == "autoscaled"
    fields: Obj = {"priorityClassName": "low", "affinity": _on(app, is_only=app == "preempted")}
    if resource == "jobs":
        fields["restartPolicy"] = "Never"
    annotations = {"sim.reactive-desched/profile": "steady", "sim.reactive-desched/usage-cpu": "1m"}
    cpu = cpu or ("1" if has_two else "3")
    if app == "tolerated":
        toleration = {"key": "later", "operator": "Exists", "effect": "NoExecute"}
        fields["tolerations"] = [{**toleration, "tolerationSeconds": 600}]
    if resource == "daemonsets":
        fields["affinity"] = _on(app, is_only=True)
    spec = workload(app, 2 if has_two else 1, cpu=cpu, annotations=annotations, **fields)
    if resource == "daemonsets":
        return {"selector": spec["selector"], "template": spec["template"]}
    if resource != "jobs":
        return spec
    job: Obj = {"parallelism": 2, "completions": 2, "backoffLimit": 0}
    if app == "job-refused":
        codes = {"operator": "In", "values": [42]}
        job |= {"backoffLimit": 6, "podFailurePolicy": {"rules": [_fail_job(codes)]}}
    if app == "job-expired":
        job["ttlSecondsAfterFinished"] = 60
    if app in ("job-succeeded", "job-expired"):
        enough = {"rules": [{"succeededCount": 1}]}
        job |= {"completionMode": "Indexed", "successPolicy": enough}
    return {**job, "template": spec["template"]}


def _fail_job(codes: Obj) -> Obj:
    return {"action": "FailJob", "onExitCodes": codes}


def _is_of(pod: Obj, app: str) -> bool:
    return labels_of(pod).get("app") == app and is_active(pod) and bool(node_of(pod))


def _on(app: str, *, is_only: bool) -> Obj:
    """Return the affinity of a pod that prefers its own node, or accepts no other."""
    own = {"matchExpressions": [{"key": "for", "operator": "In", "values": [app]}]}
    spare = {"matchExpressions": [{"key": "spare", "operator": "Exists"}]}
    required = {"nodeSelectorTerms": [own] if is_only else [own, spare]}
    preferred = [{"weight": 100, "preference": own}]
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": required,
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        }
    }


async def live_through(folder: Path, seen: dict[str, str]) -> None:
    """Let the day pass; note the app of every pod that there was."""
    world = World(folder, read_policy(POLICY), Random(1), Pace())
    day = Day(world, Random(1))

    def note(event: Any) -> None:
        if event.resource == "pods":
            seen[event.object["metadata"]["uid"]] = labels_of(event.object).get("app", "")

    world.store.subscribe(note)
    await world.live(day.prepare, day.play_day)
    assert world.store.get("jobs", "default", "job-expired") is None
    assert world.store.get("jobs", "default", "job-succeeded") is not None


def test_the_record_names_the_cause_of_the_end_of_every_pod_of_a_day(tmp_path: Path) -> None:
    task_order().seed(1)
    apps: dict[str, str] = {}
    clock = MockClock(autojump_threshold=0)
    anyio.run(
        partial(live_through, tmp_path, apps), backend="trio", backend_options={"clock": clock}
    )

    causes: dict[str, list[str]] = {}
    for event in read_events(tmp_path):
        if event.type == DISRUPTION_OBSERVED:
            causes.setdefault(apps[event.data.who.uid], []).append(event.data.cause)
        elif event.type == EVICTION_SUCCEEDED:
            causes.setdefault(apps[event.data.who.uid], []).append(OURS)
    pairs = ("job-suspended", "job-narrowed", "job-late", "job-gone", "job-foreground")
    assert causes == {app: [cause] * (1 + (app in pairs)) for app, cause in EXPECTED.items()}
