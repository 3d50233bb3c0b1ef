"""Puts changed policy and settings files in force while everything runs, all of it or nothing.

The files are read again and again rather than watched: a ConfigMap changes by a symlink that
swaps, editors rename, and mounts of a network tell nobody.
"""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol

import anyio
import anyio.to_thread
from msgspec import Struct
from pydantic import BaseModel

from reactive_desched.controller.controller import Plan
from reactive_desched.errors import ConfigError
from reactive_desched.policy.diagnostics import PolicyErrors
from reactive_desched.policy.fields import written_name
from reactive_desched.policy.load import Configuration
from reactive_desched.policy.policy import Policy
from reactive_desched.policy.settings import ReactiveSettings
from reactive_desched.policy.yaml_text import LARGEST_TEXT
from reactive_desched.telemetry.logs import Log
from reactive_desched.telemetry.metrics import Metrics

LOOK_EVERY_S = 1.0
"""How often the files are read. What differs counts once two looks in a row agree on it."""

RESTART_ONLY = (
    *("client.", "server.", "journal.", "logging.", "evictions.maxInFlight"),
    *("events.cluster", "sinks."),
)
"""The settings that are read at the start alone."""

Texts = tuple[str, ...]
"""What identifies the contents of some files."""


class Prepared(Struct, frozen=True):
    """What was read, checked and found good, and what it comes down to."""

    configuration: Configuration
    plan: Plan


class Source(Protocol):
    """Where policy and settings come from."""

    async def texts(self) -> Texts:
        """Identify what the files hold now."""
        ...

    async def read(self) -> Prepared:
        """Read all of it; raises ConfigError for what a person has to put right."""
        ...


class Files:
    """Files as a source: a thread reads them, so that a slow disk or a long text holds up nobody.

    A thread that hangs with its disk is left behind at the end.
    """

    def __init__(self, paths: tuple[str, ...], read: Callable[[], Prepared]) -> None:
        self._paths = paths
        self._read = read

    async def texts(self) -> Texts:
        """Identify what the files hold now."""
        look = partial(fingerprint, self._paths)
        return await anyio.to_thread.run_sync(look, abandon_on_cancel=True)

    async def read(self) -> Prepared:
        """Read all of it; raises ConfigError for what a person has to put right."""
        return await anyio.to_thread.run_sync(self._read, abandon_on_cancel=True)


class InForce:
    """The configuration that counts now; `refused` says what is wrong with newer files."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.refused: tuple[str, ...] = ()

    @property
    def policy(self) -> Policy:
        """The policy that counts now."""
        return self.configuration.policy

    def note(self) -> str:
        """Say on one line which policy counts, and why it is not the newest."""
        if self.refused:
            return f"kept revision {self.policy.revision}: file rejected: {self.refused[0]}"
        return f"revision {self.policy.revision} of {self.policy.source}"


class Audience(Protocol):
    """Hears what became of changed files."""

    def policy_loaded(self, source: str, revision: str) -> None:
        """Another policy, or other settings, are in force."""
        ...

    def policy_rejected(self, source: str, problems: tuple[str, ...]) -> None:
        """The files were refused."""
        ...


class Reloader:
    """Looks at the files every second, takes what is good and says what is not.

    The last good configuration stays in force until all of a newer one is good. Nothing counts
    before it stood for a second, so that a file half written, or missing between two renames, is
    waited for. `begun_with` identifies what the files held when the process read them.
    """

    def __init__(
        self,
        source: Source,
        begun_with: Texts,
        in_force: InForce,
        adopt: Callable[[Plan], None],
        audience: Audience,
        metrics: Metrics,
        log: Log,
    ) -> None:
        self._source = source
        self._good = self._judged = self._last = begun_with
        self._in_force = in_force
        self._adopt = adopt
        self._audience = audience
        self._metrics = metrics
        self._log = log
        self._settings_at_start = in_force.configuration.settings

    async def run(self) -> None:
        """Keep looking until cancelled."""
        while True:
            await anyio.sleep(LOOK_EVERY_S)
            await self._look()

    async def _look(self) -> None:
        texts = await self._source.texts()
        is_steady, self._last = texts == self._last, texts
        if not is_steady or texts == self._judged:
            return
        if texts == self._good:
            self._good_again()
            self._judged = texts
        else:
            await self._try(texts)

    async def _try(self, texts: Texts) -> None:
        """Read what the files hold and judge it, unless it changed while it was read."""
        found = await self._read()
        if await self._source.texts() != texts:
            return
        self._judged = texts
        if isinstance(found, Prepared):
            self._good = texts
            self._take(found)
        else:
            self._refuse(found)

    async def _read(self) -> Prepared | tuple[str, ...]:
        try:
            return await self._source.read()
        except PolicyErrors as error:
            return tuple(map(str, error.problems))
        except ConfigError as error:
            return (str(error),)
        except Exception as error:  # noqa: BLE001 -- no text may end what runs on the last good one
            return (f"cannot be read: {error!r}",)

    def _take(self, new: Prepared) -> None:
        before, policy = self._in_force.policy.revision, new.configuration.policy
        self._audience.policy_loaded(policy.source, policy.revision)
        self._adopt(new.plan)
        self._in_force.configuration = new.configuration
        self._in_force.refused = ()
        self._metrics.policy_reloaded(policy.source, policy.revision)
        self._log.info(
            "policy reloaded", policy=policy.source, revision=policy.revision, before=before
        )
        for warning in new.configuration.warnings:
            self._log.warning(str(warning))
        for kept in restart_needed(self._settings_at_start, new.configuration.settings):
            self._log.warning("a restart is needed", **kept)

    def _refuse(self, problems: tuple[str, ...]) -> None:
        self._in_force.refused = problems
        self._metrics.policy_rejected()
        revision = self._in_force.policy.revision
        self._log.warning("policy rejected", kept=revision, problems=len(problems))
        for problem in problems:
            self._log.warning(problem)
        self._audience.policy_rejected(self._in_force.policy.source, problems)

    def _good_again(self) -> None:
        self._in_force.refused = ()
        policy = self._in_force.policy
        self._metrics.policy_loaded(policy.source, policy.revision)
        self._log.info("policy file is good again", revision=policy.revision)


def fingerprint(paths: tuple[str, ...]) -> Texts:
    """Identify what files hold, or why they cannot be read; blocks.

    Only regular files are read: a pipe has given what it had.
    """
    return tuple(map(_fingerprint, paths))


def _fingerprint(path: str) -> str:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 -- a name, not always of a file
            return "no file"
        with open(path, "rb") as file:  # noqa: PTH123 -- as above
            return hashlib.sha256(file.read(LARGEST_TEXT + 1)).hexdigest()
    except (OSError, ValueError) as error:
        return str(error)


def restart_needed(started: ReactiveSettings, new: ReactiveSettings) -> Iterator[dict[str, str]]:
    """Name each setting that cannot change while we run: what stays, and what is written now."""
    for field, old, written in _differences(started, new):
        if field.startswith(RESTART_ONLY):
            yield {"field": field, "in_force": str(old), "written": str(written)}


def _differences(
    old: BaseModel, new: BaseModel, prefix: str = ""
) -> Iterator[tuple[str, object, object]]:
    for name in type(old).model_fields:
        before, after = getattr(old, name), getattr(new, name)
        field = f"{prefix}{written_name(name)}"
        if isinstance(before, BaseModel) and type(before) is type(after):
            yield from _differences(before, after, f"{field}.")
        elif before != after:
            yield field, before, after
