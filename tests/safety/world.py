"""A simulated cluster, and lives of a controller over one journal, on one virtual clock.

Everything between the watch events and the eviction requests is the real code: event handlers,
state, plugins, gates, journal files, restore after a crash. A life that crashes loses its memory
and what it had not written; the requests that it sent may arrive later.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from math import ceil, floor
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, Final, TypeVar
from unittest.mock import patch

import anyio
import anyio.lowlevel
import msgspec
import trio
from anyio.abc import TaskGroup
from trio.testing import MockClock

from reactive_desched.api.event import Uptime
from reactive_desched.app.consolidation import Consolidation
from reactive_desched.app.input_notes import InputNotes, NotedEvictionClient
from reactive_desched.app.migration import MigrationRunner, build_migration
from reactive_desched.app.recorder import run_recorder, standing_items
from reactive_desched.app.recording import journal_config
from reactive_desched.app.rooms import Rooms
from reactive_desched.app.start_up import adopt_disruptions, end_startup_pause
from reactive_desched.controller.asked_evaluations import EvaluationScope, select_pods
from reactive_desched.controller.controller import Controller
from reactive_desched.controller.pauses import SuspendDetector
from reactive_desched.controller.pipeline import Pipeline, build_pipeline
from reactive_desched.controller.proposals import ProposalScope, select_proposals
from reactive_desched.controller.worker import check_for_suspend
from reactive_desched.errors import ClusterError, ConfigError, JournalError
from reactive_desched.eviction.client import EvictionClient
from reactive_desched.eviction.recorder import RecorderSlot
from reactive_desched.journal import journal as journal_module
from reactive_desched.journal import opened as opened_module
from reactive_desched.journal.clocks import Moment
from reactive_desched.journal.history import read_history
from reactive_desched.journal.journal import Journal, open_journal
from reactive_desched.journal.lock import DirectoryLock
from reactive_desched.journal.recorder import JournalRecorder
from reactive_desched.journal.segments import list_segments
from reactive_desched.kube.client.evictor import found_pod
from reactive_desched.kube.client.nodes import write_taint
from reactive_desched.kube.client.nominations import nominate
from reactive_desched.kube.codec import ResourceCodec
from reactive_desched.migration.migrations import Migrations
from reactive_desched.model.approvals import ProposalAnswer
from reactive_desched.model.brakes import SavedBrakes
from reactive_desched.model.evaluation import Evaluation
from reactive_desched.model.observer import Observer
from reactive_desched.model.outcomes import (
    Accepted,
    Conflict,
    EffectUnknown,
    EvictionRequest,
    EvictionResponse,
    NotFound,
    PdbRefused,
    PodLookup,
    PodNotFound,
    RequestTime,
    ServerError,
    TooManyRequests,
)
from reactive_desched.policy.configuration import Configuration
from reactive_desched.primitives.long_answers import at_once
from reactive_desched.primitives.token_bucket import TokenRate
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.recording.frames import RECORDING_FOLDER
from reactive_desched.recording.recorder import ClusterRecorder, RecorderBounds
from reactive_desched.recording.segment_file import SegmentFile
from reactive_desched.sim.cluster import ClusterOptions, SimCluster
from reactive_desched.sim.dice import ObjectDice
from reactive_desched.sim.eviction import evict
from reactive_desched.sim.objects import Obj
from reactive_desched.sim.profiles import Pace
from reactive_desched.sim.resources import RESOURCES
from reactive_desched.sim.seed import seed
from reactive_desched.sim.status import StatusError
from reactive_desched.sim.store import DeleteOptions, Event, Store
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.state.resources import WATCHED_KINDS
from tests.safety.knowledge import Knowledge
from tests.safety.referee import Referee
from tests.safety.sets import has_sets
from tests.support.store_requests import StoreRequests

START_S: Final = 1_800_000_000.0
REQUEST_TIMEOUT_S: Final = 60.0
FAST_S: Final = 0.001
UNEVEN: Final = Pace(start_s=2.0, ready_s=1.0, shutdown_s=1.0, jitter_s=3.0)
DECISIONS: Final = TokenRate(1000, 1000)
TIE_BREAK_S: Final = 0.0004
KEPT_FROM_RUNNING: Final = 0.2
"""Before so many of the looks at a clock a busy machine runs something else."""
STARVES_BEFORE: Final = 0.002
"""Before so many of the looks at a clock a process starves."""
RECORDED: Final = RecorderBounds(2**28, 1e9, 2**20, 300.0)
_T = TypeVar("_T")


class _SimulatedDisk:
    """Takes the place of the journal's thread: a call takes virtual time, and fails when dead."""

    world: "World"

    def __init__(self, name: str = "") -> None:
        self._life = self.world.life
        self._is_opening = name == "journal opening"

    async def run(self, work: Callable[[], _T], then: Callable[[_T], None] | None = None) -> _T:
        await anyio.sleep(self.world.disk_delay_s)
        if self._life is not None and self._life.has_crashed:
            raise OSError(5, "the machine is gone")
        is_closing = getattr(work, "__func__", None) is Journal.close_files
        if self.world.disk_is_full and not (self._is_opening or is_closing):
            raise OSError(28, "No space left on device")
        result = work()
        if then is not None:
            then(result)
        await anyio.lowlevel.checkpoint()
        return result

    def close(self) -> None:
        pass


