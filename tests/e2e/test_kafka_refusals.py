"""A real Kafka broker that does not want our events, or not yet, and what we make of it."""

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any  # an answer of a token endpoint is JSON

import anyio
import msgspec
import pytest
from anyio.to_thread import run_sync

from reactive_desched.api.event import FINDING_MADE, FindingMade
from reactive_desched.journal.records import AnyEvent, JournalRecord, recorded_at
from reactive_desched.policy.settings.recording import KafkaSettings, KafkaTlsSettings
from tests.support.example_programs import ExamplePrograms
from tests.support.kafka_broker import KafkaBroker
from tests.support.kafka_group import read_group
from tests.support.relaying import JournalToKafka, journal_to_kafka
from tests.support.tls_handshake import check_strictly
from tests.support.token_endpoint import token_endpoint, unsigned_token

pytestmark = [pytest.mark.real, pytest.mark.anyio]

USER = "desched"


def in_the_clear(broker: KafkaBroker, topic: str) -> KafkaSettings:
    return KafkaSettings(brokers=(broker.address,), topic=topic)


def as_a_user(
    broker: KafkaBroker, topic: str, password_file: Path, mechanism: str, *, tls: bool = False
) -> KafkaSettings:
    who = {"mechanism": mechanism, "username": USER, "passwordFile": str(password_file)}
    trust = {"tls": {"caFile": str(broker.folder / "authority.crt")}} if tls else {}
    address = broker.tls_address if tls else broker.sasl_address
    return KafkaSettings.model_validate(
        {"brokers": [address], "topic": topic, "sasl": who, **trust}
    )


