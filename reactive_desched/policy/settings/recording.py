"""Settings of the journal, of events and of sinks, with safe defaults."""

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from reactive_desched.api.args import (
    NEEDS_RESTART,
    FieldErrors,
    PositiveSeconds,
    Seconds,
    Section,
    field_error,
    file_key,
    longer_than_zero,
    raise_field_errors,
)
from reactive_desched.api.rules import Rule
from reactive_desched.api.sink import EventTypes
from reactive_desched.policy.settings.certificates import CertificateFiles
from reactive_desched.policy.settings.otlp import OtlpSettings
from reactive_desched.policy.settings.unique_names import duplicate_names
from reactive_desched.policy.settings.webhook_url import token_url_error, webhook_url_error
from reactive_desched.primitives.hints import quote

ByteCount = Annotated[int, Field(ge=4096, le=2**50)]
RecordCount = Annotated[int, Field(ge=1, le=1_000_000)]
RecordsPerSecond = Annotated[float, Field(gt=0, le=100_000, allow_inf_nan=False)]
ClientCount = Annotated[int, Field(ge=1, le=10_000)]

MIB: Final = 1024 * 1024
DAY_S: Final = 86_400.0
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_BROKER = re.compile(r"(\[[0-9A-Fa-f:]+\]|[^\s:/\[\]]+):([0-9]{1,5})")
_HIGHEST_PORT = 65535
_AWS_REGION = re.compile(r"[a-z]{2,4}(-[a-z]{2,12}){1,3}-[0-9]{1,2}")
_AWS_ROLE = re.compile(r"arn:aws[a-z-]*:iam::[0-9]{12}:role/[\w+=,.@/-]{1,600}")
_SINK_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


def _check_sink_name(name: str) -> str:
    if not _SINK_NAME.fullmatch(name):
        message = f"{quote(name)} cannot be the name of a sink"
        hint = "use at most 40 lower-case letters, digits and dashes, such as audit"
        raise field_error(message, hint, rule=Rule.NOT_A_NAME)
    return name


SinkName = Annotated[str, AfterValidator(_check_sink_name)]


class RetentionSettings(Section):
    """Limits on closed segments; a sink that has not read one keeps it."""

    max_bytes: ByteCount = Field(
        default=512 * MIB, description="Remove the oldest segments beyond this size in all."
    )
    max_age_s: PositiveSeconds = Field(
        default=30 * DAY_S, description="Remove segments older than this."
    )
    hard_max_bytes: ByteCount = Field(
        default=1024 * MIB,
        description="Beyond this size segments are removed even if a sink has not read them; the "
        "loss is "
        "counted and recorded. Keep it well below the size of the volume.",
    )

    @model_validator(mode="after")
    def _check_caps(self) -> "RetentionSettings":
        if self.hard_max_bytes < self.max_bytes:
            message = "hardMaxBytes is smaller than maxBytes"
            raise field_error(
                message,
                "raise hardMaxBytes",
                ("hardMaxBytes",),
                rule=Rule.CONTRADICTING_SETTINGS,
            )
        return self


class CheckpointSettings(Section):
    """The interval at which the journal is signed, so that a rewritten one is detected."""

    every_records: RecordCount = Field(
        default=1000, description="Sign after so many records at the latest."
    )
    every_s: PositiveSeconds = Field(
        default=60.0, description="Sign after this time at the latest, if there is a new record."
    )
    key_file: str = Field(
        default="",
        description="Ed25519 private key (PEM, PKCS #8), best from a Secret. "
        "Default: a key generated in the journal's folder, readable by every process "
        "that can write there.",
    )


class DecisionLimitSettings(Section):
    """The rate of recorded decisions other than evictions; what is beyond is counted."""

    per_second: RecordsPerSecond = Field(default=200.0, description="The steady rate.")
    burst: RecordCount = Field(default=20_000, description="Most at once after a quiet time.")


