"""Answers the pages of a controller as of an earlier moment: it is run over its recording.

It is a process of its own as well, so that the event loop of a controller does none of the work:
`python -m reactive_desched.app.past_answers`, with a request in JSON. Its standard output is the
answer, or what is wrong where its exit status is not 0.
"""

import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec
from msgspec import Struct

from reactive_desched.app.node_overview import NodeOverviews, overview
from reactive_desched.app.past_pages import (
    ANSWERED,
    FAILED,
    NO_MEMORY,
    PLAN_PAGE,
    TABLES_PAGE,
    TIMES,
    WRONG,
    PastRequest,
)
from reactive_desched.app.status import (
    ACTED,
    STANDS_BY,
    ControllerStatus,
    PolicyInForce,
    controller_status,
)
from reactive_desched.controller.description import ControllerDescription
from reactive_desched.controller.pending import PendingList, PendingQuery
from reactive_desched.errors import ConfigError, ReactiveDeschedError
from reactive_desched.plan.inputs import PREVIEW, PreviewFlags
from reactive_desched.plan.recorded_moment import RecordedMoment, journal_beside
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.primitives.hints import refuse_filters
from reactive_desched.primitives.hung_calls import hung_calls_ended
from reactive_desched.primitives.shortage import MEMORY, lacking
from reactive_desched.recording.coverage import covered_times
from reactive_desched.recording.items import Damage
from reactive_desched.replay.replaying import ReachedController, controller_at
from reactive_desched.text.times import format_moment, utc_time
from reactive_desched.why.page import explain

_NICE: Final = 10
_OOM_SCORE: Final = "1000"
_OOM_FILE: Final = "/proc/self/oom_score_adj"


class CoveredTime(Struct, frozen=True, rename="camel"):
    """A time that is recorded without a gap."""

    since: str
    until: str


class CoveredTimes(Struct, frozen=True, rename="camel"):
    """The times of which a recording has the cluster, oldest first, and what of it is damaged."""

    recording: str
    times: tuple[CoveredTime, ...]
    damages: tuple[str, ...]


class PastMoment(Struct, frozen=True, rename="camel"):
    """Everything that the live page shows of a moment; `lastChange` is the last change before it.

    `notes` say what held evictions then, and what of the recording is damaged.
    """

    at: str
    last_change: str
    notes: tuple[str, ...]
    status: ControllerStatus
    pending: PendingList
    nodes: NodeOverviews


class PastAnswer(Struct, frozen=True):
    """The answer of a page about a moment, and what is to be said of it; empty for nothing."""

    answer: Any  # what a page answers
    moment: RecordedMoment
    note: str


def recorded_times(recording: Path) -> CoveredTimes:
    """Return which times a recording has; raises NotRecorded where it has none."""
    damages: list[Damage] = []
    covered = covered_times(recording, damages.append)
    times = tuple(CoveredTime(*map(format_moment, each)) for each in covered)
    return CoveredTimes(str(recording), times, tuple(map(str, damages)))


def past_answer(
    recording: Path, at_s: float, journal: Path | None, page: str, query: Mapping[str, str]
) -> PastAnswer:
    """Return what a page answered at a moment, in seconds since the epoch.

    Without a journal that of the recording's folder counts. Raises ConfigError, NotRecorded and
    PolicyErrors.
    """
    journal = journal_beside(recording) if journal is None else journal
    if (read := _PAGES.get(page)) is None:
        raise ConfigError(f"there is no page {page} of an earlier moment")
    with hung_calls_ended():
        try:
            reached = controller_at(recording, at_s, journal, plugin_registry())
        except OSError as error:
            raise ConfigError(f"{journal} cannot be read: {error.strerror}") from error
        return PastAnswer(anyio.run(read, reached, query), reached.moment, reached.note)


_Read = Callable[[ReachedController, Mapping[str, str]], Awaitable[object]]


def _description(reached: ReachedController) -> ControllerDescription:
    run = reached.run
    return ControllerDescription(run.controller, run.clock.monotonic, run.clock.wall)


