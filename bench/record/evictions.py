"""Made-up evictions, recorded as the controller records them: four records each."""

import hashlib
from collections.abc import Iterable, Iterator

import anyio

from bench.workloads import uid_text
from reactive_desched.journal.recorder import JournalRecorder
from reactive_desched.model.decisions import Evict
from reactive_desched.model.evaluation import DecisionContext, Intent, Trigger
from reactive_desched.model.findings import Finding
from reactive_desched.model.objects import OwnerReference
from reactive_desched.model.outcomes import EVICTED, Outcome
from reactive_desched.testing.builders import pod

RECORDS_EACH = 4
"""A finding, the decision on it, the eviction that is asked for, and what came of it."""

PODS = 50_000
"""Each has its turn; in a million records each is evicted five times."""

NAMESPACES, NODES, REPLICAS = 50, 5_000, 30


def pod_name(number: int) -> str:
    """Return the name of a made-up pod."""
    return f"app-{number // REPLICAS}-6d4b75cb6d-{number % REPLICAS:05}"


def namespace(number: int) -> str:
    """Return its namespace."""
    return f"team-{number // REPLICAS % NAMESPACES}"


def decision_contexts(first: int, count: int) -> list[DecisionContext]:
    """Return what led to so many evictions."""
    return [_decision_context(number, number % PODS) for number in range(first, first + count)]


def _decision_context(number: int, which: int) -> DecisionContext:
    node, workload = f"node-{number * 7 % NODES:05}", which // REPLICAS
    taint = f"bench/probe=lap-{number // NODES}:NoSchedule"
    leaving = pod(
        pod_name(which),
        on=node,
        uid=_uid(f"pod {which}"),
        namespace=namespace(which),
        version=number,
    )
    return DecisionContext(
        Finding(
            leaving,
            "RemovePodsViolatingNodeTaints",
            f"does not tolerate {taint} on {node}",
            details={"effect": "NoSchedule", "taint": taint},
        ),
        profile="default",
        trigger=Trigger("NodeTaintsChanged", f"node {node}", str(1_000_000_000 + number)),
        owners=tuple(_owners(f"app-{workload}")),
        zone=f"zone-{number % 3}",
    )


def _owners(app: str) -> Iterator[OwnerReference]:
    for kind, name in (("ReplicaSet", f"{app}-6d4b75cb6d"), ("Deployment", app)):
        yield OwnerReference(
            kind, name, _uid(f"{kind} {name}"), controller=True, api_version="apps/v1"
        )


def _uid(text: str) -> str:
    return uid_text(hashlib.sha256(text.encode()).hexdigest())


async def record_eviction(recorder: JournalRecorder, context: DecisionContext) -> None:
    """Record one eviction that succeeds at once; return when its outcome is on disk."""
    recorder.record_decision(context, Evict(context.finding))
    intent = await recorder.record_intent(Intent(context))
    await recorder.record_outcome(intent, Outcome(EVICTED))


async def record_evictions(
    recorder: JournalRecorder, contexts: Iterable[DecisionContext], concurrency: int
) -> None:
    """Record all of them as fast as it goes, so many under way at a time."""
    rest = iter(contexts)

    async def some() -> None:
        for account in rest:
            await record_eviction(recorder, account)

    async with anyio.create_task_group() as group:
        for _ in range(concurrency):
            group.start_soon(some)
