"""`plan` as it is called: files in, an answer and an exit status out."""

import http.server
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types

from reactive_desched.cli import main
from reactive_desched.errors import SnapshotUnavailable
from reactive_desched.journal import history
from reactive_desched.journal.clocks import Moment
from reactive_desched.journal.history import History
from reactive_desched.model.history import PastEviction
from reactive_desched.plan import command, live_snapshot
from reactive_desched.plan.inputs import PlanOptions
from reactive_desched.plan.mode import PlanMode
from reactive_desched.state.resources import (
    DEVICE_RESOURCES,
    GANG_RESOURCES,
    MIGRATION_RESOURCES,
    OPTIONAL_RESOURCES,
    OWNER_RESOURCES,
    RESERVATION_RESOURCES,
    RESOURCES,
    STORAGE_RESOURCES,
)
from tests.support.golden import Golden

NOW = "2026-05-01T12:00:00Z"
POLICY = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: default
  plugins:
    deschedule: {enabled: [RemovePodsViolatingNodeTaints]}
---
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
"""

Plan = Callable[..., tuple[int, str, str]]

LISTED_WHERE_ASKED = DEVICE_RESOURCES | GANG_RESOURCES | MIGRATION_RESOURCES | RESERVATION_RESOURCES


def node(name: str, *tainted: str) -> dict[str, Any]:
    taints = [{"key": key, "effect": "NoSchedule"} for key in tainted]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "3"},
        "spec": {"taints": taints},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


def pod(name: str, on: str) -> dict[str, Any]:
    owner = {"kind": "CloneSet", "name": "web", "uid": "uid-web", "controller": True}
    owner["apiVersion"] = "apps.kruise.io/v1alpha1"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": "shop",
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "3",
            "ownerReferences": [owner],
        },
        "spec": {"nodeName": on},
        "status": {"phase": "Running"},
    }


CLUSTER = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [node("n1", "gpu"), node("n2"), pod("b", "n1"), pod("a", "n1"), pod("c", "n2")],
}


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(CLUSTER), encoding="utf-8")
    return path


@pytest.fixture
def plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Plan:
    """Call `plan` with a policy and the time said; return its exit status, output and errors."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "policy.yaml").write_text(POLICY, encoding="utf-8")

    def call(*words: str) -> tuple[int, str, str]:
        status = main(["plan", "--policy", str(tmp_path / "policy.yaml"), "--now", NOW, *words])
        said = capsys.readouterr()
        return status, said.out, said.err

    return call


def gone(output: str) -> list[str]:
    decisions = json.loads(output)["decisions"]
    return [each["pod"]["name"] for each in decisions if each["action"] == "Evict"]


def test_what_would_go_is_printed_and_the_status_is_0(
    plan: Plan, cluster: Path, golden: Golden
) -> None:
    status, output, errors = plan("-f", str(cluster))

    assert status == 0
    assert output.startswith(golden() + "\n")
    assert errors == ""


def test_json_and_yaml_say_the_same(plan: Plan, cluster: Path) -> None:
    (_, as_json, _), (_, as_yaml, _) = (plan("-f", str(cluster), "-o", o) for o in ("json", "yaml"))

    assert yaml.safe_load(as_yaml) == json.loads(as_json)
    assert gone(as_json) == ["a", "b"]


@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml"])
def test_the_same_command_says_the_same_byte_by_byte(plan: Plan, cluster: Path, form: str) -> None:
    words = ("-f", str(cluster), "--all", "-o", form)

    assert plan(*words) == plan(*words)


def test_standard_input_is_a_file_like_any_other(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(CLUSTER).encode())))
    status, output, _ = plan("-f", "-")

    assert status == 0
    assert output.startswith("2 of 3 pods would be evicted")
    assert "\nin            standard input\n" in output