@pytest.fixture
def password_file(broker: KafkaBroker, tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text(broker.users[USER])
    return path


async def arrived(broker: KafkaBroker, topic: str) -> list[int]:
    """Return the sequences that are in the topic, each once."""
    messages = await run_sync(lambda: read_group(broker.address, topic))
    return sorted({int(json.loads(message.value)["sequence"]) for message in messages})


def recorded(relaying: JournalToKafka) -> list[int]:
    return [entry.seq for entry in relaying.recorded]


def without_passwords(lines: Sequence[str], *passwords: str) -> bool:
    return not any(password in line for password in passwords for line in lines)


async def test_a_topic_that_is_not_there_is_waited_for_and_its_making_explained(
    broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    async with journal_to_kafka(tmp_path, in_the_clear(broker, topic)) as ours:
        await ours.append(ours.events(50))
        told = await ours.wait_for_failure("does not exist", within_s=60)
        assert f"--create --topic {topic}" in told

        broker.admin.create_topic(topic)
        await ours.drained(60)

        assert ours.dead_letters == []
        assert await arrived(broker, topic) == recorded(ours)


async def test_a_topic_deleted_and_made_again_gets_each_event_that_it_had_not_acknowledged(
    broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    broker.admin.create_topic(topic, partitions=3)
    async with journal_to_kafka(tmp_path, in_the_clear(broker, topic)) as ours:
        await ours.append(ours.events(50))
        await ours.drained(60)
        before = recorded(ours)
        await run_sync(broker.admin.delete_topic, topic)
        await ours.append(ours.events(50))
        await ours.wait_for_failure("does not exist", within_s=60)
        await run_sync(lambda: broker.admin.create_topic(topic, partitions=5))
        await ours.drained(60)
        await ours.append(ours.events(50))
        await ours.drained(60)

        assert ours.dead_letters == []
        assert set(recorded(ours)) - set(before) == set(await arrived(broker, topic))


async def test_a_topic_made_again_at_once_gets_each_event_from_then_on(
    broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    broker.admin.create_topic(topic, partitions=3)
    async with journal_to_kafka(tmp_path, in_the_clear(broker, topic)) as ours:
        await ours.append(ours.events(50))
        await ours.drained(60)
        before = recorded(ours)
        await run_sync(broker.admin.delete_topic, topic)
        await run_sync(lambda: broker.admin.create_topic(topic, partitions=1))
        await ours.append(ours.events(100))
        await ours.drained(60)

        assert ours.dead_letters == []
        assert set(recorded(ours)) - set(before) == set(await arrived(broker, topic))


async def test_of_two_topics_the_one_without_rights_is_named_and_neither_loses_an_event(
    broker: KafkaBroker, topic: str, tmp_path: Path, password_file: Path
) -> None:
    other = f"{topic}-points"
    for each in (topic, other):
        broker.admin.create_topic(each)
        broker.admin.allow(USER, each)
    settings = as_a_user(broker, topic, password_file, "SCRAM-SHA-512")
    settings = settings.model_copy(update={"checkpoint_topic": other})
    async with journal_to_kafka(tmp_path / "journal", settings) as ours:
        await ours.append(ours.events(50))
        await ours.drained(60)
        broker.admin.forbid(USER, other)
        await ours.append(ours.events(600))  # a checkpoint is among them
        told = await ours.wait_for_failure("not authorised to write", within_s=60)
        assert f"--producer --topic {other}" in told
        broker.admin.allow(USER, other)
        await ours.drained(60)

        assert ours.dead_letters == []
        both = [*await arrived(broker, topic), *await arrived(broker, other)]
        assert sorted(both) == recorded(ours)


async def test_missing_rights_are_waited_for_and_may_be_taken_away_meanwhile(
    broker: KafkaBroker, topic: str, tmp_path: Path, password_file: Path
) -> None:
    broker.admin.create_topic(topic)
    settings = as_a_user(broker, topic, password_file, "SCRAM-SHA-512")
    async with journal_to_kafka(tmp_path / "journal", settings) as ours:
        await ours.append(ours.events(50))
        told = await ours.wait_for_failure("not authorised to write", within_s=60)
        assert f"--allow-principal User:{USER} --producer --topic {topic}" in told

        broker.admin.allow(USER, topic)
        await ours.drained(60)

        broker.admin.forbid(USER, topic)
        await ours.append(ours.events(50))
        await ours.wait_for_failure("not authorised to write", within_s=60)
        broker.admin.allow(USER, topic)
        await ours.drained(60)

        assert ours.dead_letters == []
        assert await arrived(broker, topic) == recorded(ours)


class ShiftedClock:
    """The time of day of a machine whose clock is wrong by so many seconds."""

    shift_s = 0

    def __call__(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.shift_s)


def is_shifted(entry: JournalRecord) -> bool:
    at = recorded_at(entry.raw)
    assert at is not None
    return abs(at - datetime.now(UTC)) > timedelta(minutes=30)


def with_a_long_reason(event: AnyEvent, length: int) -> AnyEvent:
    assert isinstance(event.data, FindingMade)
    why = msgspec.structs.replace(event.data.why, message="x" * length)
    data = msgspec.structs.replace(event.data, why=why)
    return msgspec.structs.replace(event, id=f"{event.id}-long", data=data)


async def test_events_that_are_too_large_are_dead_letters_and_all_others_arrive(
    broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    broker.admin.create_topic(topic, max_message_bytes="10000")
    async with journal_to_kafka(tmp_path / "journal", in_the_clear(broker, topic)) as ours:
        told = ours.events(200)
        long = [each for each in told if each.type == FINDING_MADE][3:30:13]
        for event in told:
            await ours.append([event])
            if event in long:
                await ours.append([with_a_long_reason(event, 20_000)])
        await ours.drained(60)

        letters = {letter.sequence: letter for letter in ours.dead_letters}
        lines = {entry.seq: entry.raw.decode() for entry in ours.recorded}
        assert len(letters) == len(long) == 3
        assert all("x" * 20_000 in lines[seq] == letter.event for seq, letter in letters.items())
        assert all("raise its max.message.bytes" in letter.reason for letter in letters.values())
        assert await arrived(broker, topic) == [seq for seq in lines if seq not in letters]

    with ExamplePrograms(tmp_path) as programs:
        verifier = programs.start("verify_topic.py", "--brokers", broker.address, topic)
        assert await run_sync(verifier.wait) == 1
        assert f"record {min(letters)} is missing" in verifier.printed[0]


async def test_a_topic_that_takes_smaller_messages_from_now_on_gets_each_event_that_is_small_enough(
    broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    """What the topic limits is a batch: one of small events must not be given up as a whole."""
    broker.admin.create_topic(topic, max_message_bytes="1000000")
    async with journal_to_kafka(tmp_path / "journal", in_the_clear(broker, topic)) as ours:
        await ours.append(ours.events(200))
        await ours.drained(60)
        broker.admin.set_topic(topic, max_message_bytes="6000")
        for event in ours.events(400):
            await ours.append([event])
            if event.type == FINDING_MADE and len(ours.recorded) % 7 == 0:
                await ours.append([with_a_long_reason(event, 20_000)])
        await ours.drained(60)

        lines = {entry.seq: entry.raw.decode() for entry in ours.recorded}
        long = {seq for seq, line in lines.items() if "x" * 20_000 in line}
        assert {letter.sequence for letter in ours.dead_letters} == long != set()
        assert set(await arrived(broker, topic)) == lines.keys() - long


async def test_a_token_proves_who_we_are_and_one_that_expired_is_named(
    broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    broker.admin.create_topic(topic)
    broker.admin.allow(USER, topic)
    file = tmp_path / "token"
    file.write_text(unsigned_token(USER, time.time() - 7200, lifetime_s=60))
    who = {"mechanism": "OAUTHBEARER", "tokenFile": str(file)}
    settings = KafkaSettings.model_validate(
        {"brokers": [broker.sasl_address], "topic": topic, "sasl": who}
    )
    async with journal_to_kafka(tmp_path / "journal", settings) as ours:
        await ours.append(ours.events(20))
        told = await ours.wait_for_failure("refuses a token", within_s=60)
        file.write_text(unsigned_token(USER, time.time()))
        await ours.drained(60)

        assert file.read_text() not in f"{told} {ours.log.lines}"
        assert await arrived(broker, topic) == recorded(ours)


async def test_a_token_that_expires_while_events_are_sent_is_read_anew_and_loses_none(
    broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    broker.admin.create_topic(topic)
    broker.admin.allow(USER, topic)
    file = tmp_path / "token"
    file.write_text(unsigned_token(USER, time.time(), lifetime_s=30))
    who = {"mechanism": "OAUTHBEARER", "tokenFile": str(file)}
    settings = KafkaSettings.model_validate(
        {"brokers": [broker.sasl_address], "topic": topic, "sasl": who}
    )
    async with journal_to_kafka(tmp_path / "journal", settings) as ours:
        await ours.append(ours.events(20))
        await ours.drained(60)
        await anyio.sleep(31)  # the broker closes the session of a token that has expired
        await ours.append(ours.events(20))
        refused = await ours.wait_for_failure("refuses a token", within_s=60)
        file.write_text(unsigned_token(USER, time.time()))
        await ours.drained(60)

        assert file.read_text() not in f"{refused} {ours.log.lines}"
        assert ours.dead_letters == []
        assert await arrived(broker, topic) == recorded(ours)


async def test_an_endpoint_that_is_slower_than_the_life_of_its_tokens_delays_events_and_loses_none(
    broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    broker.admin.create_topic(topic)
    broker.admin.allow(USER, topic)
    (tmp_path / "secret").write_text("canary")

    def slowly() -> dict[str, Any]:
        time.sleep(6)
        token = unsigned_token(USER, time.time(), lifetime_s=4)
        return {"access_token": token, "expires_in": 4}

    with token_endpoint() as endpoint:
        endpoint.answer = slowly
        oidc = {
            "tokenEndpointUrl": endpoint.url,
            "clientId": "descheduler",
            "clientSecretFile": str(tmp_path / "secret"),
        }
        settings = KafkaSettings.model_validate(
            {
                "brokers": [broker.sasl_address],
                "topic": topic,
                "sasl": {"mechanism": "OAUTHBEARER", "oidc": oidc},
            }
        )
        async with journal_to_kafka(tmp_path / "journal", settings) as ours:
            for _ in range(5):
                await ours.append(ours.events(20))
                await anyio.sleep(5)
            await ours.drained(120)

            assert len(endpoint.forms) > 2, "sessions ended, and began with another token"
            assert ours.dead_letters == []
            assert set(await arrived(broker, topic)) == set(recorded(ours))


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
async def test_a_broker_killed_amid_compressed_batches_gets_each_event_when_it_is_back(
    broker: KafkaBroker, topic: str, tmp_path: Path, compression: str
) -> None:
    broker.admin.create_topic(topic, compression_type="uncompressed")  # so the broker reads it
    settings = in_the_clear(broker, topic).model_copy(update={"compression": compression})
    async with journal_to_kafka(tmp_path, settings) as ours:
        await ours.append(ours.events(300))
        async with anyio.create_task_group() as group:
            group.start_soon(ours.append, ours.events(1_500))
            await run_sync(broker.kill)
            await run_sync(broker.start)
        await ours.drained(60)

        assert ours.dead_letters == []
        assert await arrived(broker, topic) == recorded(ours)


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
async def test_the_broker_takes_every_compression(
    broker: KafkaBroker, topic: str, tmp_path: Path, compression: str
) -> None:
    broker.admin.create_topic(topic, compression_type="uncompressed")  # so the broker reads it
    settings = in_the_clear(broker, topic).model_copy(update={"compression": compression})
    async with journal_to_kafka(tmp_path, settings) as ours:
        await ours.append(ours.events(300))
        await ours.drained(60)
        assert ours.dead_letters == []
        assert await arrived(broker, topic) == recorded(ours)


@pytest.mark.parametrize(
    "limits",
    [
        {"message_timestamp_before_max_ms": "600000"},
        {"message_timestamp_after_max_ms": "600000"},
        {"message_timestamp_type": "LogAppendTime", "message_timestamp_before_max_ms": "600000"},
    ],
    ids=["too old", "too far ahead", "the broker's own time"],
)
async def test_events_whose_time_a_topic_does_not_take_are_dead_letters_and_all_others_arrive(
    broker: KafkaBroker, topic: str, tmp_path: Path, limits: dict[str, str]
) -> None:
    broker.admin.create_topic(topic, partitions=2, replicas=1, **limits)
    clock = ShiftedClock()
    async with journal_to_kafka(tmp_path, in_the_clear(broker, topic), clock) as ours:
        await ours.append(ours.events(30))
        await ours.drained(60)
        clock.shift_s = 3600 if "message_timestamp_after_max_ms" in limits else -3600
        await ours.append(ours.events(3))
        clock.shift_s = 0
        shifted = {entry.seq for entry in ours.recorded if is_shifted(entry)}
        await ours.append(ours.events(30))
        await ours.drained(60)

        letters = ours.dead_letters
        if "message_timestamp_type" in limits:
            shifted = set()
        assert {letter.sequence for letter in letters} == shifted
        assert all("message.timestamp.before.max.ms" in letter.reason for letter in letters)
        assert await arrived(broker, topic) == [seq for seq in recorded(ours) if seq not in shifted]


async def test_an_advertised_name_that_cannot_be_resolved_is_named_with_the_remedy(
    broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    broker.admin.create_topic(topic)
    settings = KafkaSettings(brokers=(broker.misnamed_address,), topic=topic)
    async with journal_to_kafka(tmp_path, settings) as ours:
        await ours.append(ours.events(5))
        told = await ours.wait_for_failure("advertises", within_s=60)
    assert f"broker 1 as {broker.wrong_address}" in told
    assert "cannot be resolved" in told
    assert "advertised.listeners" in told


@pytest.mark.parametrize("tls", [False, True], ids=["in the clear", "encrypted"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
async def test_a_password_is_proved(
    broker: KafkaBroker,
    topic: str,
    tmp_path: Path,
    password_file: Path,
    mechanism: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    tls: bool,
) -> None:
    check_strictly(monkeypatch)
    broker.admin.create_topic(topic)
    broker.admin.allow(USER, topic)
    settings = as_a_user(broker, topic, password_file, mechanism, tls=tls)
    async with journal_to_kafka(tmp_path / "journal", settings) as ours:
        await ours.append(ours.events(20))
        await ours.drained(60)
        assert ours.runner.retries == 0
        assert await arrived(broker, topic) == recorded(ours)


async def test_a_certificate_proves_who_we_are_and_a_missing_one_is_named(
    broker: KafkaBroker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_strictly(monkeypatch)
    broker.admin.create_topic(topic)
    broker.admin.allow(f"CN={USER}", topic)
    ca_file, cert_file, key_file = (
        str(broker.folder / name) for name in ("authority.crt", f"{USER}.crt", f"{USER}.key")
    )
    proof = KafkaTlsSettings(ca_file=ca_file, cert_file=cert_file, key_file=key_file)
    settings = KafkaSettings(brokers=(broker.mutual_tls_address,), topic=topic, tls=proof)
    async with journal_to_kafka(tmp_path / "journal", settings) as ours:
        await ours.append(ours.events(20))
        await ours.drained(60)
        assert ours.runner.retries == 0
        assert await arrived(broker, topic) == recorded(ours)

    without = settings.model_copy(update={"tls": KafkaTlsSettings(ca_file=ca_file)})
    async with journal_to_kafka(tmp_path / "other", without) as ours:
        await ours.append(ours.events(5))
        told = await ours.wait_for_failure("lets us in", within_s=60)
    assert "tls.certFile and tls.keyFile" in told


async def test_a_password_that_was_changed_is_read_anew_and_never_shown(
    broker: KafkaBroker, topic: str, tmp_path: Path, password_file: Path
) -> None:
    old, new = broker.users[USER], "another-password"
    broker.admin.create_topic(topic)
    broker.admin.allow(USER, topic)
    settings = as_a_user(broker, topic, password_file, "SCRAM-SHA-512")
    try:
        async with journal_to_kafka(tmp_path / "journal", settings) as ours:
            await ours.append(ours.events(20))
            await ours.drained(60)

            broker.admin.set_password(USER, new)
            await run_sync(broker.kill)  # so that everybody must prove who they are again
            await run_sync(broker.start)
            await ours.append(ours.events(20))
            told = await ours.wait_for_failure(
                "check brokers and sasl in the settings", within_s=60
            )
            await run_sync(password_file.write_text, f"{new}\n")
            await ours.drained(60)

            assert without_passwords([told, *ours.log.lines], old, new)
            assert await arrived(broker, topic) == recorded(ours)
    finally:
        broker.admin.set_password(USER, old)


async def test_a_wrong_authority_keeps_us_out_and_is_named(
    broker: KafkaBroker, topic: str, tmp_path: Path, password_file: Path
) -> None:
    broker.admin.create_topic(topic)
    settings = as_a_user(broker, topic, password_file, "PLAIN", tls=True)
    distrusting = settings.model_copy(update={"tls": KafkaTlsSettings()})
    async with journal_to_kafka(tmp_path / "journal", distrusting) as ours:
        await ours.append(ours.events(5))
        told = await ours.wait_for_failure("lets us in", within_s=60)
    assert "certificate verify failed" in told
