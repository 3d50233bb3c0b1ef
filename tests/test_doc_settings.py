"""The policies and settings that pages show are right as they stand, and warn of nothing."""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]  # PyYAML ships no types

from reactive_desched.cli import main
from reactive_desched.policy.settings.reactive_settings import ReactiveSettings
from reactive_desched.policy.yaml.decode import fields_by_key
from tests.support.packages import write_package

ROOT = Path(__file__).parents[1]
HEAD = "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"
OURS = ("descheduler/", "reactive-desched/")
SECTIONS = fields_by_key(ReactiveSettings).keys()
PROBLEM = re.compile(r": (?:error|warning): (?!profiles: there are no profiles)")
"""What is said of a file; the head of a policy, without its profiles, may be shown alone."""

SCHEDULER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

BLOCK = re.compile(r"^( *)```yaml\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


def shown() -> Iterator[tuple[str, str]]:
    """Yield each block of a page that is a policy or settings, with its place."""
    rooms = (ROOT / "docs" / each for each in ("explain", "howto", "runbooks"))
    pages = sorted(page for room in rooms for page in room.rglob("*.md"))
    for page in (ROOT / "README.md", ROOT / "docs" / "tutorial.md", *pages):
        text = page.read_text(encoding="utf-8")
        for found in BLOCK.finditer(text):
            block = textwrap.dedent(found[2])
            line = text.count("\n", 0, found.start()) + 1
            place = f"{page.relative_to(ROOT)}:{line}"
            documents = [each for each in yaml.safe_load_all(block) if isinstance(each, dict)]
            if documents and all(
                str(each.get("apiVersion")).startswith(OURS) for each in documents
            ):
                yield place, block
            elif len(documents) == 1 and documents[0].keys() <= SECTIONS:
                yield place, HEAD + block


@pytest.mark.parametrize("block", [pytest.param(text, id=place) for place, text in shown()])
def test_what_a_page_shows_is_right_and_warns_of_nothing(
    block: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = (ROOT / "examples/sink/spool_sink.py").read_text(encoding="utf-8")
    write_package(tmp_path, "reactive_desched.sinks", {"spool": "SpoolSink"}, code, "spool_sink")
    monkeypatch.syspath_prepend(tmp_path)
    scheduler = tmp_path / "schedulers" / "default.yaml"  # as docs/howto/schedulers.md names it
    scheduler.parent.mkdir()
    scheduler.write_text(SCHEDULER)
    file = tmp_path / "shown.yaml"
    file.write_text(block)

    main(["policy", "check", str(file)])

    lines = capsys.readouterr().out.splitlines()
    assert [each for each in lines if PROBLEM.search(each)] == []
