"""`policy rollback`: put the text of an earlier policy back into the file in use."""

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final

from reactive_desched.cli import audit_flags, journal_flags, policy_history
from reactive_desched.cli.commands import Commands
from reactive_desched.cli.policy_convert import write_whole
from reactive_desched.cli.policy_texts import exact_text, named_texts, read_if_present
from reactive_desched.errors import ConfigError

if TYPE_CHECKING:
    from reactive_desched.api.event import PolicyFile
    from reactive_desched.audit.policy_loads import FileText, LoadRecord

STDOUT: Final = "-"
_DIGEST_CHARS: Final = 12
_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_DESCRIPTION: Final = f"""\
Write the policy of an earlier load, and the settings beside it, into the files in use. A running
controller takes them within two seconds, as it does any other change. What a file held before is
kept beside it, as FILE.DIGEST.bak. Without --out the files are those that the controller has read
last; a file that already holds the text, or that was not part of the earlier load, stays as it is.
All of it is written, or nothing.

{policy_history.LOAD_HELP}"""
_EPILOG: Final = """\
A file from a ConfigMap is not written: the kubectl command that changes it is printed. A record
leaves out what may be secret, such as what stands behind the host in a URL; that is taken from the
file in use, and nothing is written unless the result has the SHA-256 of the earlier file.

exit status: 0 written, or there was nothing to do, 1 no record has the text or a file cannot be
written, 2 the arguments are wrong, or it is not clear which file is meant"""


def add(commands: Commands) -> None:
    """Describe `policy rollback` to the parser of `policy`."""
    command = commands.add_parser("rollback", help="write an earlier policy into the file in use")
    command.describe(
        _DESCRIPTION,
        epilog=_EPILOG,
        examples=(
            "reactive-desched policy rollback 7d1a42f448bb",
            "reactive-desched policy rollback 17 settings.yaml",
            "reactive-desched policy rollback 17 policy.yaml --out -",
        ),
    )
    policy_history.add_load(command)
    command.add_argument(
        "--out",
        metavar="FILE",
        help="write to this file, or to files in this folder, instead; - prints",
    )
    audit_flags.add_journal(command)
    command.set_defaults(command=_rollback)


class _Step:
    """A file to write: where, what, and what is there now; None where there is no file."""

    def __init__(self, text: "FileText", path: Path, in_use: "PolicyFile | None") -> None:
        self.path = path
        self.present = read_if_present(path)
        self.text = exact_text(text, self.present, "" if in_use is None else in_use.path)
        import hashlib  # of OpenSSL, which takes a while to load

        digest = "" if self.present is None else hashlib.sha256(self.present).hexdigest()
        self.is_done = digest == text.file.sha256
        self.was_edited = in_use is not None and digest not in ("", in_use.sha256)
        self.backup = path.with_name(f"{path.name}.{digest[:_DIGEST_CHARS]}.bak")

    def run(self) -> str:
        """Write the file, and say what was done."""
        if self.is_done:
            return f"{self.path} holds this text already"
        said = f"{self.path} is written"
        if self.present is not None:
            write_whole(str(self.backup), self.present)
            edited = ", a text that no controller has loaded," if self.was_edited else ""
            said += f"; what it held before{edited} is in {self.backup}"
        write_whole(str(self.path), self.text.encode())
        return said


def _rollback(arguments: argparse.Namespace) -> int:
    from reactive_desched.audit.policy_loads import PolicyLoads

    directory = journal_flags.certain_journal_directory(arguments)
    with audit_flags.open_catalogue(arguments, directory) as catalogue:
        loads = PolicyLoads(catalogue)
        record = loads.find(arguments.load)
        texts = named_texts(record, loads.texts(record), arguments.files)
        newest = loads.in_force()
    if arguments.out == STDOUT:
        if len(texts) > 1:
            names = " or ".join(each.file.name for each in texts)
            raise ConfigError(f"--out - prints one file: name {names} behind REV")
        sys.stdout.buffer.write(exact_text(texts[0]).encode())
        return 0
    steps = _steps(record, texts, newest, arguments.out)
    for step in steps:
        sys.stderr.write(f"{step.run()}\n")
    if arguments.out is None and not arguments.files:
        for name in _left(record, newest):
            sys.stderr.write(f"{name} stays as it is: record {record.seq} has no such file\n")
    if arguments.out is None and not all(step.is_done for step in steps):
        sys.stderr.write(
            "a controller that reads these files takes them within two seconds:"
            " `policy history` lists it then, accepted or rejected\n"
        )
    return 0


