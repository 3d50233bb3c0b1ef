"""The start of a controller: logs its version and mode, and ends intents that were left open."""

import platform
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
from anyio.lowlevel import checkpoint

from reactive_desched._version import __version__
from reactive_desched.app.input_notes import InputNotes
from reactive_desched.app.node_mark_notes import node_mark_notes
from reactive_desched.controller.controller import Controller
from reactive_desched.controller.observing import is_watched_only
from reactive_desched.controller.pipeline import Pipeline
from reactive_desched.controller.readiness import CLUSTER, STARTUP, Readiness
from reactive_desched.eviction.client import EvictionClient
from reactive_desched.eviction.recovery import end_pending_intent, read_open_intents
from reactive_desched.journal.clocks import Moment
from reactive_desched.journal.cluster import ClusterIdentity
from reactive_desched.journal.history import History
from reactive_desched.journal.recorder import JournalRecorder
from reactive_desched.journal.recovery import OpenIntent
from reactive_desched.kube.client.cluster_guard import ClusterGuard
from reactive_desched.kube.client.session import Session
from reactive_desched.model.modes import MODE_TEXTS, process_mode
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.settings.moves import MaxMovingSettings
from reactive_desched.primitives.shortage import lacking
from reactive_desched.recording.items import HistoryRead
from reactive_desched.telemetry.logs import Logger

_FIELDS: Final = {
    **{f"moves.{scope}": f"maxMoving.{scope}" for scope in MaxMovingSettings.model_fields},
    "moves.futile": "futileAfter",
    "brakes.zone": "zones",
    "brakes.pause_file": "pauseFile",
}
"""What a setting is called that is described under another name."""

PODS: Final = "pods"
PODS_PER_STEP: Final = 100
"""So many pods are looked at before the event loop has its turn: 500 of 500,000 took up to 3.4 ms.
"""

FOUND_POLL_S: Final = 0.1
"""How often `log_start` looks whether everything was evaluated."""


async def end_startup_pause(
    controller: Controller,
    recorder: JournalRecorder,
    evictor: EvictionClient,
    log: Logger,
    read_history: Callable[[], Awaitable[History]],
    read_at: Moment,
    notes: InputNotes,
) -> None:
    """End the startup pause once each pod of the last run's open intents was read.

    Before that, limits and memory are restored from the evictions that `read_history` returns, by
    the clocks of `read_at`; it raises OSError where they cannot be read. A pod that still exists
    may be evicted by that run's request for the evictor's `effect_timeout_s`; other pods are
    evaluated meanwhile.
    """
    deadline = anyio.current_time() + evictor.effect_timeout_s
    if recorder.open_intents():
        controller.readiness.pause(STARTUP, "resolving the evictions that the last run left open")
    history = await _read_past(recorder, read_history, log)
    with controller.clocks.still() as now_s:
        if history is not None:
            controller.restore(history.evictions, history.ends)
        known = None if history is None else _history_read(recorder, read_at)
        notes.history_restored(now_s, known)
    inherited = await read_open_intents(recorder, evictor, log)
    with controller.clocks.still() as now_s:
        for pod, outcome in inherited.outcomes.items():
            controller.end_inherited_eviction(pod, outcome)
        for intent in inherited.pending:
            controller.inherit_eviction(intent.who.uid)
        pending_pods = [intent.who.uid for intent in inherited.pending]
        notes.evictions_inherited(now_s, inherited.outcomes, pending_pods)
    controller.readiness.resume(STARTUP)

    async def end(intent: OpenIntent) -> None:
        outcome = await end_pending_intent(intent, recorder, evictor, log, deadline)
        with controller.clocks.still() as now_s:
            notes.inherited_eviction_ended(now_s, intent.who.uid, outcome)
            controller.end_inherited_eviction(intent.who.uid, outcome)

    if pending := inherited.pending:
        message = "the controller waits for eviction requests of an earlier process"
        log.info(message, pods=len(pending), duration_s=evictor.effect_timeout_s)
    async with anyio.create_task_group() as group:
        for intent in inherited.pending:
            group.start_soon(end, intent)


async def _read_past(
    recorder: JournalRecorder, read_history: Callable[[], Awaitable[History]], log: Logger
) -> History | None:
    """Return past evictions, and follow up on them; None where they cannot be read.

    Raises OSError where this process lacks what it takes to read them.
    """
    try:
        history = await read_history()
    except OSError as error:
        if lacking(error):
            raise
        text = "cannot read past evictions: limits count from now on, without them"
        log.warning(text, message=str(error))
        return None
    if not history.is_whole:
        log.warning(
            "there were more evictions than are read back: limits count the newest of them",
            evictions=len(history.evictions),
        )
    for request_id, outcome in history.unfollowed.items():
        recorder.follow(request_id, outcome)
    for request_id, outcome in history.uncertain.items():
        recorder.remember_uncertain(request_id, outcome)
    return history


