"""`policy`: what can be done with a policy file, and with those that were loaded."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from reactive_desched.cli import (
    policy_convert,
    policy_diff,
    policy_explain,
    policy_history,
    policy_rollback,
    policy_rule,
    policy_schema,
)
from reactive_desched.cli.commands import Commands, print_warning
from reactive_desched.cli.policy_convert import write_whole
from reactive_desched.errors import ReactiveDeschedError
from reactive_desched.text.counts import format_count
from reactive_desched.text.terminal import wants_colours

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from reactive_desched.policy.corrections import CorrectedText, Correction
    from reactive_desched.policy.documents import SourceText
    from reactive_desched.policy.load import PolicyCheckResult
    from reactive_desched.policy.settings.reactive_settings import ReactiveSettings
    from reactive_desched.policy.yaml.diagnostics import Diagnostic

STDIN = "-"
_WRONG_INPUT = 2
_OUTPUTS = ("text", "json", "github", "sarif")
_OTHER_POLICY = "the policy was valid before, and does something else now: try it with `plan`"
_DESCRIPTION = """\
Read policies (descheduler/v1alpha2 or v1alpha1) and settings, and say everything that is wrong
in them: file, line, column, field, and what to do about it. Each file is checked on its own; one
policy and one file of settings are checked as `run` reads both, too. A key that would not be read
is an error: its author meant something by it.

Each message ends with the code of its rule: `policy rule CODE` explains it. With --fix what is
mechanical is corrected in the files: names with a slip in them, capital letters, quotes, durations
in words, numbers that begin with 0, duplicates. Everything else in them, comments too, stays as it
is to the byte, and what was changed is said."""
_JSON = """\
with -o json, one object: "ok", "errors" and "warnings" (how many), "complete" (false if reading
stopped at the hundredth error of a file), and "problems", in the order of files and lines, each
with "severity" (error or warning), "code" (of the rule: `policy rule CODE` explains it), "file",
"line" and "column" (from 1; 0 where there is no place), "path" (the field, as in
profiles[0].pluginConfig[1].args), "message", "hint" (what to do), "context" (the profile and
plugin), "forgivable" (true if --lenient-policy makes it a warning), "fixable" (true if --fix
corrects it), and "notes", each with "file" and "message": what the policy does about cordoned
nodes and others that are soon gone, and its limits, with the settings of the same file, else those
of the only file that holds nothing else, else the default ones

with -o github, a workflow command for each problem, which GitHub Actions shows at its line; with
-o sarif, a log of SARIF 2.1.0 for code scanning

with --fix, each correction comes first, at its place before it was made, and then what is wrong
still; -o json has them as "corrections", each with "file", "line", "column", "code", "before" and
"after" (empty where the text went)