async def _status(reached: ReachedController, query: Mapping[str, str]) -> ControllerStatus:
    """Return the status; of its host, its journal and its sinks a recording has nothing."""
    refuse_filters(query)
    run = reached.run
    controller, clock, picture = run.controller, run.clock, run.life.picture
    policy = controller.config.policy
    return await controller_status(
        controller,
        _description(reached),
        time=utc_time(clock.wall()),
        started=utc_time(picture.at.wall_s),
        version=picture.version,
        cluster=picture.cluster,
        cluster_uid=picture.cluster_uid,
        api_server="",
        credentials="",
        host="",
        mode="dry_run" if run.is_dry_run else "live",
        leadership=STANDS_BY if controller.readiness.pauses["leader"].reason else ACTED,
        policy=PolicyInForce(
            policy.source,
            policy.revision,
            tuple(profile.name for profile in policy.profiles),
            (),
        ),
        recent=run.recent.newest_first(),
        journal=None,
        recording=None,
        sinks=(),
    )


async def _pending(reached: ReachedController, query: Mapping[str, str]) -> PendingList:
    return await _description(reached).pending(PendingQuery.parse(query))


async def _nodes(reached: ReachedController, query: Mapping[str, str]) -> NodeOverviews:
    return await overview(reached.run.controller, query)


async def _why(reached: ReachedController, query: Mapping[str, str]) -> object:
    return await explain(reached.run.controller, _description(reached), query)


async def _moment(reached: ReachedController, query: Mapping[str, str]) -> PastMoment:
    moment = reached.moment
    return PastMoment(
        format_moment(moment.at_s),
        format_moment(moment.changed_s),
        tuple(filter(None, (*moment.notes(), reached.note))),
        await _status(reached, query),
        await _pending(reached, {}),
        await _nodes(reached, {}),
    )


_PAGES: Final[Mapping[str, _Read]] = {
    "status": _status,
    "pending": _pending,
    "nodes": _nodes,
    "why": _why,
    "moment": _moment,
}


def past_preview(recording: Path, at_s: float, page: str, query: Mapping[str, str]) -> object:
    """Return what a preview shows of a moment; raises as `past_answer`, and SnapshotUnavailable."""
    from reactive_desched.plan.command import build_nodes_report, build_report
    from reactive_desched.plan.progress import Progress

    asked = dict(query)
    text = asked.pop(PREVIEW, "{}")
    refuse_filters(asked)
    try:
        flags = msgspec.json.decode(text, type=PreviewFlags)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ConfigError(f"{PREVIEW}: {error}") from error
    build = build_report if page == PLAN_PAGE else build_nodes_report
    with hung_calls_ended():
        return build(flags.options(recording, format_moment(at_s)), Progress())


def _give_way(memory_bytes: int) -> None:
    """Leave the processor and the memory to the controller that asks."""
    import resource

    os.nice(_NICE)
    with suppress(OSError):
        Path(_OOM_FILE).write_text(_OOM_SCORE, encoding="ascii")
    if memory_bytes:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, hard))


def _answer(request: PastRequest) -> Any:  # what a page answers
    recording = Path(request.recording)
    if request.page == TIMES:
        return recorded_times(recording)
    if request.page in (PLAN_PAGE, TABLES_PAGE):
        return past_preview(recording, request.at_s, request.page, request.query)
    journal = Path(request.journal) if request.journal else None
    return past_answer(recording, request.at_s, journal, request.page, request.query).answer


def main(text: str) -> int:
    """Answer a request on standard output; return the exit status."""
    request = msgspec.json.decode(text, type=PastRequest)
    _give_way(request.memory_bytes)
    status, said = ANSWERED, b""
    try:
        said = msgspec.json.encode(_answer(request))
    except (ReactiveDeschedError, OSError, MemoryError, SystemError) as error:
        # a SystemError is that of C code, pydantic's here, which lost the MemoryError it had
        if isinstance(error, SystemError) or lacking(error) == MEMORY:
            status = NO_MEMORY
        else:
            status = WRONG if isinstance(error, ConfigError) else FAILED
            said = str(error).encode()
    sys.stdout.buffer.write(said)
    sys.stdout.buffer.flush()
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
