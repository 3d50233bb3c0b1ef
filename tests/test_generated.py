"""What `make generated` would write is there already: the one check of all that comes from code."""

import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RECIPE = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ngenerated:")[2]
GENERATORS = re.findall(r"^\t\$\(BIN\)/python -m (\S+)$", RECIPE.partition("\n\n")[0], re.MULTILINE)


def test_each_module_that_writes_files_from_code_is_run_by_make_generated() -> None:
    writers = {f"tools.{path.stem}" for path in (ROOT / "tools").glob("write_*.py")}

    assert writers
    assert writers - {*GENERATORS} == set()


@pytest.mark.parametrize("module", GENERATORS)
def test_what_is_generated_is_what_the_code_says(
    module: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen, stale, really = [], [], Path.write_text

    def compare(path: Path, text: str, encoding: str) -> None:
        if ROOT not in path.parents:  # it runs a command on examples
            really(path, text, encoding)
            return
        seen.append(path)
        if not path.is_file() or path.read_text(encoding=encoding) != text:
            stale.append(path)

    monkeypatch.setattr(Path, "write_text", compare)
    monkeypatch.setattr(Path, "unlink", stale.append)
    monkeypatch.setattr(sys, "argv", [module])
    import_module(module).main()

    assert stale == [], "run `make generated`"
    assert seen or module == "tools.write_entry_points", "it writes where something differs"
    assert "Traceback" not in capsys.readouterr().err