def test_files_and_folders_may_be_named_together(plan: Plan, tmp_path: Path) -> None:
    folder = tmp_path / "objects" / "pods"
    folder.mkdir(parents=True)
    (folder / "pods.yml").write_text(yaml.safe_dump_all(CLUSTER["items"][2:]), encoding="utf-8")
    nodes = tmp_path / "nodes"
    nodes.write_text("".join(map(json.dumps, CLUSTER["items"][:2])), encoding="utf-8")
    status, output, _ = plan("-f", str(tmp_path / "objects"), "-f", str(nodes), "-o", "json")

    assert (status, gone(output)) == (0, ["a", "b"])


def test_all_accounts_for_every_pod_once(plan: Plan, cluster: Path) -> None:
    said = json.loads(plan("-f", str(cluster), "--all", "-o", "json")[1])

    named = [each["pod"]["name"] for each in (*said["decisions"], *said["others"])]
    assert sorted(named) == ["a", "b", "c"]


def test_nothing_to_evict_is_status_0_as_well(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "calm.json"
    path.write_text(json.dumps([node("n1"), node("n2"), pod("a", "n1")]), encoding="utf-8")
    status, output, _ = plan("-f", str(path))

    assert status == 0
    assert output.startswith("Nothing would be evicted")


def test_what_was_left_out_is_warned_of_and_marked(
    plan: Plan, tmp_path: Path, golden: Golden
) -> None:
    path = tmp_path / "torn.json"
    torn = {**pod("torn", "n1"), "status": 7}
    path.write_text(json.dumps([*CLUSTER["items"], torn]), encoding="utf-8")
    status, output, errors = plan("-f", str(path), "-o", "json")

    assert (status, gone(output)) == (0, ["a", "b"])
    assert golden() + " " in errors
    assert json.loads(output)["lookedAt"]["whole"] is False


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["-f", "none.json"], id="no file"),
        pytest.param(["-f", "{empty}"], id="no objects"),
        pytest.param(["-f", "{torn}"], id="cut short"),
        pytest.param(["-f", "{cluster}", "--now", "noon"], id="no time"),
        pytest.param(
            ["-f", "{cluster}", "--kubeconfig", "k"],
            id="a file and a cluster",
        ),
        pytest.param(["-f", "{cluster}", "--profile", "x"], id="no such profile"),
        pytest.param(["-f", "{cluster}", "--settings", "none.yaml"], id="no such settings"),
        pytest.param([], id="nowhere to look"),
        pytest.param([], id="and what to do"),
        pytest.param(["--kubeconfig", "none"], id="no kubeconfig"),
    ],
)
def test_wrong_input_is_status_2_and_says_what_to_do(
    plan: Plan, tmp_path: Path, cluster: Path, words: list[str], golden: Golden
) -> None:
    files = {"cluster": cluster, "empty": tmp_path / "empty", "torn": tmp_path / "torn"}
    files["empty"].write_text('{"kind": "List", "items": []}', encoding="utf-8")
    files["torn"].write_text('{"items": [{"a": ', encoding="utf-8")
    status, output, errors = plan(*(word.format(**files) for word in words))

    assert (status, output) == (2, "")
    assert golden() in errors


def test_a_policy_that_cannot_run_is_status_2(plan: Plan, tmp_path: Path, cluster: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY.replace("NodeTaints", "NodeTaint"))
    status, output, errors = plan("-f", str(cluster))

    assert (status, output) == (2, "")
    assert "RemovePodsViolatingNodeTaints" in errors


def test_settings_of_another_file_count_in_place_of_those_beside_the_policy(
    plan: Plan, tmp_path: Path, cluster: Path
) -> None:
    settings = tmp_path / "other.yaml"
    settings.write_text(
        "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"
        "guards: {standingTimes: {otherTaints: 10s}}\n",
        encoding="utf-8",
    )

    def first_leaves_in(*words: str) -> int:
        status, output, _ = plan("-f", str(cluster), "-o", "json", *words)
        assert status == 0
        return int(json.loads(output)["decisions"][0]["inSeconds"])

    assert first_leaves_in() == 25
    assert first_leaves_in("--settings", str(settings)) == 10
    _, output, _ = plan("-f", str(cluster), "--settings", str(settings))
    assert f"; with the settings of {settings}" in output