class _Lock(DirectoryLock):
    """A journal's lock that can be closed twice: by the journal, and by the end of its process."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._is_open = True

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            super().close()


class _StoreClock:
    """The cluster's time of day."""

    def now(self) -> float:
        return START_S + anyio.current_time()


class Life:
    """One process of the controller, from its start to its end or crash."""

    def __init__(self, world: "World", number: int) -> None:
        self.number = number
        self.has_crashed = False
        self.unsynced: set[str] = set()
        self.ended = anyio.Event()
        self.observer = _Watching(world)
        self._world = world
        self._recorder = RecorderSlot()
        self._work_available = Wakeup()
        self.suspended_s = 0.0
        self.notes = InputNotes()
        self.pipeline = self._build()
        if world.saved_brakes is not None:
            self.controller.pauses.restore(world.saved_brakes)
        self.controller.pauses.set_pause_file(world.pause_file)
        tables = InternTables()
        self._codecs = {
            resource: ResourceCodec(kind, tables)
            for resource, kind in WATCHED_KINDS.items()
            if resource in RESOURCES
        }
        self._scope, self._working = anyio.CancelScope(), anyio.CancelScope()
        self._inbox: list[Event] = []
        self._has_mail = Wakeup()
        self._lost: set[str] = set()
        self.began_at = anyio.current_time()
        self.told = Knowledge()
        self.cluster_recorder = self._build_cluster_recorder() if world.records else None

    @property
    def controller(self) -> Controller:
        return self.pipeline.controller

    def _build(self) -> Pipeline:
        world = self._world
        return build_pipeline(
            world.config,
            recorder=self._recorder,
            evictor=NotedEvictionClient(world, self.notes, world.monotonic),
            observer=self.observer,
            work_available=self._work_available,
            suspend=SuspendDetector(self._since_boot_s),
            clock=world.monotonic,
            wall_clock=world.wall_now,
        )

    def _since_boot_s(self) -> float:
        """Return how long the machine has been running, suspended time included.

        Where nothing starves the process, its clock goes on by what is suspended alone.
        """
        ran_s = self._world.monotonic() if self._world.starves_s else 0.0
        return ran_s + self.suspended_s

    async def watch_anew(self) -> None:
        """List everything again, as reflectors do once the process counts as suspended."""
        await anyio.sleep(self._world.jitter.random())
        if self._world.life is self:
            self.list_all_again()

    def was_suspended(self) -> None:
        """Trust nothing that was read before."""
        self.unsynced.update(self.pipeline.event_handlers)
        self._world.start_soon(self.watch_anew)

    def _build_cluster_recorder(self) -> ClusterRecorder:
        world = self._world
        return ClusterRecorder(
            self.controller.state,
            world.directory / RECORDING_FOLDER,
            RECORDED,
            standing_items(
                self.controller, lambda: world.config, self.notes, "a story", dry_run=False
            ),
            moment=self.controller.clocks.moment,
            log=world.log,
            run_blocking=self._write_recording,
        )

    async def _write_recording(self, work: Callable[[], Any]) -> Any:
        """Write what is recorded; a process that has crashed writes no more."""
        await anyio.lowlevel.checkpoint()
        is_closing = getattr(work, "__func__", None) is SegmentFile.close
        return 0 if self.has_crashed and not is_closing else work()

    async def run(self) -> None:
        """Live until crashed or stopped."""
        world = self._world
        try:
            with self._scope:
                async with open_journal(
                    world.directory,
                    journal_config(world.config.settings),
                    clock=lambda: datetime.fromtimestamp(world.wall_now(), UTC),
                    monotonic=anyio.current_time,
                    recovered=self._work_available,
                ) as journal:
                    recorder = JournalRecorder(
                        journal,
                        lambda: datetime.fromtimestamp(self.controller.clocks.wall(), UTC),
                        decision_rate=DECISIONS,
                        now=self.controller.clocks.monotonic,
                        disruptions=lambda: world.config.settings.events.disruptions,
                        uptime=world.uptime,
                        server_time=world.server_time,
                    )
                    with self._recorder.filled(recorder), self._working:
                        try:
                            await self._run_tasks(recorder)
                        finally:
                            self.controller.disruptions.flush()
        except* JournalError:  # of several tasks, perhaps
            if not self.has_crashed:
                raise
        finally:
            while world.locks:  # the end of a process frees its locks, whatever it did
                world.locks.pop().close()
            self.ended.set()

    async def _run_tasks(self, recorder: JournalRecorder) -> None:
        world = self._world

        now = Moment(world.wall_now(), world.uptime(), world.server_time())

        async def read() -> Any:
            counts_for_s = world.config.controller.budgets.counts_for_s
            return read_history(world.directory, now, counts_for_s=counts_for_s)

        if world.takes_over:
            with self.controller.clocks.still() as now_s:
                self.controller.begin_without_history()
                self.notes.limits_emptied(now_s)
        async with anyio.create_task_group() as tasks:
            await tasks.start(self.pipeline.evictions.run)
            tasks.start_soon(self.pipeline.worker.run)
            tasks.start_soon(self._read_mail)
            if world.lists_in_turn:
                tasks.start_soon(self._list_in_turn, world.list_lag_s)
            else:
                self.list_all_again(world.list_lag_s)
            if self.cluster_recorder is not None:
                recorded = self.cluster_recorder, self.pipeline, self.notes
                await tasks.start(run_recorder, *recorded)
            start = self.controller, recorder, world, world.log, read, now, self.notes
            tasks.start_soon(end_startup_pause, *start)
            tasks.start_soon(adopt_disruptions, self.controller)
            if world.starves_s:
                tasks.start_soon(check_for_suspend, self.controller)
            if self.controller.migrations is not None:
                tasks.start_soon(self._migration(self.controller.migrations).run)
            if has_sets(world.config):
                requests: Any = StoreRequests(world.store, world.jitter, lambda: world.is_down)
                parts = self.pipeline, self._recorder
                writes = partial(write_taint, requests), partial(nominate, requests)
                tasks.start_soon(Consolidation(*parts, writes[0], world.log, self.notes).run)
                tasks.start_soon(Rooms(*parts, writes[1], writes[0], world.log).run)

    def _migration(self, migrations: Migrations) -> MigrationRunner:
        """Build what writes migration jobs, on requests of which some go wrong."""
        world, tables = self._world, InternTables()
        deps: Any = SimpleNamespace(log=world.log)
        requests: Any = StoreRequests(world.store, world.jitter, lambda: world.is_down)
        parts = deps, requests, self.pipeline, tables, world.log, self._recorder
        return build_migration(*parts, migrations, self.notes)

    def stop(self, *, crash: bool) -> None:
        """Have everything end at once, or, as `run` does, the tasks first and then the journal."""
        self.has_crashed = crash
        (self._scope if crash else self._working).cancel()

    # --- watches ---

    def receive(self, event: Event) -> None:
        if event.resource in self._codecs and event.resource not in self._lost:
            self._inbox.append(event)
            self._has_mail.notify()

    def lose(self, resource: str, *, noticed: bool) -> None:
        """Break a watch; a silent one is not noticed yet."""
        self._lost.add(resource)
        if noticed:
            self.unsynced.add(resource)
            self.pipeline.event_handlers[resource].mark_stale("the watch is lost")

    def list_all_again(self, lag_s: float = 0.0) -> None:
        """List every resource, as after the start."""
        for resource in self.pipeline.event_handlers:
            self.list_again(resource, lag_s)

    async def _list_in_turn(self, lag_s: float) -> None:
        """List one resource after the other, each a moment later: in any order, as at a start."""
        world, resources = self._world, list(self.pipeline.event_handlers)
        self.unsynced.update(each for each in resources if WATCHED_KINDS[each].holds_evictions)
        world.jitter.shuffle(resources)
        longest_s = world.jitter.choice([0.0, 0.02, 0.2])
        for resource in resources:
            self.list_again(resource, lag_s)
            await anyio.sleep(world.jitter.random() * longest_s)

    def list_again(self, resource: str, lag_s: float = 0.0) -> None:
        """List a resource, and open its watch.

        A server's cache may lag behind: what happened since then comes over the watch.
        """
        handler = self.pipeline.event_handlers[resource]
        self.unsynced.add(resource)
        self._lost.discard(resource)
        self._inbox = [event for event in self._inbox if event.resource != resource]
        handler.begin_replace()
        if resource in self._codecs:
            objects, events = self._world.listed(resource, lag_s)
            for uid in self.told.of(resource).keys() - objects.keys():
                self.told.forget(resource, uid)
            for obj in objects.values():
                handler.upsert(self._take_in(resource, obj))
            self._inbox += events
            self._has_mail.notify()
        handler.end_replace()
        self.unsynced.discard(resource)
        handler.mark_synced()

    async def _read_mail(self) -> None:
        while True:
            if not self._inbox:
                await self._has_mail.wait()
                continue
            await anyio.sleep(self._world.draw_watch_delay())
            if not self._inbox:
                continue
            event = self._inbox.pop(0)
            handler = self.pipeline.event_handlers[event.resource]
            obj = self._take_in(event.resource, event.object)
            if event.type == "DELETED":
                self.told.forget(event.resource, event.object["metadata"]["uid"])
                handler.remove(obj)
            else:
                handler.upsert(obj)

    def _take_in(self, resource: str, obj: Obj) -> Any:
        self.told.take_in(resource, obj)
        return self._codecs[resource].decode_object(msgspec.json.encode(obj))


