"""Records in a table: every word of them, aligned, and nothing that commands a terminal."""

import io
import json

import pytest

from reactive_desched.cli.events_table import HEADINGS, EventTable
from reactive_desched.journal.records import JournalRecord
from reactive_desched.journal.summary import parse_summary


def laid_out(records: list[JournalRecord], width: int | None, portion: int = 1000) -> list[str]:
    into = io.StringIO()
    table = EventTable(into, width)
    for begin in range(0, len(records), portion):
        table.show(records[begin : begin + portion])
    return into.getvalue().splitlines()


def test_a_table_has_a_line_for_each_record_and_columns_below_each_other(
    records: list[JournalRecord],
) -> None:
    heading, *lines = laid_out(records, None)

    assert heading.split("  ")[0] == HEADINGS[0]
    assert len(lines) == len(records)
    starts = [heading.index(name) for name in HEADINGS if name != "CASE"]
    for record, line in zip(records, lines, strict=True):
        seen = parse_summary(record.raw)
        assert seen is not None
        cells = [line[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)]
        assert cells[1] == seen.kind
        assert cells[0].replace(" ", "T") == seen.time[:19]
        if seen.data.who.uid:
            assert cells[2] == f"{seen.data.who.namespace}/{seen.data.who.name}"
            assert cells[3:5] == [seen.data.who.node, seen.data.why.plugin or "-"]
        if seen.data.outcome.result:
            assert cells[5].startswith(seen.data.outcome.result)
        if seen.data.decision.gate:
            assert cells[5].startswith(f"{seen.data.decision.gate} ({seen.data.decision.reason})")


def test_on_a_terminal_of_a_hundred_columns_nothing_is_wider_and_every_pod_is_whole(
    records: list[JournalRecord],
) -> None:
    lines = laid_out(records, 100)

    assert max(map(len, lines)) <= 100
    text = "\n".join(lines)
    for record in records:
        seen = parse_summary(record.raw)
        assert seen is not None
        assert f"{seen.kind} " in text
        assert seen.data.who.name in text
        assert seen.data.outcome.result in text
        assert seen.data.decision.reason in text
    assert "…NodeTaints" in text


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_names_too_long_for_any_column_are_folded_and_stay_whole(
    records: list[JournalRecord], width: int
) -> None:
    pod, node = "p" * 110, f"ip-10-0-0-1.{'n' * 50}"
    raws = [
        one.raw.replace(b"web-6d4b75cb6d-00000", pod.encode()).replace(
            b'"node":"n1"', f'"node":"{node}"'.encode()
        )
        for one in records
    ]
    lines = laid_out([JournalRecord(seq, one) for seq, one in enumerate(raws, 1)], width)

    assert max(map(len, lines)) <= width
    together = "".join("".join(lines).split())
    assert f"shop/{pod}" in together
    assert node in together


def test_a_table_that_grows_keeps_its_columns(records: list[JournalRecord]) -> None:
    heading, *at_once = laid_out(records[60:], None)
    grown = laid_out(records[60:], None, portion=1)

    assert grown[-5:] == at_once[-5:]
    assert [line.split() for line in grown].count(heading.split()) == 1


def test_no_record_can_command_the_terminal(records: list[JournalRecord]) -> None:
    evil = records[1].raw.replace(b'"policy.yaml"', rb'"\u001b[2Jpolicy\nyaml"')
    assert evil != records[1].raw

    _, line = laid_out([JournalRecord(2, evil)], None)

    assert line.isprintable()


def test_a_record_of_a_later_version_has_a_row_too(records: list[JournalRecord]) -> None:
    later = json.loads(records[3].raw)
    later["type"] = "io.reactive-desched.descheduler.eviction.dreamt.v7"
    unknown = json.dumps(later).encode()

    _, *lines = laid_out([JournalRecord(4, unknown), JournalRecord(5, b"{}")], None)

    assert "eviction.dreamt" in lines[0]
    assert "unreadable" in lines[1]
