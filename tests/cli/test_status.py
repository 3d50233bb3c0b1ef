from copy import deepcopy
from typing import Any

import pytest

from reactive_desched.cli import main
from reactive_desched.cli.status import MAX_ROWS, StatusScreen
from reactive_desched.eviction.recorder import NOT_OPEN
from reactive_desched.model.modes import mode_text
from reactive_desched.model.moves import end_in_words
from reactive_desched.text.layout import TextLayout
from tests.support.golden import Golden

T0 = "2026-05-01T12:00:00Z"
QUIET: dict[str, Any] = {
    "time": T0,
    "started": "2026-05-01T09:00:00Z",
    "version": "1.2.3",
    "cluster": "prod",
    "clusterUid": "u",
    "apiServer": "https://10.0.0.1",
    "host": "controller-0",
    "mode": "live",
    "leadership": "leader",
    "policy": {"file": "policy.yaml", "revision": "abc", "profiles": ["default"], "problems": []},
    "state": {"name": "evaluating", "severity": "good", "summary": "nothing holds evictions"},
    "pause": "",
    "pauses": [
        {"name": "journal", "reason": "", "note": ""},
        {"name": "sync/pods", "reason": "", "note": ""},
    ],
    "brakes": [{"name": "zone", "reason": "", "note": ""}],
    "nodes": 50,
    "pods": 1000,
    "limits": {
        "warmUpRatio": 1.0,
        "rates": [{"scope": "cluster", "perMinute": 30.0, "burst": 10}],
        "buckets": [],
        "windows": [],
        "schedules": [],
    },
    "moves": {"requested": 0, "moving": 0, "oldest": []},
    "migrations": {"enabled": False, "total": 0, "byPhase": {}, "jobs": []},
    "pending": {
        "subjects": 0,
        "flapping": [],
        "total": 0,
        "kept": 0,
        "leaving": 0,
        "bySetting": {},
        "reasons": [],
    },
    "recent": [],
    "journal": {"directory": "/j", "sequence": 12000, "openEvictions": 0, "fault": ""},
    "sinks": [],
}


def busy() -> dict[str, Any]:
    answer = deepcopy(QUIET)
    answer["mode"] = "dry_run"
    answer["policy"]["problems"] = ["policy.yaml:3: no such plugin"]
    answer["longParts"] = "pods that came with long parts stay"
    answer["state"] = {
        "name": "paused",
        "severity": "bad",
        "summary": "no pod is evicted: paused by ann until noon",
    }
    answer["pause"] = "manual: paused by ann"
    for name in ("manual", "sync/pods"):
        answer["pauses"].append({"name": name, "reason": "paused by bob", "note": ""})
    answer["pauses"].append({"name": "sync/pdbs", "reason": "", "note": "may not be listed"})
    answer["brakes"] = [
        {
            "name": "storm",
            "reason": "90 pods in a minute",
            "scope": "cluster",
            "since": "2026-05-01T11:59:20Z",
            "release": "it is released by `reactive-desched resume`",
            "until": "2026-05-01T12:29:00Z",
            "isLeast": True,
        }
    ]
    answer["limits"] |= {
        "warmUpRatio": 0.5,
        "buckets": [
            {
                "scope": "node",
                "name": "n1",
                "perMinute": 6.0,
                "burst": 2,
                "available": 0.5,
                "held": 1,
            }
        ],
        "windows": [{"scope": "total", "name": "", "limit": 5, "counted": 5}],
        "schedules": [
            {
                "schedule": "nights",
                "until": "2026-05-01T14:00:00Z",
                "limit": 3,
                "counted": 1,
            },
            {"schedule": "sundays"},
            {"schedule": "tuesdays", "allow": True, "next": "2026-05-01T14:00:00Z"},
            {"schedule": "freeze", "until": None, "limit": 0, "counted": 0, "unread": True},
            {"schedule": "noon", "until": "2026-05-01T14:00:00Z", "counted": 0, "allow": True},
            {"schedule": "closed", "until": "2026-05-01T14:00:00Z", "limit": 0, "counted": 0},
        ],
    }
    answer["moves"] = {
        "requested": 1,
        "moving": 2,
        "oldest": [
            {
                "owner": "shop/Deployment/web",
                "pod": "web-1",
                "fromNode": "n1",
                "plugin": "NodeTaints",
                "since": "2026-05-01T11:59:50Z",
                "accepted": True,
                "replacement": "web-2",
                "toNode": "n2",
            },
        ],
    }
    answer["pending"] = {
        "subjects": 4,
        "flapping": [{"object": "node n9", "field": "taints", "changes": 11}],
        "total": 9,
        "kept": 2,
        "leaving": 0,
        "bySetting": {"budgets.node": 7},
        "reasons": [
            {
                "gate": "EvictionRateLimit",
                "reason": "EvictionRateLimited",
                "findings": 7,
                "since": "2026-05-01T11:58:00Z",
                "example": "shop/web-7",
                "message": "17th of 20",
                "setting": "budgets.node",
                "nextUntil": "2026-05-01T12:00:20Z",
                "nextTurn": "2026-05-01T12:00:30Z",
                "lastTurn": "2026-05-01T12:02:10Z",
            },
            {
                "gate": "DaemonSetPods",
                "reason": "DaemonSetPod",
                "findings": 2,
                "since": "2026-05-01T11:58:00Z",
                "example": "kube-system/log-1",
                "message": "of a DaemonSet",
                "keeps": True,
            },
        ],
    }
    answer["recent"] = [
        {
            "time": "2026-05-01T11:59:00Z",
            "namespace": "shop",
            "pod": f"web-{number}",
            "node": "n1",
            "plugin": "NodeTaints",
            "finding": "does not tolerate gpu",
            "result": "evicted",
            "followUp": {
                "result": "moved",
                "helped": False,
                "isFutile": True,
                "replacement": "web-x",
                "node": "n3",
                "readySeconds": 2.5,
            },
        }
        for number in range(MAX_ROWS + 2)
    ]
    answer["sinks"] = [
        {
            "name": "kafka",
            "error": "no broker answers",
            "sequence": 3,
            "lagRecords": 7,
            "lagSeconds": 65.0,
            "deadLetters": 1,
            "lost": 0,
        }
    ]
    return answer


