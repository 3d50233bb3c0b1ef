"""What was loaded, and how an earlier text comes back into the file in use."""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from reactive_desched.api import event as api
from reactive_desched.cli import main
from reactive_desched.journal.event_builder import Correlation, build_event, policy_file_payload
from reactive_desched.journal.records import AnyEvent
from tests.support.golden import Golden
from tests.support.journals import SOURCE, STARTED_AT, write_journal

POLICY = "kind: DeschedulerPolicy\nprofiles: []\n"
OLD = "kind: ReactiveSettings\nbudgets:\n  cluster: {evictions: 30}\n"
NEW = OLD.replace("30", "60")
HOOK = "kind: ReactiveSettings\nhook: https://hooks.example/T0?key=k3y\nrate: 1\n"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class Loads:
    """The loads of one controller in a folder: files, and a journal of what it read in them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journal = folder / "journal"
        self.events: list[AnyEvent] = []
        self.recorded: set[str] = set()
        self.process = 1

    def load(self, mode: str = "live", policy: str = POLICY, **files: str) -> None:
        """Record that these texts of NAME.yaml were read, as a controller does."""
        texts = {"policy": policy, **files}
        recorded = []
        for name, text in texts.items():
            file = policy_file_payload(
                f"{name}.yaml",
                digest(text),
                text,
                size=len(text),
                path=str(self.folder / f"{name}.yaml"),
            )
            if file.sha256 in self.recorded:
                file = policy_file_payload(
                    file.name, file.sha256, "", size=file.size, path=file.path
                )
            self.recorded.add(file.sha256)
            recorded.append(file)
        self._add(
            api.POLICY_LOADED,
            api.PolicyLoaded(
                files=tuple(recorded),
                mode=mode,  # type: ignore[arg-type]  # one of the two
                revision=digest(policy)[:12],
                source="policy.yaml",
                version="0.1.0",
            ),
        )

    def reject(self, *problems: str) -> None:
        kept = next(e for e in reversed(self.events) if e.type == api.POLICY_LOADED).data.revision
        data = api.PolicyRejected(kept=kept, problems=problems, source="policy.yaml")
        self._add(api.POLICY_REJECTED, data)

    def restart(self) -> None:
        """Records of the next process have every text once more."""
        self.process += 1
        self.recorded.clear()

    def hold(self, **files: str) -> None:
        """Write these texts into NAME.yaml."""
        for name, text in files.items():
            (self.folder / f"{name}.yaml").write_text(text)

    def call(self, *words: str) -> int:
        if not self.journal.exists():
            write_journal(self.journal, self.events)
        return main([*words, "--journal", str(self.journal)])

    def _add(self, type_: str, data: Any) -> None:
        number = len(self.events)
        time = STARTED_AT + timedelta(minutes=number)
        correlation = Correlation("e.policy", "policy", "e")
        id_ = f"e.policy.{self.process}.{number + 1}"
        self.events.append(
            build_event(SOURCE, type_, correlation, time, data, id_=id_, causation_id="files")
        )


@pytest.fixture
def loads(tmp_path: Path) -> Loads:
    """Settings changed under one policy; records 2 and 3."""
    found = Loads(tmp_path)
    found.load(settings=OLD)
    found.load(settings=NEW)
    found.hold(policy=POLICY, settings=NEW)
    return found


def history(loads: Loads, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert loads.call("policy", "history", "-o", "json") == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def test_two_long_lines_are_cut_so_that_their_difference_is_seen(
    loads: Loads, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "{{apiVersion: reactive-desched/v1alpha1, kind: ReactiveSettings, pace: {}, more: {}}}\n"
    loads.load(settings=line.format("normal", "y" * 60))
    loads.load(settings=line.format("fast", "y" * 60))

    [change] = history(loads, capsys)[-1]["changes"]

    assert [each[:27] for each in change["lines"]] == [
        "…tiveSettings, pace: normal",
        "…tiveSettings, pace: fast, ",
    ]
    assert all(len(each) == 60 for each in change["lines"])


def test_a_file_that_is_read_instead_of_another_is_compared_with_it(
    loads: Loads, capsys: pytest.CaptureFixture[str]
) -> None:
    loads.load(other=NEW + "pace: fast\n")
    loads.load(last=NEW + "pace: fast\n")
    loads.load(policy=POLICY)
    *_, other, last, gone = history(loads, capsys)

    assert other["changes"] == [
        {
            "name": "other.yaml",
            "change": "changed",
            "insteadOf": "settings.yaml",
            "added": 1,
            "removed": 0,
            "lines": ["pace: fast"],
        }
    ]
    assert last["changes"] == [
        {"name": "last.yaml", "change": "the same text", "insteadOf": "other.yaml"}
    ]
    assert gone["changes"] == [{"name": "last.yaml", "change": "removed"}]


def test_the_history_says_what_each_load_changed(
    loads: Loads, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    loads.reject("settings.yaml:3:1: budget: unknown field", "another")
    loads.restart()
    loads.load(settings=NEW)
    loads.restart()
    loads.load("dry_run", POLICY + "# more\n# still\n", settings=NEW)
    loads.load("dry_run", POLICY)

    assert loads.call("policy", "history") == 0

    assert capsys.readouterr().out.rstrip("\n") == golden()


def test_a_load_is_a_start_or_a_reload(loads: Loads, capsys: pytest.CaptureFixture[str]) -> None:
    loads.restart()
    loads.load(settings=NEW)

    found = [(each["sequence"], each["how"]) for each in history(loads, capsys)]

    assert found == [(2, "start"), (3, "reload"), (4, "start")]


def test_of_a_long_history_the_newest_are_listed_with_what_they_changed(
    loads: Loads, capsys: pytest.CaptureFixture[str]
) -> None:
    assert loads.call("policy", "history", "--limit", "1", "-o", "json") == 0

    [only] = json.loads(capsys.readouterr().out)
    assert only["sequence"] == 3
    assert only["changes"] == [
        {
            "name": "settings.yaml",
            "change": "changed",
            "added": 1,
            "removed": 1,
            "lines": ["cluster: {evictions: 30}", "cluster: {evictions: 60}"],
        }
    ]


def test_a_journal_without_a_load_has_no_history(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loads = Loads(tmp_path)
    loads.events = []
    write_journal(loads.journal, [])

    assert loads.call("policy", "history") == 1
    assert "no policy was loaded" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("load", "text"), [("2", OLD), ("3", NEW), ("e.policy.1.1", OLD), (digest(POLICY)[:6], NEW)]
)
def test_a_file_is_shown_as_it_was_loaded_then(
    loads: Loads, capsys: pytest.CaptureFixture[str], load: str, text: str
) -> None:
    assert loads.call("policy", "show", load, "settings.yaml") == 0

    assert capsys.readouterr() == (text, "")


def test_a_text_is_taken_from_the_record_that_has_it(
    loads: Loads, capsys: pytest.CaptureFixture[str]
) -> None:
    """The record of the second load has no text of the policy: the first of the process has it."""
    assert loads.call("policy", "show", "3", "policy.yaml") == 0

    assert capsys.readouterr().out == POLICY


@pytest.mark.parametrize("load", ["1", "99", "ffff", "abc", "e.policy.1.9", ""])
def test_what_is_no_load_is_refused(
    loads: Loads, capsys: pytest.CaptureFixture[str], load: str
) -> None:
    assert loads.call("policy", "show", load) == 2

    assert "`policy history` lists them" in capsys.readouterr().err


def test_a_file_that_was_too_long_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    loads = Loads(tmp_path)
    loads.load(settings="#" * 60_000)

    assert loads.call("policy", "show", "2") == 1
    assert capsys.readouterr().err.rstrip("\n") == golden()

    assert loads.call("audit", "show", "2") == 0
    told = capsys.readouterr().out
    assert "settings.yaml (SHA-256" in told
    assert "it had 60,000 bytes" in told
    assert "  kind: DeschedulerPolicy" in told


def test_a_rollback_writes_the_file_in_use_and_keeps_what_it_held(
    loads: Loads, capsys: pytest.CaptureFixture[str]
) -> None:
    assert loads.call("policy", "rollback", "2") == 0

    settings = loads.folder / "settings.yaml"
    backup = loads.folder / f"settings.yaml.{digest(NEW)[:12]}.bak"
    assert (settings.read_text(), backup.read_text()) == (OLD, NEW)
    assert (loads.folder / "policy.yaml").read_text() == POLICY
    told = capsys.readouterr()
    assert told.out == ""
    assert f"{loads.folder}/policy.yaml holds this text already\n" in told.err
    assert f"is in {backup}\n" in told.err


def test_a_rollback_keeps_a_text_that_no_record_has_and_says_so(
    loads: Loads, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    loads.hold(settings="mine\n")

    assert loads.call("policy", "rollback", "2", "settings.yaml") == 0

    backup = loads.folder / f"settings.yaml.{digest('mine' + os.linesep)[:12]}.bak"
    assert backup.read_text() == "mine\n"
    assert golden(folder=loads.folder) in capsys.readouterr().err


def test_a_file_that_is_not_read_any_more_is_not_written(
    loads: Loads, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    """Another replica acts now, with settings in a file of another name."""
    loads.restart()
    loads.load(other=NEW)
    loads.hold(other=NEW)

    assert loads.call("policy", "rollback", "2") == 2

    assert (loads.folder / "settings.yaml").read_text() == NEW
    assert capsys.readouterr().err.rstrip("\n") == golden()


def test_a_rollback_names_the_files_that_the_earlier_load_did_not_have(
    loads: Loads, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    loads.load(settings=OLD, more="kind: ReactiveSettings\n")

    assert loads.call("policy", "rollback", "3", "settings.yaml") == 0
    assert "stays as it is" not in capsys.readouterr().err
    assert loads.call("policy", "rollback", "3") == 0
    assert golden() in capsys.readouterr().err


def test_a_rollback_keeps_the_permissions_and_follows_a_link(loads: Loads) -> None:
    real, link = loads.folder / "real.yaml", loads.folder / "settings.yaml"
    link.rename(real)
    real.chmod(0o600)
    link.symlink_to(real)

    assert loads.call("policy", "rollback", "2") == 0

    assert link.is_symlink()
    assert real.read_text() == OLD
    assert real.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("files", [(), ("policy.yaml", "settings.yaml")])
def test_one_file_at_a_time_is_printed(
    loads: Loads, capsys: pytest.CaptureFixture[str], files: Sequence[str]
) -> None:
    assert loads.call("policy", "rollback", "2", *files, "--out", "-") == 2
    assert loads.call("policy", "rollback", "2", "settings.yaml", "--out", "-") == 0

    assert capsys.readouterr().out == OLD
    assert (loads.folder / "settings.yaml").read_text() == NEW


def test_a_rollback_writes_elsewhere(loads: Loads) -> None:
    folder = loads.folder / "elsewhere"
    folder.mkdir()

    assert loads.call("policy", "rollback", "2", "--out", str(folder)) == 0
    assert loads.call("policy", "rollback", "2", "settings.yaml", "--out", str(folder / "s")) == 0

    assert (folder / "settings.yaml").read_text() == OLD
    assert (folder / "s").read_text() == OLD
    assert (loads.folder / "settings.yaml").read_text() == NEW


@pytest.fixture
def hooked(tmp_path: Path) -> Loads:
    """Settings with an address whose end no record has."""
    found = Loads(tmp_path)
    found.load(settings=HOOK)
    found.load(settings=HOOK.replace("rate: 1", "rate: 2"))
    found.hold(policy=POLICY, settings=HOOK.replace("rate: 1", "rate: 2"))
    return found


def test_what_is_secret_comes_from_the_file_in_use(
    hooked: Loads, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hooked.call("policy", "show", "2", "settings.yaml") == 0
    shown = capsys.readouterr()
    assert "k3y" not in shown.out
    assert "line 2" in shown.err

    assert hooked.call("policy", "rollback", "2") == 0
    assert (hooked.folder / "settings.yaml").read_text() == HOOK


def test_nothing_is_written_where_the_secret_is_another_one_now(
    hooked: Loads, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    changed = HOOK.replace("k3y", "other")
    hooked.hold(policy="kind: other\n", settings=changed)

    assert hooked.call("policy", "rollback", "2") == 1

    assert capsys.readouterr().err.rstrip("\n") == golden()
    assert (hooked.folder / "settings.yaml").read_text() == changed
    assert (hooked.folder / "policy.yaml").read_text() == "kind: other\n"


def test_a_patch_for_a_config_map_has_each_file_to_the_byte(
    hooked: Loads, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hooked.call("policy", "show", "2", "-o", "patch") == 0

    assert json.loads(capsys.readouterr().out) == {
        "data": {"policy.yaml": POLICY, "settings.yaml": HOOK}
    }


def test_the_file_of_a_config_map_is_changed_with_kubectl(
    loads: Loads, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    data = loads.folder / "..2026_11_27" / "settings.yaml"
    data.parent.mkdir()
    (loads.folder / "settings.yaml").rename(data)
    (loads.folder / "..data").symlink_to(data.parent)
    (loads.folder / "settings.yaml").symlink_to("..data/settings.yaml")

    assert loads.call("policy", "rollback", "2", "settings.yaml") == 2

    assert data.read_text() == NEW
    expected = golden(path=loads.folder / "settings.yaml", pod=os.uname().nodename)
    assert capsys.readouterr().err.rstrip("\n") == expected


def test_a_file_that_is_not_on_this_machine_is_not_made(
    loads: Loads, capsys: pytest.CaptureFixture[str]
) -> None:
    (loads.folder / "settings.yaml").unlink()

    assert loads.call("policy", "rollback", "2") == 2

    assert "settings.yaml is not on this machine" in capsys.readouterr().err
    assert not (loads.folder / "settings.yaml").exists()


def test_a_rollback_goes_by_no_other_clusters_journal(
    loads: Loads, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What reads shows the only journal there is; what writes files does not guess."""
    state = loads.folder / "state"
    loads.journal = state / "reactive-desched/clusters/1111/journal"
    write_journal(loads.journal, loads.events)
    config = loads.folder / "kubeconfig"
    config.write_text("kind: Config\n")
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    monkeypatch.setenv("KUBECONFIG", str(config))

    assert main(["policy", "history"]) == 0
    assert main(["policy", "rollback", "2"]) == 2

    assert "--cluster NAME" in capsys.readouterr().err
    assert (loads.folder / "settings.yaml").read_text() == NEW