class JournalSettings(Section):
    """The durable record of what was decided and what came of it."""

    directory: str = Field(
        default="",
        description="Folder of the segments; it must survive a restart. "
        "Default: $STATE_DIRECTORY/journal, else a folder for each cluster below "
        "~/.local/state/reactive-desched/clusters.",
    )
    max_segment_bytes: ByteCount = Field(
        default=16 * MIB, description="Begin a new segment at this size."
    )
    max_segment_age_s: PositiveSeconds = Field(
        default=DAY_S, description="Begin a new segment when one is this old."
    )
    compress: Literal["none", "gzip"] = Field(
        default="gzip", description="How closed segments are compressed."
    )
    retention: RetentionSettings = Field(
        default=RetentionSettings.model_construct(), description="Removing old segments."
    )
    checkpoints: CheckpointSettings = Field(
        default=CheckpointSettings.model_construct(), description="Signing the record."
    )
    verdicts: DecisionLimitSettings = Field(
        default=DecisionLimitSettings.model_construct(), description="Bounding what is recorded."
    )

    @model_validator(mode="after")
    def _check_segment_fits(self) -> "JournalSettings":
        """The file being written is never removed: one above the cap would break the cap."""
        if self.max_segment_bytes > self.retention.hard_max_bytes:
            message = "maxSegmentBytes is larger than retention.hardMaxBytes"
            raise field_error(
                message, "lower it", ("maxSegmentBytes",), rule=Rule.CONTRADICTING_SETTINGS
            )
        return self


class DisruptionSettings(Section):
    """Records of pods that others end, `disruption.observed`; further ones are only counted."""

    record: Literal["none", "marked", "unexplained", "all"] = Field(
        default="unexplained",
        description="Which are recorded: marked are those with the condition DisruptionTarget "
        "(preemption, taints, the kubelet, evictions by others); unexplained adds deletions of "
        "pods that their owner wants; all adds those of rollouts, of smaller workloads, of owners "
        "that are gone, and of owners that are not known.",
    )
    per_second: RecordsPerSecond = Field(default=10.0, description="The steady rate.")
    burst: RecordCount = Field(default=1000, description="Most at once after a quiet time.")


class EventSettings(Section):
    """Kubernetes Events, the source of every event, and records of what others do."""

    kubernetes: bool = Field(
        default=True,
        description="Write Kubernetes Events beside evicted pods, their owners and our own pod; "
        "not in a dry run.",
    )
    cluster: Annotated[str, NEEDS_RESTART] = Field(
        default="",
        description="The cluster's name in records and answers; in the source of every event as it "
        "was when the journal began. Default: the context of the kubeconfig, else the uid of the "
        "namespace kube-system, which stands in the source then.",
    )

    disruptions: DisruptionSettings = Field(
        default=DisruptionSettings.model_construct(),
        description="Records of pods that others end.",
    )

    @field_validator("cluster")
    @classmethod
    def _check_cluster_name(cls, name: str) -> str:
        if name and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}", name):
            message = f"{quote(name)} cannot stand in a URI as the name of a cluster"
            raise field_error(message, "use letters, digits, dots and dashes", rule=Rule.NOT_A_NAME)
        return name


