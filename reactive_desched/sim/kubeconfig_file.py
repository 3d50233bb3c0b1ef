"""The kubeconfig that a simulated cluster writes: never over that of another one that runs."""

import fcntl
import os
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from reactive_desched.errors import ConfigError
from reactive_desched.sim.server import kubeconfig

_SERVER: Final = re.compile(r"^ *server: *(\S+)$", re.MULTILINE)
_CONTEXT: Final = re.compile(r"^current-context: *(\S+)$", re.MULTILINE)
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")
_UNNAMED: Final = "sim"
_MAX_BYTES: Final = 4096
_MAX_TRIES: Final = 10
_ELSEWHERE: Final = "name another file with --write-kubeconfig FILE"


class KubeconfigFile:
    """A kubeconfig file that this process holds locked while its cluster runs.

    The lock ends with the process, however that ends, so a file that is left behind may be
    replaced. One that no simulated cluster wrote is never replaced.
    """

    def __init__(self, path: Path) -> None:
        """Check that the file may be replaced; raises ConfigError, with a remedy."""
        self.path = path
        self._held = ExitStack()
        if (before := self._lock_present()) is not None:
            os.close(before)

    def close(self) -> None:
        """Let another simulated cluster have the file."""
        self._held.close()

    def write(self, url: str) -> None:
        """Write the kubeconfig in one step: who waits for the file never reads half of it.

        Raises ConfigError where another cluster has it since, or where it cannot be written.
        """
        unfinished = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        try:
            own = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
            self._held.callback(os.close, own)
            fcntl.flock(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(own, kubeconfig(url, self.name).encode())
            self._put_in_place(unfinished)
        except OSError as error:
            raise ConfigError(
                f"cannot write the kubeconfig to {self.path}: {error.strerror}"
            ) from error
        finally:
            unfinished.unlink(missing_ok=True)

    @property
    def name(self) -> str:
        """The name of the cluster, after the file; after its folder too where that has no name.

        Of files that are merged with KUBECONFIG=a:b, the first one with a name hides the others.
        """
        name = _as_name(self.path.name.removesuffix(".kubeconfig").removesuffix(".yaml"))
        if name not in ("", _UNNAMED):
            return name
        folder = _as_name(self.path.absolute().parent.name)
        return f"{_UNNAMED}-{folder}" if folder else _UNNAMED

    def _put_in_place(self, unfinished: Path) -> None:
        for _ in range(_MAX_TRIES):
            before = self._lock_present()
            if before is not None:
                try:
                    unfinished.replace(self.path)
                finally:
                    os.close(before)
                return
            try:
                self.path.hardlink_to(unfinished)  # fails where another has it since
            except FileExistsError:
                continue
            except OSError:  # a file system without such links
                unfinished.replace(self.path)
            return
        raise self._in_use("")

    def _lock_present(self) -> int | None:
        """Return the locked descriptor of the file as it is now; None where there is no file."""
        for _ in range(_MAX_TRIES):
            try:
                present = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
                with ExitStack() as opened:
                    opened.callback(os.close, present)
                    self._lock(present)
                    if os.path.samestat(os.fstat(present), self.path.stat()):
                        opened.pop_all()
                        return present
            except FileNotFoundError:
                return None
            except OSError as error:
                raise ConfigError(
                    f"cannot write the kubeconfig to {self.path}: {error.strerror}"
                ) from error
        raise self._in_use("")

    def _lock(self, present: int) -> None:
        text = os.read(present, _MAX_BYTES).decode(errors="replace")
        self._require_ours(text)
        try:
            fcntl.flock(present, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self._in_use(text) from None

    def _require_ours(self, text: str) -> None:
        """Raise ConfigError for a file that no simulated cluster wrote: it may be a person's."""
        server, name = _SERVER.search(text), _CONTEXT.search(text)
        is_ours = server and name and text == kubeconfig(server[1], name[1])
        if text and not is_ours:
            raise ConfigError(
                f"{self.path} exists, and is no kubeconfig that `sim` wrote: {_ELSEWHERE}"
            )

    def _in_use(self, text: str) -> ConfigError:
        server = _SERVER.search(text)
        at = f" at {server[1]}" if server else ""
        return ConfigError(
            f"{self.path} is the kubeconfig of a simulated cluster{at} that still runs: end that"
            f" one, or {_ELSEWHERE}"
        )


def _as_name(text: str) -> str:
    """Return a text as the name of a cluster; empty where nothing of it can stand in one."""
    return _NO_NAME.sub("-", text).strip("-._")
