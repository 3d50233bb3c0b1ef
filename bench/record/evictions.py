"""Made-up evictions, told to the ledger as the controller tells them: four records each."""

import hashlib
from collections.abc import Iterable, Iterator

import anyio

from bench.workloads import uid_text
from reactive_desched.journal.recorder import Ledger
from reactive_desched.model.accounts import Account
from reactive_desched.model.decisions import Evict
from reactive_desched.model.findings import Finding
from reactive_desched.model.intents import Intent
from reactive_desched.model.objects import OwnerReference
from reactive_desched.model.outcomes import EVICTED, Outcome
from reactive_desched.model.triggers import Trigger
from reactive_desched.testing.builders import pod

RECORDS_EACH = 4
"""A finding, the verdict on it, the eviction that is asked for, and what came of it."""

PODS = 50_000
"""Each has its turn; in a million records each is evicted five times."""

NAMESPACES, NODES, REPLICAS = 50, 5_000, 30


def pod_name(number: int) -> str:
    """Return the name of a made-up pod."""
    return f"app-{number // REPLICAS}-6d4b75cb6d-{number % REPLICAS:05}"


def namespace(number: int) -> str:
    """Return its namespace."""
    return f"team-{number // REPLICAS % NAMESPACES}"


def accounts(first: int, count: int) -> list[Account]:
    """Return what led to so many evictions."""
    return [_account(number, number % PODS) for number in range(first, first + count)]


def _account(number: int, which: int) -> Account:
    node, workload = f"node-{number * 7 % NODES:05}", which // REPLICAS
    taint = f"bench/probe=lap-{number // NODES}:NoSchedule"
    leaving = pod(
        pod_name(which),
        on=node,
        uid=_uid(f"pod {which}"),
        namespace=namespace(which),
        version=number,
    )
    return Account(
        Finding(
            leaving,
            "RemovePodsViolatingNodeTaints",
            f"does not tolerate {taint} on {node}",
            numbers={"effect": "NoSchedule", "taint": taint},
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


async def evict(ledger: Ledger, account: Account) -> None:
    """Tell of one eviction that succeeds at once; return when its end is on disk."""
    ledger.decided(account, Evict(account.finding))
    intent = await ledger.begin(Intent(account))
    await ledger.end(intent, Outcome(EVICTED))


async def evict_all(ledger: Ledger, every: Iterable[Account], at_once: int) -> None:
    """Tell of all of them as fast as it goes, so many under way at a time."""
    rest = iter(every)

    async def some() -> None:
        for account in rest:
            await evict(ledger, account)

    async with anyio.create_task_group() as group:
        for _ in range(at_once):
            group.start_soon(some)