class _Watching(Observer):
    """Lets the referee see each decision of a process."""

    def __init__(self, world: "World") -> None:
        self._world = world

    def on_decision(self, evaluation: Evaluation) -> None:
        self._world.referee.decided(evaluation)

    def on_suspend(self, seconds: float) -> None:
        if self._world.starves_s and (life := self._world.life) is not None:
            life.was_suspended()


class World(EvictionClient):
    """The cluster, the API server's eviction endpoint, and the present life.

    With `records` each process records what it sees, beside the journal. With `lists_in_turn` it
    has its first lists one after the other, in any order. With `busy_s` its machine is busy: up to
    so many seconds pass between some two looks at a clock. With `starves_s` the process does not
    run, now and then, for up to so many seconds, between any two looks at a clock. With
    `takes_over` each process leads after one whose evictions it does not know.
    """

    def __init__(  # noqa: PLR0913 -- each is one way in which a world differs
        self,
        directory: Path,
        config: Configuration,
        rng: Random,
        pace: Pace = UNEVEN,
        *,
        records: bool = False,
        lists_in_turn: bool = False,
        busy_s: float = 0.0,
        takes_over: bool = False,
        starves_s: float = 0.0,
        server_luck: int = 1,
    ) -> None:
        self.records = records
        self.starves_s = starves_s
        self._starving = Random(11)
        self.lists_in_turn = lists_in_turn
        self.busy_s = busy_s
        self.takes_over = takes_over
        self._late, self._shown_s = Random(7), 0.0
        self.jitter = Random(server_luck)
        self.directory = directory
        self.start_s = START_S
        self.config = config
        self.rng = rng
        of_store = rng if isinstance(rng, ObjectDice) else Random(rng.randrange(1 << 30))
        self.store = Store(_StoreClock(), of_store)  # no uid comes twice
        seed(self.store)
        self.cluster = SimCluster(self.store, rng, ClusterOptions(pace=pace, random_ties=True))
        self.store.subscribe(self._publish)
        self.life: Life | None = None
        self.lives = 0
        self.replies: list[tuple[str, float]] = []
        self.disk_delay_s = FAST_S
        self.disk_is_full = False
        self.watch_delay_s = 0.002
        self.list_lag_s = 0.0
        self._events: deque[tuple[float, Event]] = deque(maxlen=2000)
        self.is_down = False
        self.locks: list[_Lock] = []
        self.referee = Referee(self)
        self.log: Any = _Silent()
        self.clock_steps: list[tuple[float, float]] = []
        self.is_paused = False
        self.pause_file = ""
        self.saved_brakes: SavedBrakes | None = None
        self._wall_offset_s = 0.0
        self._machine = 1
        self._tasks: TaskGroup | None = None

    def wall_now(self) -> float:
        """The time of day on the controller's machine, which can be set."""
        return self.monotonic() + (START_S + self._wall_offset_s)

    def monotonic(self) -> float:
        """Return the monotonic seconds of the controller's machine.

        Where a replay is to see the same they are whole microseconds, as a recording has them.
        """
        if self.starves_s and self._starving.random() < STARVES_BEFORE:
            self._starve()
        if not self.records:
            return anyio.current_time()
        now_s = ceil(anyio.current_time() * 1e6) / 1e6
        if not self.busy_s:
            return now_s
        drawn = self._late.random()
        late_s = drawn * (self.busy_s if drawn < KEPT_FROM_RUNNING else 1e-5)
        self._shown_s = ceil((max(self._shown_s, now_s) + late_s) * 1e6) / 1e6
        return self._shown_s

    def shown_now(self) -> float:
        """Return now, as the process counts: the clock of a busy machine may be ahead."""
        return max(anyio.current_time(), self._shown_s)

    def _starve(self) -> None:
        """Let time pass in which the process does not run: all its timers ring late."""
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, MockClock), "stories have a clock of their own"
        clock.jump(
            self._starving.choice([0.05, 0.3, 1.0]) * self.starves_s * self._starving.random()
        )

    def uptime(self) -> Uptime:
        """How long the controller's machine has been running, which nobody can set."""
        since_boot_s = anyio.current_time() + 5000 / self._machine
        return Uptime(boot_id=f"boot {self._machine}", milliseconds=round(since_boot_s * 1000))

    def server_time(self) -> datetime:
        """The API server's time of day, as its responses say it."""
        return datetime.fromtimestamp(floor(START_S + anyio.current_time()), UTC)

    def draw_watch_delay(self) -> float:
        """Return how long the next event is on its way.

        Where a replay is to see the same, no event comes at the very instant of another one or of
        a timer: which of both is first would be drawn.
        """
        if not self.records:
            return self.watch_delay_s
        return self.watch_delay_s + self.jitter.random() * TIE_BREAK_S

    def move_to_another_machine(self, seconds: float) -> None:
        """Have the next process begin on a machine whose time of day is so far from the last's."""
        assert self.life is None, "a process stays where it is"
        self._machine += 1
        self.step_clock(seconds)

    def step_clock(self, seconds: float) -> None:
        self.clock_steps.append((anyio.current_time(), seconds))
        self._wall_offset_s += seconds

    def pause(self) -> None:
        """Have a person pause evictions by command, as long as there is a process to command."""
        if (life := self.life) is not None:
            life.notes.order_given("pause", {"by": "a person"})
            life.controller.pauses.pause("a person", "", None)
            self.is_paused = True

    def resume(self) -> None:
        if (life := self.life) is not None:
            life.notes.order_given("resume", {"by": "a person"})
            life.controller.pauses.resume("a person", "")
            self.is_paused = False

    def approve_everything(self) -> int:
        """Have a person approve what is proposed, for a minute; return how much that was."""
        if (life := self.life) is None or life.controller.ignores_changes:
            return 0
        controller, now = life.controller, anyio.current_time()
        answers, findings = controller.answers, controller.evaluator.queue.pending()
        scope = ProposalScope(all=True)
        try:
            ids = at_once(select_proposals(scope, findings, answers, now, approves=True))
        except ConfigError:
            return 0
        arguments = {"proposals": " ".join(ids), "forSeconds": 60.0, "by": "a person"}
        life.notes.order_given("approve", arguments)
        controller.answer_proposals(
            ids, ProposalAnswer(approves=True, by="a person", reason="", for_s=60.0)
        )
        return len(ids)

    def evaluate(self, node: str) -> None:
        """Have a person ask for a look at a node, or at everything, once it is evaluated at all."""
        if (life := self.life) is not None and not life.controller.ignores_changes:
            scope, controller = EvaluationScope(node=node), life.controller
            steps = select_pods(scope, controller.evaluator.instances, controller.view)
            with suppress(ConfigError):  # the controller may not have seen the node yet
                selected = at_once(steps)
                life.notes.order_given("evaluate", {"node": node, "by": "a person"})
                controller.evaluate(scope, selected, "a person", "")

    def write_pause_file(self, text: str) -> None:
        self.pause_file = text
        if (life := self.life) is not None:
            life.controller.pauses.set_pause_file(text)

    @contextmanager
    def _simulated_disk(self) -> Iterator[None]:
        disk = type("Disk", (_SimulatedDisk,), {"world": self})

        def lock(directory: Path) -> _Lock:
            self.locks.append(_Lock(directory))
            return self.locks[-1]

        with (
            patch.object(journal_module, "DiskThread", disk),
            patch.object(opened_module, "DirectoryLock", lock),
        ):
            yield

    async def live(self, prepare: Callable[[], None], story: Callable[[], Any]) -> None:
        """Run the cluster, begin the first life, and play the story."""
        with self._simulated_disk():
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                prepare()
                self.cluster.settle()
                tasks.start_soon(self.cluster.run)
                await anyio.sleep(20)
                self.begin_life()
                await story()
                await self.end_life(crash=False)
                tasks.cancel_scope.cancel()

    def begin_life(self) -> None:
        assert self.life is None, "one process at a time"
        assert self._tasks is not None, "the world lives"
        self.lives += 1
        self.life = Life(self, self.lives)
        self._tasks.start_soon(self.life.run)

    def start_soon(self, task: Callable[[], Any]) -> None:
        """Run a task beside the present life."""
        assert self._tasks is not None, "the world lives"
        self._tasks.start_soon(task)

    async def end_life(self, *, crash: bool) -> None:
        """End the present process; a crash may leave half a line in the journal."""
        if (life := self.life) is None:
            return
        life.stop(crash=crash)
        await life.ended.wait()
        self.saved_brakes = life.controller.pauses.saved_brakes()
        self.life = None
        if crash and self.rng.random() < 0.3 and (segments := list_segments(self.directory)):
            with segments[-1].path.open("ab") as file:
                file.write(b'{"id":"torn')

    def listed(self, resource: str, lag_s: float) -> tuple[dict[str, Obj], list[Event]]:
        """Return a resource's objects by uid as they were so long ago, and its events since."""
        objects = {obj["metadata"]["uid"]: obj for obj in self.store.list(resource)}
        since = anyio.current_time() - lag_s
        events = [e for at, e in self._events if at > since and e.resource == resource and lag_s]
        for event in reversed(events):
            uid = event.object["metadata"]["uid"]
            if event.previous is None:
                objects.pop(uid, None)
            else:
                objects[uid] = event.previous
        if self.records:  # as the API server orders them; a replay lists them so
            listed = sorted(objects.values(), key=_namespace_and_name)
            objects = {obj["metadata"]["uid"]: obj for obj in listed}
        return objects, events

    def _publish(self, event: Event) -> None:
        self._events.append((anyio.current_time(), event))
        if self.life is not None:
            self.life.receive(event)

    # --- the API server's eviction endpoint; a request is its own task, as a proxy holds it ---

    async def evict(self, request: EvictionRequest) -> EvictionResponse:
        assert self._tasks is not None, "the world lives"
        if self.life is not None and self.life.has_crashed:
            await anyio.lowlevel.checkpoint()  # a killed process gets no further than this
        self.referee.requested(request)
        life = self.lives
        fault, delay_s = self.replies.pop(0) if self.replies else ("", 0.005)
        answered, answers = anyio.Event(), list[EvictionResponse]()

        async def carry() -> None:
            self.referee.under_way.add(request.uid)
            await anyio.sleep(delay_s)
            self.referee.under_way.discard(request.uid)
            answers.append(self._answer(request, fault, life))
            answered.set()

        if self.is_down:
            await anyio.sleep(1)
            return EffectUnknown("connection refused")
        self._tasks.start_soon(carry)
        with anyio.move_on_after(REQUEST_TIMEOUT_S):
            await answered.wait()
            await anyio.sleep(0.003)
            return EffectUnknown("connection reset") if fault == "lost after" else answers[0]
        return EffectUnknown("timed out")

    def now(self) -> RequestTime:
        return RequestTime(self.server_time().timestamp())

    async def get_pod(self, namespace: str, name: str) -> PodLookup:
        await anyio.sleep(0.005)
        if self.is_down:
            raise ClusterError("connection refused")
        found = self.store.get("pods", namespace, name)
        if found is None:
            return PodNotFound()
        return found_pod(msgspec.json.encode(found))

    def _answer(self, request: EvictionRequest, fault: str, life: int) -> EvictionResponse:
        match fault:
            case "overloaded":
                return TooManyRequests("slow down", 7.0)
            case "broken":
                return ServerError(500, "internal error")
            case "lost before":
                return EffectUnknown("connection reset")
        pod = self.store.get("pods", request.namespace, request.name)
        if pod is None:
            return NotFound()
        if pod["metadata"]["uid"] != request.uid:
            return Conflict("the uid does not match")
        was_terminating = "deletionTimestamp" in pod["metadata"]
        eviction = self.referee.eviction(request, pod, life)
        try:
            options = DeleteOptions(uid=request.uid)
            evict(self.store, request.namespace, request.name, options)
        except StatusError as error:
            return PdbRefused(str(error)) if error.code == 429 else ServerError(500, str(error))
        if was_terminating:
            self.referee.ending.add(request.uid)
        else:
            self.referee.evicted(eviction)
        return Accepted()


def _namespace_and_name(obj: Obj) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


class _Silent:
    def __getattr__(self, _: str) -> Callable[..., None]:
        return lambda *args, **more: None


def remove_quietly(store: Store, resource: str, namespace: str, name: str) -> None:
    """Delete an object if it is there."""
    with suppress(StatusError):
        store.delete(resource, namespace, name, DeleteOptions())
