from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from pathlib import Path
from random import Random

import pytest

from reactive_desched.journal.ids import Ids
from reactive_desched.journal.journal import Journal
from reactive_desched.journal.ledger import Ledger
from reactive_desched.journal.reading import read
from reactive_desched.journal.records import IntentRecord, OutcomeRecord
from reactive_desched.model.intents import Intent
from reactive_desched.model.objects import OwnerReference, Pod
from reactive_desched.model.outcomes import BUDGET_REFUSED, Outcome

pytestmark = pytest.mark.anyio

POD = Pod(
    namespace="shop",
    name="web-1",
    uid="u1",
    node="n1",
    owners=(
        OwnerReference(kind="Fleet", name="f", uid="1"),
        OwnerReference(kind="ReplicaSet", name="web", uid="2", controller=True),
    ),
)


async def test_an_intent_says_who_and_why_and_its_outcome_how_it_ended(
    running: Callable[..., AbstractAsyncContextManager[Journal]],
    clock: Callable[[], datetime],
    tmp_path: Path,
) -> None:
    async with running() as journal:
        ledger = Ledger(journal, Ids(clock, Random(1)), clock)

        key = await ledger.begin(
            Intent(POD, "PodLifeTime", "older than a day", "nightly", "Resynced", dry_run=True)
        )

        assert [intent.id for intent in ledger.unended()] == [key]
        await ledger.end(key, Outcome(BUDGET_REFUSED, "web needs 2 pods"), status=429)
        assert ledger.unended() == ()

    records = list(read(tmp_path))[1:]
    assert records == [
        IntentRecord(
            seq=2,
            time=clock(),
            id=key,
            namespace="shop",
            pod="web-1",
            uid="u1",
            node="n1",
            owner="ReplicaSet/web",
            plugin="PodLifeTime",
            reason="older than a day",
            profile="nightly",
            trigger="Resynced",
            dry_run=True,
        ),
        OutcomeRecord(
            seq=3,
            time=clock(),
            intent=key,
            result="refused by disruption budget",
            detail="web needs 2 pods",
            status=429,
        ),
    ]
