"""The example of docs/reference/plan.md: its answer is what the command prints."""

import contextlib
import io
import re
from pathlib import Path
from tempfile import TemporaryDirectory

from reactive_desched.cli import main

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "plan.md"
_ANSWER = re.compile(r"(?<=^```json\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)


def plan_page() -> str:
    """Return the page with the answer that its own files and command give."""
    text = PAGE.read_text(encoding="utf-8")
    cluster, policy = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    [command] = re.findall(r"^`reactive-desched (plan .*)` prints$", text, re.MULTILINE)
    printed = io.StringIO()
    with TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("cluster.yaml").write_text(cluster, encoding="utf-8")
        Path("policy.yaml").write_text(policy, encoding="utf-8")
        with contextlib.redirect_stdout(printed):
            status = main(command.split())
    assert status == 0
    return _ANSWER.sub(lambda _: printed.getvalue(), text, count=1)
