"""The commands that pages of the documentation have one type, and those that no test types.

A command is a line of a fenced block of `console` that begins with `$ `, together with the lines
that a backslash at its end continues; or each line of a block of `sh`. What stands behind two
spaces and a `#` is a remark.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^( *)```(console|sh)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class DocCommand:
    """One command of a page, without its prompt and remark."""

    page: str
    text: str
    printed: str = ""
    """What the page shows as its output."""


@cache
def commands() -> tuple[DocCommand, ...]:
    """Return the commands of all pages, in order."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return tuple(
        command
        for page in [*pages, ROOT / "examples" / "README.md"]
        for command in commands_of(page.relative_to(ROOT).as_posix(), page.read_text("utf-8"))
    )


def commands_of(page: str, text: str) -> Iterator[DocCommand]:
    """Yield the commands of a page."""
    for _, language, block in FENCE.findall(text):
        body = dedent(block)
        if language == "sh":
            body = re.sub(r"^(?=.)", "$ ", body, flags=re.MULTILINE)
        for each in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            line = re.match(r"(?:.*\\\n)*.*", each)
            assert line
            joined = re.sub(r"\\\n\s*", "", line[0])
            text = re.split(r"\s{2,}#", joined)[0].rstrip()
            yield DocCommand(page, text, each[line.end() :].lstrip("\n"))


NOT_TYPED = {
    "make check": "installs and checks this checkout, as before any test of it",
    "make demo": "tests/system/test_demo.py runs the demo",
    "make generated": "rewrites the checkout; tests/test_generated.py compares what it writes",
    ".venv/bin/pytest -q tests/plugins": "these tests run already",
    ".venv/bin/python -m bench": "takes minutes; tests/bench runs parts of it",
    "chrt -r 10 .venv/bin/python -m bench": "takes minutes, and a right of root",
    ".venv/bin/python -m tools.compare": (
        "takes half an hour; tests/e2e/test_comparison.py measures on a small cluster"
    ),
    "go build ": "takes minutes; the module is locked",
    "docker ": "needs Docker and a registry; tests/e2e/test_image.py does what the Dockerfile says",
    "kafka-": "needs Kafka's programs and a broker; tests/e2e/test_kafka.py has a broker",
    "examples/": "needs brokers and servers; tests/examples runs each of these programs",
    "zcat -f journal/": "needs a checkpoint kept in May; tests/examples/test_verify_topic.py",
    "helm ": "needs a control plane, or the chart of another project; tests/e2e/test_chart.py",
    "kind ": "needs Docker; what follows it is typed on the simulated cluster",
    "make install": "installs this checkout, as before any test of it",
    "kubectl drain ": "is kubectl's own; tests/e2e/test_simulator.py drains a node",
    "curl -s '127.0.0.1:10258/readyz?verbose' | grep leader:": (
        "needs a second replica; tests/e2e/test_leader.py has one"
    ),
    "reactive-desched status --server https://": (
        "needs the DNS of a cluster; tests/system/test_access.py asks with a token over TLS"
    ),
    "xdg-open ": "needs a desktop; tests/e2e/test_live_page.py opens the page in Chromium",
    "pip install ./examples/plugin": (
        "changes the environment of the tests; tests/examples/test_plugin.py installs a copy"
    ),
}
"""How commands begin that no test types as they stand, and why."""


PAGES_NOT_TYPED = {"docs/howto/release.md": "it tags, signs, uploads and pushes a release"}
"""Pages of which no test types a command, and why."""


def typed(command: DocCommand) -> bool:
    """Say whether a test types the command."""
    return command.page not in PAGES_NOT_TYPED and not command.text.startswith(tuple(NOT_TYPED))