def screen(answer: dict[str, Any], width: int | None = None) -> list[str]:
    return list(StatusScreen(answer, TextLayout(width=width)).lines())


def test_a_controller_with_nothing_to_do_fits_on_a_few_lines(golden: Golden) -> None:
    assert screen(QUIET) == [
        "controller      1.2.3 on controller-0, up 3h",
        golden(),
        "mode            live: evicts pods; leader",
        "policy          policy.yaml revision abc, profiles: default",
        "state           evaluating: nothing holds evictions",
        "brakes          none engaged",
        "rates           cluster 30/min, burst 10",
        "limits in use   none",
        "moving          none",
        "waiting         none",
        "last evictions  " + golden("after a start"),
        "journal         /j, 12,000 records",
        "sinks           none",
    ]


def test_what_no_plugin_does_is_not_said_of_the_process() -> None:
    watched = {
        **QUIET,
        "modes": [{"profile": "default", "plugin": "NodeTaints", "mode": "observe"}],
        "noPluginActs": True,
    }
    text = "\n".join(screen(watched))

    assert "evicts pods" not in text
    said = mode_text(is_dry_run=False, no_plugin_acts=True, is_standby=True)
    assert said in text
    assert "observe: default/NodeTaints" in text


def test_the_address_that_answered_stands_beside_the_controller() -> None:
    first = next(StatusScreen(QUIET, TextLayout(width=80), "http://127.0.0.1:10358").lines())

    assert " on controller-0 at http://127.0.0.1:10358, up 3h" in first


@pytest.mark.parametrize(
    ("cluster", "uid", "server", "named"),
    [
        ("prod", "u", "https://a", "prod (uid u, https://a):"),
        ("u", "u", "https://a", "u (https://a):"),
        ("u", "u", "", "u:"),
        ("", "", "", "not known yet:"),
    ],
)
def test_the_cluster_is_named_with_what_identifies_it(
    cluster: str, uid: str, server: str, named: str
) -> None:
    answer = QUIET | {"cluster": cluster, "clusterUid": uid, "apiServer": server}

    assert screen(answer)[1].removeprefix("cluster").strip().startswith(named)


def test_credentials_that_are_not_renewed_have_a_line_of_their_own() -> None:
    answer = QUIET | {"credentials": "its token ended"}
    assert screen(answer)[2].split() == ["credentials", "not", "renewed:", "its", "token", "ended"]


