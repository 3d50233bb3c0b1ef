"""Classifies the errors of a produce request: which belong to a record, and which to the topic."""

from enum import Enum, auto
from typing import Any, Final

from msgspec import Struct

from reactive_desched.errors import SinkUnavailable
from reactive_desched.policy.settings.recording import KafkaSettings
from reactive_desched.sinks.kafka import error_hints

UNSUPPORTED_COMPRESSION: Final = 76
INVALID_RECORD: Final = 87
THROTTLED: Final = 89
PRODUCER_FENCED: Final = 90


class FailureKind(Enum):
    """The kind of failure of a batch: of all records, of its size, or of one of its records."""

    UNAVAILABLE = auto()
    """Nothing: the topic, the rights or the brokers keep every record out."""
    TOO_LARGE = auto()
    """Together they are too large, or one of them is."""
    BAD_RECORD = auto()
    """One of them will never be taken."""
    DAMAGED = auto()
    """One of them arrived damaged: on its way, or it will each time."""


class ProduceFailure(Struct, frozen=True, gc=False):
    """The reason why a batch was not taken, for a person, with the remedy."""

    reason: str
    kind: FailureKind = FailureKind.UNAVAILABLE


class TooLarge(Exception):  # noqa: N818  it is raised as the fact it names
    """A batch of one message is larger than we may send."""


class ErrorClassifier:
    """Explains errors of aiokafka by the settings, which it quotes in the remedies."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka = kafka

    def classify(
        self, error: Exception, topic: str, size: int = 0, last_warning: str = ""
    ) -> ProduceFailure:
        """Return what an error means that a batch of this size met.

        The errors in the middle are of one record; the broker refuses its whole batch with it.
        """
        from aiokafka import errors  # type: ignore[import-untyped]  # it has no types

        match error:
            case SinkUnavailable():
                return ProduceFailure(str(error))
            case TooLarge() | errors.MessageSizeTooLargeError() | errors.RecordListTooLargeError():
                text = error_hints.too_large(size, self._kafka, topic)
                return ProduceFailure(text, FailureKind.TOO_LARGE)
            case errors.InvalidTimestampError():
                return _bad_record(error_hints.timestamp_out_of_range(topic))
            case errors.PolicyViolationError():
                return _bad_record(error_hints.policy_violation(topic))
            case errors.BrokerResponseError(errno=code) if code == INVALID_RECORD:
                return _bad_record(error_hints.invalid_record(topic))
            case errors.CorruptRecordException():
                return ProduceFailure(error_hints.damaged(topic), FailureKind.DAMAGED)
            case errors.KafkaConnectionError():
                return ProduceFailure(error_hints.no_broker(self._kafka, last_warning))
            case _:
                return ProduceFailure(self._topic_error(error, topic))

    def _topic_error(self, error: Exception, topic: str) -> str:
        """Return what keeps every record of the topic out."""
        from aiokafka import errors

        match error:
            case errors.TopicAuthorizationFailedError():
                return error_hints.not_authorised(self._kafka, topic)
            case errors.ClusterAuthorizationFailedError():
                return error_hints.not_idempotent(self._kafka, topic)
            case errors.UnknownTopicOrPartitionError():
                return error_hints.unknown_topic(self._kafka, topic)
            case errors.InvalidTopicError():
                return error_hints.invalid_topic(topic)
            case errors.UnsupportedForMessageFormatError():
                return error_hints.old_message_format(topic)
            case errors.BrokerResponseError(errno=code) if code == UNSUPPORTED_COMPRESSION:
                return error_hints.unsupported_compression(self._kafka, topic)
            case errors.NotEnoughReplicasError() | errors.NotEnoughReplicasAfterAppendError():
                return error_hints.too_few_replicas(topic)
            case errors.LeaderNotAvailableError() | errors.KafkaStorageError():
                return error_hints.no_leader(topic, _error_name(error))
            case errors.KafkaError():
                return error_hints.refused(topic, _error_name(error))
            case _:
                return f"unexpected {_error_name(error)} in the Kafka client: please report it"


def add_missing_errors(errors: Any) -> None:  # the module aiokafka.errors, which has no types
    """Add errors that aiokafka would pass on as -1, UnknownError; call it as often as you like."""
    for code, name, is_retriable in (
        (UNSUPPORTED_COMPRESSION, "UnsupportedCompressionTypeError", False),
        (INVALID_RECORD, "InvalidRecordError", False),
        (THROTTLED, "ThrottlingQuotaExceededError", True),
        (PRODUCER_FENCED, "ProducerFencedError", False),
    ):
        if code not in errors.kafka_errors:
            members = {"errno": code, "message": name, "retriable": is_retriable}
            errors.kafka_errors[code] = type(name, (errors.BrokerResponseError,), members)


def _bad_record(reason: str) -> ProduceFailure:
    return ProduceFailure(reason, FailureKind.BAD_RECORD)


def _error_name(error: Exception) -> str:
    number = getattr(error, "errno", None)
    return type(error).__name__ if number is None else f"{type(error).__name__} ({number})"
