"""Writes docs/reference/guards.md: what keeps pods where they are in reactive mode."""

from typing import Final

from reactive_desched.gate.guards import GUARDS
from reactive_desched.model.decisions import GateReason
from reactive_desched.model.node_marks import NODE_MARK_GROUPS
from reactive_desched.policy.guards import GuardSettings
from tools.declared import declared

_DEFAULTS: Final = GuardSettings.model_construct()
_PAGE: Final = """\
# Guards

What keeps a pod where it is in reactive mode, besides the policy, and where each rule comes from.

Each guard is one function in `reactive_desched/gate/guards.py`; they are asked in this order.
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
    return _PAGE.format(guards="\n".join(guards), marks="\n".join(marks), first=GUARDS[0].name)
