"""What is said of the errors of a produce request that belong to no record."""

import pytest
from aiokafka import errors  # type: ignore[import-untyped]  # it has no types

from reactive_desched.policy.settings.recording import KafkaSettings
from reactive_desched.sinks.kafka.produce_errors import (
    ErrorClassifier,
    FailureKind,
    add_missing_errors,
)

CLASSIFIER = ErrorClassifier(KafkaSettings(brokers=("a:9092",), topic="events"))
OF_RECORDS = {2, 10, 18, 32, 44, 87}
add_missing_errors(errors)


@pytest.mark.parametrize("code", sorted(errors.kafka_errors.keys() - OF_RECORDS - {0}))
def test_every_error_that_holds_the_queue_says_what_to_look_at(code: int) -> None:
    failure = CLASSIFIER.classify(errors.kafka_errors[code](), "events")

    assert failure.kind is FailureKind.UNAVAILABLE
    assert ":" in failure.reason
    assert len(failure.reason.split()) > 8


@pytest.mark.parametrize("code", [19, 20])
def test_too_few_replicas_are_named_with_the_setting(code: int) -> None:
    reason = CLASSIFIER.classify(errors.kafka_errors[code](), "events").reason

    assert "min.insync.replicas" in reason


@pytest.mark.parametrize("code", [5, 56])
def test_a_partition_that_no_broker_serves_leads_to_disks(code: int) -> None:
    reason = CLASSIFIER.classify(errors.kafka_errors[code](), "events").reason

    assert "disks is full" in reason
