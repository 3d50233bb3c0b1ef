"""Holds the named pauses of evaluation and eviction, each set and ended by one owner.

| pause | owner |
|---|---|
| `startup` | the start of the process, until the open intents of the last run are resolved |
| `stopping` | shutdown; it ends where a leader's term does, and its process goes on |
| `cluster` | the connection, once its address led to another cluster; it is never ended |
| `leader` | the controller, while leader election lets it not act: another replica may |
| `manual` | a person, who paused the controller by a command or the pause file |
| `brake` | the zone brake, while no node of any zone is Ready |
| `journal` | the controller, while the journal is not open or its disk takes no records |
| `sync/<resource>` | the resource's event handler, until its list is complete and a watch is open |
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Final

from msgspec import Struct

from reactive_desched.eviction.recorder import NOT_OPEN
from reactive_desched.model.observer import Observer
from reactive_desched.model.rights import Right, how_to_grant
from reactive_desched.primitives.wakeup import Epoch, Followers, Latch, Wakeup
from reactive_desched.text.causes import cause_of, shared_causes

STARTUP: Final = "startup"
STOPPING: Final = "stopping"
CLUSTER: Final = "cluster"
LEADER: Final = "leader"
MANUAL: Final = "manual"
BRAKE: Final = "brake"
JOURNAL: Final = "journal"
SYNC_PREFIX: Final = "sync/"

INTENTIONAL: Final = frozenset({MANUAL, BRAKE})
"""The pauses of a healthy controller: /readyz shows them and passes."""


def sync_pause(resource: str) -> str:
    """Return the name of a resource's pause."""
    return f"{SYNC_PREFIX}{resource}"


class PauseStatus(Struct, frozen=True):
    """The reason of a pause that holds; of one that does not, what limits the controller still.

    `denial` is the API server's denial that led to the note, and `right` what would end either.
    `is_unasked` says that the controller goes without only as nothing that is enabled reads it.
    """

    reason: str = ""
    note: str = ""
    denial: str = ""
    right: Right | None = None
    is_unasked: bool = False

    @property
    def text(self) -> str:
        """The reason, and the right to grant, if that would end it; empty while nothing holds."""
        if not self.reason or self.right is None:
            return self.reason
        return f"{self.reason}; {how_to_grant((self.right,))}"


PauseFollower = Callable[[str, str], None]
"""What is called with the name of a pause and its reason, empty where it has ended."""

_RESUMED: Final = PauseStatus()
_STARTING: Final = PauseStatus("the controller is starting")
_NOT_OPEN: Final = PauseStatus(NOT_OPEN)
_NOT_LISTED: Final = PauseStatus("its first list is not complete")

USUAL_BEFORE_A_TERM: Final = frozenset({_STARTING.reason, _NOT_OPEN.reason})
"""The reasons of pauses that hold on every standby, until it leads."""


