"""What every test shares: the event loop its async tests run on."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
