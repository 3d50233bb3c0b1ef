import pytest

from reactive_desched.errors import ClusterError
from reactive_desched.eviction.dry_run import DryRunEvictor
from reactive_desched.model.outcomes import DryRun, EvictionRequest


@pytest.mark.anyio
async def test_a_dry_run_says_that_it_is_one_and_cannot_be_read_back() -> None:
    request = EvictionRequest("shop", "web", "u1")

    assert await DryRunEvictor().evict(request) == DryRun()
    with pytest.raises(ClusterError, match="shop/web"):
        await DryRunEvictor().get_pod("shop", "web")