class Readiness:
    """The pauses of one controller; it works while none holds.

    Each change of the first reason goes to the observer; `work_available` is notified when the
    last pause ends. `asked` names the resources that something reads, None for all. `epoch`
    advances when the process was suspended: every reflector then opens its watch anew before its
    resource counts as synced. `synced` is set when every resource was in sync for the first time.
    """

    def __init__(
        self,
        resources: Iterable[str],
        observer: Observer,
        work_available: Wakeup,
        asked: Collection[str] | None = None,
    ) -> None:
        self.epoch = Epoch()
        self.synced = Latch()
        self._observer = observer
        self._work_available = work_available
        self._asked = asked
        self._sync_pauses = tuple(map(sync_pause, resources))
        self._pauses = {
            STOPPING: _RESUMED,
            CLUSTER: _RESUMED,
            LEADER: _RESUMED,
            STARTUP: _STARTING,
            MANUAL: _RESUMED,
            BRAKE: _RESUMED,
            JOURNAL: _RESUMED,
            **dict.fromkeys(self._sync_pauses, _NOT_LISTED),
        }
        self._reason = self._first_reason()
        self._followers = Followers[PauseFollower]()

    def followed_by(self, follower: PauseFollower) -> AbstractContextManager[None]:
        """Call the follower with each pause that is set or ended, while the block lasts."""
        return self._followers.joined_by(follower)

    @property
    def reason(self) -> str:
        """The first pause that holds, and why; empty when none does."""
        return self._reason

    @property
    def pauses(self) -> Mapping[str, PauseStatus]:
        """Every pause by its name."""
        return self._pauses

    @property
    def is_paused_on_purpose(self) -> bool:
        """Say whether a person or a brake alone holds evictions: cluster and records are known.

        Time passes then as it does without a pause.
        """
        holding = [name for name, status in self._pauses.items() if status.reason]
        return bool(holding) and INTENTIONAL.issuperset(holding)

    def asks_for(self, resource: str) -> bool:
        """Say whether something that is enabled reads the objects of a resource."""
        return self._asked is None or resource in self._asked

    def set_asked(self, resources: Collection[str]) -> None:
        """Replace the resources that something reads; pause for what is denied and read now."""
        self._asked = resources
        for resource in resources:
            status = self._pauses.get(name := sync_pause(resource), _RESUMED)
            if status.is_unasked:
                self.pause(name, status.denial, status.right)

    def pause(self, name: str, reason: str, right: Right | None = None) -> None:
        """Let nothing be evaluated or evicted until this pause is ended by its name.

        `right` is what the API server denies the controller, where that is why.
        """
        self._set(name, PauseStatus(reason, right=right))

    def resume(self, name: str) -> None:
        """End this pause."""
        self._set(name, _RESUMED)

    def go_without(self, name: str, status: PauseStatus) -> None:
        """End this pause, of something that the API server denies; `status` has no reason."""
        self._set(name, status)

    def pause_sync(self, reason: str) -> None:
        """Pause for every resource in sync, and have every reflector open its watch again."""
        for name in self._sync_pauses:
            if self._pauses[name] == _RESUMED:
                self._pauses[name] = PauseStatus(reason)
                self._call_followers(name)
        self._report()
        self.epoch.advance(reason)

    def is_in_sync(self, resources: Iterable[str]) -> bool:
        """Say whether each of these is listed and watched, or given up."""
        return not any(self._pauses.get(sync_pause(each), _RESUMED).reason for each in resources)

    def said_before(self, name: str) -> str:
        """Return the first pause that has the cause of this one; empty if that is this one."""
        cause = cause_of(self._pauses[name].text)
        first = next(each for each, it in self._pauses.items() if cause_of(it.text) == cause)
        return "" if first == name else first

    def is_starting(self) -> bool:
        """Say whether every pause that holds is one of a normal start, or of a standby."""
        normal = (_RESUMED, _STARTING, _NOT_LISTED, _NOT_OPEN)
        return all(status in normal or name == LEADER for name, status in self._pauses.items())

    def message(self) -> str:
        """Name all pauses that hold by their reasons, and each denial; empty when none holds.

        What several requests met is said once, without their paths; last come the missing rights.
        The text stays the same when a denied resource is given up: it is logged once.
        """
        if not self._reason:
            return ""
        rights = [each.right for each in self._pauses.values() if each.right is not None]
        texts = {name: each.reason or each.denial for name, each in self._pauses.items()}
        held = {name: text for name, text in texts.items() if text}
        causes = (f"{', '.join(names)}: {cause}" for names, cause in shared_causes(held))
        return "; ".join(filter(None, (*causes, how_to_grant(rights))))

    def _set(self, name: str, status: PauseStatus) -> None:
        if self._pauses[name] != status:
            self._pauses[name] = status
            self._call_followers(name)
            if name in self._sync_pauses and not self.synced.is_set():
                self._check_synced()
            self._report()

    def _call_followers(self, name: str) -> None:
        for follower in self._followers.all:
            follower(name, self._pauses[name].reason)

    def _check_synced(self) -> None:
        if not any(self._pauses[name].reason for name in self._sync_pauses):
            self.synced.set()

    def _report(self) -> None:
        reason = self._first_reason()
        if reason != self._reason:
            self._reason = reason
            self._observer.on_pause(reason)
            if not reason:
                self._work_available.notify()

    def _first_reason(self) -> str:
        held = (f"{name}: {status.text}" for name, status in self._pauses.items() if status.reason)
        return next(held, "")
