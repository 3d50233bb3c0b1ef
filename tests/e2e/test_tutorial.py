"""The tutorial, typed as it stands: its commands work, and print what the page shows."""

import html
import os
import re
import time
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from tests.support.doc_commands import commands, typed
from tests.support.terminal import PATIENCE_S, Terminal

# The wait for the default port, which other modules hold for minutes, does not count.
pytestmark = [pytest.mark.real, pytest.mark.timeout(600, func_only=True)]

ROOT = Path(__file__).resolve().parents[2]
PAGE = "docs/tutorial.md"
VARYING = re.compile(
    r"""…                                                           # left out
    | [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}                   # a uid
    | \d{4}-\d\d-\d\d[ T][\d:.]+Z?                                  # a time
    | [+]?\d[\d.]*[ ]?(?:ms|s|m|h|d)\b (?:[ ]\d+s\b)?               # a duration
    | http://127[.]0[.]0[.]1:\d+                                    # the cluster
    | (?<=\s)[0-9a-f]{10}(?=\s)                                     # a case
    """,
    re.VERBOSE,
)
PICTURE = ROOT / "docs" / "images" / "terminal.svg"
PICTURED, COLUMNS = "reactive-desched why shop/checkout-xxks8n5vrd-c799f", 130
BEFORE = {
    "reactive-desched audit query --type eviction.succeeded": (
        "reactive-desched audit query --type eviction.succeeded > /dev/null"
    ),
    "reactive-desched audit show shop/cart-zkr8dfkg4l-rjwnt": (
        "reactive-desched audit show shop/cart-zkr8dfkg4l-rjwnt | grep -q 'then moved'"
    ),
}
"""What a reader waits for before a command, as what follows takes the controller a moment."""


def test_the_tutorial_works_and_prints_what_it_shows(terminal: Terminal, tmp_path: Path) -> None:
    type_tutorial(terminal, tmp_path)


def type_tutorial(terminal: Terminal, folder: Path) -> None:
    """Type the commands of the tutorial, and compare what they print with what it shows."""
    page = (ROOT / PAGE).read_text("utf-8")
    (folder / "tutorial.yaml").write_text(page.split("```yaml\n")[1].split("```")[0], "utf-8")
    seen = [""]
    for command in (each for each in commands() if each.page == PAGE and typed(each)):
        text = command.text
        if text.startswith("reactive-desched why") and "gpu-" in seen[-1]:
            await_success(terminal, f"{text} | grep -q 'state *stays'")
        if text in BEFORE:
            await_success(terminal, BEFORE[text])
        status, printed = type_until_it_goes_on(terminal, text)
        if " sim " in text:
            printed += terminal.wait_for(b"try: kubectl get nodes")
        if text.endswith("tutorial.log 2>&1 &"):
            await_success(terminal, "curl -sf localhost:10258/readyz > /dev/null")
        assert status == 0, (text, printed)
        assert re.search(pattern_of(command.printed), printed), f"{text} printed:\n{printed}"
        if text == PICTURED and PICTURED not in seen:
            compare_picture(terminal)
        seen.append(text)
    assert len(seen) > 14


def compare_picture(terminal: Terminal) -> None:
    """Compare the README's picture of the command with what it prints; `make picture` takes it."""
    answer = pictured_answer(terminal)
    screen = Console(record=True, width=COLUMNS, file=StringIO())
    screen.print(Text(f"$ {PICTURED}", "bold bright_white"), answer, sep="\n", soft_wrap=True)
    if os.environ.get("PICTURE"):
        picture = screen.export_svg(title="a terminal", unique_id="why")
        own_fonts = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
        PICTURE.write_text(re.sub(r" +$", "", own_fonts, flags=re.MULTILINE), encoding="utf-8")
    assert re.search(pattern_of(text_of(PICTURE)), answer.plain), "run `make picture`"


def pictured_answer(terminal: Terminal) -> Text:
    """Type the command on a screen as wide as the picture; return what it prints."""
    assert terminal.type(f"stty cols {COLUMNS}")[0] == 0
    status, printed = type_until_it_goes_on(terminal, f"TERM=xterm-256color {PICTURED}")
    assert (status, terminal.type("stty cols 500")[0]) == (0, 0)
    return Text.from_ansi(printed.partition("\r\n")[2].replace("\r", "").rstrip())


def text_of(picture: Path) -> str:
    """Return the lines of a picture, without its title and the command."""
    lines: dict[int, str] = {}
    for number, text in re.findall(
        r"clip-path=\"url\(#why-line-(\d+)\)\">([^<]*)<", picture.read_text("utf-8")
    ):
        lines[int(number)] = lines.get(int(number), "") + html.unescape(text).replace("\xa0", " ")
    written = (lines[number].strip() for number in sorted(lines) if number)
    return "\n".join(line for line in written if line)


def type_until_it_goes_on(terminal: Terminal, command: str) -> tuple[int, str]:
    """Type a command, and again while it answers that the controller was suspended.

    A controller whose machine stood still says so until it has synced, for some seconds.
    """
    give_up = time.monotonic() + PATIENCE_S
    status, printed = terminal.type(command)
    while "process was suspended" in printed and time.monotonic() < give_up:
        time.sleep(1)
        status, printed = terminal.type(command)
    return status, printed


def await_success(terminal: Terminal, command: str) -> None:
    """Type a command until it ends with status 0, as a person does who waits for something."""
    give_up = time.monotonic() + PATIENCE_S
    while terminal.type(command)[0]:
        assert time.monotonic() < give_up, f"waited in vain for: {command}"
        time.sleep(0.2)


def pattern_of(shown: str) -> str:
    """Return what an output must match to be the one that is shown, but for what varies."""
    lines = []
    for line in shown.strip().splitlines():
        fixed = [re.sub(r"(?:\\ )+", r"\\s+", re.escape(part)) for part in VARYING.split(line)]
        lines.append(r"(?s:.*)" if line == "…" else r"[^\r\n]*".join(fixed).strip())
    whole = re.sub(r"(?:\\s\+)+", r"\\s+", r"\s+".join(lines))
    return whole.replace(r"\s+(?s:.*)\s+", r"\s(?s:.*)\s")  # else a mismatch takes minutes to see


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("node/a tainted", "node/a tainted\r\n", True),
        ("node/a tainted", "node/b tainted\r\n", False),
        ("took 18 ms, 3 pods", "took 2.5 s, 3 pods", True),
        (
            "uid 2502761d-4591-45f9-a383-a4142f6b6179",
            "uid bccd857e-4140-4469-8cc0-e60d26595f1d",
            True,
        ),
        ("took 18 ms, 3 pods", "took 2.5 s, 4 pods", False),
        ("first\n…\nlast", "first\r\nany\r\nthing\r\nlast", True),
        ("first\nlast", "first\r\nany\r\nlast", False),
        ("A   B\n1   2", "A      B\r\n1      2", True),
    ],
)
def test_outputs_are_compared_but_for_times_and_space(
    *, shown: str, printed: str, same: bool
) -> None:
    assert bool(re.search(pattern_of(shown), printed)) is same
