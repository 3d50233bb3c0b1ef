"""The list `brakes.health` of the settings: checks that stop evictions when the service suffers.

docs/howto/health.md shows how to write them.
"""

import re
from collections.abc import Iterator
from typing import Annotated, Final, Literal

from pydantic import Field, field_validator, model_validator

from reactive_desched.api.args import (
    FieldError,
    FieldErrors,
    Seconds,
    Section,
    field_error,
    file_key,
    longer_than_zero,
    raise_field_errors,
)
from reactive_desched.api.rules import Rule
from reactive_desched.model.brakes import HEALTH_PREFIX
from reactive_desched.primitives.url import is_loopback_host, split_url

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_MATCHER: Final = re.compile(
    r"\s*[a-zA-Z_][a-zA-Z0-9_]*\s*(=~|!~|!=|=)\s*"  # the label, and how it is compared
    r'("(\\.|[^"\\])*"|[^"\s]\S*)\s*'  # with what: in quotes, or one word
)
_BOOL: Final = re.compile(r"(?:[<>]=?|[!=]=)\s*bool\b[^)<>=!]*$")

Holds = Literal["cluster", "namespace", "profile", "plugin"]


class _Server(Section):
    """A server that is asked by HTTP."""

    url: str = Field(description="Its address, such as `http://prometheus.monitoring.svc:9090`.")
    token_file: str = Field(
        default="",
        description="A file with the bearer token to show, read for each question. Empty: over "
        "https the token of our own service account, where there is one.",
    )

    @model_validator(mode="after")
    def _check_url(self) -> "_Server":
        if error := _url_error(self.url, with_token=bool(self.token_file)):
            raise FieldErrors([error])
        return self


class PrometheusCheckSettings(_Server):
    """A query to Prometheus, or to what answers as it does: Thanos, Mimir, VictoriaMetrics."""

    query: str = Field(
        description="PromQL, as in an alerting rule: any sample that it yields says that the "
        "service suffers, whatever its value; none says that it does not."
    )
    known_by: str = Field(
        default="",
        description="PromQL that yields a sample while `query` can be trusted, such as "
        '`up{job="shop"} == 1`: without a sample the check is unknown. Empty: not asked.',
    )

    @field_validator("query")
    @classmethod
    def _check_query(cls, query: str) -> str:
        if not query.strip():
            raise field_error("must not be empty", "write PromQL", rule=Rule.EMPTY_VALUE)
        if _BOOL.search(query):
            raise field_error(
                "a comparison with bool yields a sample whether or not it holds, and any sample"
                " says that the service suffers",
                "leave out bool",
                rule=Rule.ARGUMENT_REFUSED,
            )
        return query


class AlertmanagerCheckSettings(_Server):
    """Firing alerts of Alertmanager; those that are silenced or inhibited do not count."""

    alerts: tuple[str, ...] = Field(
        description='Matchers of labels, such as `severity="page"`, `team=~"shop|pay"`: an alert '
        "that all of them match says that the service suffers."
    )
    known_by: tuple[str, ...] = Field(
        default=(),
        description='Matchers of an alert that always fires, such as `alertname="Watchdog"`: while '
        "it does not, the check is unknown. Empty: not asked.",
    )

    @model_validator(mode="after")
    def _check_matchers(self) -> "AlertmanagerCheckSettings":
        errors = [
            FieldError(
                "is no matcher of a label",
                'write one such as severity="page", severity!="info" or team=~"shop|pay"',
                (name, number),
                rule=Rule.LABEL_SELECTOR,
            )
            for name, matchers in (("alerts", self.alerts), ("knownBy", self.known_by))
            for number, matcher in enumerate(matchers)
            if not _MATCHER.fullmatch(matcher)
        ]
        if not self.alerts:
            hint = 'write alerts: [severity="page"]'
            errors.append(FieldError("must not be empty", hint, ("alerts",), rule=Rule.EMPTY_VALUE))
        raise_field_errors(errors)
        return self


class MovesCheckSettings(Section):
    """The controller's own moves: whether replacements get Ready, and how soon."""

    not_ready_percent: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)] | None = Field(
        default=50.0,
        description="The service suffers when this share of the last replacements was not Ready "
        "within `readyWithin`; null: not judged.",
    )
    ready_within_s: Annotated[Seconds, longer_than_zero("5m")] = Field(
        default=300.0,
        description="The time for a replacement to be Ready, from the accepted eviction; one that "
        "`moves.readyTimeout` gave up was not.",
    )
    slowdown: Annotated[float, Field(ge=1.5, le=100, allow_inf_nan=False)] | None = Field(
        default=3.0,
        description="The service suffers when the last replacements took so many times as long "
        "as those before them, and ten seconds more, by their medians; null: not judged.",
    )
    last: Annotated[int, Field(ge=5, le=100)] = Field(
        default=20,
        description="So many of the latest moves of a day are judged, and fewer are not; `slowdown`"
        " compares them with five times as many before, and at least as many.",
    )

    @model_validator(mode="after")
    def _check_any(self) -> "MovesCheckSettings":
        if self.not_ready_percent is None and self.slowdown is None:
            hint = "write notReadyPercent or slowdown"
            raise FieldErrors([FieldError("judges nothing", hint, rule=Rule.MISSING_FIELD)])
        return self


