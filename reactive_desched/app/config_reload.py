"""Puts changed policy and settings files in force while everything runs, all of it or nothing.

The files are read again and again rather than watched: a ConfigMap changes by a symlink that
swaps, editors rename, and network mounts send no notification.
"""

import hashlib
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import inf
from typing import Final, Protocol

import anyio
import anyio.to_thread
from pydantic import BaseModel

from reactive_desched.api.args import file_key, needs_restart
from reactive_desched.api.event import PolicyFile
from reactive_desched.errors import ConfigError
from reactive_desched.journal.event_builder import policy_file_payload
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.policy import Policy
from reactive_desched.policy.scheduler_texts import SchedulerTexts
from reactive_desched.policy.settings.reactive_settings import ReactiveSettings
from reactive_desched.policy.settings.scheduler import ConfigMapKey
from reactive_desched.policy.yaml.diagnostics import PolicyErrors
from reactive_desched.policy.yaml.text import MAX_TEXT_BYTES
from reactive_desched.primitives.hung_calls import place_of
from reactive_desched.primitives.shortage import shortage_remedy
from reactive_desched.telemetry.logs import Logger
from reactive_desched.telemetry.metrics import Metric, counter, gauge

POLL_INTERVAL_S = 1.0
"""How often the files are read. What differs counts once two looks in a row agree on it."""

LONG_READ_S: Final = 60.0
"""Reading takes less than a second; what takes so long does not end."""

RELOADS = counter(
    "policy_reloads", "Changed policy and settings files, accepted or rejected.", "result"
)
POLICY = gauge("policy_info", "The policy in force; always 1.", "policy", "digest")
KEPT = gauge("policy_kept", "1 while the files are rejected and an earlier policy stays in force.")

Fingerprint = tuple[str, ...]
"""What identifies the contents of some files."""


class PolicySource(Protocol):
    """Reads policy and settings, and fingerprints what they are read from."""

    async def fingerprint(self) -> Fingerprint:
        """Identify what the files hold now."""
        ...

    async def read(self) -> Configuration:
        """Read policy and settings; raises ConfigError for errors in them."""
        ...

    def place(self) -> str:
        """Name the function that reads now, and its file; empty where none does."""
        ...


def policy_files(configuration: Configuration) -> tuple[PolicyFile, ...]:
    """Return the files of a configuration as records hold them, and what settings name."""
    texts = configuration.scheduler_texts.values()
    return tuple(map(_policy_file, (*configuration.sources, *texts)))


def _policy_file(source: SourceText) -> PolicyFile:
    raw = source.text.encode(errors="replace") if isinstance(source.text, str) else source.text
    return policy_file_payload(
        source.name,
        source.sha256,
        raw.decode(errors="replace"),
        size=len(raw),
        path="" if source.is_of_api else os.path.abspath(source.name),  # noqa: PTH100 -- a name, not always of a file
    )


class ConfigFiles:
    """Reads files in a thread, so that a slow disk or a long text does not hold the event loop.

    A thread that hangs with its disk is left behind at the end. Files that settings name are
    followed as the others are, and what others `put` of the ConfigMaps that they name.
    """

    def __init__(
        self, paths: tuple[str, ...], read: Callable[[SchedulerTexts], Configuration]
    ) -> None:
        self._paths = paths
        self._read = read
        self._thread = 0
        self._named: tuple[str, ...] = ()
        self._config_maps: dict[ConfigMapKey, str] = {}
        self.wanted: tuple[ConfigMapKey, ...] = ()

    def read_at_start(self) -> tuple[Configuration, Fingerprint]:
        """Read policy and settings, and say what was read; blocks. Raises ConfigError."""
        before = fingerprint(self._paths)
        found = self._read_now()
        by_name = {each.name: each.sha256 for each in found.scheduler_texts.values()}
        return found, (*before, *(by_name.get(name, "") for name in self._named))

    def put(self, key: ConfigMapKey, text: str) -> None:
        """Take what a ConfigMap says now, one of those that are wanted."""
        self._config_maps = {
            **{each: self._config_maps[each] for each in self.wanted if each in self._config_maps},
            key: text,
        }

    async def fingerprint(self) -> Fingerprint:
        """Identify what the files hold now."""
        compute = partial(fingerprint, (*self._paths, *self._named))
        found = await anyio.to_thread.run_sync(compute, abandon_on_cancel=True)
        texts = sorted((str(key), text.encode()) for key, text in self._config_maps.items())
        return (*found, *(f"{key}: {hashlib.sha256(raw).hexdigest()}" for key, raw in texts))

    async def read(self) -> Configuration:
        """Read policy and settings; raises ConfigError for errors in them."""
        return await anyio.to_thread.run_sync(self._read_in_thread, abandon_on_cancel=True)

    def _read_now(self) -> Configuration:
        texts, before = SchedulerTexts(self._config_maps), self.wanted
        try:
            found = self._read(texts)
            before = ()
            return found
        finally:
            self._named = tuple(dict.fromkeys(texts.files))
            self.wanted = tuple(dict.fromkeys((*texts.config_maps, *before)))

    def place(self) -> str:
        """Name the function in which the thread is that read last, and its file."""
        frame = sys._current_frames().get(self._thread)  # noqa: SLF001 -- the way to another thread
        return "" if frame is None else place_of(frame)

    def _read_in_thread(self) -> Configuration:
        self._thread = threading.get_ident()
        return self._read_now()


