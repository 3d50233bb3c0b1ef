"""The Lease as the simulated API server keeps it: optimistic locks, denials, foreign members."""

import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reactive_desched.election.lease import LeaseRecord
from reactive_desched.errors import RequestRejected, Unreachable
from reactive_desched.kube.client.leases import ApiLeaseClient
from reactive_desched.kube.client.session import KubeConfigOptions, Session, open_session
from reactive_desched.sim.clock import VirtualClock
from reactive_desched.sim.seed import seed
from reactive_desched.sim.server import serve
from reactive_desched.sim.store import Store
from tests.support.scripted_api import ScriptedApi, ScriptedReply, status

pytestmark = pytest.mark.anyio

MOMENT, LATER = "2026-01-02T03:04:05.000006Z", "2026-01-02T03:04:07.000006Z"
MINE = LeaseRecord("me", 15, MOMENT, MOMENT, 0)


@pytest.fixture
def store() -> Store:
    made = Store(VirtualClock(1_800_000_000.0), random.Random(7))
    seed(made)
    return made


@pytest.fixture
async def sim(store: Store, kubeconfig: Callable[..., Path]) -> AsyncIterator[Session]:
    async with (
        serve(store) as url,
        open_session(KubeConfigOptions(kubeconfig=str(kubeconfig(url)))) as opened,
    ):
        yield opened


def client(session: Session) -> ApiLeaseClient:
    return ApiLeaseClient(session, "kube-system", "descheduler", timeout_s=5)


def kept(store: Store) -> dict[str, Any]:
    found = store.get("leases", "kube-system", "descheduler")
    assert found is not None
    return dict(found)


async def test_a_lease_is_read_as_it_was_written(sim: Session, store: Store) -> None:
    leases = client(sim)
    assert await leases.get() is None

    created = await leases.create(MINE)
    read = await leases.get()

    assert created == read
    assert created.record == MINE
    assert kept(store)["spec"] == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": MOMENT,
        "renewTime": MOMENT,
        "leaseTransitions": 0,
    }


async def test_an_update_succeeds_only_on_the_lease_as_it_was_read(
    sim: Session, store: Store
) -> None:
    leases = client(sim)
    first = await leases.create(MINE)
    second = await leases.update(first, LeaseRecord("me", 15, MOMENT, LATER, 0))

    with pytest.raises(RequestRejected, match="409") as refused:
        await leases.update(first, LeaseRecord("you", 15, LATER, LATER, 1))

    assert refused.value.retryable
    assert kept(store)["spec"]["holderIdentity"] == "me"
    assert (await leases.update(second, LeaseRecord("", 1, LATER, LATER, 0))).record.holder == ""


async def test_of_two_that_create_it_one_is_refused(sim: Session) -> None:
    await client(sim).create(MINE)

    with pytest.raises(RequestRejected, match="409"):
        await client(sim).create(LeaseRecord("you", 15, LATER, LATER, 0))


async def test_an_update_keeps_what_others_wrote_into_the_lease(sim: Session, store: Store) -> None:
    leases = client(sim)
    lease = await leases.create(MINE)
    changed = kept(store)
    changed["metadata"] = {**changed["metadata"], "labels": {"team": "a"}}
    store.update("leases", changed)
    found = await leases.get()
    assert found is not None
    assert found.record == lease.record

    await leases.update(found, LeaseRecord("me", 15, MOMENT, LATER, 0))

    assert kept(store)["metadata"]["labels"] == {"team": "a"}
    assert kept(store)["spec"]["renewTime"] == LATER


async def test_a_denial_and_nonsense_are_errors_of_the_cluster(
    api: ScriptedApi, session: Session
) -> None:
    denied = status("Forbidden", 403, "leases is forbidden")
    api.answer_next("GET", ScriptedReply(403, msgspec.json.encode(denied)))
    with pytest.raises(RequestRejected, match="403 leases is forbidden"):
        await client(session).get()

    api.answer_next("GET", ScriptedReply(200, b'{"metadata": 7}'))
    with pytest.raises(Unreachable, match="not a Lease"):
        await client(session).get()


@pytest.mark.parametrize(
    "spec",
    [
        b"null",
        b'{"holderIdentity":null,"leaseDurationSeconds":null,"renewTime":null}',
    ],
)
async def test_a_lease_of_nulls_is_one_without_a_holder(
    api: ScriptedApi, session: Session, spec: bytes
) -> None:
    api.answer_next("GET", ScriptedReply(200, b'{"metadata":{},"spec":' + spec + b"}"))

    lease = await client(session).get()

    assert lease is not None
    assert lease.record == LeaseRecord()


async def test_a_number_beyond_64_bits_is_read_as_it_is(api: ScriptedApi, session: Session) -> None:
    spec = f'{{"leaseDurationSeconds":{10**400},"leaseTransitions":{10**400}}}'
    api.answer_next("GET", ScriptedReply(200, f'{{"metadata":{{}},"spec":{spec}}}'.encode()))

    lease = await client(session).get()

    assert lease is not None
    assert (lease.record.duration_s, lease.record.transitions) == (10**400, 10**400)


async def test_a_not_found_of_the_whole_group_is_no_missing_lease(
    api: ScriptedApi, session: Session
) -> None:
    api.answer_next("GET", ScriptedReply(404, b"404 page not found"))

    with pytest.raises(RequestRejected, match="404"):
        await client(session).get()
