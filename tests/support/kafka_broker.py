"""A real Apache Kafka broker on loopback ports, so that tests meet true Kafka answers.

One process is broker and KRaft controller. It listens in the clear, where everybody is the
administrator, with SASL (PLAIN and SCRAM), where users may do only what they were granted, with
TLS, where a certificate says who somebody is, and where it advertises a name that leads nowhere.
"""

import json
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

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

from tests.support.component import ChildProcess
from tests.support.control_plane import STARTS_S, wait_until
from tests.support.ports import free_ports

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


WRONG_NAME = "kafka-0.nowhere.invalid"
"""The host that one listener advertises; RFC 6761 keeps it from being any host's name."""

_ENCRYPTED = ("sasl_tls", "mutual_tls")
# For a quick start rather than for a long life.
_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
_LOGGING = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
)


@dataclass(frozen=True)
class KafkaTools:
    """The Java and the jars, as `tools/real/build.py --where` says."""

    java: Path
    libs: Path
    missing: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the answer of `tools/real/build.py --where`."""
        answer = json.loads(text)["kafka"]
        names = {"java": "Java", "libs": f"Kafka {answer['version']}"}
        missing = tuple(name for key, name in names.items() if not answer[key])
        return cls(Path(answer["java"] or ""), Path(answer["libs"] or ""), missing)

    def argv(self, main: str, *arguments: str, options: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return the command that runs a class of Kafka."""
        return (
            *(str(self.java), *_JVM, *_LOGGING, *options),
            *("-cp", f"{self.libs}/*", main, *arguments),
        )

    def run(self, main: str, *arguments: str, within_s: float = STARTS_S) -> str:
        """Run one of Kafka's own tools to its end and return what it printed."""
        argv = self.argv(main, *arguments)
        done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=within_s)
        return done.stdout


@dataclass(frozen=True)
class ServerTls:
    """What the broker shows on its encrypted listeners: PEM texts, the key in PKCS #8.

    `authority` is whose certificates it takes from clients.
    """

    certificate: str
    key: str
    authority: str