class OidcSettings(Section):
    """An OIDC token endpoint that gives tokens by the grant client_credentials."""

    token_endpoint_url: str = Field(
        description="The address to ask for a token; https unless it is on loopback."
    )
    client_id: str = Field(description="The client's id.")
    client_secret_file: str = Field(
        description="File that holds the client's secret and nothing else, best from a Secret."
    )
    scope: str = Field(default="", description="The scope to ask for, as the endpoint wants it.")
    ca_file: str = Field(
        default="", description="PEM file of authorities to trust; default: the system's."
    )

    @field_validator("token_endpoint_url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        if (error := token_url_error(url)) is not None:
            raise FieldErrors([error])
        return url


class AwsIamSettings(Section):
    """Tokens for Amazon MSK, signed with the credentials that AWS gives the pod."""

    region: str = Field(description="The region of the brokers, such as eu-central-1.")
    role_arn: str = Field(
        default="",
        description="A role to assume first, such as arn:aws:iam::123456789012:role/NAME; default: "
        "none, the credentials of the pod sign.",
    )

    @field_validator("region")
    @classmethod
    def _check_region(cls, region: str) -> str:
        if not _AWS_REGION.fullmatch(region):
            message = f"{quote(region)} is no region of AWS"
            raise field_error(message, "write for example eu-central-1", rule=Rule.UNKNOWN_VALUE)
        return region

    @field_validator("role_arn")
    @classmethod
    def _check_role(cls, role_arn: str) -> str:
        if role_arn and not _AWS_ROLE.fullmatch(role_arn):
            hint = "write for example arn:aws:iam::123456789012:role/NAME"
            message = f"{quote(role_arn)} is not the ARN of a role"
            raise field_error(message, hint, rule=Rule.UNKNOWN_VALUE)
        return role_arn


class SaslSettings(Section):
    """SASL credentials for Kafka; secrets are read from files at each connection."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = Field(
        default="SCRAM-SHA-512", description="The SASL mechanism."
    )
    username: str = Field(default="", description="The user's name; not with OAUTHBEARER.")
    password_file: str = Field(
        default="",
        description="File that holds the password and nothing else, best from a Secret; not with "
        "OAUTHBEARER.",
    )
    token_file: str = Field(
        default="",
        description="With OAUTHBEARER: file that holds a token, which others renew, such as a "
        "projected service account token.",
    )
    oidc: OidcSettings | None = Field(
        default=None, description="With OAUTHBEARER: where to ask for tokens, instead of tokenFile."
    )
    aws_iam: AwsIamSettings | None = Field(
        default=None,
        description="With OAUTHBEARER: tokens for Amazon MSK, instead of tokenFile and oidc. It "
        "needs `reactive-desched[aws]`, which is not in the image.",
    )
    extensions: dict[str, str] = Field(
        default={},
        description="With OAUTHBEARER: SASL extensions, such as logicalCluster and identityPoolId.",
    )

    @field_validator("username", "password_file", "token_file")
    @classmethod
    def _check_not_empty(cls, text: str) -> str:
        if not text.strip():
            raise field_error(
                "must not be empty", "leave out sasl to use none", rule=Rule.NOT_A_NAME
            )
        return text

    @model_validator(mode="after")
    def _check_mechanism(self) -> "SaslSettings":
        """Each mechanism has what it proves who we are with, and nothing else."""
        with_password = bool(self.username) + bool(self.password_file)
        with_token = sum(map(bool, (self.token_file, self.oidc, self.aws_iam)))
        is_token = self.mechanism == "OAUTHBEARER"
        if is_token and (with_token != 1 or with_password):
            hint = "set one of tokenFile, oidc and awsIam, and neither username nor passwordFile"
        elif not is_token and (with_password != 2 or with_token):  # noqa: PLR2004 -- both
            hint = "set username and passwordFile, and none of tokenFile, oidc and awsIam"
        else:
            return self
        message = f"these credentials are not those of {self.mechanism}"
        raise field_error(message, hint, ("mechanism",), rule=Rule.CONTRADICTING_SETTINGS)


class KafkaTlsSettings(CertificateFiles):
    """Encryption towards Kafka; files are PEM."""

    ca_file: str = Field(
        default="", description="File of certificate authorities to trust; default: the system's."
    )
    cert_file: str = Field(default="", description="Client certificate, where brokers require one.")
    key_file: str = Field(default="", description="Private key of the client certificate.")


class KafkaSettings(Section):
    """Every event into a Kafka topic, in order for each workload."""

    brokers: Annotated[tuple[str, ...], Field(min_length=1)] = Field(
        description="Bootstrap brokers, as host:port."
    )
    topic: str = Field(default="reactive-desched.events", description="The topic; it must exist.")
    checkpoint_topic: str = Field(
        default="", description="Another topic for checkpoints; default: the same."
    )
    mode: Literal["structured", "binary"] = Field(
        default="structured",
        description="structured: a value is a whole event; binary: attributes are headers alone.",
    )
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = Field(
        default="none",
        description="Compression of record batches; zstd is the smallest, and faster than gzip.",
    )
    max_request_bytes: ByteCount = Field(
        default=MIB, description="The largest request; not above the topic's max.message.bytes."
    )
    types: EventTypes = Field(
        default=(),
        description="Only these types of event, such as eviction.succeeded; all if empty.",
    )
    tls: KafkaTlsSettings | None = Field(default=None, description="Encrypt; null: in the clear.")
    sasl: SaslSettings | None = Field(default=None, description="Authenticate; null: do not.")

    @model_validator(mode="after")
    def _check_encrypted(self) -> "KafkaSettings":
        """Amazon MSK takes tokens on encrypted connections alone."""
        if self.sasl is not None and self.sasl.aws_iam is not None and self.tls is None:
            message = "must be set with sasl.awsIam"
            hint = "write tls: {}, and brokers with the port 9098, or 9198 from outside"
            raise field_error(message, hint, ("tls",), rule=Rule.MISSING_FIELD)
        return self

    @field_validator("brokers")
    @classmethod
    def _check_brokers(cls, brokers: tuple[str, ...]) -> tuple[str, ...]:
        for broker in brokers:
            errors = _BROKER.fullmatch(broker)
            if errors is None or not 1 <= int(errors[2]) <= _HIGHEST_PORT:
                message = f"{quote(broker)} is not the address of a broker"
                raise field_error(
                    message,
                    "write host:port, for example kafka:9092",
                    rule=Rule.NOT_AN_ADDRESS,
                )
        return brokers

    @field_validator("topic", "checkpoint_topic")
    @classmethod
    def _check_topic(cls, topic: str, info: ValidationInfo) -> str:
        if not topic and info.field_name == "checkpoint_topic":
            return topic
        if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
            message = f"{quote(topic)} cannot be the name of a topic"
            raise field_error(
                message,
                "use letters, digits, dots, dashes, underlines",
                rule=Rule.NOT_A_NAME,
            )
        return topic


class WebhookSettings(Section):
    """Events sent to an address over HTTP, one after the other."""

    url: str = Field(description="The address to post to; https unless it is on loopback.")
    ca_file: str = Field(
        default="", description="PEM file of authorities to trust; default: the system's."
    )
    secret_file: str = Field(
        default="",
        description="File with the secret that signs each request; two on two lines while secrets "
        "are exchanged; default: unsigned.",
    )
    token_file: str = Field(
        default="", description="File with a bearer token for the Authorization header."
    )
    types: EventTypes = Field(
        default=(),
        description="Only these types of event, such as eviction.succeeded; all if empty.",
    )
    timeout_s: Annotated[Seconds, longer_than_zero("10s")] = Field(
        default=10.0, description="For one request; not 0."
    )

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str) -> str:
        if (error := webhook_url_error(url)) is not None:
            raise FieldErrors([error])
        return url


class NamedKafkaSettings(KafkaSettings):
    """One more Kafka sink, which is called kafka-NAME."""

    name: SinkName = Field(
        description="Its name; kafka-NAME names its position, metrics, dead letters and log lines."
    )


class NamedWebhookSettings(WebhookSettings):
    """One more webhook sink, which is called webhook-NAME."""

    name: SinkName = Field(
        description="Its name; webhook-NAME names its position, metrics, dead letters and log "
        "lines."
    )


class NamedOtlpSettings(OtlpSettings):
    """One more sink for traces, which is called otlp-NAME."""

    name: SinkName = Field(
        description="Its name; otlp-NAME names its position, metrics, dead letters and log lines."
    )


class StdoutSettings(Section):
    """Events on standard output, one JSON object on each line."""

    types: EventTypes = Field(
        default=(),
        description="Only these types of event, such as eviction.succeeded; all if empty.",
    )


class StreamSettings(Section):
    """The stream of events over HTTP, at /events."""

    max_clients: ClientCount = Field(
        default=256, description="Clients at once; one more is answered 503."
    )
    heartbeat_s: Annotated[Seconds, longer_than_zero("15s")] = Field(
        default=15.0,
        description="Send a heartbeat at least this often, so that clients notice a dead "
        "connection; not 0.",
    )
    stalled_after_s: Annotated[Seconds, longer_than_zero("15s")] = Field(
        default=20.0, description="Disconnect a client that has read nothing for so long; not 0."
    )


class SinkSettings(Section):
    """Sinks send the journal's records on, each at its own pace; null: not there."""

    kafka: KafkaSettings | None = Field(default=None, description="Into a Kafka topic.")
    additional_kafka: tuple[NamedKafkaSettings, ...] = Field(
        default=(),
        description="More Kafka topics or clusters, each at its own pace: as kafka, with a name.",
    )
    webhook: WebhookSettings | None = Field(default=None, description="To an address over HTTP.")
    additional_webhooks: tuple[NamedWebhookSettings, ...] = Field(
        default=(),
        description="More addresses over HTTP, each at its own pace: as webhook, with a name.",
    )
    otlp: OtlpSettings | None = Field(default=None, description="As traces of OpenTelemetry.")
    additional_otlp: tuple[NamedOtlpSettings, ...] = Field(
        default=(),
        description="More collectors of traces, each at its own pace: as otlp, with a name.",
    )
    stdout: StdoutSettings | None = Field(
        default=None, description="On standard output; {} to have it."
    )
    stream: StreamSettings | None = Field(
        default=None, description="Over HTTP, at /events of the server; {} to have it."
    )

    @model_validator(mode="after")
    def _check_names(self) -> "SinkSettings":
        raise_field_errors(
            error
            for field in type(self).model_fields
            if isinstance(named := getattr(self, field), tuple)
            for key in (file_key(field),)
            for error in duplicate_names(named, f"sinks of {key}", key)
        )
        return self
