"""No value of an argument ends a command with a traceback."""

import argparse
from collections.abc import Iterator
from pathlib import Path

import pytest

from reactive_desched.cli import main, parser
from reactive_desched.cli.commands import CommandParser
from tests.support.golden import Golden

LASTING = frozenset({"demo", "run", "sim", "top"})
"""Commands that go on until they are ended; their values are checked by tests of their own."""

BAD_VALUES = {
    "a name that no file can have": "x" * 300,
    "half an address": "http://[::1",
    "a number without end": "9" * 5000,
}


def leaves(of: CommandParser, *words: str) -> Iterator[tuple[tuple[str, ...], CommandParser]]:
    """Yield each command that does something and ends, by its words."""
    if not of.subcommands and words[0] not in LASTING:
        yield words, of
    for name, command in of.subcommands.items():
        yield from leaves(command, *words, name)


def lines(command: CommandParser, value: str) -> Iterator[list[str]]:
    """Yield lines that give each argument of a command this value, and the required ones one."""
    arguments = [each for each in command.arguments() if each.nargs != 0]
    for bad in arguments:
        needed = [each for each in arguments if each.required and each is not bad]
        placed = sorted([*needed, bad], key=lambda each: not each.option_strings)
        yield [word for each in placed for word in written(each, value if each is bad else "x")]


def written(argument: argparse.Action, value: str) -> list[str]:
    if value == "x" and argument.choices:
        value = next(iter(argument.choices))
    return [f"{argument.option_strings[-1]}={value}"] if argument.option_strings else [value]


def status_of(*words: str) -> object:
    """Return the exit status of a line, also of one that the parser refuses."""
    try:
        return main(words)
    except SystemExit as ended:
        return ended.code


@pytest.mark.parametrize("value", BAD_VALUES.values(), ids=BAD_VALUES.keys())
@pytest.mark.parametrize(
    ("words", "command"), [pytest.param(*each, id=" ".join(each[0])) for each in leaves(parser())]
)
def test_a_bad_value_ends_a_command_without_a_traceback(
    words: tuple[str, ...],
    command: CommandParser,
    value: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "KUBECONFIG", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "nothing"))
    for line in lines(command, value):
        assert status_of(*words, *line) in (0, 1, 2), line


@pytest.mark.parametrize(
    ("words", "status"),
    [
        pytest.param(("replay", f"--recording={'x' * 300}"), 1, id="no file's name"),
        pytest.param(("pending", "--namespace=\udcff"), 2, id="no text"),
        pytest.param(("events", "tail", "--server=http://[::1"), 2, id="no address"),
        pytest.param(("events", "tail", f"--server={'x' * 99}"), 2, id="no host"),
    ],
)
def test_what_is_wrong_with_a_value_is_said(
    words: tuple[str, ...], status: int, golden: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(*words) == status
    assert capsys.readouterr().err.splitlines()[-1] == golden()
