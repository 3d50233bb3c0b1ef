import pytest

from reactive_desched.api.event import DATA_TYPES
from reactive_desched.model.event_types import short_type
from reactive_desched.policy.settings.reactive_settings import ReactiveSettings
from reactive_desched.policy.yaml.diagnostics import PolicyErrors
from tests.support.policy_texts import load_settings

HEAD = "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"


def settings(text: str) -> ReactiveSettings:
    return load_settings(HEAD + text, "settings.yaml")


def problem(text: str) -> str:
    with pytest.raises(PolicyErrors) as refused:
        settings(text)
    [one] = refused.value.diagnostics
    return str(one)


def test_no_sink_follows_the_journal_unless_it_is_asked_for() -> None:
    sinks = settings("").sinks

    assert (sinks.kafka, sinks.webhook, sinks.stdout, sinks.stream) == (None,) * 4
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
        ("sinks: {stream: {heartbeat: 0s}}", "sinks.stream.heartbeat", "longer than 0s"),
        ("sinks: {stream: {stalledAfter: 0s}}", "sinks.stream.stalledAfter", "longer than 0s"),
        (
            "journal: {retention: {maxBytes: 8192, hardMaxBytes: 4096}}",
            "journal.retention.hardMaxBytes",
            "smaller than maxBytes",
        ),
        ("journal: {compress: zstd}", "journal.compress", "gzip"),
        ("sinks: {kafka: {brokers: ['a:0']}}", "sinks.kafka.brokers", "host:port"),
        ("sinks: {kafka: {brokers: ['a:65536']}}", "sinks.kafka.brokers", "host:port"),
        ("sinks: {kafka: {brokers: ['a:1'], topic: ''}}", "sinks.kafka.topic", "name of a topic"),
        (
            "sinks: {kafka: {brokers: ['a:1'], sasl: {username: '', passwordFile: f}}}",
            "sinks.kafka.sasl.username",
            "must not be empty",
        ),
        (
            "sinks: {kafka: {brokers: ['a:1'], sasl: {username: u, passwordFile: ' '}}}",
            "sinks.kafka.sasl.passwordFile",
            "must not be empty",
        ),
        ("sinks: {stdout: {types: [evict]}}", "sinks.stdout.types", "did you mean eviction?"),
        (
            "sinks: {webhook: {url: 'https://a', types: [policy, eviction.done]}}",
            "sinks.webhook.types",
            'called "eviction.done"',
        ),
        (
            "sinks: {kafka: {brokers: ['a:1'], types: [eviction.done]}}",
            "sinks.kafka.types",
            'called "eviction.done"',
        ),
        (
            "sinks: {additionalKafka: [{brokers: ['a:1']}]}",
            "sinks.additionalKafka[0].name",
            "required",
        ),
        (
            "sinks: {additionalKafka: [{name: Audit, brokers: ['a:1']}]}",
            "sinks.additionalKafka[0].name",
            "name of a sink",
        ),
        (
            "sinks: {additionalWebhooks: [{name: a, url: 'https://a'}, {name: a, url: 'https://b'}]}",
            "sinks.additionalWebhooks[1].name",
            'called "a"',
        ),
        (
            "sinks: {kafka: {brokers: ['a:1'], sasl: {username: u}}}",
            "sinks.kafka.sasl.mechanism",
            "set username and passwordFile",
        ),
        (
            "sinks: {kafka: {brokers: ['a:1'], sasl: {mechanism: OAUTHBEARER, username: u}}}",
            "sinks.kafka.sasl.mechanism",
            "one of tokenFile, oidc and awsIam",
        ),
        (
            """sinks: {kafka: {brokers: ['a:1'], sasl: {mechanism: OAUTHBEARER, awsIam:
            {region: eu-central-1}}}}""",
            "sinks.kafka.tls",
            "write tls: {}",
        ),
        (
            """sinks: {kafka: {brokers: ['a:1'], sasl: {mechanism: OAUTHBEARER, oidc:
            {tokenEndpointUrl: 'http://idp/token', clientId: c, clientSecretFile: f}}}}""",
            "sinks.kafka.sasl.oidc.tokenEndpointUrl",
            "unencrypted",
        ),
        ("journal: {maxSegmentAge: 0s}", "journal.maxSegmentAge", "longer than 0s"),
        ("journal: {checkpoints: {every: 0s}}", "journal.checkpoints.every", "longer than 0s"),
        ("journal: {retention: {maxAge: 0s}}", "journal.retention.maxAge", "longer than 0s"),
        (
            "journal: {maxSegmentBytes: 9000, retention: {maxBytes: 5000, hardMaxBytes: 8000}}",
            "journal.maxSegmentBytes",
            "larger than retention.hardMaxBytes",
        ),
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


@pytest.mark.parametrize("type_", list(map(short_type, DATA_TYPES)))
def test_a_sink_can_choose_each_type_of_event(type_: str) -> None:
    webhook = settings(f"sinks: {{webhook: {{url: 'https://a', types: [{type_}]}}}}").sinks.webhook

    assert webhook is not None
    assert webhook.types == (type_,)


def test_checkpoints_go_with_the_rest_unless_they_have_a_topic_of_their_own() -> None:
    kafka = settings("sinks: {kafka: {brokers: ['a:1'], checkpointTopic: ''}}").sinks.kafka

    assert kafka is not None
    assert kafka.checkpoint_topic == ""
