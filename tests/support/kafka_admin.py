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

from tests.support.control_plane import eventually

_WITHIN_S = 30.0
_PASSWORD_ROUNDS = 4096


class KafkaAdmin:
    """Changes topics, rights and passwords, and waits until they are in force."""

    def __init__(self, address: str) -> None:
        # A broker that is started again is found within half a second, and refusals are normal.
        pace = {"reconnect.backoff.max.ms": 500, "log_level": 0}
        self._client = AdminClient({"bootstrap.servers": address, **pace})

    def serves(self) -> bool:
        """Say whether the broker answers."""
        try:
            return bool(self._client.list_topics(timeout=2).brokers)
        except KafkaException:
            return False

    def create_topic(self, name: str, partitions: int = 3, **settings: str) -> None:
        """Make a topic that can be written to at once; `max_message_bytes` is a setting."""
        config = {key.replace("_", "."): value for key, value in settings.items()}
        topic = NewTopic(name, partitions, 1, config=config)
        _settle(self._client.create_topics([topic]).values())
        what = f"the partitions of {name} have leaders"
        eventually(lambda: self._leads(name, partitions), within_s=_WITHIN_S, what=what)

    def set_topic(self, name: str, **settings: str) -> None:
        """Change settings of a topic."""
        changes = [_change(key.replace("_", "."), value) for key, value in settings.items()]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=changes)
        _settle(self._client.incremental_alter_configs([resource]).values())

    def allow(self, user: str, topic: str) -> None:
        """Let a user write to, read and describe a topic."""
        operation, permission = AclOperation.ALL, AclPermissionType.ALLOW
        grant = AclBinding(*_whom(user, topic), operation, permission)
        _settle(self._client.create_acls([grant]).values())

    def forbid(self, user: str, topic: str) -> None:
        """Take back what `allow` gave."""
        operation, permission = AclOperation.ANY, AclPermissionType.ANY
        grants = AclBindingFilter(*_whom(user, topic), operation, permission)
        _settle(self._client.delete_acls([grants]).values())

    def set_password(self, user: str, password: str) -> None:
        """Give a user a new SCRAM password; PLAIN passwords stay as they were at the start."""
        how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, _PASSWORD_ROUNDS)
        change = UserScramCredentialUpsertion(user, how, password.encode())
        _settle(self._client.alter_user_scram_credentials([change]).values())

    def _leads(self, topic: str, partitions: int) -> bool:
        found = self._client.list_topics(topic, timeout=5).topics[topic].partitions
        return len(found) == partitions and all(each.leader >= 0 for each in found.values())


def _whom(user: str, topic: str) -> tuple[ResourceType, str, ResourcePatternType, str, str]:
    return (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{user}", "*")


def _settle(changes: Iterable[Future[Any]]) -> None:  # each kind of change has its own answer
    for change in changes:
        change.result(timeout=_WITHIN_S)


def _change(name: str, value: str) -> ConfigEntry:
    return ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