def show(loads: Loads, capsys: pytest.CaptureFixture[str]) -> Callable[[str], tuple[str, str]]:
    def run(name: str) -> tuple[str, str]:
        assert loads.call("audit", "show", name) == 0
        told = capsys.readouterr()
        return told.out, told.err

    return run


def test_the_load_that_was_in_force_is_shown_by_its_id_and_its_record(
    loads: Loads, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("e.policy.1.1", "2"):
        out, err = show(loads, capsys)(name)
        assert "cluster: {evictions: 30}" in out
        assert "evictions: 60" not in out
        assert err == ""


def test_a_revision_that_was_loaded_with_other_settings_says_so(
    loads: Loads, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    out, err = show(loads, capsys)(digest(POLICY)[:12])

    assert "evictions: 60" in out
    assert "kind: DeschedulerPolicy" in out
    assert "policy.yaml (SHA-256" in out
    assert ", by its text in record 2" in out
    assert err.rstrip("\n") == golden()


def test_lines_of_two_loads_of_one_policy_differ_by_the_settings(
    loads: Loads, capsys: pytest.CaptureFixture[str]
) -> None:
    assert loads.call("audit", "query", "--type", "policy") == 0

    first, second = capsys.readouterr().out.splitlines()[1:]
    assert f"settings.yaml {digest(OLD)[:12]}" in first
    assert f"settings.yaml {digest(NEW)[:12]}" in second
