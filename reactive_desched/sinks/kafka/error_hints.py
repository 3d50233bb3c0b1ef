"""Explains Kafka's errors to the operator, with the remedy."""

from collections.abc import Iterable, Sequence
from typing import Final

from reactive_desched.policy.settings.recording import KafkaSettings
from reactive_desched.sinks.kafka.advertised import UnreachableBroker

_TRIED_REMEDIES: Final = {
    True: "make the name known here (DNS, hostAliases of the pod)",
    False: "let the network (firewall, NetworkPolicy) reach the address from here",
}


def unknown_topic(kafka: KafkaSettings, topic: str) -> str:
    """Return what to do about a topic that is not there."""
    return (
        f"topic {topic} does not exist: make it, for example with "
        f"`kafka-topics.sh --bootstrap-server {kafka.brokers[0]} --create --topic {topic} "
        "--partitions 6 --replication-factor 3`"
    )


def not_authorised(kafka: KafkaSettings, topic: str) -> str:
    """Return what to do about missing rights."""
    return (
        f"not authorised to write to topic {topic}: allow it, for example with "
        f"`{_add_acl(kafka)} --producer --topic {topic}`"
    )


def not_idempotent(kafka: KafkaSettings, topic: str) -> str:
    """Return what to do about an account that may write to no topic, or not idempotently.

    Brokers since 3.0 let an account write idempotently that may write to some topic.
    """
    return (
        f"{not_authorised(kafka, topic)}; brokers before 3.0 also want "
        f"`{_add_acl(kafka)} --operation IdempotentWrite --cluster`"
    )


def invalid_topic(topic: str) -> str:
    """Return what to do about a name that the cluster does not allow."""
    return (
        f"the cluster does not allow topic {topic} to be written to: set another sinks.kafka.topic"
    )


def old_message_format(topic: str) -> str:
    """Return what to do about a topic of the time before headers."""
    return (
        f"topic {topic} has a message format of before Kafka 0.11, without headers: "
        "set its message.format.version to 0.11.0 or newer"
    )


def unsupported_compression(kafka: KafkaSettings, topic: str) -> str:
    """Return what to do about brokers that are older than a compression."""
    return (
        f"the brokers do not take compression {kafka.compression} for topic {topic}: "
        "set sinks.kafka.compression to gzip"
    )


def too_few_replicas(topic: str) -> str:
    """Return what to do about a topic of which too many brokers are away."""
    return (
        f"fewer replicas of topic {topic} are in sync than its min.insync.replicas: bring the "
        "brokers back that have the others, or lower that setting"
    )


def no_leader(topic: str, error: str) -> str:
    """Return what to do about a topic of which no broker serves a partition."""
    return (
        f"no broker serves a partition of topic {topic} ({error}): bring the brokers back that "
        "have it, and see whether one of their disks is full or broken, as their logs say"
    )


def refused(topic: str, error: str) -> str:
    """Return what to do about an error that says nothing more."""
    return (
        f"Kafka does not take events for topic {topic}: {error}; they wait and are sent again: "
        "the brokers' logs say why"
    )


def no_broker(kafka: KafkaSettings, last_warning: str) -> str:
    """Return what to check when no broker answers, or none accepts us."""
    what = ["brokers"]
    what += ["tls"] if kafka.tls is not None else []
    what += ["sasl"] if kafka.sasl is not None else []
    proof = ""
    shows_none = kafka.tls is not None and kafka.sasl is None and not kafka.tls.cert_file
    if shows_none and "certificate" not in last_warning:
        proof = (
            "; a broker that wants a certificate of its clients closes the connection: set"
            " tls.certFile and tls.keyFile if it does"
        )
    if kafka.sasl is not None and kafka.sasl.mechanism == "OAUTHBEARER":
        proof = "; a broker that refuses a token closes the connection: check " + (
            "its issuer, audience and time"
            if kafka.sasl.aws_iam is None
            else "that the role may kafka-cluster:Connect, sasl.awsIam.region, and this machine's"
            " clock"
        )
    return (
        f"no broker of {', '.join(kafka.brokers)} lets us "
        f"in{_last_warning_text(last_warning)}: check "
        f"{_join_names(what)} in the settings, and that the network lets us through{proof}"
    )


def no_acknowledgement(seconds: float, last_warning: str) -> str:
    """Return what is known when acknowledgements stay away."""
    return f"no acknowledgement from Kafka within {seconds:.0f} s{_last_warning_text(last_warning)}"


def too_large(size: int, kafka: KafkaSettings, topic: str) -> str:
    """Return why an event will never be taken."""
    return (
        f"{size} bytes are too large for topic {topic}: raise its max.message.bytes, "
        f"and maxRequestBytes ({kafka.max_request_bytes}) here, to send such events"
    )


def timestamp_out_of_range(topic: str) -> str:
    """Return why an event will never be taken whose time is too far from the broker's."""
    return (
        f"its time, when it was recorded, is too far from the broker's for topic {topic}: raise "
        "the topic's message.timestamp.before.max.ms and message.timestamp.after.max.ms (before "
        "Kafka 3.6 message.timestamp.difference.max.ms), or set its message.timestamp.type to "
        "LogAppendTime; if the event is new, correct the clock here or at the broker"
    )


def policy_violation(topic: str) -> str:
    """Return why an event will never be taken that a policy forbids."""
    return (
        f"a policy of the Kafka cluster forbids the event in topic {topic}: ask the "
        "administrator of the cluster to exempt the topic"
    )


def invalid_record(topic: str) -> str:
    """Return why an event will never be taken that fails a check of the broker."""
    return (
        f"the broker calls the event invalid for topic {topic}: its log says why; often the topic "
        "wants values with a schema, such as confluent.value.schema.validation: turn that off, or "
        "set another sinks.kafka.topic"
    )


def damaged(topic: str) -> str:
    """Return why an event is given up that arrives damaged each time it is sent alone."""
    return (
        f"the broker of topic {topic} calls the event corrupt, again when it was sent alone: look "
        "at the broker's log, and at what changes packets on the way, such as a proxy"
    )


def unreachable_brokers(kafka: KafkaSettings, unreachable: Sequence[UnreachableBroker]) -> str:
    """Return what to do about brokers whose own address leads nowhere from here."""
    addresses = _join_names(_tried_text(one) for one in unreachable)
    remedies = {one.is_unknown: _TRIED_REMEDIES[one.is_unknown] for one in unreachable}
    return (
        f"{', '.join(kafka.brokers)} answered, but the cluster advertises {addresses}: "
        f"{_join_names(remedies.values())}, or correct the brokers' advertised.listeners"
    )


def _tried_text(one: UnreachableBroker) -> str:
    address = f"broker {one.broker.node} as {one.broker.host}:{one.broker.port}"
    verb = "cannot be resolved" if one.is_unknown else "takes no connection"
    return f"{address}, which {verb} ({one.reason})"


def _add_acl(kafka: KafkaSettings) -> str:
    name = "ANONYMOUS" if kafka.sasl is None else kafka.sasl.username or "SUBJECT_OF_THE_TOKEN"
    return (
        f"kafka-acls.sh --bootstrap-server {kafka.brokers[0]} --add --allow-principal User:{name}"
    )


def _last_warning_text(last_warning: str) -> str:
    return f" (last warning of the client: {last_warning})" if last_warning else ""


def _join_names(names: Iterable[str]) -> str:
    return " and ".join(names)
