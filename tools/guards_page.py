"""Writes docs/reference/guards.md: what keeps pods where they are in reactive mode."""

from typing import Final

from reactive_desched.gate.guards import GUARDS
from reactive_desched.model.decisions import GateReason
from reactive_desched.model.gangs import GANG_SYSTEMS
from reactive_desched.model.node_marks import NODE_MARK_GROUPS, STATE_LABELS, SYSTEM_LABELS
from reactive_desched.model.pod_groups import KubernetesWorkload
from reactive_desched.policy.settings.guards import GuardName, GuardSettings
from reactive_desched.state.kinds.pod_groups import POD_GROUP_KINDS
from reactive_desched.state.kinds.priority_class import PRIORITY_CLASS
from reactive_desched.state.resources import AnyWatchedKind
from tools.declared import declared

_DEFAULTS: Final = GuardSettings.model_construct()
_PAGE: Final = """\
# Guards

What keeps a pod where it is in reactive mode, besides the policy, and where each rule comes from.

Each guard is one function in `reactive_desched/gate/guards.py` or `unfinished_work.py`; they are asked in this order.
A pod that one holds is parked with its gate and reason.
It is evaluated again when what it waits for changes, or its time has come.
`run --once` and `plan --as once` have no guards: they decide as the SIG descheduler.

| guard | reason | holds a pod when | source |
|---|---|---|---|
{guards}

`guards.disabled` switches guards off by name, `guards.ignoredBy` for the findings of one plugin:

```yaml
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
guards:
  cordonedNodes: drain
  ignoredBy: {{RemovePodsViolatingNodeTaints: [{first}]}}
```

## Taints that programs set

A cordon is a wish to place nothing new on a node, and no drain.
An autoscaler or a maintenance operator that marks a node empties it by itself.
Pressure, a node that starts, and an agent that is not ready pass by themselves: nothing new shall be placed there meanwhile, and the pods that run may stay.
So with `leave` these taints are no reason to evict; with `drain` they count as any other.
A taint that `includedTaints` of RemovePodsViolatingNodeTaints names counts always.
In a sweep all of them count.
The controller logs at its start what the policy does about them, and `policy check` prints it.

A taint is looked for by its key first, then by the patterns, in this order; upper and lower case are alike to a pattern.

| setting | default | taint | set by | they evict its pods | after |
|---|---|---|---|---|---|
{marks}

Each row was taken from the documentation of the program that sets the taint, or from:

{sources}

Other than these, `node.kubernetes.io/not-ready` and `unreachable` count while the node's Ready condition agrees.

## What must stand for a time

A poller meets by chance what lasts for seconds; this controller meets it every time.
So what was found must stand before it is a reason to evict, by default and by field of `guards.standingTimes`:

| what | stands for | why so long |
|---|---|---|
| `otherTaints`: a taint of any key above none | {other_taints} | an agent of another name restarts within some 20 s; a person's taint acts within half a minute |
| the taints above, where they count | {marked} or {passing} | the shorter where a person or a controller decides, the longer where a system relieves the node |
| `nodeLabels`: a label that a node lacks, or that differs, for a pod's node affinity or node selector; another value of a topology label, for anti-affinity | {labels} | as for taints |
| `systemLabels`: such a label that programs set and the node lacks, or by which an agent says how it is | {system_labels} | node feature discovery takes a minute and more to set them again (node-feature-discovery 1752, 2408; k8s-device-plugin 796); `kubevirt.io/schedulable` is false while a handler or the kubelet restarts (kubevirt 11843) |
| `readyNodes`: how long a node is Ready before the restarts of its pods count | {ready} | a node that boots restarts all its pods, some until their network and volumes are there |
| `podLabels`: the labels of a pod by which the anti-affinity of another one forbids it | {pod_labels} | of two pods that say that they are the leader one gives that up (flanksource/karina 317) |
| `podStates`: the state of a pod that is not Ready, or a condition without a time of its own, for PodLifeTime | {pod_states} | an old pod is in it for moments whenever its container or its node restarts (kubernetes-sigs/descheduler 1704; kubernetes 89143) |
| `absentNodes`: how long a node that is not Ready any more, or has lost its topology label, is waited for, for topology spread | {absent} | so long Kubernetes waits before it deletes the pods of such a node; a domain that only looks emptier would take pods that have to go back |
| `openNodes`: how long a node has been Ready, uncordoned, without a taint and with the label that a pod asks for, where no other node fits the pod | {open} | a node that joins and is gone again leaves the pod without any ([why](../adr/0264-no-pod-leaves-for-a-node-that-opened-a-moment-ago.md)); what only balances or prefers waits as long as `nodeUse` |
| `nodeUse`: whatever a plugin that balances finds of a node, a workload or a constraint; so much, or so little, of a node that its pods request, for LowNodeUtilization and HighNodeUtilization | {use} | nodes join and go, workloads are scaled and roll out, labels are corrected ([why](../adr/0263-what-balances-acts-on-what-it-has-found-for-a-minute.md)); a pod of a Job is often gone by then, or the next one there; what such pods add or leave free moves no others, and ConsolidateNodes and KeepNodesFree empty no node for it ([why](../adr/0250-a-node-is-balanced-for-use-that-lasts.md)); the room of pods that are gone for so short is left to them ([why](../adr/0260-pods-that-left-may-come-back-and-pods-that-wait-come-first.md)) |

A taint that is removed and set again, or whose value or effect changes, begins anew; so what comes and goes never adds up.
What stood before the controller started counts from when it saw it, unless the taint has a `timeAdded`, and labels since the node was created.
A pod that waits has the reason `ChangedTooRecently`, and `pending` and `why` say from when it counts.

A person's taint that shall act at once gets its own time, or all others do:

```yaml
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
guards:
  standingTimes:
    byTaint: {{"example.com/drain": 1s}}
    otherTaints: 5s
```

The labels that programs set, by pattern: {system}.
Of those by which an agent says how it is, another value passes as well: {states}.

## Work that an eviction would end

A Job makes a new pod for one that was evicted, and counts a failure; after more of them than its `backoffLimit` it fails for good.
So a pod is held where its Job, or its index, would have fewer tries left than `guards.minJobTriesLeft`; a Job that ignores `DisruptionTarget` in its `podFailurePolicy` loses nothing:

```yaml
podFailurePolicy:
  rules:
    - action: Ignore
      onPodConditions: [{{type: DisruptionTarget}}]
```

A plugin of the extension point `balance` costs no Job a try: its pods are not wrong where they are, and would begin their work anew.
The first rule that matches counts, as in the Job controller; with which code a container ends that is stopped is taken to be 143 or 137, whichever costs more.
Any other pod that is run once, by a pipeline, a workflow or a custom job, is held: that its owner tries again is not known.
Pods that are restarted without end are moved whatever owns them: what owns them keeps that many running, as Deployments, StatefulSets and their custom kin do.

## Pods that run together

A pod of a group is held while others of it run: they would wait for it, or start anew with it.
The first of these that a pod has names its group, as a label or as an annotation; `spec.schedulingGroup` and `spec.workloadRef` come before all of them.

| system | label or annotation | source |
|---|---|---|
{gangs}

A group that Volcano makes for the plain pods of one owner (`podgroup-…`, without `group-min-member`), one that Kueue marks as `pod-group-serving`, and KAI's of plain replicas are groups in name only.

### What PodGroups say

These objects say more of a gang; each kind is watched while there are pods of such gangs.

| kind | read of it |
|---|---|
{pod_groups}

The object counts before what stands on the pods. Where there is none, or none may be read, a gang stays or leaves as a whole.

Next: [every step before an eviction](../explain/safety.md), [settings](settings.md), [reasons](reasons.md).
"""  # noqa: E501 -- a sentence of the page per line