def test_a_plugin_that_the_policy_does_not_enable_is_named_before_anything_is_read(
    plan: Plan, tmp_path: Path, golden: Golden
) -> None:
    status, output, errors = plan("-f", str(tmp_path / "nowhere"), "--plugin", "NodeTaints")

    assert (status, output) == (2, "")
    assert golden() in errors


@pytest.mark.parametrize(
    ("mode", "settings", "spared"),
    [
        pytest.param("run", "nodeFit: upstream\n", set(), id="the controller"),
        pytest.param("once", "", {*STORAGE_RESOURCES, *OWNER_RESOURCES}, id="a sweep"),
        pytest.param(
            "once", "nodeFit: scheduler\n", OWNER_RESOURCES, id="a sweep as the kube-scheduler"
        ),
        pytest.param(
            "upstream",
            "nodeFit: scheduler\n",
            {*STORAGE_RESOURCES, *OWNER_RESOURCES},
            id="the SIG descheduler",
        ),
    ],
)
def test_what_no_decision_asks_about_is_not_listed(
    plan: Plan,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    settings: str,
    spared: set[str],
) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY + settings, encoding="utf-8")
    asked: list[str] = []
    shown: list[bool] = []
    left_out: list[set[str]] = []

    async def read_cluster(
        _kube: object,
        _config: object,
        resources: list[str],
        _: object,
        *,
        optional_resources: set[str],
        show_nodes: bool,
        reads_all: bool,
    ) -> None:
        assert reads_all == (mode != "run")
        asked.extend(resources)
        left_out.append(optional_resources)
        shown.append(show_nodes)
        raise SnapshotUnavailable("far away")

    monkeypatch.setattr(live_snapshot, "read_live_snapshot", read_cluster)

    assert plan("--as", mode) == (1, "", "reactive-desched: far away\n")
    assert set(RESOURCES) - set(asked) == spared | {"nodemetrics"}

    assert plan("--as", mode, "--nodes") == (1, "", "reactive-desched: far away\n")
    assert set(RESOURCES) - set(asked) == spared
    required = STORAGE_RESOURCES if mode == "once" and "scheduler" in settings else set()
    assert set(asked) - left_out[0] >= {"nodes", "pods", *required}
    unread = {"priorityclasses", "persistentvolumeclaims"}  # by what this policy enables
    assert mode != "run" or left_out[0] == OPTIONAL_RESOURCES | LISTED_WHERE_ASKED | unread
    assert shown == [False, True]


def test_a_cluster_that_is_not_there_is_status_1(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    monkeypatch.setattr("reactive_desched.kube.client.patience.PATIENCE_S", 0.0)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "contexts: [{name: here, context: {cluster: c}}]\n",
        encoding="utf-8",
    )
    status, output, errors = plan("--kubeconfig", str(kubeconfig))

    assert (status, output) == (1, "")
    assert golden() in errors
    assert "check that the API server runs" in errors
    assert "the right to list" not in errors
    assert "csinodes: GET /apis/storage.k8s.io/v1/csinodes: " in errors


class WebSite(http.server.BaseHTTPRequestHandler):
    """Knows no page, and says so in HTML."""

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_server_that_is_no_api_server_is_no_matter_of_rights(
    plan: Plan, tmp_path: Path, golden: Golden
) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), WebSite) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: here\n"
            f"clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{site.server_port}'}}}}]\n"
            "contexts: [{name: here, context: {cluster: c}}]\n",
            encoding="utf-8",
        )
        status, output, errors = plan("--kubeconfig", str(kubeconfig))
        site.shutdown()

    assert (status, output) == (1, "")
    assert "404 a web page (HTML) came back" in errors
    assert golden() in errors
    assert "the right to list" not in errors


