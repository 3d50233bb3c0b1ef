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
    command.describe(
        _DESCRIPTION,
        examples=("reactive-desched policy rule RD201", "reactive-desched policy rule"),
    )
    command.add_argument("code", metavar="CODE", nargs="?", help="such as RD201")
    command.set_defaults(command=_print, usage_error=command.error)


def rule_page(code: str) -> str | None:
    """Return the page of a rule by its code; None for a word that is no code."""
    from reactive_desched.api.rules import Rule
    from reactive_desched.policy.rule_pages import rule_pages

    try:
        return rule_pages()[Rule(code.upper())].markdown()
    except ValueError:
        return None


def _print(arguments: argparse.Namespace) -> int:
    from reactive_desched.policy.rule_pages import rule_pages

    if arguments.code is None:
        pages = rule_pages().items()
        sys.stdout.writelines(f"{rule}  {page.summary}\n" for rule, page in pages)
        return 0
    page = rule_page(arguments.code)
    if page is None:
        arguments.usage_error(
            f"there is no rule {arguments.code}: `policy rule` lists all; for plugins and settings "
            "there is `policy explain`"
        )
    sys.stdout.write(page or "")
    return 0