def guards_page() -> str:
    """Return the page on guards and on the taints of nodes that others close or empty."""
    reasons = sorted(declared(GateReason), key=lambda reason: reason.code)
    guards = [
        f"| `{guard.name}` | `{reason.code}` | {reason.meaning} | {guard.source} |"
        for guard in GUARDS
        for reason in reasons
        if reason.gate == guard.name
    ]
    marks = [
        f"| `guards.{group.name}` | `{_DEFAULTS.action(group.name)}` | `{key}` | {mark.set_by} |"
        f" {'yes' if mark.empties else 'no'} | {_duration(_DEFAULTS.taint_rule(key).standing_s)} |"
        for group in NODE_MARK_GROUPS
        for key, mark in group.marks.items()
    ]
    gangs = [
        f"| {system.name} | {', '.join(f'`{key}`' for key in (system.key, *system.within))} |"
        f" {system.source} |"
        for system in GANG_SYSTEMS
    ]
    sources: dict[str, list[str]] = {}
    for group in NODE_MARK_GROUPS:
        for key, mark in group.marks.items():
            if mark.source:
                sources.setdefault(mark.source, []).append(f"`{key}`")
    times = _DEFAULTS.standing_times
    return _PAGE.format(
        guards="\n".join(guards),
        marks="\n".join(marks),
        gangs="\n".join(gangs),
        pod_groups="\n".join(map(_pod_group_row, POD_GROUP_KINDS)),
        sources="\n".join(f"- {source}: {', '.join(keys)}" for source, keys in sources.items()),
        first=next(guard.name for guard in GUARDS if guard.name == GuardName.DO_NOT_EVICT),
        other_taints=_duration(times.other_taints_s),
        marked=_duration(times.cordoned_nodes_s),
        passing=_duration(times.pressure_nodes_s),
        labels=_duration(times.node_labels_s),
        system_labels=_duration(times.system_labels_s),
        ready=_duration(times.ready_nodes_s),
        absent=_duration(times.absent_nodes_s),
        use=_duration(times.node_use_s),
        open=_duration(times.open_nodes_s),
        pod_labels=_duration(times.pod_labels_s),
        pod_states=_duration(times.pod_states_s),
        system=", ".join(f"`{pattern}`" for pattern in SYSTEM_LABELS),
        states=", ".join(f"`{pattern}`" for pattern in STATE_LABELS),
    )


def _pod_group_row(kind: AnyWatchedKind) -> str:
    if kind.record is KubernetesWorkload:
        read = "`podGroups`: `policy` of each"
    elif kind.group == PRIORITY_CLASS.group:
        read = "`schedulingPolicy`, `disruptionMode`"
    else:
        read = "`minMember`"
    return f"| {kind.kind} of `{kind.api_version}` | {read} |"


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    return f"{minutes:g} min" if minutes > 1 else f"{seconds:g} s"