def test_a_rate_is_written_with_few_digits_and_without_an_exponent() -> None:
    answer = deepcopy(QUIET)
    answer["limits"]["rates"] = [
        {"scope": scope, "perMinute": rate, "burst": 1}
        for scope, rate in (("node", 6.8064), ("cluster", 12_000.4), ("owner", 1 / 60))
    ]

    rates = next(line for line in screen(answer) if line.startswith("rates"))

    assert rates.split("  ")[-1].strip() == (
        "node 6.81/min, burst 1; cluster 12000/min, burst 1; owner 0.0167/min, burst 1"
    )


@pytest.mark.parametrize("end", ["moved", "returned", "not_ready"])
def test_where_a_replacement_is_stands_in_the_words_for_how_the_move_ended(
    end: str, golden: Golden
) -> None:
    answer = busy()
    move = {"result": end, "summary": end_in_words(end), "node": "n3", "readySeconds": 2.5}
    answer["recent"] = [answer["recent"][0] | {"followUp": move}]
    [line] = [line for line in screen(answer) if "web-0" in line and "Ready after" in line]
    assert line.partition("evicted  ")[2] == golden()


@pytest.mark.parametrize("count", [1, 2])
def test_a_move_whose_request_has_no_answer_says_so_and_moves_are_counted_with_their_noun(
    count: int, golden: Golden
) -> None:
    answer = busy()
    move = answer["moves"]["oldest"][0] | {"accepted": False}
    answer["moves"] |= {"oldest": [move] * count, "moving": count}
    lines = screen(answer)
    at = next(at for at, line in enumerate(lines) if line.startswith("moving"))
    assert lines[at] == golden("title")
    assert lines[at + 2].partition("  n2  ")[2] == golden("state")


def test_why_the_newest_dead_letter_is_one_stands_beside_its_sink() -> None:
    answer = busy()
    answer["sinks"][0] |= {"error": "", "lastRejection": "too large"}
    assert any(line.endswith("  ok; last dead letter: too large") for line in screen(answer))
    answer["sinks"][0]["lastRejection"] = ""
    assert any(line.endswith("  ok") for line in screen(answer))


def test_everything_that_holds_evictions_is_named_with_what_changes_it() -> None:
    text = "\n".join(screen(busy()))
    for wanted in (
        "dry run: sends no eviction request",
        "newer files are rejected: policy.yaml:3: no such plugin",
        "state           paused: no pod is evicted: paused by ann until noon",
        "paused by manual, sync/pods: paused by bob",
        "sync/pdbs: may not be listed",
        "large pods      pods that came with long parts stay",
        (
            "storm: has held the whole cluster for 40s: 90 pods in a minute; "
            "it is released by `reactive-desched resume` (in 29m, at 12:29:00 UTC, at the earliest)"
        ),
        "warming up: rates and bursts are at 50%",
        "in 5s",  # half a token at six a minute
        "0 of 5",
        "nights: 1 of 3 evictions, 2h left",
        "sundays: closed, opens never again",
        "tuesdays: no evictions, opens in 2h",
        "freeze: no evictions until its calendar is read",
        "noon: evictions allowed, 2h left",
        "closed: no evictions, 2h left",
        "web-2 is not Ready yet",
        "7 findings wait: 7 for budgets.node",
        "2 more pods stay where they are",
        "turn in 30s",
        "17th of 20; all of them",
        "about 2m 10s [setting: budgets.node]",
        "node n9 flaps: its taints changed 11 times",
        "4 subjects wait for quiet",
        "moved to n3, Ready after 2.5 s; it did not help",
        "and 2 more rows",
        "no broker answers",
    ):
        assert wanted in text, wanted
    assert "evaluating" not in text


def job(number: int, phase: str, **fields: Any) -> dict[str, Any]:
    return {
        "name": f"move-{number}",
        "namespace": "shop",
        "pod": f"web-{number}",
        "node": "n1",
        "phase": phase,
        "step": "",
        "created": "2026-05-01T11:59:00Z",
        "madeBy": "by hand",
    } | fields


