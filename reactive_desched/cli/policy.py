"""`policy`: what can be done with a policy file without a cluster."""

import argparse
import sys
from typing import TYPE_CHECKING

from reactive_desched.cli import policy_convert, policy_schema
from reactive_desched.cli.commands import Commands

if TYPE_CHECKING:
    from reactive_desched.policy.documents import SourceText
    from reactive_desched.policy.load import PolicyCheckResult
    from reactive_desched.policy.settings import ReactiveSettings

STDIN = "-"
_WRONG_INPUT = 2
_OUTPUTS = ("text", "json", "github", "sarif")
_DESCRIPTION = """\
Read policies (descheduler/v1alpha2 or v1alpha1) and settings, and say everything that is wrong
in them: file, line, column, field, and what to do about it. Each file is checked on its own. A
key that would not be read is an error: its author meant something by it."""
_JSON = """\
with -o json, one object: "ok", "errors" and "warnings" (how many), "complete" (false if reading
stopped at the hundredth error of a file), and "problems", in the order of files and lines, each
with "severity" (error or warning), "file", "line" and "column" (from 1; 0 where there is no place),
"path" (the field, as in profiles[0].pluginConfig[1].args), "message", "hint" (what to do),
"context" (the profile and plugin), "forgivable" (true if --lenient-policy makes it a warning), and
"notes", each with "file" and "message": what the policy does about cordoned nodes and others that
are soon gone, and its limits, with the settings of the same file, else those of the only file that
holds nothing else, else the default ones

with -o github, a workflow command for each problem, which GitHub Actions shows at its line; with
-o sarif, a log of SARIF 2.1.0 for code scanning

exit status: 0 no file has an error, 2 a file has errors: `run` refuses such a policy with 2, too"""


def add(commands: Commands) -> None:
    """Describe `policy` to the parser."""
    command = commands.add_parser(
        "policy", help="check or convert a policy file, or describe one to an editor"
    )
    command.description = "Work on policy files; no cluster is needed."
    doing = command.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_check(doing)
    policy_convert.add(doing)
    policy_schema.add(doing)


def _add_check(commands: Commands) -> None:
    command = commands.add_parser("check", help="say everything that is wrong with policy files")
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    command.description = _DESCRIPTION
    command.epilog = _JSON
    command.examples = (
        "reactive-desched policy check policy.yaml settings.yaml",
        "yq '.data[]' configmap.yaml | reactive-desched policy check - --lenient-policy",
    )
    command.add_argument("files", metavar="FILE", nargs="+", help="a file; - reads standard input")
    command.add_argument(
        "--lenient-policy",
        action="store_true",
        help="accept what the SIG descheduler accepts, and warn of keys that it ignores",
    )
    command.add_argument("-o", "--output", choices=_OUTPUTS, default="text")
    command.set_defaults(command=_check)


def _check(arguments: argparse.Namespace) -> int:
    from reactive_desched.cli import verdicts as forms
    from reactive_desched.plugins.registry import plugin_registry
    from reactive_desched.policy.load import check_source

    plugins, lenient = plugin_registry(), arguments.lenient_policy
    verdicts = {
        name: check_source(_stdin() if name == STDIN else name, plugins, lenient=lenient)
        for name in arguments.files
    }
    write = {
        "text": forms.as_text,
        "json": forms.as_json,
        "github": forms.as_github,
        "sarif": forms.as_sarif,
    }[arguments.output]
    apart = [v.settings for v in verdicts.values() if v.settings is not None and v.policy is None]
    common = apart[0] if len(apart) == 1 else None
    notes = {name: _notes(each, each.settings or common) for name, each in verdicts.items()}
    sys.stdout.write(write(verdicts, notes))
    return 0 if forms.has_no_errors(verdicts) else _WRONG_INPUT


def _notes(verdict: "PolicyCheckResult", settings: "ReactiveSettings | None") -> tuple[str, ...]:
    """Say what a sound policy does about nodes that others close or empty, and its limits."""
    policy = verdict.policy
    if policy is None or not any(profile.plugins for profile in policy.profiles):
        return ()
    from reactive_desched.app.node_mark_notes import node_mark_notes
    from reactive_desched.policy.guards import GuardSettings
    from reactive_desched.policy.limits import EvictionRateLimits

    if settings is not None:
        guards, rates = settings.guards, settings.budgets
    else:  # the defaults of two sections need no model of the others
        guards, rates = GuardSettings.model_construct(), EvictionRateLimits.model_construct()
    said = "; ".join(f"{name} {limit}" for name, limit in rates.describe(policy.limits).items())
    return (*node_mark_notes(policy, guards), f"limits in reactive mode: {said}")


def _stdin() -> "SourceText":
    """Read standard input, no further than a file would be."""
    from reactive_desched.policy.documents import SourceText
    from reactive_desched.policy.yaml_text import MAX_TEXT_BYTES

    return SourceText(sys.stdin.buffer.read(MAX_TEXT_BYTES + 1), "stdin")