class ActiveConfig:
    """The configuration in force; `problems` says why newer files were refused."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.problems: tuple[str, ...] = ()
        self._results = {"ok": 0, "rejected": 0}

    def replace(self, configuration: Configuration) -> None:
        """Put another configuration in force."""
        self.configuration, self.problems = configuration, ()
        self._results["ok"] += 1

    def renew(self, configuration: Configuration) -> None:
        """Put what was read of calendars in force, beside the same files."""
        self.configuration = configuration

    def reject(self, problems: tuple[str, ...]) -> None:
        """Keep the configuration in force: the files have these problems."""
        self.problems = problems
        self._results["rejected"] += 1

    def restore(self) -> None:
        """Note that the files hold the configuration in force again."""
        self.problems = ()

    def collect(self) -> Iterator[Metric]:
        """Yield which policy is in force, and how many changed files were applied or refused."""
        yield RELOADS.by_label(self._results)
        yield POLICY.value(1, self.policy.source, self.policy.revision)
        yield KEPT.value(bool(self.problems))

    @property
    def policy(self) -> Policy:
        """The policy that counts now."""
        return self.configuration.policy

    def status_message(self) -> str:
        """Return one line: which policy is in force, and why newer files were rejected."""
        if self.problems:
            return f"kept revision {self.policy.revision}: file rejected: {self.problems[0]}"
        return f"revision {self.policy.revision} of {self.policy.source}"


class Configurable(Protocol):
    """A part that takes another configuration while it runs."""

    def reconfigure(self, config: Configuration) -> None:
        """Apply another configuration."""
        ...


class ReloadListener(Protocol):
    """Receives the result of each reload."""

    def policy_loaded(self, source: str, revision: str, files: Sequence[PolicyFile] = ()) -> None:
        """Another policy, or other settings, are in force."""
        ...

    def policy_rejected(self, source: str, problems: tuple[str, ...]) -> None:
        """The files were refused."""
        ...


class ConfigReloader:
    """Reads the files every second: applies a valid configuration, logs an invalid one.

    The last good configuration stays in force until all of a newer one is good. Nothing counts
    before it stood for a second, so that a file half written, or missing between two renames, is
    waited for. `initial_fingerprint` identifies what the files held when the process read them.
    Reading that does not end is named after a minute, with the place where it hangs: no other
    thread can end it, and no file is read after it.
    """

    def __init__(
        self,
        source: PolicySource,
        initial_fingerprint: Fingerprint,
        active: ActiveConfig,
        controller: Configurable,
        listener: ReloadListener,
        log: Logger,
    ) -> None:
        self._source = source
        self._good_fingerprint = self._checked_fingerprint = self._last_fingerprint = (
            initial_fingerprint
        )
        self._active = active
        self._controller = controller
        self._listener = listener
        self._log = log
        self._shortage = ""
        self._reading_since = inf
        self._settings_at_start = active.configuration.settings

    async def run(self) -> None:
        """Keep looking until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._name_what_hangs)
            while True:
                await anyio.sleep(POLL_INTERVAL_S)
                await self._poll()

    async def _name_what_hangs(self) -> None:
        while True:
            await anyio.sleep(POLL_INTERVAL_S)
            if anyio.current_time() - self._reading_since >= LONG_READ_S:
                self._reading_since = inf
                at = self._source.place()
                place = at and f", in {at}"
                problem = (
                    f"the files have been read for {LONG_READ_S:.0f} s without an end{place}: where"
                    " that is a plugin, take it out of the policy, and restart the controller, as"
                    " it reads no file until then"
                )
                self._reject((problem,))

    async def _poll(self) -> None:
        fingerprint = await self._source.fingerprint()
        is_steady, self._last_fingerprint = fingerprint == self._last_fingerprint, fingerprint
        if not is_steady or fingerprint == self._checked_fingerprint:
            return
        if fingerprint == self._good_fingerprint:
            self._restore_good()
            self._checked_fingerprint = fingerprint
        else:
            await self._load_and_apply(fingerprint)

    async def _load_and_apply(self, fingerprint: Fingerprint) -> None:
        """Read what the files hold and judge it, unless it changed while it was read."""
        result = await self._read()
        if result is None or await self._source.fingerprint() != fingerprint:
            return
        self._shortage = ""
        self._checked_fingerprint = fingerprint
        if isinstance(result, Configuration):
            self._good_fingerprint = fingerprint
            self._apply(result)
        else:
            self._reject(result)

    async def _read(self) -> Configuration | tuple[str, ...] | None:
        """Return what the files hold, or what is wrong.

        None where this process lacks memory or open files: then they are read again.
        """
        self._reading_since = anyio.current_time()
        try:
            return await self._source.read()
        except PolicyErrors as error:
            return tuple(map(str, error.diagnostics))
        except ConfigError as error:
            return (str(error),)
        except Exception as error:  # noqa: BLE001 -- no text may end what runs on the last good one
            if remedy := shortage_remedy(error):
                if remedy != self._shortage:
                    text = "the policy cannot be read now"
                    self._log.warning(text, message=f"{error}; {remedy}")
                self._shortage = remedy
                return None
            return (f"cannot be read: {error!r}",)
        finally:
            self._reading_since = inf

    def _apply(self, read: Configuration) -> None:
        new = read.keep_calendars(self._active.configuration)
        before, policy = self._active.policy.revision, new.policy
        self._listener.policy_loaded(policy.source, policy.revision, policy_files(new))
        self._controller.reconfigure(new)
        self._active.replace(new)
        self._log.info(
            "the policy was reloaded", policy=policy.source, revision=policy.revision, before=before
        )
        for warning in new.warnings:
            self._log.warning(str(warning))
        for kept in restart_needed(self._settings_at_start, new.settings):
            self._log.warning("a restart is needed", **kept)

    def _reject(self, problems: tuple[str, ...]) -> None:
        self._active.reject(problems)
        revision = self._active.policy.revision
        self._log.warning("the new policy was rejected", kept=revision, problems=len(problems))
        for problem in problems:
            self._log.warning(problem)
        self._listener.policy_rejected(self._active.policy.source, problems)

    def _restore_good(self) -> None:
        self._active.restore()
        self._log.info("the policy is valid again", revision=self._active.policy.revision)


