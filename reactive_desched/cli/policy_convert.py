"""`policy convert`: a policy written in today's format."""

import argparse
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reactive_desched.cli.commands import CommandParser, Commands
from reactive_desched.cli.flag_values import rejecting_parser
from reactive_desched.errors import ReactiveDeschedError
from reactive_desched.text.terminal import wants_colours

if TYPE_CHECKING:
    from reactive_desched.policy.documents import SourceText

PARTLY: Final = 3
"""The exit status where something is left out because it is wrong."""

_STDIO: Final = "-"
_DESCRIPTION: Final = """\
Write the descheduler/v1alpha2 text of a policy: one in descheduler/v1alpha1 is converted as it is
when it is loaded, one in v1alpha2 gets rid of its deprecated forms (the switches of DefaultEvictor,
metricsCollector, metricsServer). The new text says what the old one says; that is checked before
anything is written. Comments go with what they are about; those on what has no place any more are
listed at the top. Other documents in the file stay as they are. What is dropped because it had no
effect is reported on stderr, with its line. What is wrong in a plugin's arguments or in a profile
becomes a comment that names its place and the remedy, and a plugin that would run without it is not
enabled."""
_EPILOG: Final = """\
exit status: 0 done, also when there was nothing to do; 1 the result cannot be written; 2 the policy
is wrong as a whole: every error is reported, and nothing is written; 3 written without what is
wrong, which is a comment there: every error is reported"""


def add(commands: Commands) -> None:
    """Describe `policy convert` to the parser of `policy`."""
    command = commands.add_parser("convert", help="write a policy in today's format")
    command.describe(
        _DESCRIPTION,
        epilog=_EPILOG,
        examples=(
            "reactive-desched policy convert old.yaml --out new.yaml",
            "reactive-desched policy convert --in-place policy.yaml",
        ),
    )
    command.add_argument("file", metavar="FILE", help="a policy; - reads standard input")
    into = command.add_mutually_exclusive_group()
    into.add_argument(
        "--out",
        metavar="FILE",
        default=_STDIO,
        help="write to this file, which is replaced as a whole; default: standard output",
    )
    into.add_argument(
        "-o",
        "--output",
        dest="no_format",
        type=rejecting_parser("is a format in every command: write --out FILE"),
        help=argparse.SUPPRESS,
    )
    into.add_argument(
        "-i", "--in-place", action="store_true", help="replace FILE, as a whole or not at all"
    )
    _add_how(command)
    command.set_defaults(command=_convert, usage_error=command.error)


def _add_how(command: CommandParser) -> None:
    command.add_argument(
        "--merge",
        action="store_true",
        help="v1alpha1: one profile, named default, for all strategies with the same nodeFit and"
        " priority threshold, instead of strategy-NAME-profile for each; changes the profile that"
        " logs, metrics and annotations name, and, where only some are merged, whose turn is first",
    )
    command.add_argument(
        "--keep-deprecated",
        action="store_true",
        help="write the switches of DefaultEvictor, not podProtections, which the SIG descheduler"
        " reads since v0.34",
    )
    command.add_argument(
        "--lenient-policy",
        action="store_true",
        help="take what the SIG descheduler takes, and leave out, with a warning, what it would not"
        " read",
    )


def _convert(arguments: argparse.Namespace) -> int:
    from reactive_desched.plugins.registry import plugin_registry
    from reactive_desched.policy.convert.rewriting import ConvertOptions, convert_policy
    from reactive_desched.policy.report import Report

    if arguments.in_place and arguments.file == _STDIO:
        arguments.usage_error("--in-place needs a file to replace")
    wishes = ConvertOptions(
        merge=arguments.merge,
        keep_deprecated=arguments.keep_deprecated,
        lenient=arguments.lenient_policy,
    )
    source = _read(arguments.file)
    new = convert_policy(source, plugin_registry(), wishes)
    report = Report({source.name: source.text}, colours=wants_colours(sys.stderr))
    for error in new.left_out:
        sys.stderr.writelines(f"{line}\n" for line in report.lines(error, "error"))
    for notice in new.notices:
        sys.stderr.writelines(f"{line}\n" for line in report.lines(notice, "warning"))
    if not new.is_changed:
        sys.stderr.write(f"{source.name}: nothing to convert\n")
    if new.needs_lenient:
        sys.stderr.write(f"{source.name}: the new text still needs --lenient-policy\n")
    if not arguments.in_place:
        write_whole(arguments.out, new.text)
    elif new.is_changed:
        write_whole(arguments.file, new.text)
    if not new.left_out:
        return 0
    fixable = sum(each.fix is not None for each in new.left_out)
    mend = f"; `policy check --fix` of the old text corrects {fixable} of it" if fixable else ""
    sys.stderr.write(f"{source.name}: what is wrong is a comment in the new text{mend}\n")
    return PARTLY


def _read(file: str) -> "SourceText":
    """Read a file or standard input; raises PolicyErrors."""
    from reactive_desched.policy.documents import SourceText
    from reactive_desched.policy.source_files import read_source
    from reactive_desched.policy.yaml.diagnostics import DiagnosticList
    from reactive_desched.policy.yaml.text import MAX_TEXT_BYTES

    if file == _STDIO:
        return SourceText(sys.stdin.buffer.read(MAX_TEXT_BYTES + 1), "stdin")
    errors = DiagnosticList()
    source = read_source(file, errors)
    errors.raise_if_errors()
    assert source is not None
    return source


def write_whole(file: str, text: bytes) -> None:
    """Write to a file, as a whole or not at all, or to standard output.

    What is no plain file, such as a pipe, is written to. Raises ReactiveDeschedError.
    """
    if file == _STDIO:
        sys.stdout.buffer.write(text)
        sys.stdout.flush()
        return
    path = Path(os.path.realpath(file))
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(text)
        else:
            _replace(path, text)
    except OSError as error:
        hint = "" if path.parent.is_dir() else f"; create the folder {path.parent} first"
        raise ReactiveDeschedError(f"{file} cannot be written: {error.strerror}{hint}") from error


def _replace(path: Path, text: bytes) -> None:
    """Put a whole new file in the place of one, which keeps its permissions."""
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    with new.open("xb") as file:
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            if path.exists():
                shutil.copymode(path, new)
            new.replace(path)
        except OSError:
            new.unlink(missing_ok=True)
            raise
