"""Messages with the line they are about: carets under the key or value, within 80 columns."""

import json
from textwrap import dedent

import pytest

from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.field_descriptions import fields_of
from reactive_desched.policy.load import check_source, load_sources
from reactive_desched.policy.report import MAX_COLUMNS, Report, error_report
from reactive_desched.policy.yaml.diagnostics import PolicyErrors
from tests.support.golden import Golden
from tests.support.small_plugins import HEAD


def shown(text: str | bytes, *, colours: bool = False) -> list[str]:
    """Give the lines about the errors of a text."""
    with pytest.raises(PolicyErrors) as caught:
        load_sources([SourceText(text, "p.yaml")], plugin_registry())
    return error_report(caught.value, colours=colours).splitlines()


@pytest.mark.parametrize(
    ("text", "line", "carets"),
    [
        pytest.param("bogus: 1", "  3 | bogus: 1", "^^^^^", id="a key"),
        pytest.param('"bogus": 1', '  3 | "bogus": 1', "^^^^^^^", id="a key in quotes"),
        pytest.param(
            "maxNoOfPodsToEvictTotal: 'x y'",
            "  3 | maxNoOfPodsToEvictTotal: 'x y'",
            "                         ^^^^^",
            id="a value in quotes",
        ),
        pytest.param(
            "maxNoOfPodsToEvictTotal: x  # many",
            "  3 | maxNoOfPodsToEvictTotal: x  # many",
            "                         ^",
            id="a value before a comment",
        ),
        pytest.param(
            "maxNoOfPodsToEvictTotal: [1]",
            "  3 | maxNoOfPodsToEvictTotal: [1]",
            "^^^^^^^^^^^^^^^^^^^^^^^",
            id="the key of a value with parts",
        ),
        pytest.param(
            "profiles: [{plugins: {}, pluginConfig: [{args: {}}]}]",
            "  3 | profiles: [{plugins: {}, pluginConfig: [{args: {}}]}]",
            " " * 40 + "^",
            id="what a missing field belongs into",
        ),
        pytest.param(
            "maxNoOfPodsToEvictTotal: größer",
            "  3 | maxNoOfPodsToEvictTotal: größer",
            "                         ^^^^^^",
            id="other letters",
        ),
        pytest.param(
            "maxNoOfPodsToEvictTotal: 多い",
            "  3 | maxNoOfPodsToEvictTotal: 多い",
            "                         ^^^^",
            id="wide letters",
        ),
    ],
)
def test_carets_stand_under_the_key_or_value(text: str, line: str, carets: str) -> None:
    said = shown(f"{HEAD}{text}\n")

    assert said[1] == line
    assert said[2] == f"    | {carets}"


def test_the_remedy_is_below_and_no_longer_in_the_line_of_the_message() -> None:
    assert shown(f"{HEAD}nodeSelectr: a\n") == [
        "p.yaml:3:1: error: nodeSelectr: unknown field [RD201]",
        "  3 | nodeSelectr: a",
        "    | ^^^^^^^^^^^",
        "    = help: did you mean nodeSelector?",
    ]


@pytest.mark.parametrize("before", [0, 20, 500], ids=["first", "near", "far"])
def test_a_long_line_is_cut_around_what_is_wrong(before: int) -> None:
    text = f'{{{" " * before}"bogus": 1, "apiVersion": "descheduler/v1alpha2", '
    text += '"kind": "DeschedulerPolicy", "profiles": []' + " " * 400 + "}"

    _, line, carets, *_ = shown(text)

    assert len(line) <= MAX_COLUMNS
    start = carets.index("^")
    assert line[start : start + carets.count("^")] == '"bogus"'
    assert line.endswith("…")
    assert ("…" in line[:10]) == (before == 500)


def test_a_file_in_json_is_shown_as_it_is_written() -> None:
    text = (
        '{\n\t"apiVersion": "descheduler/v1alpha2",\n\t"kind": "DeschedulerPolicy",\n\t"bogus": 1}'
    )
    assert shown(text)[1:3] == ['  4 |  "bogus": 1}', "    |  ^^^^^^^"]


def test_what_cannot_be_printed_is_replaced() -> None:
    said = shown(f'{HEAD}bogus: "a\u202eb\ttab"\n')
    assert said[1] == '  3 | bogus: "a\ufffdb tab"'


