"""Evictions stop while a service suffers, by a real Prometheus and a real Alertmanager."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.api.event import BRAKE_ENGAGED, BRAKE_RELEASED
from reactive_desched.journal.events import read_events
from tests.e2e.conftest import do_without, where_they_are
from tests.support.audit_crosscheck import AuditCrosscheck
from tests.support.control_plane import wait_until
from tests.support.controller_process import ControllerProcess, RunController
from tests.support.limits import UNLIMITED
from tests.support.playground import E2ENamespace
from tests.support.prometheus import ERRORS, MeasuredService

pytestmark = pytest.mark.real

TIMES = {"interval": "500ms", "timeout": "2s", "keepAnswer": "2s", "releaseAfter": "1s"}
QUERY = f"sum by (namespace) ({ERRORS}) > 5"
KNOWN_BY = 'time() - timestamp(up{job="service"} == 1) < 5'


@pytest.fixture
def service(tmp_path: Path) -> Iterator[MeasuredService]:
    """A service that is well, and what measures it."""
    found = json.loads(where_they_are())
    names = ("prometheus", "alertmanager")
    prometheus, alertmanager = (
        Path(found[name] or do_without([name.capitalize()])) for name in names
    )
    with MeasuredService(prometheus, alertmanager, tmp_path) as measured:
        yield measured


def checked(*checks: Mapping[str, Any]) -> str:
    """Return settings with these health checks, and no other brake."""
    brakes = {"zones": None, "storm": None, "pending": None, "health": checks}
    return (
        "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"
        "debounce: {quiet: 200ms, maxWait: 2s}\n"
        f"brakes: {json.dumps(brakes)}\n"
    ) + UNLIMITED


def await_line(controller: ControllerProcess, text: str) -> None:
    """Wait until a line of /readyz has this text."""
    wait_until(
        lambda: text in controller.page("/readyz?verbose"), within_s=60, what=f"{text!r} on /readyz"
    )


def spread(playground: E2ENamespace) -> None:
    """Make two nodes, of which the first has two pods that a taint will make wrong."""
    playground.add_nodes("n1")
    playground.deploy("web", 2)
    playground.add_nodes("n2")


def test_a_service_that_suffers_is_left_alone_until_it_is_well(
    playground: E2ENamespace,
    service: MeasuredService,
    run_controller: RunController,
    referee: AuditCrosscheck,
) -> None:
    asked = {"url": service.prometheus.url, "query": QUERY, "knownBy": KNOWN_BY}
    check = {"name": "errors", "prometheus": asked, "holds": "namespace", **TIMES}
    playground.settings = checked(check)
    namespace = playground.namespace
    spread(playground)
    service.errors = {namespace: 7, "another": 0}

    with run_controller() as controller:
        await_line(
            controller, f'brake/health: errors: the service suffers: 7 {{namespace="{namespace}"}}'
        )
        playground.taint("n1", "gpu=yes:NoSchedule")
        wait_until(
            lambda: "ServiceSuffers" in controller.page("/debug/pending"),
            within_s=60,
            what="the finding waits",
        )
        service.errors = {namespace: 9}
        await_line(
            controller, f'brake/health: errors: the service suffers: 9 {{namespace="{namespace}"}}'
        )
        assert referee.audited() == []
        service.errors = {namespace: 1, "another": 9}
        playground.await_healthy("web", 2, off="n1", within_s=120)

        events = [
            (event.type, event.data.brake, event.data.scope)
            for event in read_events(controller.journal)
            if event.type in (BRAKE_ENGAGED, BRAKE_RELEASED)
        ]
    scope = f"namespace {namespace}"
    ours = [each for each in events if each[2] == scope]
    assert ours == [
        (BRAKE_ENGAGED, "health/errors", scope),
        (BRAKE_RELEASED, "health/errors", scope),
    ]
    assert (BRAKE_ENGAGED, "health/errors", "namespace another") in events


def test_a_prometheus_that_is_gone_or_has_no_data_is_no_proof_of_health(
    playground: E2ENamespace,
    service: MeasuredService,
    run_controller: RunController,
    referee: AuditCrosscheck,
) -> None:
    asked = {"url": service.prometheus.url, "query": QUERY, "knownBy": KNOWN_BY}
    playground.settings = checked({"name": "errors", "prometheus": asked, **TIMES})
    spread(playground)

    with run_controller() as controller:
        await_line(controller, "health-checks: errors: ok")
        service.errors = None
        await_line(controller, "brake/health: errors: whether the service suffers is not known")
        playground.taint("n1", "gpu=yes:NoSchedule")
        wait_until(
            lambda: "ServiceHealthUnknown" in controller.page("/debug/pending"),
            within_s=60,
            what="the finding waits",
        )
        await_line(controller, "knownBy yields no sample")
        service.prometheus.stop()
        await_line(controller, f"health-checks: errors: {service.prometheus.url}: ")
        assert referee.audited() == []
        service.errors = {}
        service.prometheus.start()
        playground.await_healthy("web", 2, off="n1", within_s=120)


def test_an_alert_that_fires_holds_until_it_is_silenced(
    playground: E2ENamespace,
    service: MeasuredService,
    run_controller: RunController,
    referee: AuditCrosscheck,
) -> None:
    asked = {
        "url": service.alertmanager.url,
        "alerts": ['severity="page"', "alertname=~Service.*"],
        "knownBy": ['alertname="Watchdog"'],
    }
    playground.settings = checked({"name": "pages", "alertmanager": asked, **TIMES})
    namespace = playground.namespace
    spread(playground)
    service.errors = {namespace: 7}

    with run_controller() as controller:
        await_line(
            controller, 'brake/health: pages: the service suffers: {alertname="ServiceErrors"'
        )
        playground.taint("n1", "gpu=yes:NoSchedule")
        wait_until(
            lambda: "ServiceSuffers" in controller.page("/debug/pending"),
            within_s=60,
            what="the finding waits",
        )
        assert referee.audited() == []
        service.silence(namespace=namespace)
        playground.await_healthy("web", 2, off="n1", within_s=120)
        service.alertmanager.stop()
        await_line(controller, "brake/health: pages: whether the service suffers is not known")
