"""A body of brackets within brackets is a bad request, like any other that is no JSON."""

from typing import Any

import pytest

pytestmark = pytest.mark.anyio


async def test_it_is_400(api: Any) -> None:
    path, headers = "/api/v1/namespaces/default/pods", {"Content-Type": "application/json"}
    body = b"[" * 100_000 + b"]" * 100_000
    status, _ = await api.ask("POST", path, None, data=body, headers=headers)
    assert status == 400
