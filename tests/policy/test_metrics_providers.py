"""Sources of measured use that cannot work are refused, in upstream's words and at their place."""

import json
from collections.abc import Callable

import pytest

from reactive_desched.api.args import LENIENT_CONTEXT
from reactive_desched.policy.document import PolicyDocument
from tests.support.golden import Golden

Ask = Callable[[str], list[str]]

METRICS = "metricsProviders"


def with_url(url: str) -> str:
    return f"[{{source: Prometheus, prometheus: {{url: '{url}'}}}}]"


def with_token(token: str) -> str:
    return f"[{{source: Prometheus, prometheus: {{url: 'http://p', authToken: {token}}}}}]"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "[{}]",
            id="no source",
        ),
        pytest.param(
            "[{source: prometheus}]",
            id="a source in lower case",
        ),
        pytest.param(
            "[{source: x}]",
            id="a source that does not exist",
        ),
        pytest.param(
            "[{source: KubernetesMetrics}, {source: KubernetesMetrics}]",
            id="the same source twice",
        ),
        pytest.param(
            "[{source: KubernetesMetrics}]\nmetricsCollector: {enabled: true}",
            id="a source and the switch it replaces",
        ),
        pytest.param(
            "[{source: KubernetesMetrics, prometheus: {url: 'http://p'}}]",
            id="an address for the other source",
        ),
        pytest.param(
            "[{source: Prometheus}]",
            id="no address",
        ),
        pytest.param(
            "[{source: Prometheus, prometheus: {}}]",
            id="an empty address",
        ),
        pytest.param(
            with_url("http://prom:-80"),
            id="a port below zero",
        ),
        pytest.param(
            with_url("prom:9090"),
            id="an address without scheme",
        ),
        pytest.param(
            with_token("{}"),
            id="a token from nowhere",
        ),
        pytest.param(
            with_token("{secretReference: {name: x}}"),
            id="a secret without its namespace",
        ),
        pytest.param(
            with_token("{secretReference: {}}"),
            id="a secret without anything",
        ),
    ],
)
def test_a_metrics_provider_that_cannot_work_is_refused(
    text: str, golden: Golden, problems: Ask, head: str
) -> None:
    (line,) = problems(f"{head}metricsProviders: {text}\n")
    assert line.split(": ", 1)[1] == golden()


def test_every_wrong_provider_is_reported_at_once(problems: Ask, head: str) -> None:
    lines = problems(
        f"{head}metricsProviders: [{{source: x}}, {{source: Prometheus, prometheus: {{url: '', "
        "authToken: {secretReference: {name: x}}}}]\ngracePeriodSeconds: -1\n"
    )
    assert sorted(line.split(": ")[1] for line in lines) == [
        "gracePeriodSeconds",
        f"{METRICS}[0].source",
        f"{METRICS}[1].prometheus.authToken.secretReference",
        f"{METRICS}[1].prometheus.url",
    ]


def lenient(**fields: object) -> PolicyDocument:
    return PolicyDocument.model_validate_json(
        json.dumps(fields), strict=True, context=LENIENT_CONTEXT
    )


def at(url: str) -> dict[str, object]:
    return {"source": "Prometheus", "prometheus": {"url": url}}


@pytest.mark.parametrize(
    "providers",
    [
        pytest.param([{"source": "x"}, {"source": "y"}], id="sources that do not exist"),
        pytest.param([{}], id="no source"),
        pytest.param([at("prom:9090")], id="an address that Go takes for a URL"),
        pytest.param([at("ftp://prom")], id="another scheme"),
        pytest.param(
            [{"source": "KubernetesMetrics", "prometheus": {"url": "http://p"}}],
            id="an address for the other source",
        ),
    ],
)
def test_a_lenient_reading_forgives_a_provider_that_upstream_does_not_use(
    providers: list[object],
) -> None:
    assert len(lenient(metricsProviders=providers).metrics_providers) == len(providers)


def test_a_lenient_reading_passes_a_negative_grace_period_on() -> None:
    assert lenient(gracePeriodSeconds=-1).grace_period_seconds == -1


@pytest.mark.parametrize(
    "providers",
    [
        pytest.param([{"source": "x"}, {"source": "x"}], id="even an unknown source twice"),
        pytest.param([{"source": "Prometheus"}], id="no address"),
        pytest.param([at("")], id="an empty address"),
        pytest.param([at("10.0.0.1:9090")], id="an address that Go takes for none"),
        pytest.param([at("http://prom:-80")], id="a port below zero"),
    ],
)
def test_a_lenient_reading_refuses_a_provider_that_upstream_refuses(
    providers: list[object],
) -> None:
    with pytest.raises(ValueError, match="metricsProviders"):
        lenient(metricsProviders=providers)
