"""A Kafka cluster inside this process that speaks the real protocol and fails on demand.

It is librdkafka's mock cluster, out of the library in confluent-kafka's wheel. What it does not do:
check sequence numbers, keep timestamps, authenticate.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import CDLL, POINTER, byref, c_char_p, c_int, c_int16, c_int32, c_size_t, c_void_p
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

__all__ = ["METADATA", "NEW_PRODUCER_ID", "PRODUCE", "MockKafka", "mock_kafka"]

PRODUCE: Final = 0
METADATA: Final = 3
NEW_PRODUCER_ID: Final = 22
"""Kinds of requests, as Kafka numbers them."""

_TEXT_BYTES: Final = 512
_SIGNATURES: Final[dict[str, tuple[Any, list[Any]]]] = {  # Any: types of ctypes
    "rd_kafka_conf_new": (c_void_p, []),
    "rd_kafka_conf_set": (c_int, [c_void_p, c_char_p, c_char_p, c_char_p, c_size_t]),
    "rd_kafka_new": (c_void_p, [c_int, c_void_p, c_char_p, c_size_t]),
    "rd_kafka_destroy": (None, [c_void_p]),
    "rd_kafka_mock_cluster_new": (c_void_p, [c_void_p, c_int]),
    "rd_kafka_mock_cluster_destroy": (None, [c_void_p]),
    "rd_kafka_mock_cluster_bootstraps": (c_char_p, [c_void_p]),
    "rd_kafka_mock_topic_create": (c_int, [c_void_p, c_char_p, c_int, c_int]),
    "rd_kafka_mock_topic_set_error": (None, [c_void_p, c_char_p, c_int]),
    "rd_kafka_mock_partition_set_leader": (c_int, [c_void_p, c_char_p, c_int32, c_int32]),
    "rd_kafka_mock_broker_set_down": (c_int, [c_void_p, c_int32]),
    "rd_kafka_mock_broker_set_up": (c_int, [c_void_p, c_int32]),
    "rd_kafka_mock_broker_set_rtt": (c_int, [c_void_p, c_int32, c_int]),
    "rd_kafka_mock_push_request_errors_array": (None, [c_void_p, c_int16, c_size_t, c_void_p]),
    "rd_kafka_mock_clear_request_errors": (None, [c_void_p, c_int16]),
    "rd_kafka_mock_start_request_tracking": (None, [c_void_p]),
    "rd_kafka_mock_clear_requests": (None, [c_void_p]),
    "rd_kafka_mock_get_requests": (POINTER(c_void_p), [c_void_p, POINTER(c_size_t)]),
    "rd_kafka_mock_request_api_key": (c_int16, [c_void_p]),
    "rd_kafka_mock_request_destroy_array": (None, [POINTER(c_void_p), c_size_t]),
}


class MockKafka:
    """The running cluster; brokers are numbered from 1, and errors are Kafka's codes."""

    def __init__(self, library: CDLL, cluster: int, brokers: int) -> None:
        self._library = library
        self._cluster = cluster
        self._numbers = range(1, brokers + 1)

    @property
    def brokers(self) -> tuple[str, ...]:
        """The brokers' addresses, as host:port."""
        text: bytes = self._library.rd_kafka_mock_cluster_bootstraps(self._cluster)
        return tuple(text.decode().split(","))

    def create_topic(self, name: str, partitions: int = 3) -> None:
        """Make a topic, one replica for each partition."""
        _check(
            self._library.rd_kafka_mock_topic_create(self._cluster, name.encode(), partitions, 1)
        )

    def set_topic_error(self, name: str, error: int) -> None:
        """Answer this error for a topic from now on; 0 ends it."""
        self._library.rd_kafka_mock_topic_set_error(self._cluster, name.encode(), error)

    def move_leader(self, topic: str, partition: int, broker: int) -> None:
        """Make another broker the leader of a partition."""
        name = topic.encode()
        _check(
            self._library.rd_kafka_mock_partition_set_leader(self._cluster, name, partition, broker)
        )

    def fail_requests(self, request: int, *errors: int) -> None:
        """Answer the next requests of a kind with these errors; -195 cuts the connection."""
        array = (c_int * len(errors))(*errors)
        self._library.rd_kafka_mock_push_request_errors_array(
            self._cluster, request, len(errors), ctypes.cast(array, c_void_p)
        )

    def stop_failing(self, request: int) -> None:
        """Forget the errors that are still to come."""
        self._library.rd_kafka_mock_clear_request_errors(self._cluster, request)

    def start_request_counts(self) -> None:
        """Count requests from now on."""
        self._library.rd_kafka_mock_start_request_tracking(self._cluster)

    def reset_counts(self) -> None:
        """Begin to count anew."""
        self._library.rd_kafka_mock_clear_requests(self._cluster)

    def request_count(self, request: int) -> int:
        """Return how many requests of a kind came in."""
        size = c_size_t()
        matching = self._library.rd_kafka_mock_get_requests(self._cluster, byref(size))
        keys = [self._library.rd_kafka_mock_request_api_key(matching[i]) for i in range(size.value)]
        self._library.rd_kafka_mock_request_destroy_array(matching, size)
        return keys.count(request)

    def stop_brokers(self, *brokers: int) -> None:
        """Cut off these brokers, or all of them."""
        for number in brokers or self._numbers:
            _check(self._library.rd_kafka_mock_broker_set_down(self._cluster, number))

    def start_brokers(self, *brokers: int) -> None:
        """Bring these brokers back, or all of them, at the same addresses."""
        for number in brokers or self._numbers:
            _check(self._library.rd_kafka_mock_broker_set_up(self._cluster, number))

    def set_latency(self, milliseconds: int) -> None:
        """Make every broker answer so much later."""
        for number in self._numbers:
            _check(self._library.rd_kafka_mock_broker_set_rtt(self._cluster, number, milliseconds))


@contextmanager
def mock_kafka(brokers: int = 1) -> Iterator[MockKafka]:
    """Run a cluster of so many brokers on loopback, on ports that are free."""
    library = _library()
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    conf = library.rd_kafka_conf_new()
    library.rd_kafka_conf_set(conf, b"log_level", b"0", text, _TEXT_BYTES)
    if not (client := library.rd_kafka_new(0, conf, text, _TEXT_BYTES)):
        raise RuntimeError(text.value.decode())
    cluster = library.rd_kafka_mock_cluster_new(client, brokers)
    try:
        yield MockKafka(library, cluster, brokers)
    finally:
        library.rd_kafka_mock_cluster_destroy(cluster)
        library.rd_kafka_destroy(client)


def _library() -> CDLL:
    spec = find_spec("confluent_kafka")
    if spec is None or spec.origin is None:
        raise RuntimeError("confluent-kafka is not installed: its wheel holds the mock cluster")
    wheels = Path(spec.origin).parent.parent / "confluent_kafka.libs"
    library = CDLL(str(next(wheels.glob("librdkafka-*.so*"))))
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _check(error: int) -> None:
    if error:
        raise RuntimeError(f"the mock cluster answers with error {error}")
