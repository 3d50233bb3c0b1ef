"""The program's commands: what each passes on, and how it ends."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from reactive_desched import demo
from reactive_desched._version import __version__
from reactive_desched.app import run as app_run
from reactive_desched.app.options import Options
from reactive_desched.cli import main
from reactive_desched.demo import DemoOptions
from reactive_desched.errors import ConfigError, JournalUnavailable, RequestRejected, SelectorError
from reactive_desched.sim import command as sim
from reactive_desched.sim.command import SimulationOptions
from tests.support.golden import Golden

RUN = ("run", "--policy", "policy.yaml")
Doing = Callable[..., list[Any]]


@pytest.fixture
def doing(monkeypatch: pytest.MonkeyPatch) -> Doing:
    """Replace what the commands start by something that ends, or fails, as told."""

    def replace(ending: int | BaseException = 0) -> list[Any]:
        asked: list[Any] = []

        def do(*options: Any) -> int:  # what the command passes on
            asked.append(options if len(options) > 1 else options[0])
            if isinstance(ending, BaseException):
                raise ending
            return ending

        for module, name in ((app_run, "run"), (demo, "play"), (sim, "simulate")):
            monkeypatch.setattr(module, name, do)
        return asked

    return replace


def test_run_passes_on_every_flag(doing: Doing) -> None:
    asked = doing()
    flags = {
        "--settings": "s.yaml",
        "--kubeconfig": "k",
        "--context": "c",
        "--journal": "j",
        "--listen": ":1",
        "--log-format": "json",
        "--log-level": "debug",
    }
    words = [word for pair in flags.items() for word in pair]

    assert main([*RUN, "--dry-run", *words]) == 0
    assert asked == [
        Options(
            policy="policy.yaml",
            settings="s.yaml",
            dry_run=True,
            kubeconfig="k",
            context="c",
            journal_dir="j",
            listen=":1",
            log_format="json",
            log_level="debug",
        )
    ]


def test_run_needs_a_policy_and_nothing_else(
    doing: Doing, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = doing()

    assert main(RUN) == 0
    assert asked == [Options(policy="policy.yaml")]
    with pytest.raises(SystemExit) as ended:
        main(["run"])
    assert ended.value.code == 2
    assert "--policy" in capsys.readouterr().err


def test_demo_listens_at_the_given_address_and_on_a_free_port_otherwise(doing: Doing) -> None:
    asked = doing()
    main(["demo"])
    main(["demo", "--listen", "127.0.0.1:99", "--keep", "day", "--serve"])

    assert asked == [DemoOptions("127.0.0.1:0"), DemoOptions("127.0.0.1:99", "day", serve=True)]


def test_sim_passes_on_every_flag(doing: Doing) -> None:
    asked = doing()
    main(["sim"])
    flags = {
        "--nodes": "3",
        "--pods": "4",
        "--seed": "5",
        "--listen": "[::1]:6",
        "--write-kubeconfig": "k",
    }
    main(["sim", *(word for pair in flags.items() for word in pair)])

    assert asked == [
        SimulationOptions(),
        SimulationOptions(nodes=3, pods=4, seed=5, host="::1", port=6, kubeconfig_file="k"),
    ]


@pytest.mark.parametrize("command", [RUN, ("demo",), ("sim",)], ids=lambda words: words[0])
def test_the_exit_status_is_that_of_the_command(doing: Doing, command: tuple[str, ...]) -> None:
    doing(7)

    assert main(command) == 7


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        pytest.param(
            SelectorError("policy.yaml:3:1: write a=b"),
            2,
            "policy.yaml:3:1: write a=b\n",
            id="what a person wrote is wrong",
        ),
        pytest.param(
            JournalUnavailable("disk full"), 1, "reactive-desched: disk full\n", id="it failed"
        ),
        pytest.param(
            ExceptionGroup("", [ExceptionGroup("", [ConfigError("kube.yaml: no context x")])]),
            2,
            "kube.yaml: no context x\n",
            id="wrong input, found by a task",
        ),
        pytest.param(
            ExceptionGroup("", [RequestRejected("403 forbidden", retryable=False)]),
            1,
            "reactive-desched: 403 forbidden\n",
            id="a failure of a task",
        ),
    ],
)
def test_what_goes_wrong_is_one_line_and_a_status(
    doing: Doing,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    status: int,
    said: str,
) -> None:
    doing(error)

    assert main(RUN) == status
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    "error", [RuntimeError("a bug"), ExceptionGroup("", [RuntimeError("a bug")])], ids=type
)
def test_a_bug_is_not_explained_away(doing: Doing, error: Exception) -> None:
    doing(error)

    with pytest.raises(type(error)):
        main(RUN)


def test_an_address_that_is_none_is_wrong_input(
    capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    assert main(["sim", "--listen", "nowhere"]) == 2
    assert golden() in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["policy"], ["audit"], ["events"]], ids="-".join)
def test_a_line_without_a_command_prints_the_help_that_lists_them(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    asked_for = capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0
    assert capsys.readouterr() == asked_for
    assert "commands:" in asked_for.out


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["fly"], id="no such command"),
        pytest.param([*RUN, "--log-format", "xml"], id="no such format"),
        pytest.param([*RUN, "--log-level", "loud"], id="no such level"),
        pytest.param(["sim", "--nodes", "many"], id="no number"),
    ],
)
def test_words_that_make_no_sense_end_with_status_2_and_usage(
    words: list[str], golden: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)

    assert ended.value.code == 2
    written = capsys.readouterr().err
    assert "usage: reactive-desched" in written
    assert golden() in written


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])

    assert ended.value.code == 0
    assert capsys.readouterr().out == f"reactive-desched {__version__}\n"


def test_the_version_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"reactive-desched {__version__} (Python ")
    assert out.count("\n") == 1


def test_describing_the_command_loads_nothing_that_it_needs_only_to_run() -> None:
    code = (
        "import sys; from reactive_desched.cli import parser; parser();"
        "print({'aiohttp', 'msgspec', 'asyncio', 'anyio'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout == "set()\n"
