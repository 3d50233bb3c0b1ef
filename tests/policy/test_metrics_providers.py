"""Sources of measured use that cannot work are refused."""

from collections.abc import Callable

import pytest

Ask = Callable[[str], list[str]]

METRICS = "metricsProviders"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[{}]", f"{METRICS}[0].source: is required"),
        (
            "[{source: prometheus}]",
            (
                f'{METRICS}[0].source: the text "prometheus" is not a value it can have; '
                "did you mean Prometheus?"
            ),
        ),
        (
            "[{source: x}]",
            (
                f'{METRICS}[0].source: the text "x" is not a value it can have; '
                "choose from KubernetesMetrics, Prometheus"
            ),
        ),
        (
            "[{source: KubernetesMetrics}, {source: KubernetesMetrics}]",
            f"{METRICS}[1].source: KubernetesMetrics is configured twice; remove one",
        ),
        (
            "[{source: KubernetesMetrics}]\nmetricsCollector: {enabled: true}",
            (
                f"{METRICS}[0].source: KubernetesMetrics cannot be combined with "
                "metricsCollector.enabled; remove metricsCollector: it is deprecated"
            ),
        ),
        (
            "[{source: Prometheus}]",
            (
                f"{METRICS}[0]: source Prometheus needs a prometheus section; "
                "write prometheus: {url: https://…} beside it"
            ),
        ),
        (
            "[{source: Prometheus, prometheus: {}}]",
            (
                f"{METRICS}[0].prometheus.url: source Prometheus needs a url; "
                "for example https://prom:9090"
            ),
        ),
        (
            "[{source: Prometheus, prometheus: {url: 'http://prom:-80'}}]",
            (
                f'{METRICS}[0].prometheus.url: "http://prom:-80" is not a URL: '
                "Port could not be cast to integer value as '-80'"
            ),
        ),
        (
            "[{source: Prometheus, prometheus: {url: 'prom:9090'}}]",
            (
                f'{METRICS}[0].prometheus.url: "prom:9090" is not the URL of a server; '
                "write it with http:// or https:// and a host"
            ),
        ),
        (
            "[{source: Prometheus, prometheus: {url: 'http://p', authToken: {}}}]",
            (
                f"{METRICS}[0].prometheus.authToken: authToken needs a secretReference; "
                "write secretReference: {namespace: …, name: …} below it"
            ),
        ),
        (
            (
                "[{source: Prometheus, prometheus: "
                "{url: 'http://p', authToken: {secretReference: {name: x}}}}]"
            ),
            (
                f"{METRICS}[0].prometheus.authToken.secretReference: "
                "a secretReference needs both namespace and name"
            ),
        ),
    ],
)
def test_a_metrics_provider_that_cannot_work_is_refused(
    text: str, told: str, problems: Ask, head: str
) -> None:
    (line,) = problems(f"{head}metricsProviders: {text}\n")
    assert line.split(": ", 1)[1] == told