def test_a_lenient_reading_takes_what_a_strict_one_does_not(
    plan: Plan, tmp_path: Path, cluster: Path
) -> None:
    loose = POLICY.replace("profiles:", "nodeFit: true\nprofiles:")
    (tmp_path / "policy.yaml").write_text(loose, encoding="utf-8")
    strict = plan("-f", str(cluster))
    status, output, errors = plan("-f", str(cluster), "--lenient-policy", "-o", "json")

    assert strict[0] == 2
    assert (status, gone(output)) == (0, ["a", "b"])
    assert "warning: " in errors
    assert "nodeFit" in errors


def test_every_flag_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[PlanOptions] = []

    def run(options: PlanOptions, build: object) -> int:
        assert build is None
        asked.append(options)
        return 7

    monkeypatch.setattr(command, "run", run)
    words = (
        "plan --policy p --settings s --lenient-policy -f a -f b --kubeconfig k --context c"
        " --now n --as upstream --passes 3 --profile one --all -o yaml"
        " --pod a,shop/b -n shop --node n* --owner Deployment/web --plugin RemoveDuplicates"
    )

    assert main(words.split()) == 7
    assert main(["plan", "--policy-config-file", "p"]) == 7
    assert asked == [
        PlanOptions(
            policy="p",
            settings="s",
            lenient=True,
            files=("a", "b"),
            kubeconfig="k",
            context="c",
            now="n",
            passes=3,
            profile="one",
            only={
                "pods": ("a", "shop/b"),
                "namespaces": ("shop",),
                "nodes": ("n*",),
                "owners": ("Deployment/web",),
                "plugins": ("RemoveDuplicates",),
            },
            mode=PlanMode.UPSTREAM,
            show_unaffected=True,
            output="yaml",
        ),
        PlanOptions(policy="p"),
    ]


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["plan", "--policy", "p", "-o", "xml"], id="no such form"),
        pytest.param(
            ["plan", "--policy", "p", "--passes", "0"],
            id="no pass",
        ),
        pytest.param(["plan", "--policy", "p", "--as", "x"], id="no such mode"),
        pytest.param(
            ["plan", "--policy", "p", "--max-evictions", "0"],
            id="no evictions",
        ),
    ],
)
def test_words_that_make_no_sense_are_status_2(
    words: list[str], golden: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)

    assert ended.value.code == 2
    assert golden() in capsys.readouterr().err


def test_the_evictions_of_a_journal_count(
    plan: Plan, tmp_path: Path, cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Path, float, float]] = []
    limits = POLICY.replace("profiles:", "maxNoOfPodsToEvictTotal: 1\nprofiles:")
    (tmp_path / "policy.yaml").write_text(limits, encoding="utf-8")

    def read(directory: Path, now: Moment, *, counts_for_s: float) -> History:
        asked.append((directory, now.time_s, counts_for_s))
        ended_s = now.time_s - 100
        past = PastEviction(
            "r1", ended_s, "uid-z", "shop", "z", "n3", ended_s=ended_s, result="evicted"
        )
        return History((past,))

    monkeypatch.setattr(history, "read_history", read)
    words = ("-f", str(cluster), "--max-evictions", "1", "-o", "json")
    fresh = json.loads(plan(*words)[1])
    restarted = json.loads(plan(*words, "--journal", "there")[1])

    assert [round(each["inSeconds"]) for each in fresh["decisions"][:1]] == [25]  # the taint stands
    assert [round(each["inSeconds"]) for each in restarted["decisions"][:1]] == [200]
    assert restarted["preview"]["pastEvictions"] == 1
    assert asked == [(Path("there"), 1777636800.0, 300.0)]
    assert "a record of 1 earlier evictions" in plan("-f", str(cluster), "--journal", "there")[1]


def test_a_journal_that_is_not_there_is_wrong_input(
    plan: Plan, tmp_path: Path, cluster: Path
) -> None:
    status, output, errors = plan("-f", str(cluster), "--journal", str(tmp_path / "none"))

    assert (status, output) == (2, "")
    assert "--journal: " in errors


