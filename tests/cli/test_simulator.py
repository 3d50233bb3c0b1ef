"""The simulator is a package of its own: `sim` and `demo` say how to get it."""

import sys

import pytest

from reactive_desched._version import __version__
from reactive_desched.cli import main
from tests.support.golden import Golden


@pytest.mark.parametrize("command", ["demo", "sim"])
def test_a_command_without_the_simulator_says_how_to_get_it(
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    golden: Golden,
) -> None:
    monkeypatch.setitem(sys.modules, f"reactive_desched.{command}", None)
    monkeypatch.delitem(sys.modules, "reactive_desched.sim.command", raising=False)

    assert main([command]) == 1
    assert capsys.readouterr().err == golden(version=__version__) + "\n"


def test_what_else_is_missing_is_no_matter_of_the_simulator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [each for each in sys.modules if each.startswith("reactive_desched.demo")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rich.console", None)

    with pytest.raises(ModuleNotFoundError, match="rich"):
        main(["demo"])
