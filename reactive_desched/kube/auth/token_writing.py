"""Writes the tokens of an identity provider into a kubeconfig, in place of those that it has.

Many providers let a refresh token count once. One that stays in memory logs the person out of every
other program that has the kubeconfig, and of the next command.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from reactive_desched.kube.auth.kubeconfig_shape import Kubeconfig, entries, read_kubeconfig

__all__ = ["replace_tokens"]


def replace_tokens(path: str, user: str, new: Mapping[str, str]) -> None:
    """Replace fields of a user's auth-provider that are there; all else stays as it is written.

    As kubectl does, it holds FILE.lock meanwhile. Raises OSError where the file, or its folder,
    cannot be written, and ValueError where it does not hold each of these texts once.
    """
    file = Path(path).resolve()
    lock = file.with_name(f"{file.name}.lock")
    os.close(os.open(lock, os.O_CREAT | os.O_EXCL, 0o600))
    try:
        wanted, old = _changed(read_kubeconfig(str(file)), user, new)
        content = file.read_bytes()
        for name, text in old.items():
            if content.count(text.encode()) != 1:
                raise ValueError(f"its {name} does not stand there once, as it is")
            content = content.replace(text.encode(), new[name].encode())
        _replace(file, content, wanted)
    finally:
        lock.unlink()


def _changed(
    kubeconfig: Kubeconfig, user: str, new: Mapping[str, str]
) -> tuple[Kubeconfig, dict[str, str]]:
    """Return the kubeconfig with these fields, and those that it had instead."""
    users = (each.user for each in entries(kubeconfig.users) if (each.name or "") == user)
    provider = next((each.auth_provider for each in users if each is not None), None) or {}
    config = provider.get("config") or {}
    old = {name: str(config[name]) for name in new if config.get(name)}
    config |= {name: new[name] for name in old}
    return kubeconfig, old


def _replace(file: Path, content: bytes, wanted: Kubeconfig) -> None:
    """Put a new file into the place of one, whole, with its owner and its rights."""
    facts = file.stat()
    with NamedTemporaryFile(dir=file.parent, prefix=f".{file.name}.", delete=False) as made:
        try:
            made.write(content)
            made.flush()
            _require(wanted, made.name)
            os.fchmod(made.fileno(), facts.st_mode & 0o777)
            with suppress(PermissionError):  # another owner: its group may still be ours
                os.fchown(made.fileno(), facts.st_uid, facts.st_gid)
            Path(made.name).replace(file)
        except BaseException:
            Path(made.name).unlink(missing_ok=True)
            raise


def _require(wanted: Kubeconfig, path: str) -> None:
    if read_kubeconfig(path) != wanted:
        raise ValueError("with its new tokens it reads otherwise")
