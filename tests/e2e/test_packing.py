"""ConsolidateNodes beside HighNodeUtilization of the SIG descheduler, on the same clusters."""

from collections import Counter
from pathlib import Path

import pytest

from tests.support import packing_race
from tests.support.packing_race import CLUSTERS, CONSOLIDATE, SCORINGS, race

pytestmark = pytest.mark.real

ROUNDS = 5
PERCENT = 30
HIGH = f"{packing_race.HIGH}, {PERCENT} %"


@pytest.mark.parametrize("scoring", SCORINGS)
def test_it_frees_at_least_as_many_nodes_of_each_cluster_and_no_pod_comes_back(
    scoring: str, sig_descheduler: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page on ConsolidateNodes has the figures of ten clusters of each kind."""
    monkeypatch.setattr(packing_race, "MAX_ROUNDS", ROUNDS)
    freed, returned = Counter[str](), Counter[str]()
    for kind in CLUSTERS:
        for seed in range(2):
            results = race(kind, scoring, seed, sig_descheduler, (PERCENT,))
            ours, theirs = results[CONSOLIDATE], results[HIGH]
            assert ours.freed >= theirs.freed, (kind, seed, results)
            assert ours.rests, (kind, seed)
            assert (ours.returned, ours.pending) == (0, 0), (kind, seed, results)
            for name, each in results.items():
                freed[name] += each.freed
                returned[name] += each.returned
            if kind == "all used little":
                assert theirs.freed == 0, (seed, theirs)

    assert freed[CONSOLIDATE] > freed[HIGH]
    assert returned[HIGH] > 0, "the clusters show nothing"