@pytest.mark.parametrize(
    ("words", "mode"),
    [
        pytest.param([], "run", id="the default"),
        pytest.param(["--as", "once"], "once", id="a sweep"),
        pytest.param(["--as", "upstream"], "upstream", id="upstream"),
        pytest.param(["--passes", "1"], "upstream", id="only upstream has passes"),
    ],
)
@pytest.mark.parametrize("form", ["json", "yaml"])
def test_whose_decisions_they_are_stands_in_the_heading_and_in_json_and_yaml(
    plan: Plan, cluster: Path, words: list[str], mode: str, form: str, golden: Golden
) -> None:
    actor = {
        "run": "`run`",
        "once": "`run --once`",
        "upstream": golden(),
    }[mode]

    assert f"would be evicted by {actor}" in plan("-f", str(cluster), *words)[1].splitlines()[0]
    assert yaml.safe_load(plan("-f", str(cluster), *words, "-o", form)[1])["mode"] == mode


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param("--as once --passes 2", "--passes: --as once looks once", id="passes"),
        pytest.param("--as once --horizon 1m", "are for --as run", id="a horizon"),
        pytest.param("--passes 2 --ready-after 1m", "are for --as run", id="replacements"),
    ],
)
def test_flags_of_another_mode_are_refused(
    plan: Plan, cluster: Path, words: str, said: str
) -> None:
    status, output, errors = plan("-f", str(cluster), *words.split())

    assert (status, output) == (2, "")
    assert said in errors


def test_how_far_to_look_ahead_is_said_and_heeded(plan: Plan, cluster: Path) -> None:
    words = ("--horizon", "20m", "--max-evictions", "1", "--ready-after", "0s", "-o", "json")
    said = json.loads(plan("-f", str(cluster), *words)[1])

    assert gone(json.dumps(said)) == ["a"]
    assert said["preview"] == {
        "horizonSeconds": 1200.0,
        "maxEvictions": 1,
        "readyAfterSeconds": 0.0,
        "pastEvictions": 0,
        "packedResources": [],
        "modes": [],
        "emptiedNodes": [],
        "madeRooms": [],
        "endedAfterSeconds": said["preview"]["endedAfterSeconds"],
        "ended": "after 1 evictions",
    }


def test_a_file_is_looked_at_without_any_network(tmp_path: Path, cluster: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    code = (
        "import sys\n"
        "def hook(event, _):\n"
        "    if event.startswith('socket.'): raise SystemExit(f'{event} was called')\n"
        "sys.addaudithook(hook)\n"
        "from reactive_desched.cli import main\n"
        f"status = main(['plan', '--policy', {str(policy)!r}, '-f', {str(cluster)!r}])\n"
        "print([m for m in ('aiohttp', 'kubernetes_asyncio') if m in sys.modules])\n"
        "sys.exit(status)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("2 of 3 pods would be evicted")
    assert ended.stdout.endswith("[]\n")


def test_a_reader_that_leaves_early_is_no_failure(tmp_path: Path, cluster: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    words = ["plan", "--policy", str(policy), "-f", str(cluster), "-o", "json"]
    reader, writer = os.pipe()
    os.close(reader)  # before it begins: a quick one would be done sooner
    command = [sys.executable, "-m", "reactive_desched", *words]
    try:
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writer)

    assert (done.returncode, done.stderr) == (0, b"")


class Terminal(io.StringIO):
    """Takes itself for a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_how_far_reading_has_come_and_then_only_the_errors(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "torn.json"
    path.write_text(json.dumps(CLUSTER)[:-20], encoding="utf-8")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)

    assert plan("-f", str(path))[0] == 2
    bar, rest = terminal.getvalue().split("\r\x1b[K")[1:]
    assert bar.startswith(f"reading {path} [")
    assert rest.startswith(f"{path}: not valid JSON")


def test_pods_that_are_named_and_do_not_exist_end_with_status_2(plan: Plan, cluster: Path) -> None:
    status, output, _ = plan("-f", str(cluster), "--pod", "shop/none-such")

    assert status == 2
    first, *others = output.splitlines()
    assert first == "There are no pods with --pod shop/none-such."
    assert [line.split()[0] for line in others] == ["in", "as"]
    assert plan("-f", str(cluster), "--node", "none-such")[0] == 0