_WITHOUT_EFFECT: Final = (
    "label",
    "for_s",
    "on_unknown",
    "interval_s",
    "timeout_s",
    "keep_answer_s",
)
"""The fields of a check by moves that have no effect: no server is asked."""


class HealthCheckSettings(Section):
    """One check of the service's health; one of `prometheus`, `alertmanager` and `moves` says how.

    Times count by the controller's clock.
    """

    name: str = Field(
        description="Its name in records, metrics and answers: small letters, digits and dashes."
    )
    prometheus: PrometheusCheckSettings | None = Field(default=None, description="Ask Prometheus.")
    alertmanager: AlertmanagerCheckSettings | None = Field(
        default=None, description="Ask Alertmanager."
    )
    moves: MovesCheckSettings | None = Field(
        default=None, description="Judge the controller's own moves; no server is asked."
    )
    holds: Holds = Field(
        default="cluster",
        description="What it holds while the service suffers: everything, or the pods of those "
        "namespaces, or what those profiles or plugins find, that `label` of the samples names.",
    )
    label: str = Field(
        default="",
        description="The label of samples or alerts that names what is held; empty: as `holds` "
        "says. A sample without it holds everything.",
    )
    for_s: Seconds = Field(
        default=0.0, description="The service must suffer for so long before anything is held."
    )
    release_after_s: Seconds = Field(
        default=300.0,
        description="It must be well for so long before that is released. By `moves` it is held "
        "for so long, and the moves after that are judged anew.",
    )
    on_unknown: Literal["hold", "ignore"] = Field(
        default="hold",
        description="While it is not known whether the service suffers, as after a start, after "
        "errors for `keepAnswer`, or without a sample of `knownBy`: `hold` holds everything, "
        "`ignore` holds nothing.",
    )
    interval_s: Annotated[Seconds, longer_than_zero("30s")] = Field(
        default=30.0, description="Ask this often, and never more than once at a time."
    )
    timeout_s: Annotated[Seconds, longer_than_zero("10s")] = Field(
        default=10.0, description="An answer that takes longer is an error."
    )
    keep_answer_s: Seconds = Field(
        default=120.0, description="Errors keep the last answer for so long; then it is unknown."
    )

    def __str__(self) -> str:
        of = "" if self.holds == "cluster" else f" by {self.holds}"
        return f"{self.name}{of}"

    @property
    def brake(self) -> str:
        """The name of its brake."""
        return f"{HEALTH_PREFIX}{self.name}"

    @property
    def asks(self) -> tuple[object, ...]:
        """Return what decides how it is asked: an equal check is the same question."""
        return (
            self.name,
            self.prometheus,
            self.alertmanager,
            self.moves,
            self.held_by_label,
            self.interval_s,
            self.timeout_s,
            self.keep_answer_s,
        )

    @property
    def asks_a_server(self) -> bool:
        """Say whether its answers come from a server, and not from our own moves."""
        return self.moves is None

    @property
    def held_by_label(self) -> str:
        """Return the label that names what is held; empty where it holds the cluster."""
        return "" if self.holds == "cluster" else self.label or self.holds

    @model_validator(mode="after")
    def _check(self) -> "HealthCheckSettings":
        raise_field_errors(self._errors())
        return self

    def _errors(self) -> Iterator[FieldError]:
        if not _NAME.fullmatch(self.name):
            message = "must be small letters, digits and dashes, 63 at most"
            hint = "write one such as checkout-errors"
            yield FieldError(message, hint, ("name",), rule=Rule.NOT_A_NAME)
        asked = [each for each in (self.prometheus, self.alertmanager, self.moves) if each]
        if len(asked) > 1:
            message = "only one of prometheus, alertmanager and moves can be asked"
            yield FieldError(message, "make a check of each", rule=Rule.EXCLUSIVE_FIELDS)
        if not asked:
            message = "needs prometheus, alertmanager or moves, which says what is asked"
            hint = "write prometheus: {url: http://…, query: …}"
            yield FieldError(message, hint, rule=Rule.MISSING_FIELD)
        for name in _WITHOUT_EFFECT if self.moves else ():
            if name in self.model_fields_set:
                message = "has no effect with moves"
                path = (file_key(name),)
                yield FieldError(message, "leave it out", path, rule=Rule.CONTRADICTING_SETTINGS)
        if self.label and self.holds == "cluster" and not self.moves:
            hint = "leave out label, or write holds: namespace"
            message = "has no effect with holds: cluster"
            yield FieldError(message, hint, ("label",), rule=Rule.CONTRADICTING_SETTINGS)


def _url_error(url: str, *, with_token: bool) -> FieldError | None:
    """Say what is wrong with an address; never repeat it: it may hold a password."""
    parts = split_url(url)
    path = ("url",)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        hint = "write http://host:port, without spaces"
        return FieldError("is not a URL", hint, path, rule=Rule.PROMETHEUS)
    if parts.username is not None:
        hint = "put a token into tokenFile"
        return FieldError("a URL must not hold a password", hint, path, rule=Rule.PROMETHEUS)
    if parts.query or parts.fragment:
        message = "must end before ? and #"
        return FieldError(message, "leave them out", path, rule=Rule.PROMETHEUS)
    if with_token and parts.scheme == "http" and not is_loopback_host(parts.hostname):
        message = f"http to {parts.hostname} sends the token unencrypted"
        return FieldError(message, "write https://", path, rule=Rule.PROMETHEUS)
    return None
