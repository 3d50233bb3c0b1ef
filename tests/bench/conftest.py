"""Opens a small generated cluster, written once per run, and the load server in this process."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2]))  # the benchmark stands beside the package

from bench.generate import Dataset, ensure
from bench.resources import Versions, open_resources
from bench.server import LoadServer
from bench.stage import EventPlayer

PODS, NODES = 600, 20


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return ensure(PODS, NODES, tmp_path_factory.mktemp("bench"))


@pytest.fixture
def server(small: Dataset) -> LoadServer:
    return LoadServer(EventPlayer(small.cluster, open_resources(small), Versions()))
