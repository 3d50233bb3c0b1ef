"""Explains Kafka's errors to the operator, with the remedy."""

from collections.abc import Iterable

from reactive_desched.policy.recording import KafkaSettings


def unknown_topic(kafka: KafkaSettings, topic: str) -> str:
    """Return what to do about a topic that is not there."""
    return (
        f"topic {topic} does not exist: make it, for example with "
        f"`kafka-topics.sh --bootstrap-server {kafka.brokers[0]} --create --topic {topic} "
        "--partitions 6 --replication-factor 3`"
    )


def not_authorised(kafka: KafkaSettings, topic: str) -> str:
    """Return what to do about missing rights."""
    principal = "User:ANONYMOUS" if kafka.sasl is None else f"User:{kafka.sasl.username}"
    return (
        f"not authorised to write to topic {topic}: allow it, for example with "
        f"`kafka-acls.sh --bootstrap-server {kafka.brokers[0]} --add --allow-principal {principal} "
        f"--producer --topic {topic}`"
    )


def no_broker(kafka: KafkaSettings, last_warning: str) -> str:
    """Return what to check when no broker answers, or none accepts us."""
    what = ["brokers"]
    what += ["tls"] if kafka.tls is not None else []
    what += ["sasl"] if kafka.sasl is not None else []
    return (
        f"no broker of {', '.join(kafka.brokers)} lets us "
        f"in{_last_warning_text(last_warning)}: check "
        f"{_join_names(what)} in the settings, and that the network lets us through"
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


def _last_warning_text(last_warning: str) -> str:
    return f" (last warning of the client: {last_warning})" if last_warning else ""


def _join_names(names: Iterable[str]) -> str:
    return " and ".join(names)
