"""Kafka clusters to relay to, none of them in the process that is measured."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.record.kafka import PARTITIONS
from tests.support.kafka_broker import KafkaBroker, KafkaTools

_BUILD = Path(__file__).parents[2] / "tools" / "real" / "build.py"


@contextmanager
def mock_cluster(topics: Sequence[str]) -> Iterator[str]:
    """Run librdkafka's mock cluster while the block lasts; gives its address."""
    command = [sys.executable, "-m", "bench.record", "mock", "--folder", ".", "--topics", *topics]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as cluster:  # noqa: S603  # our own module
        assert cluster.stdout is not None
        yield json.loads(cluster.stdout.readline())["address"]
        cluster.communicate()


@contextmanager
def real_cluster(folder: Path, topics: Sequence[str], tools: KafkaTools) -> Iterator[str]:
    """Run a real broker while the block lasts; gives its address."""
    folder.mkdir()
    with KafkaBroker(tools, folder) as broker:
        for topic in topics:
            broker.admin.create_topic(topic, PARTITIONS)
        yield broker.address


def kafka_tools() -> KafkaTools:
    """Say where Java and Kafka are, if `make real-tools` has brought them; nothing is built now."""
    where = [sys.executable, str(_BUILD), "--where"]
    done = subprocess.run(where, check=True, capture_output=True, text=True)  # noqa: S603  # our own script
    return KafkaTools.parse(done.stdout)
