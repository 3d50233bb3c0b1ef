"""What Kafka's refusals mean to whoever runs this, and what to do about them."""

from collections.abc import Iterable

from reactive_desched.policy.recording import Kafka


def unknown_topic(kafka: Kafka, topic: str) -> str:
    """Return what to do about a topic that is not there."""
    return (
        f"topic {topic} does not exist: make it, for example with "
        f"`kafka-topics.sh --bootstrap-server {kafka.brokers[0]} --create --topic {topic} "
        "--partitions 6 --replication-factor 3`"
    )


def not_authorised(kafka: Kafka, topic: str) -> str:
    """Return what to do about missing rights."""
    who = "User:ANONYMOUS" if kafka.sasl is None else f"User:{kafka.sasl.username}"
    return (
        f"not authorised to write to topic {topic}: allow it, for example with "
        f"`kafka-acls.sh --bootstrap-server {kafka.brokers[0]} --add --allow-principal {who} "
        f"--producer --topic {topic}`"
    )


def no_broker(kafka: Kafka, heard: str) -> str:
    """Return what to look at when nobody answers, or nobody lets us in."""
    what = ["brokers"]
    what += ["tls"] if kafka.tls is not None else []
    what += ["sasl"] if kafka.sasl is not None else []
    return (
        f"no broker of {', '.join(kafka.brokers)} lets us in{_heard(heard)}: check "
        f"{_listed(what)} in the settings, and that the network lets us through"
    )


def no_answer(seconds: float, heard: str) -> str:
    """Return what is known when acknowledgements stay away."""
    return f"no acknowledgement from Kafka within {seconds:.0f} s{_heard(heard)}"


def too_large(size: int, kafka: Kafka, topic: str) -> str:
    """Return why an event will never be taken."""
    return (
        f"{size} bytes are too large for topic {topic}: raise its max.message.bytes, "
        f"and maxRequestBytes ({kafka.max_request_bytes}) here, to send such events"
    )


def _heard(heard: str) -> str:
    return f" (last heard: {heard})" if heard else ""


def _listed(words: Iterable[str]) -> str:
    return " and ".join(words)
