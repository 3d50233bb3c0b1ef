"""Pauses and resumes a controller by command and by the pause file, also over a restart.

The pause by command and a storm are kept in `brakes.json`, beside the journal: a process that
starts goes on with them before it evaluates anything. Everything else is read anew.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import anyio
import anyio.to_thread
import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from reactive_desched.controller.controller import Controller
from reactive_desched.controller.public_state import PublicState
from reactive_desched.eviction.recorder import Recorder
from reactive_desched.journal import atomic_files
from reactive_desched.model.brakes import MAX_PAUSE_S, SavedBrakes, SavedPause
from reactive_desched.primitives.decode_errors import DECODE_ERRORS
from reactive_desched.primitives.shortage import lacking
from reactive_desched.telemetry.logs import Logger
from reactive_desched.web.operator import Order, read_order

POLL_INTERVAL_S: Final = 1.0
"""How often the pause file is read, and what could not be kept is tried again."""

RESTORE_WAIT_S: Final = 2.0
"""How long an order waits at the start for the journal to open."""

MAX_FILE_BYTES: Final = 4096
"""What is behind this in a pause file is not read."""

FILE: Final = "brakes.json"


class PauseOrder(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The body of the order `pause`; `by` names the person. Without `forSeconds` it has no end."""

    by: Annotated[str, Meta(max_length=200)] = "command"
    reason: Annotated[str, Meta(max_length=1000)] = ""
    for_seconds: Annotated[float, Meta(gt=0, le=MAX_PAUSE_S)] | None = None


class ResumeOrder(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The body of the order `resume`; `by` names the person."""

    by: Annotated[str, Meta(max_length=200)] = "command"
    reason: Annotated[str, Meta(max_length=1000)] = ""


NOTHING_HELD: Final[Mapping[str, str]] = {}


class BrakesAnswer(Struct, frozen=True, rename="camel"):
    """The answer to both orders: the state of the controller, and what each brake holds.

    `pause` is the first reason why nothing is evaluated now; empty for none. `not_kept` is why a
    restart would not go on with this; empty when it would. `released` has the brakes that held
    before and hold no more, each with what it held for.
    """

    state: PublicState
    pause: str
    brakes: Mapping[str, str]
    not_kept: str = ""
    released: Mapping[str, str] = {}


class Pausing:
    """Pauses and resumes one controller, and keeps that over restarts.

    `pause_file` is empty where there is none. A pause holds at once, also before `restore`; it is
    kept from then on, and the answer waits for that a little.
    """

    def __init__(
        self, controller: Controller, recorder: Recorder, pause_file: str, log: Logger
    ) -> None:
        self._controller = controller
        self._recorder = recorder
        self._path: Path | None = None
        self._restored = anyio.Event()
        self._pause_file = pause_file
        self._log = log
        self._kept = SavedBrakes()
        self._keeping = anyio.Lock()

    @property
    def orders(self) -> tuple[Order, ...]:
        """The orders `pause` and `resume`."""
        return (
            Order("pause", "evict nothing until resumed", self._pause),
            Order("resume", "end a pause, and release the storm brake", self._resume),
        )

    async def restore(self, directory: Path) -> None:
        """Restore the pause and the storm brake of an earlier process, and read the pause file.

        They are in the journal's directory.

        A file that cannot be read may hold a pause: then the controller is paused. Raises OSError
        where this process lacks what it takes to read it.
        """
        self._path = directory / FILE
        self._kept = await read_kept(self._path, self._log)
        paused_meanwhile = self._controller.pauses.saved_brakes().pause is not None
        self._controller.pauses.restore(
            replace(self._kept, pause=None) if paused_meanwhile else self._kept
        )
        self._controller.pauses.confirm_kept(self._kept)
        self._restored.set()
        await self._read_pause_file()

    async def run(self) -> None:
        """Follow the pause file and keep what changes at once, until cancelled."""
        try:
            while True:
                await self._read_pause_file()
                if not_kept := await self.keep():
                    self._log.warning("the brakes cannot be kept over a restart", message=not_kept)
                with anyio.move_on_after(POLL_INTERVAL_S):
                    await self._controller.pauses.brakes_changed()
        finally:
            self._controller.pauses.confirm_kept(None)

    async def _pause(self, body: Mapping[str, Any]) -> BrakesAnswer:
        order = read_order(body, PauseOrder)
        self._controller.pauses.check_leading()
        self._controller.pauses.pause(order.by, order.reason, order.for_seconds)
        await self._wait_restored()
        return await self._answer()

    async def _resume(self, body: Mapping[str, Any]) -> BrakesAnswer:
        order = read_order(body, ResumeOrder)
        self._controller.pauses.check_leading()
        await self._wait_restored()
        before = self._held()
        self._controller.pauses.resume(order.by, order.reason)
        return await self._answer(before)

    async def _wait_restored(self) -> None:
        """Wait for what an earlier process kept, or a little; the journal is not open before."""
        with anyio.move_on_after(RESTORE_WAIT_S):
            await self._restored.wait()

    def _held(self) -> dict[str, str]:
        """Return what each brake that holds now says, by name."""
        messages = self._controller.pauses.brake_messages()
        return {name: message for name, message in messages.items() if message}

    async def _answer(self, before: Mapping[str, str] = NOTHING_HELD) -> BrakesAnswer:
        await self._recorder.written()
        not_kept = await self.keep()
        pauses = self._controller.pauses
        brakes = self._held()
        released = {name: text for name, text in before.items() if name not in brakes}
        return BrakesAnswer(pauses.state(), pauses.check(), brakes, not_kept, released)

    async def keep(self) -> str:
        """Save pauses that changed, then show what a restart would restore.

        Returns why it could not be written, or the empty text; it is shown all the same.
        """
        async with self._keeping:
            while (saved := self._controller.pauses.saved_brakes()) != self._kept:
                if (path := self._path) is None:
                    return "the journal is not open yet"
                content = msgspec.json.encode(saved)
                try:
                    await anyio.to_thread.run_sync(atomic_files.replace, path, content)
                except OSError as error:
                    self._controller.pauses.confirm_kept(saved)
                    return f"{path}: {error.strerror or error}"
                self._kept = saved
                self._controller.pauses.confirm_kept(saved)
            return ""

    async def _read_pause_file(self) -> None:
        if self._pause_file:
            self._controller.pauses.set_pause_file(await read_pause_file(self._pause_file))


async def read_kept(path: Path, log: Logger) -> SavedBrakes:
    """Return the brakes that an earlier process kept; a pause where they cannot be read.

    Raises OSError where this process lacks what it takes to read them.
    """
    try:
        text = await anyio.to_thread.run_sync(path.read_bytes)
        return msgspec.json.decode(text, type=SavedBrakes)
    except FileNotFoundError:
        return SavedBrakes()
    except (OSError, *DECODE_ERRORS) as error:
        if lacking(error):
            raise
        reason = f"{path} cannot be read, which may hold a pause: {error}"
        log.warning("the controller is paused until resumed", message=reason)
        return SavedBrakes(SavedPause("the controller", reason, 0.0))


async def read_pause_file(path: str) -> str:
    """Return the text of a file: empty where there is no file, the error where it is unreadable."""
    return await anyio.to_thread.run_sync(_read_text, path)


def _read_text(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            return file.read(MAX_FILE_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{path} cannot be read: {error.strerror or error}"
