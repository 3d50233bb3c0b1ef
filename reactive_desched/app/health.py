"""What /livez and /readyz read of a running controller."""

import time
from functools import partial

from reactive_desched.app.config_reload import ActiveConfig
from reactive_desched.controller.controller import Controller
from reactive_desched.web.health import CheckResult, Health


def build_health(controller: Controller, active: ActiveConfig) -> Health:
    """Return the checks of both probes: /readyz lists every pause of the controller."""
    health = Health(time.monotonic)
    for name in controller.readiness.pauses:
        health.add_readiness_check(name, partial(_pause_check, controller, name))
    health.add_info_check(
        "policy", lambda: CheckResult(not active.problems, active.status_message())
    )
    return health


def _pause_check(controller: Controller, name: str) -> CheckResult:
    controller.pause_reason()  # a suspend, or a fault of the journal, pauses when it is looked for
    status = controller.readiness.pauses[name]
    return CheckResult(not status.reason, status.reason or status.note)
