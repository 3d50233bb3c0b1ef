"""Says in one word what a controller does: for log, metric, status, page and /readyz."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from reactive_desched.controller.readiness import (
    BRAKE,
    JOURNAL,
    LEADER,
    MANUAL,
    STARTUP,
    STOPPING,
    SYNC_PREFIX,
    PauseStatus,
)
from reactive_desched.controller.readiness import CLUSTER as ANOTHER_CLUSTER
from reactive_desched.model.brakes import CLUSTER, BrakeState
from reactive_desched.model.brakes import MANUAL as MANUAL_BRAKE
from reactive_desched.telemetry.metrics import Metric, gauge
from reactive_desched.text.ages import format_age
from reactive_desched.text.causes import shared_causes

STATE: Final = gauge(
    "state",
    "1 for what the controller does now: evaluating, or why it evicts nothing.",
    "state",
)


class ControllerState(StrEnum):
    """Every state of a controller; what comes first in the list counts where several apply."""

    STOPPING = "stopping"
    STANDBY = "standby"
    FAULT = "fault"
    STARTING = "starting"
    OUT_OF_SYNC = "out-of-sync"
    PAUSED = "paused"
    BRAKED = "braked"
    EVALUATING = "evaluating"

    @property
    def evicts(self) -> bool:
        """Say whether a pod may be evicted now."""
        return self is ControllerState.EVALUATING

    @property
    def sentence(self) -> str:
        """The state as a sentence of the log."""
        return _SENTENCES.get(self, f"the controller is {self}")


_SENTENCES: Final = {
    ControllerState.STANDBY: "the controller is on standby",
    ControllerState.FAULT: "the controller has a fault",
    ControllerState.OUT_OF_SYNC: "the controller is out of sync",
}
"""The sentences of the states whose word is no adjective or participle."""


GOOD, WARNING, BAD = "good", "warn", "bad"
_SEVERITIES: Final = {
    ControllerState.STANDBY: WARNING,
    ControllerState.STARTING: WARNING,
}
"""How serious the states are in which no pod is evicted; all others are bad."""

_OF_PAUSES: Final = {
    STOPPING: ControllerState.STOPPING,
    STARTUP: ControllerState.STARTING,
    MANUAL: ControllerState.PAUSED,
    BRAKE: ControllerState.BRAKED,
}
"""The states of the pauses; those of resources are out of sync, and any other is a fault."""


class PublicState(Struct, frozen=True, rename="camel"):
    """The state of a controller: `name` is a ControllerState, `severity` good, warn or bad.

    `summary` is a sentence for people. `hold` is why no pod at all is evicted now, and what ends
    that where a person or a brake holds them; empty while some may be.
    """

    name: ControllerState
    severity: str
    summary: str
    hold: str = ""

    @property
    def text(self) -> str:
        """The name and the sentence, for one line."""
        return f"{self.name}: {self.summary}"


def public_state(
    pauses: Mapping[str, PauseStatus],
    brakes: Iterable[BrakeState],
    *,
    is_standby: bool,
    is_first_sync: bool,
    warm_up: tuple[float, float],
    failing: Iterable[str] = (),
) -> PublicState:
    """Return the state of a controller with these pauses and engaged brakes.

    `failing` names the plugins that raise exceptions, and what follows from that.
    `warm_up` is the share of the rates that counts now, and for how many seconds it grows still.
    """
    held = {name: status.text for name, status in pauses.items() if status.reason}
    by_state: dict[ControllerState, dict[str, str]] = {}
    for name, text in held.items():
        state = _state_of_pause(name, held, is_standby=is_standby, is_first_sync=is_first_sync)
        by_state.setdefault(state, {})[name] = text
    known = list(brakes)
    engaged = [each for each in known if each.name != MANUAL_BRAKE]
    cluster_wide = [each for each in engaged if each.scope == CLUSTER]
    for each in cluster_wide:
        by_state.setdefault(ControllerState.BRAKED, {})[each.name] = each.message
    for state in ControllerState:
        if (causes := by_state.get(state)) is not None:
            manual = [each for each in known if each.name == MANUAL_BRAKE]
            holders = {ControllerState.BRAKED: cluster_wide, ControllerState.PAUSED: manual}
            return _stopped(state, causes, holders.get(state, ()))
    parts = [
        f"the {each.name} brake is engaged for {each.scope}: {each.message}" for each in engaged
    ]
    parts += failing
    ratio, left_s = warm_up
    if ratio < 1:
        parts.append(
            f"the rates warm up: they are at {ratio:.0%} now, and full in {format_age(left_s)}"
        )
    if parts:
        return PublicState(ControllerState.EVALUATING, WARNING, "; ".join(parts))
    return PublicState(ControllerState.EVALUATING, GOOD, "nothing holds evictions")


def collect_state(state: PublicState) -> Iterator[Metric]:
    """Yield 1 for the state that the controller is in, and 0 for every other."""
    yield STATE.by_label({each.value: each is state.name for each in ControllerState})


def _state_of_pause(
    name: str, held: Collection[str], *, is_standby: bool, is_first_sync: bool
) -> ControllerState:
    if name == LEADER and is_standby and ANOTHER_CLUSTER not in held:
        return ControllerState.STANDBY
    if name == JOURNAL and STARTUP in held:  # it is opened at the start
        return ControllerState.STARTING
    if name.startswith(SYNC_PREFIX):
        return ControllerState.STARTING if is_first_sync else ControllerState.OUT_OF_SYNC
    return _OF_PAUSES.get(name, ControllerState.FAULT)


def _stopped(
    state: ControllerState, causes: Mapping[str, str], brakes: Collection[BrakeState]
) -> PublicState:
    names = ", ".join(each.name for each in brakes)
    shared = list(shared_causes(causes))
    texts = tuple(text for _, text in shared)
    releases = tuple(dict.fromkeys(each.release for each in brakes))
    if state is ControllerState.BRAKED:
        by = f"the {names} brake" if names else "the zone brake"
        summary = f"{by} holds the whole cluster, and no pod is evicted: "
        summary += "; ".join(releases or texts)
    else:
        if state is ControllerState.OUT_OF_SYNC:
            texts = tuple(_out_of_sync(names, text) for names, text in shared)
        summary = f"{_NOTHING[state]}: {'; '.join(texts + releases)}"
    hold = "; ".join((*(f"{', '.join(each)}: {text}" for each, text in shared), *releases))
    return PublicState(state, _SEVERITIES.get(state, BAD), summary, hold)


def _out_of_sync(names: Collection[str], text: str) -> str:
    """Say which kinds of objects are out of sync, and why."""
    kinds = sorted((name.removeprefix(SYNC_PREFIX) for name in names), key=_is_minor)
    if len(kinds) > _MOST_KINDS:
        kinds = [*kinds[:_MOST_KINDS], f"{len(kinds) - _MOST_KINDS} more"]
    return f"{', '.join(kinds)} not in sync: {text}"


def _is_minor(kind: str) -> bool:
    return kind not in ("nodes", "pods")


_MOST_KINDS: Final = 3
"""So many kinds of objects are named where several are out of sync for one reason."""

_NOTHING: Final = {
    ControllerState.STOPPING: "it stops, and evicts nothing more",
    ControllerState.STANDBY: "another replica acts, and this one evicts nothing",
    ControllerState.FAULT: "no pod is evicted",
    ControllerState.STARTING: "it starts, and evicts nothing yet",
    ControllerState.OUT_OF_SYNC: "no pod is evicted",
    ControllerState.PAUSED: "no pod is evicted",
}