def _steps(
    record: "LoadRecord",
    texts: "Sequence[FileText]",
    newest: "LoadRecord | None",
    out: str | None,
) -> list[_Step]:
    """Return what is to be written; raises before anything is."""
    loaded = newest.loaded if newest is not None else None
    in_use = {file.name: file for file in loaded.files} if loaded is not None else {}
    if out is not None:
        place = Path(out)
        if len(texts) > 1 and not place.is_dir():
            raise ConfigError(
                f"--out {out} is no folder, and record {record.seq} has several files"
            )
        return [
            _Step(
                each,
                place / PurePath(each.file.name).name if place.is_dir() else place,
                in_use.get(each.file.name),
            )
            for each in texts
        ]
    if in_use and (unread := [each.file.name for each in texts if each.file.name not in in_use]):
        paths_in_use = [file.path or name for name, file in in_use.items()]
        out = shlex.quote(paths_in_use[0]) if len(in_use) == 1 else "FILE"
        raise ConfigError(
            f"{unread[0]} is not read any more: the load in force is of {' and '.join(in_use)}."
            f" To write the text there: `policy rollback {record.seq} {unread[0]} --out {out}`"
        )
    texts = [each for each in texts if not _is_of_api(each.file, in_use.get(each.file.name))]
    paths = {each.file.name: _path_in_use(each, in_use.get(each.file.name)) for each in texts}
    if mounted := [path for path in paths.values() if _is_mounted(path)]:
        raise ConfigError(_kubectl(record, mounted[0], [PurePath(name).name for name in paths]))
    return [_Step(each, paths[each.file.name], in_use.get(each.file.name)) for each in texts]


def _left(record: "LoadRecord", newest: "LoadRecord | None") -> list[str]:
    """Return the files in use that the earlier load did not have."""
    if newest is None or newest.loaded is None or record.loaded is None:
        return []
    earlier = {file.name for file in record.loaded.files}
    return [file.name for file in newest.loaded.files if file.name not in earlier]


def _is_of_api(file: "PolicyFile", in_use: "PolicyFile | None") -> bool:
    """Say whether a text is what a ConfigMap says now as well, and no file."""
    return not file.path and in_use is not None and in_use.sha256 == file.sha256


def _path_in_use(text: "FileText", in_use: "PolicyFile | None") -> Path:
    """Return the file that the controller reads; raises ConfigError where it is not here."""
    recorded = (in_use.path if in_use is not None else "") or text.file.path
    path = Path(recorded or text.file.name)
    if path.is_file() or _is_mounted(path):
        return path
    raise ConfigError(
        f"{path} is not on this machine: if it was deleted, name it with --out FILE, else run this"
        " where the controller runs, or print it with --out -; that of a ConfigMap is changed with"
        " `policy show REV -o patch | kubectl patch configmap NAME --type merge"
        " --patch-file /dev/stdin`"
    )


def _is_mounted(path: Path) -> bool:
    """Say whether a file comes from a ConfigMap or Secret: the kubelet keeps those in `..data`."""
    return any(
        part.startswith("..") and part != ".." for part in Path(os.path.realpath(path)).parts
    )


def _kubectl(record: "LoadRecord", path: Path, names: Sequence[str]) -> str:
    namespace = (read_if_present(_NAMESPACE) or b"NAMESPACE").decode().strip()
    pod, files = shlex.quote(os.uname().nodename), " ".join(map(shlex.quote, names))
    return (
        f"{path} is mounted from a ConfigMap, which kubectl changes:\n"
        f"  kubectl exec -n {namespace} {pod} -- reactive-desched policy show {record.seq} {files}"
        " -o patch \\\n"
        f"    | kubectl patch configmap reactive-desched -n {namespace} --type merge"
        " --patch-file /dev/stdin\n"
        "reactive-desched is its name in deploy/; with Helm it is that of the release. Where Helm,"
        " kustomize or a repository applies it, change it there as well"
    )
