"""`policy rule`: what a code in a message about a policy or settings means."""

import argparse
import sys
from typing import Final

from reactive_desched.cli.commands import Commands

_DESCRIPTION: Final = """\
Explain a code that ends a message about a policy or settings, such as [RD201]: what it means, an
example, and the example mended. Without a code, list all of them."""


def add(commands: Commands) -> None:
    """Describe `policy rule` to the parser of `policy`."""
    command = commands.add_parser("rule", help="explain a code of `policy check`")
    command.description = _DESCRIPTION
    command.examples = ("reactive-desched policy rule RD201", "reactive-desched policy rule")
    command.add_argument("code", metavar="CODE", nargs="?", help="such as RD201")
    command.set_defaults(command=_print, usage_error=command.error)


def _print(arguments: argparse.Namespace) -> int:
    from reactive_desched.api.rules import Rule
    from reactive_desched.policy.rule_pages import rule_pages

    pages = rule_pages()
    if arguments.code is None:
        sys.stdout.writelines(f"{rule}  {page.summary}\n" for rule, page in pages.items())
        return 0
    try:
        rule = Rule(arguments.code.upper())
    except ValueError:
        arguments.usage_error(f"there is no rule {arguments.code}: `policy rule` lists all")
    sys.stdout.write(pages[rule].markdown())
    return 0
