"""The flags that say which policy, for every command that runs one."""

import argparse


def add(command: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Describe them to a command's parser."""
    command.add_argument(
        "--policy",
        "--policy-config-file",
        metavar="FILE",
        required=required,
        help="a DeschedulerPolicy; may also hold a ReactiveSettings",
    )
    command.add_argument("--settings", metavar="FILE", help="a ReactiveSettings file")
    command.add_argument(
        "--lenient-policy",
        action="store_true",
        help="accept what the SIG descheduler accepts, and warn of keys that it ignores",
    )
