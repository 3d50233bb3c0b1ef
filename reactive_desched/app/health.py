"""Builds the checks of /livez and /readyz from a running controller."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from reactive_desched.app.config_reload import ActiveConfig
from reactive_desched.controller.controller import Controller
from reactive_desched.controller.description import ControllerDescription
from reactive_desched.controller.observing import is_watched_only
from reactive_desched.controller.pipeline import Pipeline
from reactive_desched.controller.public_state import GOOD, ControllerState
from reactive_desched.controller.readiness import (
    BRAKE,
    INTENTIONAL,
    JOURNAL,
    LEADER,
    MANUAL,
    STARTUP,
    USUAL_BEFORE_A_TERM,
)
from reactive_desched.model.brakes import HEALTH_PREFIX, PENDING, STORM, ZONE
from reactive_desched.model.modes import mode_text
from reactive_desched.web.health import CheckResult, Health

CHECKED_BRAKES: Final = (ZONE, STORM, PENDING)
"""The brakes with a line of their own; the manual brake has the line of its pause."""

_SAID_BY_CHECKS: Final = (
    ControllerState.FAULT,
    ControllerState.STARTING,
    ControllerState.OUT_OF_SYNC,
)
"""The states whose causes are checks that fail, each with a line of its own."""

_NOT_PAUSED: Final = {
    MANUAL: "no person holds it",
    BRAKE: "no brake stops the evaluation; brake/… say whether one holds evictions",
}
"""What is said of an intentional pause that is none now."""

_OF_THE_LEADER: Final = frozenset({LEADER, STARTUP, JOURNAL})
"""Pauses that hold on every standby: it is ready without them."""

_ON_STANDBY: Final = {
    STARTUP: "standby: the start ends once this process leads",
    JOURNAL: "standby: it is opened once this process leads",
}
"""What is said of a standby, for the reasons that such a pause has before a term begins."""


def build_health(pipeline: Pipeline, active: ActiveConfig, *, dry_run: bool) -> Health:
    """Return the checks of both probes: /readyz lists every pause of the controller, and the mode.

    A standby is ready when it could take over: in sync, and not stopping.
    """
    health, controller = Health(time.monotonic), pipeline.controller
    for name in controller.readiness.pauses:
        if name in INTENTIONAL:
            health.add_info_check(name, partial(_intentional_pause, controller, name))
        else:
            health.add_readiness_check(name, partial(_pause_check, controller, name))
    for brake in CHECKED_BRAKES:
        health.add_info_check(f"brake/{brake}", partial(_brake_check, controller, brake))
    health.add_info_check("brake/health", partial(_health_check, controller))
    health.add_info_check("plugins", partial(_plugin_check, controller))
    health.add_info_check("state", partial(_state_check, controller, pipeline.description))
    health.add_info_check("warm-up", partial(_warm_up_check, pipeline.description))
    health.add_info_check("mode", partial(_mode_check, controller, dry_run=dry_run))
    health.add_info_check(
        "policy", lambda: CheckResult(not active.problems, active.status_message())
    )
    return health


def add_credential_check(health: Health, error: Callable[[], str | None]) -> None:
    """Show on /readyz why the credentials for the API server are not renewed; the old ones count.

    What they no longer open fails in the lines of the watches.
    """
    health.add_info_check(
        "credentials",
        lambda: CheckResult(not error(), error() or "renewed as they end"),
    )


def add_sink_check(health: Health, errors: Callable[[], Mapping[str, str]]) -> None:
    """Show on /readyz what keeps each sink from its records; evictions do not wait for them."""

    def check() -> CheckResult:
        texts = [f"{name}: {error}" for name, error in errors().items()]
        return CheckResult(not texts, "; ".join(texts) or "all take records")

    health.add_info_check("sinks", check)


def add_recording_check(health: Health, fault: Callable[[], str | None]) -> None:
    """Show on /readyz why what the controller sees is not recorded; evictions go on without it."""

    def check() -> CheckResult:
        text = fault()
        if text is None:
            return CheckResult(ok=True, message="off, or this process does not lead")
        return CheckResult(not text, text or "records what the controller sees")

    health.add_info_check("recording", check)


def _intentional_pause(controller: Controller, name: str) -> CheckResult:
    result = _pause_check(controller, name)
    return result if result.message else CheckResult(ok=True, message=_NOT_PAUSED[name])


def _brake_check(controller: Controller, brake: str) -> CheckResult:
    message = controller.pauses.brake_messages()[brake]
    return CheckResult(not message, message or "released")


def _health_check(controller: Controller) -> CheckResult:
    """Say what the checks of the service's health hold, each with its last symptoms."""
    messages = controller.pauses.brake_messages().items()
    texts = [
        f"{name.removeprefix(HEALTH_PREFIX)}: {text}"
        for name, text in messages
        if text and name.startswith(HEALTH_PREFIX)
    ]
    return CheckResult(not texts, "; ".join(texts) or "released")


def _plugin_check(controller: Controller) -> CheckResult:
    faults = controller.evaluator.faults.standing()
    texts = (f"{each.plugin} of profile {each.profile}: {each.message}" for each in faults)
    return CheckResult(not faults, "; ".join(texts) or "none fails")


def _state_check(controller: Controller, description: ControllerDescription) -> CheckResult:
    """Name the state; why it evicts nothing is in the lines of the checks that fail."""
    state = description.state()
    text = state.name if state.name in _SAID_BY_CHECKS else state.text
    follows = state.name is ControllerState.STANDBY and bool(controller.pauses.leadership.leader)
    return CheckResult(follows or state.severity == GOOD, text)


def _mode_check(controller: Controller, *, dry_run: bool) -> CheckResult:
    no_plugin_acts = is_watched_only(controller.config)
    text = mode_text(
        is_dry_run=dry_run,
        no_plugin_acts=no_plugin_acts,
        is_standby=controller.pauses.leadership.is_standby,
    )
    return CheckResult(not (dry_run or no_plugin_acts), text)


def _warm_up_check(description: ControllerDescription) -> CheckResult:
    ratio = description.warm_up_ratio()
    return CheckResult(
        ratio >= 1, "full rates" if ratio >= 1 else f"rates and bursts are at {ratio:.0%}"
    )


def _pause_check(controller: Controller, name: str) -> CheckResult:
    controller.pauses.check()  # a suspend, or a fault of the journal, pauses when it is looked for
    status = controller.readiness.pauses[name]
    leadership = controller.pauses.leadership
    if not leadership.is_standby or name not in _OF_THE_LEADER:
        if status.reason and (first := controller.readiness.said_before(name)):
            return CheckResult(ok=False, message=f"the same as {first}")
        return CheckResult(not status.reason, status.text or status.note)
    if name == LEADER and leadership.leader:
        text = f"standby: {status.text}; this process acts once it leads"
        return CheckResult(ok=True, message=text, is_well=True)
    if status.reason in USUAL_BEFORE_A_TERM:
        return CheckResult(ok=True, message=_ON_STANDBY[name], is_well=True)
    return CheckResult(ok=True, message=status.text or status.note)
