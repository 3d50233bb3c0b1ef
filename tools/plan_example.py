"""The examples of docs/reference/plan.md and nodes.md: what the command prints for their files."""

import contextlib
import io
import re
from pathlib import Path
from tempfile import TemporaryDirectory

from reactive_desched.cli import main

_REFERENCE = Path(__file__).parent.parent / "docs" / "reference"
PAGES = (_REFERENCE / "plan.md", _REFERENCE / "nodes.md")
_ANSWER = re.compile(r"(?<=^```json\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)


def page_with_answer(page: Path) -> str:
    """Return the page with the answer that its own files and command give."""
    text = page.read_text(encoding="utf-8")
    cluster, policy = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    [command] = re.findall(r"^`reactive-desched ((?:plan|nodes) .*)` prints$", text, re.MULTILINE)
    printed = io.StringIO()
    with TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("cluster.yaml").write_text(cluster, encoding="utf-8")
        Path("policy.yaml").write_text(policy, encoding="utf-8")
        with contextlib.redirect_stdout(printed):
            status = main(command.split())
    assert status == 0
    return _ANSWER.sub(lambda _: printed.getvalue(), text, count=1)
