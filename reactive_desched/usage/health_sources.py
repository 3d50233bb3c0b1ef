"""Asks Prometheus or Alertmanager whether a service suffers."""

import math
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Protocol

import aiohttp
import anyio.to_thread
import msgspec
from msgspec import Struct
from yarl import URL

from reactive_desched.errors import MonitoringUnavailable, UsageUnavailable
from reactive_desched.model.health import HELD_KEYS, HealthAnswer, Symptom
from reactive_desched.policy.settings.health import (
    AlertmanagerCheckSettings,
    HealthCheckSettings,
    PrometheusCheckSettings,
)
from reactive_desched.primitives.bounded_text import truncate
from reactive_desched.primitives.decode_errors import DECODE_ERRORS
from reactive_desched.text.ages import format_age
from reactive_desched.text.counts import format_count
from reactive_desched.usage.monitoring_server import MonitoringServer, TokenSource
from reactive_desched.usage.prometheus import (
    IN_CLUSTER_FOLDER,
    QUERY_PATH,
    Series,
    ServiceAccountToken,
    decode_answer,
    decode_vector,
    open_prometheus,
)

__all__ = ["HealthSource", "open_health_source"]

MAX_BODY_BYTES: Final = 4 * 2**20
"""The longest answer to a check: some ten thousand samples."""

ALERTS_PATH: Final = "api/v2/alerts"
CLOCK_ERROR_S: Final = 60.0
"""So far the clocks of two machines may differ before an answer counts as an old one."""

_MAX_LABELS: Final = 12
_MAX_LABEL_CHARS: Final = 100
_NAME_LABEL: Final = "__name__"
_TOO_LONG: Final = "the reply is longer"


class HealthSource(Protocol):
    """Answers one check."""

    async def ask(self) -> HealthAnswer:
        """Ask once; raises UsageUnavailable where the answer does not say what is so."""
        ...


class TokenInFile:
    """The token in a file, read each time: tokens rotate."""

    def __init__(self, file: Path) -> None:
        self._file = file

    async def token(self, url: URL) -> str:
        """Return the token as it is on disk now; raises UsageUnavailable without one."""
        del url
        try:
            token = (await anyio.to_thread.run_sync(self._file.read_text)).strip()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise UsageUnavailable(f"tokenFile {self._file}: {reason}") from None
        if not token or not token.isascii() or not token.isprintable():
            raise UsageUnavailable(f"tokenFile {self._file}: there is no token in it")
        return token


class PrometheusHealth:
    """One query, in whose answer each sample is a symptom, and one that says whether it is known.

    A sample that is no number is none; where there are no others, and where Prometheus warns that
    something is missing, an answer without samples is no proof of health.
    """

    def __init__(
        self,
        check: HealthCheckSettings,
        settings: PrometheusCheckSettings,
        server: MonitoringServer,
        wall: Callable[[], float],
    ) -> None:
        self._check = check
        self._settings = settings
        self._server = server
        self._wall = wall

    async def ask(self) -> HealthAnswer:
        """Query once; raises UsageUnavailable."""
        if self._settings.known_by:
            samples, _ = await self._query(self._settings.known_by, "knownBy")
            if not samples:
                raise UsageUnavailable("knownBy yields no sample: the query cannot be trusted")
        samples, warnings = await self._query(self._settings.query, "query")
        numbers = [each for each in samples if not _is_nan(each)]
        if not numbers and samples:
            raise UsageUnavailable(
                f"{format_count(len(samples), 'sample', 'is', 'are')} not a number: let the"
                " query compare, so that it yields none of them"
            )
        if not numbers and warnings:
            raise UsageUnavailable(f"the answer may be incomplete: {truncate(warnings[0])}")
        found = [Symptom(each.metric, each.value[1] or "histogram") for each in numbers]
        return _answer(self._check, found)

    async def _query(self, query: str, what: str) -> tuple[Sequence[Series], Sequence[str]]:
        try:
            reply = await self._server.post(QUERY_PATH, {"query": query})
        except MonitoringUnavailable as error:
            raise _with_remedy(error) from None
        try:
            answer = decode_answer(reply.body)
        except DECODE_ERRORS:
            raise self._not_of("Prometheus", reply.status) from None
        if answer.status != "success":
            said = ": ".join(filter(None, (answer.error_type, answer.error)))
            raise UsageUnavailable(f"{what}: {truncate(said) or 'it was refused'}")
        if (found := answer.data.result_type) != "vector":
            raise UsageUnavailable(
                f"{what} yields a {found or 'nothing'}, and no vector: write it as in an alerting"
                " rule, such as vector(…) > 0"
            )
        try:
            samples = decode_vector(answer.data.result)
        except DECODE_ERRORS:
            raise self._not_of("Prometheus", reply.status) from None
        self._check_age(samples)
        return samples, answer.warnings

    def _check_age(self, samples: Iterable[Series]) -> None:
        """Raise UsageUnavailable for samples of another time: a cache, or a wrong clock."""
        now, bound_s = self._wall(), self._check.keep_answer_s + CLOCK_ERROR_S
        for each in samples:
            if each.value[1] and abs(now - each.value[0]) > bound_s:
                old_s = now - each.value[0]
                when = f"{format_age(old_s)} old" if old_s > 0 else f"{format_age(-old_s)} ahead"
                raise UsageUnavailable(
                    f"the samples are {when}: a cache answers, or a clock is wrong"
                )

    def _not_of(self, program: str, status: int) -> UsageUnavailable:
        return _not_of(self._server, program, status)