exit status: 0 no file has an error, 2 a file has errors: `run` refuses such a policy with 2, too;
1 a file cannot be written. With --fix it is about the files as they are then, with --diff about the
files as they are"""


def add(commands: Commands) -> None:
    """Describe `policy` to the parser."""
    command = commands.add_parser(
        "policy", help="check, convert or explain a policy file, or put an earlier one back"
    )
    command.describe(
        "Work on policy files, and on what a controller has loaded; no cluster is needed.",
        examples=(
            "reactive-desched policy check policy.yaml",
            "reactive-desched policy explain RemoveDuplicates",
        ),
    )
    doing = command.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_check(doing)
    policy_convert.add(doing)
    policy_diff.add(doing)
    policy_schema.add(doing)
    policy_rule.add(doing)
    policy_explain.add(doing)
    policy_history.add(doing)
    policy_rollback.add(doing)


def _add_check(commands: Commands) -> None:
    command = commands.add_parser("check", help="say everything that is wrong with policy files")
    command.describe(
        _DESCRIPTION,
        epilog=_JSON,
        examples=(
            "reactive-desched policy check policy.yaml settings.yaml",
            "reactive-desched policy check --diff policy.yaml",
        ),
    )
    command.add_argument("files", metavar="FILE", nargs="+", help="a file; - reads standard input")
    command.add_argument(
        "--lenient-policy",
        action="store_true",
        help="accept what the SIG descheduler accepts, and warn of keys that it ignores",
    )
    command.add_argument("-o", "--output", choices=_OUTPUTS, default="text")
    how = command.add_mutually_exclusive_group()
    how.add_argument("--fix", action="store_true", help="correct what is mechanical in the files")
    how.add_argument(
        "--diff", action="store_true", help="print what --fix would change, and write nothing"
    )
    command.set_defaults(command=_check, usage_error=command.error)


_NO_POLICY: Final = "settings without a policy: give them to `run` with --settings, beside --policy"


def _check(arguments: argparse.Namespace) -> int:
    from reactive_desched.primitives.hung_calls import hung_calls_ended

    with hung_calls_ended():  # a plugin's module, or its constructor
        return _checked(arguments)


def _checked(arguments: argparse.Namespace) -> int:
    from reactive_desched.cli import check_results as forms
    from reactive_desched.plugins.registry import plugin_registry
    from reactive_desched.policy.load import check_source

    if arguments.diff:
        return _print_diff(arguments)
    plugins, lenient = plugin_registry(), arguments.lenient_policy
    corrections: tuple[Correction, ...] = ()
    if arguments.fix:
        corrected = _correct(arguments)
        for name, each in corrected.items():
            if each.corrections:
                _replace(name, each.text)
        corrections = tuple(one for each in corrected.values() for one in each.corrections)
        results = {name: each.left for name, each in corrected.items()}
        for name, each in corrected.items():
            if each.is_other_policy:
                print_warning(f"{name}: {_OTHER_POLICY}")
    else:
        results = {
            name: check_source(_stdin() if name == STDIN else name, plugins, lenient=lenient)
            for name in arguments.files
        }
    results = _with_both(results, lenient=lenient)
    apart = [
        each.settings
        for each in results.values()
        if each.settings is not None and each.policy is None
    ]
    if len(apart) == len(results):
        notes: dict[str, tuple[str, ...]] = dict.fromkeys(results, (_NO_POLICY,))
    else:
        common = apart[0] if len(apart) == 1 else None
        notes = {name: _notes(each, each.settings or common) for name, each in results.items()}
    found = forms.Findings(results, notes, corrections)
    if arguments.output == "text":
        sys.stdout.write(forms.as_text(found, colours=wants_colours(sys.stdout)))
    else:
        write = {"json": forms.as_json, "github": forms.as_github, "sarif": forms.as_sarif}
        sys.stdout.write(write[arguments.output](found))
    return 0 if forms.has_no_errors(results) else _WRONG_INPUT


def _with_both(
    results: "dict[str, PolicyCheckResult]", *, lenient: bool
) -> "dict[str, PolicyCheckResult]":
    """Add what is wrong with one policy and one file of settings, as `run` reads them together."""
    from msgspec.structs import replace

    from reactive_desched.plugins.registry import plugin_registry
    from reactive_desched.policy.load import load_sources
    from reactive_desched.policy.yaml.diagnostics import PolicyErrors

    policies = [each for each in results.values() if each.policy and each.settings is None]
    apart = [each for each in results.values() if each.settings and each.policy is None]
    if not len(policies) == len(apart) == 1 or len(results) > len([*policies, *apart]):
        return results
    sources = [each.source for each in (*policies, *apart) if each.source is not None]
    errors: tuple[Diagnostic, ...] = ()
    try:
        warnings = load_sources(sources, plugin_registry(), lenient=lenient).warnings
    except PolicyErrors as found:
        warnings, errors = found.warnings, found.diagnostics
    names = {each.source.name: name for name, each in results.items() if each.source is not None}
    for problem in (*errors, *warnings):
        name = names[problem.source]
        result = results[name]
        if problem in errors:
            result = replace(result, errors=(*result.errors, problem))
        elif problem not in result.warnings:
            result = replace(result, warnings=(*result.warnings, problem))
        results = {**results, name: result}
    return results


def _replace(name: str, text: bytes) -> None:
    """Write a corrected file; raises ReactiveDeschedError, also where it is a pipe or the like."""
    if not Path(name).is_file():
        message = f"{name} is no regular file, and stays as it is: --diff prints the corrections"
        raise ReactiveDeschedError(message)
    write_whole(name, text)


def _print_diff(arguments: argparse.Namespace) -> int:
    """Print what --fix would change, as a patch, and how much on standard error."""
    if arguments.output != "text":
        arguments.usage_error("--diff prints a patch: leave -o out")
    corrected = _correct(arguments)
    for name, each in corrected.items():
        if each.corrections and each.before.source is not None:
            sys.stdout.writelines(_patch(name, each.before.source.text, each.text))
    places = sum(len(each.corrections) for each in corrected.values())
    files = sum(bool(each.corrections) for each in corrected.values())
    if places:
        said = (
            f"--fix would correct {format_count(places, 'place')} in {format_count(files, 'file')}"
        )
    else:
        said = "there is nothing that --fix would correct"
    sys.stderr.write(f"{said}\n")
    return _WRONG_INPUT if any(each.before.errors for each in corrected.values()) else 0


def _patch(name: str, old: str | bytes, new: bytes) -> "Iterator[str]":
    """Yield the lines of a unified diff; a last line without its end is marked as such."""
    from difflib import unified_diff

    from reactive_desched.policy.yaml.text import decode

    before, after = (decode(text).splitlines(keepends=True) for text in (old, new))
    for line in unified_diff(before, after, name, name):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _correct(arguments: argparse.Namespace) -> "Mapping[str, CorrectedText]":
    """Correct each file, without writing it; one that cannot be read is left as it is."""
    from reactive_desched.plugins.registry import plugin_registry
    from reactive_desched.policy.corrections import correct

    if arguments.fix and STDIN in arguments.files:
        arguments.usage_error("--fix needs files to write; --diff reads standard input, too")
    plugins, lenient = plugin_registry(), arguments.lenient_policy
    return {
        name: correct(_stdin() if name == STDIN else name, plugins, lenient=lenient)
        for name in arguments.files
    }


def _notes(result: "PolicyCheckResult", settings: "ReactiveSettings | None") -> tuple[str, ...]:
    """Say what a sound policy does about nodes that others close or empty, and its limits."""
    policy = result.policy
    if policy is None or not any(profile.plugins for profile in policy.profiles):
        return ()
    from reactive_desched.app.node_mark_notes import node_mark_notes
    from reactive_desched.policy.settings.guards import GuardSettings
    from reactive_desched.policy.settings.limits import EvictionRateLimits

    if settings is not None:
        guards, rates = settings.guards, settings.budgets
    else:  # the defaults of two sections need no model of the others
        guards, rates = GuardSettings.model_construct(), EvictionRateLimits.model_construct()
    said = "; ".join(f"{name} {limit}" for name, limit in rates.describe(policy.limits).items())
    return (*node_mark_notes(policy, guards), f"limits in reactive mode: {said}")


def _stdin() -> "SourceText":
    """Read standard input, no further than a file would be."""
    from reactive_desched.policy.documents import SourceText
    from reactive_desched.policy.yaml.text import MAX_TEXT_BYTES

    return SourceText(sys.stdin.buffer.read(MAX_TEXT_BYTES + 1), "stdin")
