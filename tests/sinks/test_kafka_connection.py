"""Passwords and TLS files: read when they are needed, named when they are no good, never told."""

import logging
from pathlib import Path

import pytest

from reactive_desched.errors import SinkUnavailable
from reactive_desched.policy.settings.recording import KafkaSettings, KafkaTlsSettings, SaslSettings
from reactive_desched.sinks.kafka.connection import producer_settings
from tests.support.kafka_way import TOPIC, KafkaPipeline
from tests.support.mock_kafka import MockKafka


@pytest.mark.anyio
async def test_a_password_is_in_no_message_and_no_log_line(
    kafka: MockKafka, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = tmp_path / "password"
    secret.write_text("canary-4711\n")
    sasl = SaslSettings(mechanism="PLAIN", username="descheduler", password_file=str(secret))
    way = KafkaPipeline(tmp_path, KafkaSettings(brokers=kafka.brokers, topic=TOPIC, sasl=sasl))
    way.record(1)
    async with way.running():
        trouble = await way.wait_for_failure()

    assert "sasl" in trouble
    everything = f"{trouble} {way.logger.lines} {caplog.text} {way.sink!r} {vars(way.sink)}"
    assert "canary" not in everything


def test_the_password_is_read_anew_each_time(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    sasl = SaslSettings(username="descheduler", password_file=str(secret))
    kafka = KafkaSettings(brokers=("kafka:9092",), sasl=sasl)
    for password in ("first", "second"):
        secret.write_text(password + "\n")
        assert producer_settings(kafka)["sasl_plain_password"] == password


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "No such file"), (b"\n", "is empty"), (b"canary-\xff", "UnicodeDecodeError")],
    ids=["missing", "empty", "not text"],
)
def test_a_password_file_that_is_no_good_is_named(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    secret = tmp_path / "password"
    if content is not None:
        secret.write_bytes(content)
    sasl = SaslSettings(username="descheduler", password_file=str(secret))

    with pytest.raises(SinkUnavailable, match=said) as caught:
        producer_settings(KafkaSettings(brokers=("kafka:9092",), sasl=sasl))

    assert str(secret) in str(caught.value)
    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is None  # it would hold what was read


def test_tls_files_that_are_no_good_are_named(tmp_path: Path) -> None:
    ca = tmp_path / "ca.crt"
    ca.write_text("canary")

    with pytest.raises(SinkUnavailable, match="TLS files") as caught:
        producer_settings(
            KafkaSettings(brokers=("kafka:9092",), tls=KafkaTlsSettings(ca_file=str(ca)))
        )

    assert str(ca) in str(caught.value)
    assert "canary" not in str(caught.value)
