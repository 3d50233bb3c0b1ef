import gzip
import io
import os
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from reactive_desched.errors import ConfigError, SnapshotUnavailable
from reactive_desched.plan import files
from reactive_desched.plan.files import expand_files, open_text
from reactive_desched.plan.json_text import JsonText
from tests.support.golden import Golden


def opened(name: str) -> JsonText:
    return open_text(name, lambda *_: None)


def content(text: JsonText) -> bytes:
    assert text.next()
    return bytes(text.read_value()).strip()


def test_a_folder_stands_for_its_json_and_yaml_files_in_order(tmp_path: Path) -> None:
    wanted = ["a.yaml", "b.json", "deep/d.json", "deep/er/c.YML"]
    others = ["notes.txt", ".hidden.json", "deep/e.jsonl", ".git/f.json", "..data/g.yaml"]
    for name in (*wanted, *others):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    assert list(expand_files([str(tmp_path)])) == [str(tmp_path / name) for name in wanted]


def test_files_and_standard_input_are_taken_in_the_order_named() -> None:
    assert list(expand_files(["b.txt", "-", "a"])) == ["b.txt", "-", "a"]


def test_a_folder_without_such_files_is_refused(tmp_path: Path, golden: Golden) -> None:
    with pytest.raises(ConfigError) as caught:
        list(expand_files([str(tmp_path)]))

    assert golden() in str(caught.value)


def test_a_plain_file_is_read_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "there is no such folder"
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    path = tmp_path / "a.json"
    path.write_bytes(b'\xef\xbb\xbf \n{"a": 1}')

    assert content(opened(str(path))) == b'{"a": 1}'


def test_yaml_is_known_by_its_content_and_read_as_json(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("# a comment\na: 1\n")
    told: list[tuple[str, int, int]] = []

    assert content(open_text(str(path), lambda *what: told.append(what))) == b'{"a":1}'
    assert told[0] == (str(path), 0, 17)


def test_standard_input_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"a": 1}')))
    text = opened("-")

    assert text.name == "standard input"
    assert content(text) == b'{"a": 1}'


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(b"a: " + b"b" * 100_000,))
    writer.start()
    try:
        assert content(opened(str(path))) == b'{"a":"' + b"b" * 100_000 + b'"}'
    finally:
        writer.join()


class Noted(io.StringIO):
    """Standard error that says when it was written to."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def write(self, text: str) -> int:
        count = super().write(text)
        self.written.set()
        return count


@pytest.mark.parametrize(
    ("patience_s", "is_named"), [(0.0, True), (60.0, False)], ids=["at once", "later"]
)
def test_a_pipe_that_no_program_writes_to_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    golden: Golden,
    patience_s: float,
    *,
    is_named: bool,
) -> None:
    monkeypatch.setattr(files, "_PATIENCE_S", patience_s)
    monkeypatch.setattr(sys, "stderr", stderr := Noted())
    path = tmp_path / "pipe"
    os.mkfifo(path)

    def write() -> None:
        if is_named:
            stderr.written.wait(5)
        path.write_bytes(b"{}")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert content(opened(str(path))) == b"{}"
    finally:
        writer.join()
    assert stderr.getvalue() == (golden(path=path) + "\n" if is_named else "")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        pytest.param(b"", "this is empty", id="empty"),
        pytest.param(b" \n\n", "this is empty", id="nothing but space"),
        pytest.param(gzip.compress(b"{}"), "this is compressed; unpack it", id="compressed"),
        pytest.param("{}".encode("utf-16"), "this is UTF-16", id="from PowerShell"),
    ],
)
def test_what_is_no_text_of_ours_is_refused_with_a_remedy(
    tmp_path: Path, written: bytes, said: str
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(written)
    with pytest.raises(ConfigError) as caught:
        opened(str(path))

    assert str(caught.value).startswith(f"{path}: {said}")


@pytest.mark.parametrize("name", ["none.json", "a\0b"], ids=["not there", "no name"])
def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be read: "):
        opened(str(tmp_path / name))


def test_no_room_for_what_a_pipe_brings_is_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    folder = tmp_path / "there is no such folder"
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"{}")))
    with pytest.raises(SnapshotUnavailable) as caught:
        opened("-")

    assert str(caught.value) == golden(folder=folder)


def test_comments_alone_hold_no_value(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("# nothing\n")

    assert opened(str(path)).next() == b""
