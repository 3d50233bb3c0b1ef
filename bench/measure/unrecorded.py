"""What the record of findings and verdicts costs an eviction: the same run with and without it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bench.measure import reaction
from bench.measure.live import Live
from reactive_desched.journal.correlation import Case
from reactive_desched.journal.recorder import Ledger
from reactive_desched.model.accounts import Account
from reactive_desched.model.decisions import Decision

_LAPS = 5


async def compared(live: Live, pace: float, count: int) -> dict[str, list[object]]:
    """Return reaction times as things are, and with intents and outcomes alone, in turn."""
    found: dict[str, list[object]] = {"recorded": [], "unrecorded": []}
    for _ in range(_LAPS):
        found["recorded"].append(await reaction.idle(live, "bound", pace, count))
        with nothing_but_evictions():
            found["unrecorded"].append(await reaction.idle(live, "bound", pace, count))
    return found


@contextmanager
def nothing_but_evictions() -> Iterator[None]:
    """Leave findings and verdicts out of the record while the block runs."""
    decided, opened = Ledger.decided, Ledger._open  # noqa: SLF001  # nothing of ours may know this

    def silent(self: Ledger, account: Account, decision: Decision) -> None:
        """Write nothing."""

    def begun(self: Ledger, account: Account, about: Mapping[str, Any]) -> Case:
        """Open a case and write nothing."""
        del about
        return self._cases.begin(account, account.finding.pod.uid)

    Ledger.decided, Ledger._open = silent, begun  # type: ignore[method-assign]  # noqa: SLF001  # as above
    try:
        yield
    finally:
        Ledger.decided, Ledger._open = decided, opened  # type: ignore[method-assign]  # noqa: SLF001  # as above
