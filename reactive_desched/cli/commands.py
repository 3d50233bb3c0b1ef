"""What a command's module gets to describe itself with: the part of argparse that adds one."""

import argparse
from typing import Protocol


class Commands(Protocol):
    """Where commands are added, as `ArgumentParser.add_subparsers` returns it."""

    def add_parser(self, name: str, *, help: str) -> argparse.ArgumentParser:  # noqa: A002 -- argparse's name
        """Return the parser of a new command."""
        ...