def test_open_migration_jobs_are_listed_and_those_that_ended_are_counted() -> None:
    held = {
        "reason": "MaxMigratingPerNode",
        "message": "2 pods of n1 move",
        "setting": "migration.maxMigratingPerNode",
    }
    jobs = [job(1, "Running"), job(2, "Pending", **held), job(3, "Failed")]
    by_phase = {"Running": 1, "Pending": 1, "Failed": 1, "Succeeded": 1200}
    found = {"enabled": True, "total": 1203, "byPhase": by_phase, "jobs": jobs}

    lines = screen(QUIET | {"migrations": found})

    at = lines.index("migration jobs: 2 open; 1,200 Succeeded, 1 Failed")
    assert [line.split()[0] for line in lines[at + 1 : at + 5]] == [
        *("JOB", "move-1", "move-2", "waiting")
    ]
    waits = "MaxMigratingPerNode: 2 pods of n1 move [setting: migration.maxMigratingPerNode]"
    assert lines[at + 3].endswith(waits)


def test_migration_jobs_that_have_ended_take_one_line() -> None:
    found = {"enabled": True, "total": 1, "byPhase": {"Failed": 1}, "jobs": [job(3, "Failed")]}
    assert "migration jobs  none open; 1 Failed" in screen(QUIET | {"migrations": found})
    found = {"enabled": True, "total": 0, "byPhase": {}, "jobs": []}
    assert "migration jobs  none" in screen(QUIET | {"migrations": found})


STANDBY = QUIET | {
    "leadership": "standby",
    "journal": None,
    "state": {"name": "standby", "severity": "warn", "summary": "the leader is x"},
}


@pytest.mark.parametrize("mode", ["live", "dry_run"])
def test_a_standby_says_who_leads_and_names_no_trouble(mode: str, golden: Golden) -> None:
    pauses = [
        {"name": "leader", "reason": "the leader is x", "note": ""},
        {"name": "startup", "reason": "it starts", "note": ""},
        {"name": "journal", "reason": NOT_OPEN, "note": ""},
    ]
    lines = screen(STANDBY | {"mode": mode, "pauses": pauses})

    assert "\n".join(lines) == golden()


def test_a_standby_that_lacks_a_resource_says_so() -> None:
    pauses = [
        {"name": "startup", "reason": "it starts", "note": ""},
        {"name": "sync/pods", "reason": "reset", "note": ""},
    ]
    lines = screen(STANDBY | {"pauses": pauses})

    held = [line.strip() for line in lines if "paused by" in line]
    assert held == ["paused by sync/pods: reset"]


@pytest.mark.parametrize(
    ("leadership", "why"),
    [
        ("standby", "this process does not lead"),
        ("leader", "the controller starts or stops"),
        ("no leader election", "the controller starts or stops"),
    ],
)
def test_a_journal_that_is_not_open_says_why(leadership: str, why: str) -> None:
    answer = QUIET | {"journal": None, "leadership": leadership}
    assert f"journal         not open: {why}" in screen(answer)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    lines = screen(busy(), width)
    texts = [line for line in lines if not line.startswith("  ")]
    assert max(map(len, texts)) <= width


def test_top_needs_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top"]) == 2
    assert "use `status`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("server", "status"),
    [
        ("http://127.0.0.1:1", 1),
        ("ftp://there", 2),
        ("127.0.0.1:x", 2),
    ],
)
def test_without_a_controller_the_error_names_the_place(
    server: str, status: int, golden: Golden, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pending", "--server", server]) == status
    assert golden() in capsys.readouterr().err


def test_a_source_that_gives_no_measured_use_is_named_and_another_is_not() -> None:
    answer = deepcopy(QUIET)
    fine = {"source": "KubernetesMetrics", "problem": ""}
    answer["measuredUse"] = [fine, {"source": "NodeFile", "problem": "measure: ValueError"}]

    [shown] = [line for line in screen(answer) if line.startswith("measured use")]
    assert shown.split(maxsplit=2)[2] == "NodeFile: measure: ValueError"


def test_a_calendar_shows_when_it_was_read_by_whom_and_what_is_wrong(golden: Golden) -> None:
    answer = deepcopy(QUIET)
    read = {"name": "a", "read": "2026-05-01T11:58:00Z", "isKept": False, "problem": ""}
    kept = {"name": "b", "read": "2026-05-01T09:00:00Z", "isKept": True, "problem": "answers 503"}
    unread = {"name": "c", "read": None, "isKept": False, "problem": "no answer yet"}
    answer["calendars"] = [read, kept, unread]

    shown = [line for line in screen(answer) if line.startswith("calendar")]

    assert "\n".join(shown) == golden()