def _history_read(recorder: JournalRecorder, read_at: Moment) -> HistoryRead:
    uptime, server_time = read_at.uptime, read_at.server_time
    return HistoryRead(
        recorder.started_behind,
        read_at.time_s,
        "" if uptime is None else uptime.boot_id,
        0 if uptime is None else uptime.milliseconds,
        None if server_time is None else server_time.timestamp(),
    )


async def adopt_disruptions(controller: Controller) -> None:
    """Record the ends of pods that began before this process, once the cluster is known.

    It goes through all pods in portions of less than a millisecond.
    """
    await controller.initial_sync_done.wait()
    for uids in controller.state.key_batches(PODS):
        for at in range(0, len(uids), PODS_PER_STEP):
            found = map(controller.view.pod, uids[at : at + PODS_PER_STEP])
            controller.disruptions.adopt(pod for pod in found if pod is not None)
            await checkpoint()


def log_identity(configuration: Configuration, log: Logger, *, dry_run: bool) -> None:
    """Log what runs, in which mode, and by which policy: one line each."""
    policy = configuration.policy
    plugins = dict.fromkeys(plugin.name for each in policy.profiles for plugin in each.plugins)
    log.info("reactive-desched starts", version=__version__, python=platform.python_version())
    mode = process_mode(is_dry_run=dry_run, no_plugin_acts=is_watched_only(configuration))
    log.info(MODE_TEXTS[mode])
    log.info(
        "the policy is in force",
        revision=policy.revision,
        files=policy.source,
        profiles=[profile.name for profile in policy.profiles],
        plugins=list(plugins),
    )


async def stop_for_another_cluster(
    cluster: ClusterGuard, readiness: Readiness, log: Logger
) -> None:
    """Pause for good once the API server's address led to another cluster; then end.

    The connection sends nothing by then. The process goes on: one that a supervisor starts anew
    would begin to evict there.
    """
    await cluster.faulted.wait()
    readiness.pause(CLUSTER, cluster.fault)
    log.warning(
        "the address of the API server leads to another cluster: nothing is evicted",
        message=cluster.fault,
    )


def log_cluster(cluster: ClusterIdentity, log: Logger) -> None:
    """Warn where the API server does not show which cluster it is."""
    if not cluster.uid:
        log.warning(
            "the API server does not show the uid of the namespace kube-system: it is not noticed"
            " when its address leads to another cluster",
            remedy="give this account the right to list namespaces",
        )


def log_api_server(session: Session, log: Logger) -> None:
    """Log with which cluster the controller speaks, by which context of the kubeconfig."""
    context, proxy = session.context, session.credentials.config.proxy
    log.info(
        "this API server is used",
        server=session.server,
        proxy="none" if proxy is None else f"{proxy.address} of {proxy.source}",
        context=context,
        account="the pod's own" if context is None else None,
    )


def _by_setting(section: str, described: dict[str, str]) -> dict[str, str]:
    """Return limits by the names of their settings; `node` alone is a pod's node in the log."""
    return {
        name if name.startswith("maxNoOf") else section + _FIELDS.get(section + name, name): text
        for name, text in described.items()
    }


async def log_start(pipeline: Pipeline, configuration: Configuration, log: Logger) -> None:
    """Log the limits in force, before the first decision, and what was found; then end.

    They are logged in the turn that syncs: a task that waits for it may come after a decision. The
    limits depend on the size of the cluster. A standby, which evaluates nothing, perhaps for
    months, logs what is synced, and the limits when it leads; otherwise the controller's observer
    logs what is synced when the evaluation begins.
    """
    controller, description = pipeline.controller, pipeline.description
    stood_by = False

    def log_limits() -> None:
        log.info(
            "eviction limits are set", **_by_setting("budgets.", description.describe_limits())
        )
        log.info("move limits are set", **_by_setting("moves.", description.describe_moves()))
        log.info("brakes are configured", **_by_setting("brakes.", description.describe_brakes()))
        for note in node_mark_notes(configuration.policy, configuration.settings.guards):
            log.info(note)

    def log_synced() -> None:
        nonlocal stood_by
        stood_by = controller.pauses.leadership.is_standby
        if stood_by:
            log.info("the cluster is synced", **controller.state.size())
        else:
            log_limits()

    def log_begun() -> None:
        if stood_by:
            log_limits()

    with (
        controller.readiness.synced.followed_by(log_synced),
        controller.initial_sync_done.followed_by(log_begun),
    ):
        await controller.initial_sync_done.wait()
    while description.is_busy():  # noqa: ASYNC110 -- no event marks the end of the work
        await anyio.sleep(FOUND_POLL_S)
    log.info("the first evaluation is complete", **description.count_findings())
