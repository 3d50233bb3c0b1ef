"""How wide a terminal is."""

import fcntl
import os
import pty
import shutil
import struct
import sys
import termios

import pytest

from reactive_desched.text.terminal import columns


@pytest.mark.parametrize(("wanted", "found"), [("100", 100), ("1", 1)])
def test_a_width_that_is_set_is_taken(wanted: str, found: int) -> None:
    assert columns({"COLUMNS": wanted}) == found


@pytest.mark.parametrize("wanted", ["", "0", "-5", "wide"])
def test_without_a_terminal_a_line_has_eighty_columns(
    wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "__stdout__", None)

    assert columns({"COLUMNS": wanted}) == 80


def test_a_terminal_is_asked_for_its_width_as_shutil_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "w"), os.fdopen(theirs, "w") as terminal:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 123, 0, 0))
        monkeypatch.setattr(sys, "__stdout__", terminal)
        monkeypatch.delenv("COLUMNS", raising=False)

        assert columns({}) == shutil.get_terminal_size().columns == 123
