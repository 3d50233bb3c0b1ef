"""`run` serves on uvloop, and on asyncio's own loop where there is no uvloop."""

import asyncio
import sys
from functools import partial
from itertools import count

import pytest
from structlog.testing import CapturingLogger

from reactive_desched.app import run as app_run
from reactive_desched.errors import PluginHung
from reactive_desched.primitives.foreign_code import calls_foreign_code
from reactive_desched.primitives.hung_calls import hung_calls_ended


class Loaded:
    def __init__(self) -> None:
        self.log = CapturingLogger()


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> Loaded:
    loaded = Loaded()
    monkeypatch.setattr(app_run, "load_dependencies", lambda _: loaded)
    return loaded


def loop_of_run(monkeypatch: pytest.MonkeyPatch) -> str:
    modules: list[str] = []

    async def until_stopped(_: object) -> None:
        modules.append(type(asyncio.get_running_loop()).__module__)

    monkeypatch.setattr(app_run, "_until_stopped", until_stopped)
    assert app_run.run(object()) == 0  # type: ignore[arg-type]  # they are not read
    (module,) = modules
    return module.partition(".")[0]


def test_run_serves_on_uvloop(loaded: Loaded, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (loop_of_run(monkeypatch), loaded.log.calls) == ("uvloop", [])


def test_without_uvloop_run_serves_on_asyncios_loop_and_says_so(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)

    assert loop_of_run(monkeypatch) == "asyncio"
    assert [call.method_name for call in loaded.log.calls] == ["info"]


def test_a_plugin_that_hangs_while_the_policy_is_read_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hang() -> None:
        for _ in count():
            pass

    @calls_foreign_code
    def load(_: object) -> None:
        hang()

    monkeypatch.setattr(app_run, "load_dependencies", load)
    monkeypatch.setattr(app_run, "hung_calls_ended", partial(hung_calls_ended, 0.2, 0.05))

    with pytest.raises(PluginHung):
        app_run.run(object())  # type: ignore[arg-type]  # they are not read