@pytest.mark.parametrize("break_", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_lines_may_end_otherwise_and_begin_with_a_mark(break_: str) -> None:
    text = f"{HEAD}bogus: 1\n".replace("\n", break_).encode("utf-8-sig")
    assert shown(text)[1:3] == ["  3 | bogus: 1", "    | ^^^^^"]


def test_a_syntax_error_has_one_caret() -> None:
    said = shown(f"{HEAD}profiles: [a\n")
    assert said[1:3] == ["  3 | profiles: [a", "    |           ^"]


def test_colours_are_for_terminals() -> None:
    plain, coloured = shown(f"{HEAD}bogus: 1\n"), shown(f"{HEAD}bogus: 1\n", colours=True)
    assert "\x1b[" not in "".join(plain)
    assert "\x1b[1;31merror:\x1b[0m" in coloured[0]
    assert "\x1b[1;31m^^^^^\x1b[0m" in coloured[2]


def test_a_text_that_was_not_kept_gets_the_remedy_in_its_line(golden: Golden) -> None:
    (error,) = check_source(SourceText("", "p.yaml"), plugin_registry()).errors
    (line,) = Report({}).lines(error, "error")
    assert line.startswith(golden() + " ")


def test_no_part_of_a_url_but_its_host_is_shown() -> None:
    settings = "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"
    secret = "https://me:hunter2@hooks.example.com/T0/s3cret?k=v#x"
    own = f"{settings}sinks: {{webhook: {{url: {secret!r}}}}}\n"
    beside = f"{settings}sinks: {{webhook: {{url: '{secret}', bogus: 1}}}}\n"
    for text in (own, beside):
        errors = check_source(SourceText(text, "s.yaml"), plugin_registry())
        report = Report({"s.yaml": text})
        said = "\n".join(line for each in errors.errors for line in report.lines(each, "error"))
        assert "hunter2" not in said
        assert errors.errors
        assert "s3cret" not in said
    line, carets = said.splitlines()[-3:-1]
    assert line[carets.index("^") :].startswith("bogus")


def test_the_address_of_a_webhook_is_not_shown_where_it_is_no_url(golden: Golden) -> None:
    settings = "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"
    text = f"{settings}sinks: {{webhook: {{url: 'me:hunter2@hooks.example.com'}}}}\n"
    (error,) = check_source(SourceText(text, "s.yaml"), plugin_registry()).errors

    (line,) = Report({"s.yaml": text}).lines(error, "error")

    assert line.endswith(golden())


CONFIG_MAP = dedent("""\
    apiVersion: v1
    kind: ConfigMap
    data:
      note: |
        nothing of ours
      policy.yaml: |
        apiVersion: descheduler/v1alpha2
        kind: DeschedulerPolicy
        nodeSelectr: a

        profiles:
        - name: default
           plugins: {}
    """)


def test_a_policy_in_a_config_map_is_shown_with_the_lines_of_the_file(golden: Golden) -> None:
    assert shown(CONFIG_MAP) == [
        golden("a ConfigMap"),
        "  2 | kind: ConfigMap",
        "    |       ^^^^^^^^^",
        golden("its remedy"),
        golden("no YAML"),
        "  13 |        plugins: {}",
        "     |               ^",
        golden("its remedy, too"),
    ]
    sound_yaml = CONFIG_MAP.replace("   plugins", "  plugins")
    assert shown(sound_yaml)[4:7] == [
        "p.yaml:9:5: error: nodeSelectr: unknown field [RD201]",
        "  9 |     nodeSelectr: a",
        "    |     ^^^^^^^^^^^",
    ]


HOSTILE = "\x1b[31m\u202eevil\x07"
"""It would change the colour of a terminal, turn the text around, and ring."""


@pytest.mark.parametrize("plugin", sorted(plugin_registry()))
def test_nothing_that_stands_in_a_file_is_interpreted_by_a_terminal(plugin: str) -> None:
    """Whatever a message quotes of it: the values of fields, and keys."""
    fields = [each.name.partition(".")[0] for each in fields_of(plugin_registry()[plugin].args)]
    for field in ("", *dict.fromkeys(fields)):
        for value in (HOSTILE, {HOSTILE: HOSTILE}, [HOSTILE], {HOSTILE: 5}):
            args = {field or HOSTILE: value}
            config = [{"name": plugin, "args": args}]
            profile = {"name": HOSTILE, "pluginConfig": config, "plugins": {}}
            head = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}
            text = json.dumps({**head, "profiles": [profile], "bogus": HOSTILE})
            with pytest.raises(PolicyErrors) as caught:
                load_sources([SourceText(text, f"{HOSTILE}.yaml")], plugin_registry())

            shown = error_report(caught.value), str(caught.value)
            assert all(line.isprintable() for each in shown for line in each.split("\n"))