def fingerprint(paths: tuple[str, ...]) -> Fingerprint:
    """Return a hash of the files' contents, or of why they cannot be read; blocks.

    Only regular files are read: a pipe has given what it had.
    """
    return tuple(map(_fingerprint, paths))


def _fingerprint(path: str) -> str:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 -- a name, not always of a file
            return "no file"
        with open(path, "rb") as file:  # noqa: PTH123 -- as above
            return hashlib.sha256(file.read(MAX_TEXT_BYTES + 1)).hexdigest()
    except (OSError, ValueError) as error:
        return str(error)


def restart_needed(initial: ReactiveSettings, new: ReactiveSettings) -> Iterator[dict[str, str]]:
    """Name each setting that cannot change while we run: what stays, and what is written now."""
    for field, old, written in _restart_differences(initial, new, marked=False):
        yield {"field": field, "in_force": str(old), "written": str(written)}


def _restart_differences(
    old: BaseModel, new: BaseModel, prefix: str = "", *, marked: bool
) -> Iterator[tuple[str, object, object]]:
    """Yield the fields that differ and have the mark `args.NEEDS_RESTART`, or are within one."""
    for name, info in (type(new).model_fields | type(old).model_fields).items():
        before, after = (getattr(each, name, info.default) for each in (old, new))
        field, needed = f"{prefix}{file_key(name)}", marked or needs_restart(info)
        if isinstance(before, BaseModel) and isinstance(after, BaseModel):
            yield from _restart_differences(before, after, f"{field}.", marked=needed)
        elif before != after and needed:
            yield field, before, after
