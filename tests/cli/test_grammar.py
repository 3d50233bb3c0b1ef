"""Every command reads its words alike: names, help, and what it refuses."""

import shlex
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.cli import controller_client, main, parser
from reactive_desched.cli.commands import CommandParser
from tests.support.golden import Golden
from tests.support.journals import write_journal


def leaves(of: CommandParser, *words: str) -> Iterator[tuple[tuple[str, ...], CommandParser]]:
    """Yield each command that does something, by its words."""
    if not of.subcommands:
        yield words, of
    for name, command in of.subcommands.items():
        yield from leaves(command, *words, name)


GROUPS = ("audit", "events", "eviction-loops", "policy")
COMMANDS = [pytest.param(*each, id=" ".join(each[0])) for each in leaves(parser())]


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """Return the lines on standard error of a command line that is refused with 2."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    written = capsys.readouterr()
    assert written.out == ""
    return written.err.splitlines()


@pytest.mark.parametrize(("words", "command"), COMMANDS)
def test_every_help_ends_with_two_examples_that_the_parser_takes(
    words: tuple[str, ...], command: CommandParser
) -> None:
    assert len(command.examples) >= 2
    assert command.format_help().endswith(
        "\nexamples:\n" + "".join(f"  $ {example}\n" for example in command.examples)
    )
    for example in command.examples:
        ours = example[example.index("reactive-desched") :].replace("source <(", "")
        line = shlex.split(ours.partition(" > ")[0].rstrip(")"))[1:]
        line = line[: line.index("|")] if "|" in line else line
        assert tuple(line[: len(words)]) == words
        parser().parse_args(line)


@pytest.mark.parametrize(("words", "command"), COMMANDS)
def test_what_may_be_left_out_is_not_asked_for(
    words: tuple[str, ...], command: CommandParser
) -> None:
    assert [each.dest for each in command.arguments() if each.nargs == "*" and each.required] == []


@pytest.mark.parametrize("name", GROUPS)
def test_the_help_of_a_group_of_commands_has_examples_of_two_of_them(name: str) -> None:
    examples = parser().subcommands[name].examples

    assert len(examples) >= 2
    for example in examples:
        line = shlex.split(example)[1:]
        assert line[0] == name
        parser().parse_args(line)


@pytest.mark.parametrize(("words", "command"), COMMANDS)
def test_descriptions_fit_the_width_of_the_terminal(
    words: tuple[str, ...], command: CommandParser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    told = command.format_help().partition("\nexamples:\n")[0].splitlines()

    assert [line for line in told if len(line) > 80] == [], words


@pytest.mark.parametrize(("words", "command"), COMMANDS)
def test_a_flag_means_the_same_in_every_command(
    words: tuple[str, ...], command: CommandParser
) -> None:
    meanings = {"-n": {"--namespace"}, "-o": {"--output"}, "-f": {"--filename", "--follow"}}
    for argument in command.arguments():
        names = argument.option_strings
        for short, long in meanings.items():
            if short in names:
                assert long & set(names), words
        if "--output" in names:
            assert argument.choices, "a format is one of a closed set"
        if "--out" in names:
            assert argument.metavar == "FILE"
        assert "--journal-dir" not in names
        assert ("--since" in names) <= ("--until" in command.flags)


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        pytest.param(["plna"], "", id="a command"),
        pytest.param(
            ["audit", "qurey"],
            " audit",
            id="a command below another",
        ),
        pytest.param(
            ["bogus"],
            "",
            id="no command",
        ),
        pytest.param(
            ["audit", "query", "--outcom", "x"],
            " audit query",
            id="a flag",
        ),
        pytest.param(
            ["run", "--polcy", "p.yaml"],
            " run",
            id="a flag that is required",
        ),
        pytest.param(["version", "now"], " version", id="one word too many"),
        pytest.param(["--hepl"], "", id="first"),
        pytest.param(
            ["--policy-config-fil", "p.yaml"],
            "",
            id="first, as the SIG descheduler has it",
        ),
        pytest.param(
            ["audit", "status", "-o", "jsn"],
            " audit status",
            id="a word of a closed set",
        ),
        pytest.param(
            ["sim", "--seed", "x"],
            " sim",
            id="number",
        ),
        pytest.param(["--kubeconfig", "x", "status"], "", id="a flag before its command"),
        pytest.param(["--server=x", "pending", "-o", "json"], "", id="with an equals sign"),
        pytest.param(["-n", "shop", "pending"], "", id="a short flag before its command"),
        pytest.param(["events", "--since", "1h"], " events", id="a flag of the only command"),
        pytest.param(["audit", "--since", "1h"], " audit", id="a flag of several commands"),
        pytest.param(["audit", "--since", "1h", "query"], " audit", id="a flag before a part"),
        pytest.param(["policy", "--sinse", "1h"], " policy", id="a flag of no command"),
        pytest.param(
            ["policy", "convert", "p.yaml", "-o", "new.yaml"],
            " policy convert",
            id="a file for a format",
        ),
    ],
)
def test_a_mistake_shows_the_usage_of_its_command_and_what_may_be_meant(
    capsys: pytest.CaptureFixture[str], words: list[str], usage: str, golden: Golden
) -> None:
    lines = refused(capsys, *words)

    assert lines[0].startswith(f"usage: reactive-desched{usage} ")
    assert lines[-1].startswith(f"reactive-desched{usage}: error: {golden()}")


@pytest.mark.parametrize(
    "words",
    [
        ["audit", "query", "--limit", "-3"],
        ["events", "tail", "--limit", "-3"],
        ["run", "--policy", "p", "--secure-port", "-3"],
        ["run", "--policy", "p", "--client-connection-burst", "-3"],
        ["plan", "--policy", "p", "--passes", "-3"],
        ["sim", "--nodes", "-3"],
        ["sim", "--pods", "-3"],
    ],
    ids=lambda words: words[-2],
)
def test_a_negative_number_is_refused_in_the_same_words(
    capsys: pytest.CaptureFixture[str], words: list[str], golden: Golden
) -> None:
    last = refused(capsys, *words)[-1]

    assert last.partition(f"argument {words[-2]}: ")[2].startswith(golden() + " ")


def test_a_simulated_cluster_may_be_empty_as_that_of_the_demo_is() -> None:
    asked = parser().parse_args(["sim", "--nodes", "0", "--pods", "0"])

    assert (asked.nodes, asked.pods) == (0, 0)


@pytest.fixture
def two_clusters(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are journals of two clusters, and nothing says which of them is meant."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    for uid in ("1111", "2222"):
        write_journal(home / ".local/state/reactive-desched/clusters" / uid / "journal", ())


@pytest.mark.usefixtures("two_clusters")
@pytest.mark.parametrize("flag", ["--outcome", "--type", "--plugin", "--reason"])
@pytest.mark.parametrize("command", [("audit", "query"), ("audit", "export"), ("events", "tail")])
def test_a_word_of_a_closed_set_is_checked_whatever_the_journal_holds(
    capsys: pytest.CaptureFixture[str], command: tuple[str, ...], flag: str, golden: Golden
) -> None:
    assert main([*command, flag, "bogus"]) == 2

    assert capsys.readouterr().err.startswith(golden(flag=flag) + " ")


@pytest.mark.usefixtures("two_clusters")
@pytest.mark.parametrize(
    "command",
    [
        "audit query --since",
        "audit export --since",
        "events tail --since",
        "events tail --until",
        "replay --since",
        "recording export out --since",
        "status --at",
        "pending --at",
        "nodes --at",
        "plan --at",
        "why shop/cart-0 --at",
    ],
)
def test_a_wrong_time_is_named_before_a_cluster_is_asked_for(
    capsys: pytest.CaptureFixture[str], command: str, golden: Golden
) -> None:
    assert main(["audit", "query"]) == 2
    assert "--journal" in capsys.readouterr().err
    *words, flag = command.split()

    assert main([*words, flag, "bogus"]) == 2

    assert capsys.readouterr().err.rstrip("\n") == golden(flag=flag)


def test_resume_names_the_brakes_that_it_released(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    value = {
        "state": {"name": "evaluating", "summary": "nothing holds evictions"},
        "pause": "",
        "brakes": {},
        "notKept": "",
        "released": {"manual": "paused by ann", "storm": "9 pods were found"},
    }
    answer = controller_client.Answer(value, "kind")
    monkeypatch.setattr(controller_client.ControllerClient, "send_order", lambda *_: answer)

    assert main(["resume"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "\n".join(lines[1:3]) == golden()


def test_pause_until_a_time_pauses_for_as_long_as_is_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    answer = controller_client.Answer(
        {
            "state": {"name": "evaluating", "summary": "nothing holds evictions"},
            "pause": "",
            "brakes": {},
            "notKept": "",
        },
        "kind",
    )

    def send(*order: Any) -> Any:  # whatever the command sends
        sent.append(order)
        return answer

    monkeypatch.setattr(controller_client.ControllerClient, "send_order", send)
    until = datetime.now(UTC) + timedelta(hours=1)

    assert main(["pause", "--until", until.isoformat()]) == 0
    assert main(["pause", "--for", "1d"]) == 0
    assert main(["pause", "--until", "2020-01-01"]) == 2
    for longer in (["pause", "--for", "9000h"], ["approve", "--all", "--for", "32d"]):
        with pytest.raises(SystemExit, match="2"):
            main(longer)

    first, second = (body["forSeconds"] for _, _, body in sent)
    assert 3500 < first <= 3600
    assert second == 86_400
    said = capsys.readouterr().err
    assert "--until 2020-01-01 is not in the future" in said
    assert '"9000h" is longer than 366d' in said
    assert '"32d" is longer than 31d' in said


def test_help_prints_what_the_flag_prints(capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for words in (["help", "audit", "show"], ["audit", "show", "--help"], ["help"], ["--help"]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0
        said.append(capsys.readouterr().out)

    assert said[0] == said[1] != said[2] == said[3]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell", "tcsh"])
def test_completion_has_commands_flags_and_their_words(
    capsys: pytest.CaptureFixture[str], shell: str
) -> None:
    assert main(["completion", shell]) == 0

    script = capsys.readouterr().out
    for word in ("audit", "query", "outcome", "jsonl", "v1alpha2"):
        assert word in script
    assert "--journal-dir" not in script


def test_bash_completes_a_command_and_its_flags(capsys: pytest.CaptureFixture[str]) -> None:
    main(["completion", "bash"])
    script = capsys.readouterr().out
    for words, completed in (
        (["aud"], "audit"),
        (["audit", "qu"], "query"),
        (["audit", "query", "--outc"], "--outcome"),
        (["audit", "export", "-o", "js"], "jsonl"),
        (["audit", "query", "--plugin", "RemoveF"], "RemoveFailedPods"),
        (["audit", "query", "--type", "eviction.suc"], "eviction.succeeded"),
        (["audit", "tail", "--outcome", "pdb"], "pdb_refused"),
        (["pending", "--reason", "FindingS"], "FindingStorm"),
        (["pending", "--gate", "StormB"], "StormBrake"),
        (["policy", "explain", "PodLi"], "PodLifeTime"),
        (["policy", "explain", "NoOther"], "NoOtherNodeFits"),
    ):
        line = shlex.join(["reactive-desched", *words])
        ask = (
            f"{script}\nCOMP_WORDS=({line}) COMP_CWORD={len(words)}\n"
            "_shtab_reactive_desched\nprintf '%s\\n' \"${COMPREPLY[@]}\""
        )
        ran = subprocess.run(
            ["bash", "--norc"], input=ask, capture_output=True, text=True, check=True
        )
        assert ran.stdout.split() == [completed], ran.stderr


@pytest.mark.parametrize(("typed", "meant"), [("rnu", "run"), ("plna", "plan"), ("ausit", "audit")])
def test_a_command_with_two_letters_swapped_or_one_wrong_is_recognised(
    capsys: pytest.CaptureFixture[str], typed: str, meant: str, golden: Golden
) -> None:
    assert refused(capsys, typed)[-1].endswith(golden(typed=typed, meant=meant))


@pytest.mark.parametrize("value", ["-1s", "-5", "-.5h"])
def test_a_negative_duration_is_refused_as_a_value(
    capsys: pytest.CaptureFixture[str], value: str
) -> None:
    said = refused(capsys, "plan", "--policy", "policy.yaml", "--ready-after", value)[-1]

    assert f'argument --ready-after: "{value}" is not ' in said
