from pathlib import Path

import pytest

from reactive_desched.api.reason_codes import REASON_CODES
from reactive_desched.cli import main, policy_explain
from reactive_desched.cli.policy_explain import _meanings
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.text import layout
from reactive_desched.text.layout import TextLayout
from tests.support.packages import write_package


def explained(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["policy", "explain", *words]) == 0
    return capsys.readouterr().out


def test_the_section_of_an_installed_sink_is_explained(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (Path(__file__).parents[2] / "examples/sink/spool_sink.py").read_text()
    write_package(tmp_path, "reactive_desched.sinks", {"spool": "SpoolSink"}, code, "spool_sink")
    monkeypatch.syspath_prepend(tmp_path)

    for name in ("settings.sinks.spool", "sinks.spool"):
        assert "  sinks.spool.maxFiles   10000 " in explained(capsys, name)
    assert "sinks.additionalSpool" in explained(capsys, "sinks.additionalSpool")


def test_the_section_of_an_installed_source_of_measured_use_is_explained(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (Path(__file__).parents[2] / "examples/usage/node_file.py").read_text()
    write_package(
        tmp_path, "reactive_desched.usage_sources", {"NodeFile": "NodeFile"}, code, "node_file"
    )
    monkeypatch.syspath_prepend(tmp_path)

    for name in ("settings.usage.nodeFile", "usage.nodeFile"):
        assert "  usage.nodeFile.path " in explained(capsys, name)
    assert "usage.nodeFile.smoothing.agree" in explained(capsys, "usage.nodeFile.smoothing")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("settings.budget", "did you mean budgets?"),
        ("settings.sinks.kafak", "did you mean sinks.kafka?"),
        ("settings.sinks.spol", "did you mean sinks.spool?"),
        ("settings.usage.nodefil", "did you mean usage.nodeFile?"),
        ("usage.kubernetesMetrics.intervall", "did you mean usage.kubernetesMetrics.interval?"),
        ("LowNodeUtilization.treshold", "did you mean thresholds?"),
        ("settings.usage.prometheus.xyz", "known here: interval, maxAge, smoothing, timeout"),
    ],
)
def test_a_field_that_there_is_not_is_answered_with_what_stands_beside_it(
    name: str,
    hint: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_package(tmp_path, "reactive_desched.sinks", {"spool": "No"}, name="spool_sink")
    sources = {"NodeFile": "No"}
    write_package(tmp_path, "reactive_desched.usage_sources", sources, name="node_file")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(SystemExit):
        main(["policy", "explain", name])

    assert capsys.readouterr().err.endswith(f"{hint}\n")


def test_without_a_name_every_plugin_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    text = explained(capsys)
    assert all(f"  {name} " in text for name in plugin_registry().built_in())


def test_an_installed_package_names_no_page_and_says_what_to_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(policy_explain, "_REFERENCE", tmp_path / "reasons.md")
    said = explained(capsys, "TooFewReadyPods")
    assert "docs/" not in said
    assert "What to do: " in said


def test_no_explanation_has_a_link_to_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert [name for name in _meanings() if "](" in explained(capsys, name)] == []


def test_no_explanation_of_a_setting_has_a_link_to_a_page(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "](" not in explained(capsys, "settings")


@pytest.mark.parametrize("name", [*plugin_registry().built_in(), "DefaultEvictor", "settings"])
def test_every_plugin_and_all_its_arguments_are_explained(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = explained(capsys, name)
    assert text.startswith(f"{name}\n\n")
    assert "  FIELD " in text


def test_one_argument_has_its_default_and_its_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    text = explained(capsys, "LowNodeUtilization.numberOfNodes")
    assert [line.split()[:2] for line in text.splitlines()[2:4]] == [
        ["FIELD", "DEFAULT"],
        ["numberOfNodes", "0"],
    ]


def test_a_section_of_the_settings_lists_its_fields(capsys: pytest.CaptureFixture[str]) -> None:
    text = explained(capsys, "settings.moves")
    fields = {line.split()[0] for line in text.splitlines()[3:] if line.startswith("  moves.")}
    assert {"moves.cooldown", "moves.maxMoving.owner"} <= fields
    assert "5m" in text


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("PodLifetimes", "did you mean PodLifeTime?"),
        ("PodLifeTime.maxPodLifetime", "did you mean maxPodLifeTimeSeconds?"),
        ("settings.movs", "settings has no field movs"),
    ],
)
def test_an_unknown_name_is_refused_with_the_one_that_may_be_meant(
    name: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["policy", "explain", name])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_a_setting_may_be_named_as_why_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    named = explained(capsys, "budgets.node")
    assert named == explained(capsys, "settings.budgets.node")
    assert "  budgets.node.burst " in named


def test_every_reason_is_explained_and_leads_to_its_place_in_the_reference(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for code in REASON_CODES:
        name, _, meaning, *_, reference = explained(capsys, code).splitlines()
        assert name == code
        assert meaning.startswith(("Gate ", "Outcome ")), code
        page, _, anchor = reference.partition("#")
        assert f'<a id="{anchor}">' in Path(page).read_text(encoding="utf-8"), code


@pytest.mark.parametrize("name", [*plugin_registry().built_in(), "settings", "NoOtherNodeFits"])
def test_no_line_is_wider_than_the_terminal(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "layout_for", lambda _: TextLayout(width=70))
    assert max(map(len, explained(capsys, name).splitlines())) <= 70
