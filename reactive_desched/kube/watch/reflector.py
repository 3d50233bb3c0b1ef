"""Keep a picture of one resource true to the server: list, watch, resume, and list anew.

The old picture stays until a new one is whole. After anything that goes wrong the feed is told
that it is stale, and nothing is asked more than once a second.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Generic, TypeVar

from reactive_desched.errors import ClusterError, Malformed
from reactive_desched.kube.client.clock import Clock, SystemClock
from reactive_desched.kube.client.responses import Answer
from reactive_desched.kube.client.session import Stream, Transport
from reactive_desched.kube.decode.codec import Codec, Feed, WatchEvent
from reactive_desched.kube.watch.backoff import Backoff
from reactive_desched.kube.watch.initial_list import Removed, Staging
from reactive_desched.kube.watch.lister import Lister
from reactive_desched.kube.watch.reconnect import Revival
from reactive_desched.kube.watch.resume_point import Place, older
from reactive_desched.kube.watch.settings import ReflectorStatus, ReflectSettings
from reactive_desched.kube.watch.watch_end import End, Ending, of_answer, of_error, of_status
from reactive_desched.kube.watch.watcher import WatchReader
from reactive_desched.kube.watch.yielding import Pace

__all__ = ["ReflectSettings", "Reflector", "ReflectorStatus"]

T = TypeVar("T")
_SHORT_S = 1.0
_FRUITLESS_WATCHES = 3
_PASSING_DENIALS = 4
"""A server that has just started denies what it will grant once it has read the roles."""
_LIST_ANEW = frozenset({End.GONE, End.FAILED, End.REJECTED})
_NOT_ABOUT_STREAMING = frozenset({End.UNREACHABLE, End.THROTTLED, End.UNKNOWN_CALLER, End.GONE})


class Reflector(Generic[T]):
    """One resource's list-watch loop; `run` never returns and lets only bugs escape."""

    def __init__(
        self,
        session: Transport,
        codec: Codec[T],
        feed: Feed[T],
        *,
        clock: Clock | None = None,
        rng: Random | None = None,
        settings: ReflectSettings | None = None,
        revival: Revival | None = None,
    ) -> None:
        self.status = ReflectorStatus(codec.kind, codec.path)
        self._session = session
        self._path = codec.path
        self._form = codec.forms.watched
        self._feed = feed
        self._clock = clock or SystemClock()
        self._rng = rng or Random()  # noqa: S311  jitter is no secret
        self._settings = settings or ReflectSettings()
        self._backoff = Backoff(self._rng, self._settings.steps)
        self._lister = Lister(session, codec, self._malformed, self._clock)
        self._reader = WatchReader(codec, self._malformed, self._clock)
        self._place = Place()
        self._stale_reason: str | None = None
        self._doubt = ""
        self._listed_at = float("-inf")
        self._refused_until = float("-inf")
        self._opened_at: float | None = None
        self._watch_s = 0.0
        self._bookmarked = self._progressed = False
        self._fruitless = self._denials = 0
        self._revival = revival or Revival()

    async def run(self) -> None:
        """Reflect for ever."""
        while True:
            self._opened_at = None
            self._progressed = False
            ending = await self._cycle()
            await self._recover(ending)

    def renew(self, reason: str) -> None:
        """Trust the picture again only when a new watch is open on it and has settled.

        For when this process stood still: what happened meanwhile may not be read yet, and the
        link may be dead without a word.
        """
        self._listed_at = float("-inf")
        self._doubt = self.status.last_error = reason
        if self.status.fresh:
            self._distrust(reason)
        if self.status.state == "watching":
            self._reader.stop(reason)

    # --- one cycle: from where we are to the end of a watch ---

    async def _cycle(self) -> Ending:
        if self._place.known:
            return await self._watched()
        if self._settings.streaming and self._clock.now() >= self._refused_until:
            ending = await self._streamed()
            if not self._needs_pages(ending):
                return ending
        return await self._listed()

    def _needs_pages(self, ending: Ending) -> bool:
        """Whether a streaming list failed in a way that a paged list may not."""
        if self._place.known or ending.why in _NOT_ABOUT_STREAMING:
            return False
        if ending.why in (End.REJECTED, End.SILENT):
            self._refused_until = self._clock.now() + self._settings.streaming_refused_s
        return True

    async def _listed(self) -> Ending:
        self._opened_at = None
        self._listed_at = self._clock.now()
        self.status.state = "listing"
        sizes = self._settings.again if self.status.syncs else self._settings.first
        staged = await self._lister.stage(sizes)
        if isinstance(staged, Ending):
            return staged
        if not self._place.believes(staged.resource_version):
            return self._went_back(staged.resource_version)
        await self._swap(staged.items, staged.resource_version)
        return await self._watched()

    async def _streamed(self) -> Ending:
        """Read the initial events of a streaming list, swap them in, and read on."""
        self._listed_at = self._clock.now()
        self.status.state = "listing"
        staging: Staging[T] = Staging(self._path)
        initial = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        try:
            async with self._opened(self._watch_params() | initial) as reply:
                if not isinstance(reply, Stream):
                    return self._no_watch(reply)
                self._opened_at = self._clock.now()
                patience_s = self._settings.initial_silence_s
                ending = await self._reader.read(reply, staging.take, lambda: patience_s)
                if ending.why is not End.COMPLETE:
                    return ending
                if not self._place.believes(staging.resource_version):
                    return self._went_back(staging.resource_version)
                await self._swap(staging.changes, staging.resource_version)
                return await self._follow(reply)
        except ClusterError as error:
            return of_error(error)

    async def _watched(self) -> Ending:
        self.status.state = "connecting"
        params = self._watch_params() | {"resourceVersion": self._place.version}
        try:
            async with self._opened(params) as reply:
                if not isinstance(reply, Stream):
                    return self._no_watch(reply)
                return await self._follow(reply)
        except ClusterError as error:
            return of_error(error)

    def _opened(self, params: dict[str, str]) -> AbstractAsyncContextManager[Stream | Answer]:
        self._doubt = ""
        return self._session.stream(self._path, params, accept=self._form)

    async def _follow(self, stream: Stream) -> Ending:
        """Read a watch to its end; one that is in doubt was opened before we stood still."""
        if not self._doubt:
            ending = await self._read_on(stream)
        return Ending(End.RENEWED, self._doubt) if self._doubt else ending

    async def _read_on(self, stream: Stream) -> Ending:
        self._opened_at = self._clock.now()
        self._bookmarked = False
        self.status.reconnects += self.status.watches > 0
        self.status.watches += 1
        self.status.state = "watching"
        beside = None
        if self._opened_at - self._listed_at <= self._settings.settle_s:
            self._become_fresh()
        elif not self.status.fresh:
            beside = self._settle
        return await self._reader.read(stream, self._apply, self._silence_limit_s, beside)

    async def _settle(self) -> None:
        """Trust an older picture only after what it lacks, or a refusal, had time to arrive."""
        await self._clock.sleep(self._settings.settle_s)
        if not self._doubt:
            self._become_fresh()

    def _become_fresh(self) -> None:
        self._stale_reason = None
        if not self.status.fresh:
            self.status.fresh = True
            self._denials = 0
            self._feed.fresh()
            self._revival.told()

    def _watch_params(self) -> dict[str, str]:
        self._watch_s = self._settings.watch_s * (1.0 + self._rng.random())
        return {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(self._watch_s)),
        }

    def _no_watch(self, reply: Answer) -> Ending:
        return of_answer(reply, f"watch {self._path}", self._clock.wall())

    def _silence_limit_s(self) -> float:
        if self._bookmarked:
            return self._settings.silence_after_bookmark_s
        return self._watch_s + self._settings.silence_slack_s

    # --- what comes in ---

    def _apply(self, event: WatchEvent[T]) -> Ending | None:
        """Take one event of a watch; the hot path."""
        if event.object is None:
            return self._apply_bare(event)
        version, place = event.resource_version, self._place
        if version == place.version:
            return None  # told twice
        if older(version, place.version):
            return self._went_back(version)
        if event.type == "DELETED":
            self._feed.remove(event.object)
        else:
            self._feed.upsert(event.object)
        place.version = version or place.version
        self._progressed = True
        self.status.events += 1
        return None

    def _apply_bare(self, event: WatchEvent[T]) -> Ending | None:
        if event.type == "ERROR":
            return of_status(event.status, f"watch {self._path}")
        if event.type == "BOOKMARK":
            self._bookmarked = self._progressed = True
            self.status.bookmarks += 1
            self._place.bookmarked(event.resource_version)
            self.status.resource_version = self._place.version
        return None

    def _went_back(self, version: str) -> Ending:
        return Ending(End.FAILED, f"{self._path}: the server went back in time to {version}")

    async def _swap(self, changes: Sequence[T | Removed[T]], version: str) -> None:
        """Put the new picture in place of the old one, turn by turn."""
        self.status.state = "swapping"
        sizes = self._settings.again if self.status.syncs else self._settings.first
        pace = Pace(self._clock, sizes.gait)
        feed = self._feed
        feed.begin_replace()
        for change in changes:
            if isinstance(change, Removed):
                feed.remove(change.obj)
            else:
                feed.upsert(change)
            if pace.spent():
                await pace.give_way()
        feed.end_replace()
        self._place.listed(version)
        self.status.resource_version = version
        self.status.relists += self.status.syncs > 0
        self.status.syncs += 1

    def _malformed(self, error: Malformed) -> None:
        self.status.malformed += 1
        self._feed.malformed(error)

    # --- what goes wrong ---

    async def _recover(self, ending: Ending) -> None:
        """Decide what an ending means: whether to stay fresh, how long to wait, where to go on."""
        self.status.resource_version = self._place.version
        if ending.why is End.RENEWED:
            return
        lived_s = 0.0 if self._opened_at is None else self._clock.now() - self._opened_at
        if self._opened_at is not None:
            self._fruitless = 0 if self._progressed else self._fruitless + 1
        if lived_s >= _SHORT_S:
            self._backoff.reset()
        if ending.why in _LIST_ANEW or self._fruitless >= _FRUITLESS_WATCHES:
            self._place.lose()
            self._fruitless = 0
        elif ending.why is End.CLEAN and lived_s >= _SHORT_S:
            return
        self._stale(ending)
        wait_s = self._wait_s(ending, lived_s)
        if ending.why is End.UNREACHABLE:
            await self._revival.wait(self._clock.sleep, wait_s)
        elif wait_s > 0:
            await self._clock.sleep(wait_s)

    def _stale(self, ending: Ending) -> None:
        self.status.state = "waiting"
        self.status.failures += 1
        self.status.last_error = ending.detail
        self._distrust(ending.detail)

    def _distrust(self, reason: str) -> None:
        self.status.fresh = False
        if self._stale_reason != reason:
            self._stale_reason = reason
            self._feed.stale(reason)

    def _wait_s(self, ending: Ending, lived_s: float) -> float:
        now = self._clock.now()
        if ending.why is End.DENIED:
            self._denials += 1
            if self._denials > _PASSING_DENIALS:
                self._feed.denied(ending.detail)
                return self._settings.denied_s * (1.0 + self._rng.random())
        if ending.why is End.CLEAN and self._progressed:
            return max(_SHORT_S - lived_s, 0.0) + self._rng.random() / 2
        if ending.why is End.GONE and now - self._listed_at >= self._settings.relist_pause_s:
            return 0.0
        return max(self._backoff.wait_s(now), ending.retry_after_s or 0.0)
