"""The administrator of a Kafka broker under test, through another client library than ours."""

from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
)
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewTopic

from tests.support.control_plane import wait_until

_WITHIN_S = 30.0
_PASSWORD_ROUNDS = 4096


class KafkaAdmin:
    """Changes topics, rights and passwords, and waits until they are in force."""

    def __init__(self, address: str) -> None:
        # A broker that is started again is found within half a second, and refusals are normal.
        pace = {"reconnect.backoff.max.ms": 500, "log_level": 0}
        self._client = AdminClient({"bootstrap.servers": address, **pace})

    def is_reachable(self) -> bool:
        """Say whether the broker answers."""
        try:
            return bool(self._client.list_topics(timeout=2).brokers)
        except KafkaException:
            return False

    def brokers(self) -> int:
        """Return how many brokers the cluster has now."""
        return len(self._client.list_topics(timeout=30).brokers)

    def create_topic(
        self, name: str, partitions: int = 3, replicas: int = 1, **settings: str
    ) -> None:
        """Make a topic that can be written to at once; settings have underscores for dots."""
        config = {key.replace("_", "."): value for key, value in settings.items()}
        topic = NewTopic(name, partitions, replicas, config=config)
        _await_futures(self._client.create_topics([topic]).values())
        what = f"the partitions of {name} have leaders"
        wait_until(lambda: self.has_leader(name, partitions), within_s=_WITHIN_S, what=what)

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and wait until it is gone."""
        _await_futures(self._client.delete_topics([name]).values())

        def is_gone() -> bool:
            return name not in self._client.list_topics(timeout=30).topics

        wait_until(is_gone, within_s=_WITHIN_S, what=f"{name} is gone")

    def set_topic(self, name: str, **settings: str) -> None:
        """Change settings of a topic."""
        changes = [_change(key.replace("_", "."), value) for key, value in settings.items()]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=changes)
        _await_futures(self._client.incremental_alter_configs([resource]).values())

    def allow(self, user: str, topic: str) -> None:
        """Let a user write to, read and describe a topic."""
        operation, permission = AclOperation.ALL, AclPermissionType.ALLOW
        grant = AclBinding(*_acl_bindings(user, topic), operation, permission)
        _await_futures(self._client.create_acls([grant]).values())

    def forbid(self, user: str, topic: str) -> None:
        """Take back what `allow` gave."""
        operation, permission = AclOperation.ANY, AclPermissionType.ANY
        grants = AclBindingFilter(*_acl_bindings(user, topic), operation, permission)
        _await_futures(self._client.delete_acls([grants]).values())

    def set_password(self, user: str, password: str) -> None:
        """Give a user a new SCRAM password; PLAIN passwords stay as they were at the start."""
        how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, _PASSWORD_ROUNDS)
        change = UserScramCredentialUpsertion(user, how, password.encode())
        _await_futures(self._client.alter_user_scram_credentials([change]).values())

    def has_leader(self, topic: str, partitions: int) -> bool:
        partition_metadata = self._client.list_topics(topic, timeout=30).topics[topic].partitions
        return len(partition_metadata) == partitions and all(
            each.leader >= 0 for each in partition_metadata.values()
        )


def _acl_bindings(user: str, topic: str) -> tuple[ResourceType, str, ResourcePatternType, str, str]:
    return (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{user}", "*")


def _await_futures(
    changes: Iterable[Future[Any]],
) -> None:  # each kind of change has its own answer
    for change in changes:
        change.result(timeout=_WITHIN_S)


def _change(name: str, value: str) -> ConfigEntry:
    return ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
