import pytest

from reactive_desched.policy.load import load_settings
from reactive_desched.policy.problems import PolicyErrors
from reactive_desched.policy.settings import ReactiveSettings

HEAD = "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"


def settings(text: str) -> ReactiveSettings:
    return load_settings(HEAD + text, "settings.yaml")


def problem(text: str) -> str:
    with pytest.raises(PolicyErrors) as refused:
        settings(text)
    [one] = refused.value.problems
    return str(one)


def test_nobody_follows_the_journal_unless_it_is_asked_for() -> None:
    sinks = settings("").sinks

    assert (sinks.kafka, sinks.webhook, sinks.stdout) == (None, None, None)
    assert settings("").events.kubernetes


def test_an_empty_section_is_enough_for_standard_output() -> None:
    assert settings("sinks: {stdout: {}}").sinks.stdout is not None


@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        ("sinks: {kafka: {brokers: []}}", "sinks.kafka.brokers", "must not be empty"),
        ("sinks: {kafka: {brokers: [kafka]}}", "sinks.kafka.brokers", "host:port"),
        ("sinks: {kafka: {brokers: ['a:1'], topic: a/b}}", "sinks.kafka.topic", "name of a topic"),
        ("sinks: {kafka: {brokers: ['a:1'], topic: ..}}", "sinks.kafka.topic", "name of a topic"),
        (
            "sinks: {kafka: {brokers: ['a:1'], tls: {certFile: c}}}",
            "sinks.kafka.tls.certFile",
            "go together",
        ),
        (
            "sinks: {kafka: {brokers: ['a:1'], sasl: {username: u, passwordFile: f, password: p}}}",
            "sinks.kafka.sasl.password",
            "passwordFile",
        ),
        ("events: {cluster: 'a b'}", "events.cluster", "name of a cluster"),
        ("events: {stream: {heartbeat: 0s}}", "events.stream.heartbeat", "longer than 0s"),
        ("events: {stream: {stalledAfter: 0s}}", "events.stream.stalledAfter", "longer than 0s"),
        (
            "journal: {retention: {maxBytes: 8192, hardMaxBytes: 4096}}",
            "journal.retention.hardMaxBytes",
            "smaller than maxBytes",
        ),
        ("journal: {compress: zstd}", "journal.compress", "gzip"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: str, where: str, says: str) -> None:
    told = problem(text)

    assert where in told
    assert says in told


@pytest.mark.parametrize("broker", ["kafka:9092", "10.0.0.1:9092", "[::1]:9092", "k.example.:1"])
def test_brokers_are_hosts_with_ports(broker: str) -> None:
    kafka = settings(f"sinks: {{kafka: {{brokers: ['{broker}']}}}}").sinks.kafka

    assert kafka is not None
    assert kafka.brokers == (broker,)
