"""Writes docs/reference/guards.md: what keeps pods where they are in reactive mode."""

from typing import Final

from reactive_desched.gate.guards import GUARDS
from reactive_desched.model.decisions import GateReason
from reactive_desched.model.gangs import GANG_SYSTEMS
from reactive_desched.model.node_marks import NODE_MARK_GROUPS
from reactive_desched.policy.guards import GuardSettings
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

## Nodes that others close or empty

A cordon is a wish to place nothing new on a node, and no drain.
An autoscaler or a maintenance operator that marks a node empties it by itself.
So with `leave` these taints are no reason to evict; with `drain` they count as any other.
A taint that `includedTaints` of RemovePodsViolatingNodeTaints names counts always.
In a sweep all of them count.
The controller logs at its start what the policy does about them, and `policy check` prints it.

| setting | default | taint | set by | they evict its pods |
|---|---|---|---|---|
{marks}

Other than these, `node.kubernetes.io/not-ready` and `unreachable` count while the node's Ready condition agrees.

## Work that an eviction would end

A Job makes a new pod for one that was evicted, and counts a failure; after more of them than its `backoffLimit` it fails for good.
So a pod is held where its Job, or its index, would have fewer tries left than `guards.minJobTriesLeft`; a Job that ignores `DisruptionTarget` in its `podFailurePolicy` loses nothing:

```yaml
podFailurePolicy:
  rules:
    - action: Ignore
      onPodConditions: [{{type: DisruptionTarget}}]
```

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
        f" {'yes' if mark.empties else 'no'} |"
        for group in NODE_MARK_GROUPS
        for key, mark in group.marks.items()
    ]
    gangs = [
        f"| {system.name} | {', '.join(f'`{key}`' for key in (system.key, *system.within))} |"
        f" {system.source} |"
        for system in GANG_SYSTEMS
    ]
    return _PAGE.format(
        guards="\n".join(guards),
        marks="\n".join(marks),
        gangs="\n".join(gangs),
        first=GUARDS[0].name,
    )
