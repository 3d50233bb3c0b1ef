import pytest

from reactive_desched.errors import ClusterError
from reactive_desched.eviction.dry_run import Rehearsal
from reactive_desched.model.outcomes import EvictionRequest, Rehearsed


@pytest.mark.anyio
async def test_a_rehearsal_says_that_it_is_one_and_cannot_be_read_back() -> None:
    request = EvictionRequest("shop", "web", "u1")

    assert await Rehearsal().evict(request) == Rehearsed()
    with pytest.raises(ClusterError, match="shop/web"):
        await Rehearsal().look("shop", "web")