@dataclass
class KafkaBroker:
    """A broker as a context manager; `folder` keeps its data and log, `users` their passwords.

    Killed and started again, it finds its data and its ports. Brokers of one cluster have other
    numbers, and share `voters`, the address of each controller by the number of its broker. Its
    records may have folders of their own: `record_folders`.
    """

    tools: KafkaTools
    folder: Path
    users: Mapping[str, str] = field(default_factory=dict)
    tls: ServerTls | None = None
    number: int = 1
    voters: dict[int, str] = field(default_factory=dict)
    record_folders: tuple[Path, ...] = ()
    cluster_id: str = "cmVhY3RpdmUtZGVzY2hlZA"
    admin: KafkaAdmin = field(init=False)
    _ports: dict[str, int] = field(init=False)
    _component: ChildProcess = field(init=False)

    def __post_init__(self) -> None:
        names = ("plain", "controller", "sasl", *_ENCRYPTED, "misnamed")
        self._ports = dict(zip(names, free_ports(len(names)), strict=True))
        self.voters[self.number] = f"127.0.0.1:{self._ports['controller']}"
        self.admin = KafkaAdmin(self.address)
        argv = self.tools.argv("kafka.Kafka", str(self._settings_file))
        self._component = ChildProcess("kafka", argv, self.folder / "kafka.log")

    def __enter__(self) -> Self:
        """Make the data folder, start, and wait until it serves."""
        try:
            self.launch_first()
            self.await_serving()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End it, whatever state it is in."""
        self.kill()

    @property
    def address(self) -> str:
        """Where everybody is the administrator, in the clear."""
        return f"127.0.0.1:{self._ports['plain']}"

    @property
    def sasl_address(self) -> str:
        """Where users prove who they are, in the clear."""
        return f"127.0.0.1:{self._ports['sasl']}"

    @property
    def misnamed_address(self) -> str:
        """Where everybody gets in, to be led to a name that cannot be resolved: WRONG_NAME."""
        return f"127.0.0.1:{self._ports['misnamed']}"

    @property
    def wrong_address(self) -> str:
        """Return what the misnamed listener advertises."""
        return f"{WRONG_NAME}:{self._ports['misnamed']}"

    @property
    def tls_address(self) -> str:
        """Where users prove who they are, encrypted; only with `tls`. Its name is localhost."""
        return f"localhost:{self._ports['sasl_tls']}"

    @property
    def mutual_tls_address(self) -> str:
        """Where a certificate says who somebody is; only with `tls`. Its name is localhost."""
        return f"localhost:{self._ports['mutual_tls']}"

    def launch_first(self) -> None:
        """Make the data folder and start, and wait for nothing."""
        self._settings_file.write_text(self._settings())
        self._format()
        self._component.start()

    def start(self, within_s: float = STARTS_S) -> None:
        """Start it where it was before and wait until it serves."""
        self._component.start()
        self.await_serving(within_s)

    def replace(self, number: int, cluster_id: str) -> None:
        """Have another broker of another cluster, which is empty, serve at the same addresses."""
        self.kill()
        shutil.rmtree(self.folder / "data")
        self.number, self.cluster_id = number, cluster_id
        self.voters = {number: f"127.0.0.1:{self._ports['controller']}"}
        self.launch_first()
        self.await_serving()

    def await_serving(self, within_s: float = STARTS_S) -> None:
        """Wait until it serves."""
        wait_until(self._is_serving, within_s=within_s, what="the Kafka broker serves")

    def ensure_running(self) -> None:
        """Start it again if a test left it ended, and let it go on if it is paused."""
        if not self._component.alive:
            self.start()
        self.resume()

    def has_ended(self) -> bool:
        """Say whether it has ended, of itself or not."""
        return not self._component.alive

    def pause(self) -> None:
        """Stop its time: connections stay, nothing answers."""
        self._component.freeze()

    def resume(self) -> None:
        """Let it go on."""
        self._component.thaw()

    def kill(self) -> None:
        """End it as a lost machine would."""
        self._component.kill()

    def stop(self) -> int:
        """Ask it to end, wait, and return its exit status."""
        return self._component.stop(within_s=60)

    def tail(self, lines: int = 30) -> str:
        """Return the last lines it logged."""
        return self._component.tail(lines)

    def console(self, topic: str, *properties: str, silent_s: float = 10) -> list[str]:
        """Return what Kafka's own console consumer prints of a topic, from its beginning.

        It ends when nothing has come for `silent_s` seconds, its own start among them, which takes
        more than two on a slow machine.
        """
        shown = (part for each in properties for part in ("--formatter-property", each))
        printed = self.tools.run(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", self.address, "--topic", topic, "--from-beginning"),
            *("--timeout-ms", str(int(silent_s * 1000)), *shown),
        )
        return printed.splitlines()

    @property
    def _settings_file(self) -> Path:
        return self.folder / "server.properties"

    def _format(self) -> None:
        scram = (f"SCRAM-SHA-512=[name={u},password={p}]" for u, p in self.users.items())
        users = [part for each in scram for part in ("--add-scram", each)]
        cluster = ("-t", self.cluster_id, "-c", str(self._settings_file))
        self.tools.run("kafka.tools.StorageTool", "format", *cluster, *users)

    def _is_serving(self) -> bool:
        self._component.ensure_alive()
        return self.admin.is_reachable()

    def _settings(self) -> str:
        settings = self._base() | self._sasl_listener("sasl")
        if (tls := self.tls) is not None:
            settings |= self._sasl_listener("sasl_tls")
            for name in _ENCRYPTED:
                settings |= {
                    f"listener.name.{name}.ssl.keystore.type": "PEM",
                    f"listener.name.{name}.ssl.keystore.certificate.chain": _one_line(
                        tls.certificate
                    ),
                    f"listener.name.{name}.ssl.keystore.key": _one_line(tls.key),
                }
            settings |= {
                "listener.name.mutual_tls.ssl.client.auth": "required",
                "listener.name.mutual_tls.ssl.truststore.type": "PEM",
                "listener.name.mutual_tls.ssl.truststore.certificates": _one_line(tls.authority),
            }
        return "".join(f"{key}={value}\n" for key, value in settings.items())

    def _base(self) -> dict[str, str]:
        ports = {
            name: port for name, port in self._ports.items() if name not in _ENCRYPTED or self.tls
        }
        hosts = {name: "localhost" if name in _ENCRYPTED else "127.0.0.1" for name in ports}
        listeners = {name: f"{name.upper()}://{hosts[name]}:{port}" for name, port in ports.items()}
        advertised_hosts = hosts | {"misnamed": WRONG_NAME}
        advertised = (
            f"{name.upper()}://{advertised_hosts[name]}:{port}"
            for name, port in ports.items()
            if name != "controller"
        )
        return {
            "process.roles": "broker,controller",
            "node.id": str(self.number),
            "controller.quorum.voters": ",".join(
                f"{number}@{address}" for number, address in self.voters.items()
            ),
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(listeners.values()),
            "advertised.listeners": ",".join(advertised),
            "listener.security.protocol.map": "PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT,"
            "SASL:SASL_PLAINTEXT,SASL_TLS:SASL_SSL,MUTUAL_TLS:SSL,MISNAMED:PLAINTEXT",
            "inter.broker.listener.name": "PLAIN",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "log.dirs": ",".join(map(str, self.record_folders or (self.folder / "data",))),
            "metadata.log.dir": str(self.folder / "data"),
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": "4",
            "group.initial.rebalance.delay.ms": "0",
            # A broker that was killed is let in again only when its old session has ended.
            "broker.heartbeat.interval.ms": "500",
            "broker.session.timeout.ms": "2000",
            # One broker may be all there is.
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
        }

    def _sasl_listener(self, name: str) -> dict[str, str]:
        prefix, module = f"listener.name.{name}", "org.apache.kafka.common.security"
        plain, scram = f"{module}.plain.PlainLoginModule", f"{module}.scram.ScramLoginModule"
        bearer = f"{module}.oauthbearer.OAuthBearerLoginModule"
        credentials = " ".join(f'user_{user}="{option}"' for user, option in self.users.items())
        return {
            f"{prefix}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
            f"{prefix}.plain.sasl.jaas.config": f"{plain} required {credentials};",
            f"{prefix}.scram-sha-512.sasl.jaas.config": f"{scram} required;",
            # It takes tokens without a signature: no validator is set.
            f"{prefix}.oauthbearer.sasl.jaas.config": f"{bearer} required;",
        }


def _one_line(pem: str) -> str:
    return pem.strip().replace("\n", "\\n")


@contextmanager
def kafka_cluster(tools: KafkaTools, folder: Path, brokers: int) -> Iterator[list[KafkaBroker]]:
    """Serve a cluster of so many brokers, each a controller, too, while the block lasts."""
    voters: dict[int, str] = {}
    with ExitStack() as ending:
        made = []
        for number in range(1, brokers + 1):
            own = folder / f"broker-{number}"
            own.mkdir()
            made.append(KafkaBroker(tools, own, number=number, voters=voters))
        for each in made:
            ending.callback(each.kill)
            each.launch_first()
        for each in made:
            each.await_serving()
        wait_until(
            lambda: made[0].admin.brokers() == brokers, within_s=60, what="all brokers are there"
        )
        yield made