class _AlertStatus(Struct, frozen=True, gc=False):
    state: str = ""


class _Alert(Struct, frozen=True, gc=False):
    labels: dict[str, str] = {}
    status: _AlertStatus = _AlertStatus()


_decode_alerts: Final = msgspec.json.Decoder(list[_Alert]).decode


class AlertmanagerHealth:
    """The firing alerts that match; those that are silenced or inhibited are none."""

    def __init__(
        self,
        check: HealthCheckSettings,
        settings: AlertmanagerCheckSettings,
        server: MonitoringServer,
    ) -> None:
        self._check = check
        self._settings = settings
        self._server = server

    async def ask(self) -> HealthAnswer:
        """Ask once; raises UsageUnavailable."""
        if self._settings.known_by and not await self._firing(self._settings.known_by):
            matchers = ", ".join(self._settings.known_by)
            raise UsageUnavailable(f"no alert fires that knownBy names: {matchers}")
        return _answer(self._check, await self._firing(self._settings.alerts))

    async def _firing(self, matchers: Iterable[str]) -> list[Symptom]:
        only = [("active", "true"), ("silenced", "false"), ("inhibited", "false")]
        query = only + [("filter", each.strip()) for each in matchers]
        try:
            reply = await self._server.get(ALERTS_PATH, query)
        except MonitoringUnavailable as error:
            raise _with_remedy(error) from None
        if reply.status != HTTPStatus.OK:
            raise UsageUnavailable(f"Alertmanager answers {reply.status}: {_said(reply.body)}")
        try:
            alerts = _decode_alerts(reply.body)
        except DECODE_ERRORS:
            raise _not_of(self._server, "Alertmanager", reply.status) from None
        # An old one does not know every parameter: its answer says the state all the same.
        return [Symptom(each.labels) for each in alerts if each.status.state != "suppressed"]


@asynccontextmanager
async def open_health_source(
    check: HealthCheckSettings,
    wall: Callable[[], float],
    folder: Path = IN_CLUSTER_FOLDER,
    environ: Mapping[str, str] = os.environ,
) -> AsyncIterator[HealthSource]:
    """Reach what answers a check while the block lasts; `folder` has our service account's token.

    Raises UsageUnavailable where the file of the cluster's certificate authority cannot be read.
    """
    settings = check.prometheus or check.alertmanager
    assert settings is not None, "of each check one is set"
    async with open_prometheus(check.timeout_s, folder) as http:
        server = _server(http, settings, folder, environ)
        if isinstance(settings, PrometheusCheckSettings):
            yield PrometheusHealth(check, settings, server, wall)
        else:
            yield AlertmanagerHealth(check, settings, server)


def _server(
    http: aiohttp.ClientSession,
    settings: PrometheusCheckSettings | AlertmanagerCheckSettings,
    folder: Path,
    environ: Mapping[str, str],
) -> MonitoringServer:
    file = settings.token_file
    tokens: TokenSource = TokenInFile(Path(file)) if file else ServiceAccountToken(folder)
    return MonitoringServer(http, settings.url, tokens, environ, MAX_BODY_BYTES)


def _answer(check: HealthCheckSettings, found: Sequence[Symptom]) -> HealthAnswer:
    """Return what is kept of an answer: of each name that is held one symptom at least."""
    label, kept = check.held_by_label, found
    if label and len(found) > HELD_KEYS:
        kept = list({each.labels.get(label, ""): each for each in reversed(found)}.values())[::-1]
    more = len(kept if label else found) - HELD_KEYS
    symptoms = tuple(_bounded(each, label) for each in kept[:HELD_KEYS])
    return HealthAnswer(check.name, symptoms, more=max(0, more))


def _bounded(symptom: Symptom, label: str) -> Symptom:
    """Return a symptom with few and short labels, in their order; the one that counts is whole."""
    names = sorted(symptom.labels, key=lambda name: (name != label, name))
    labels = {
        name: symptom.labels[name]
        if name == label
        else truncate(symptom.labels[name], _MAX_LABEL_CHARS)
        for name in names[:_MAX_LABELS]
        if name != _NAME_LABEL
    }
    return Symptom(dict(sorted(labels.items())), truncate(symptom.value, _MAX_LABEL_CHARS))


def _is_nan(series: Series) -> bool:
    try:
        return math.isnan(float(series.value[1]))
    except ValueError:
        return False


def _with_remedy(error: MonitoringUnavailable) -> UsageUnavailable:
    text = str(error)
    if _TOO_LONG in text:
        text += ": let the query aggregate, such as with sum by (namespace)"
    return UsageUnavailable(text)


def _not_of(server: MonitoringServer, program: str, status: int) -> UsageUnavailable:
    return UsageUnavailable(f"{server.url.origin()}: the answer ({status}) is not {program}'s")


def _said(body: bytes) -> str:
    """Return the text of a refusal."""
    try:
        found: Any = msgspec.json.decode(body)
    except DECODE_ERRORS:
        return "no reason"
    said = found.get("message", "") if isinstance(found, dict) else found
    return truncate(str(said), 4 * _MAX_LABEL_CHARS)
