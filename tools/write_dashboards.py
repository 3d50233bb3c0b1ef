"""Writes the Grafana dashboards of `deploy/monitoring/dashboards`; tests hold them equal.

A query takes its metrics from the families that the code declares: one that is gone, or that
lacks a label, ends this program with an error.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from reactive_desched.telemetry.metrics import PREFIX
from tools.write_reference import declared_families

Json = dict[str, Any]  # a part of a dashboard, as Grafana reads it

ROOT: Final = Path(__file__).resolve().parents[1]
DASHBOARDS: Final = ROOT / "deploy" / "monitoring" / "dashboards"
DOCS_URL: Final = "https://reactive-desched.example"
"""Where the site of `make docs` is served, until a user writes it into the variable `docs`."""

_SCHEMA_VERSION: Final = 39  # of Grafana 10.4 and later, which migrates it by itself
_WIDTH: Final = 24  # columns of a dashboard
_SOURCE: Final[Json] = {"type": "prometheus", "uid": "${datasource}"}
_OURS: Final = ("cluster", "namespace", "job")
"""What the processes of one release have in common, and no other: series are summed by these."""
_RELEASE: Final = "{{cluster}} {{namespace}}/{{job}}"
"""What a legend begins with: a reader may have chosen several clusters."""
_TARGETS: Final = ",".join(f'{label}=~"${label}"' for label in (*_OURS, "instance"))
_ONE_TARGET: Final = f"on ({', '.join((*_OURS, 'instance'))})"
_LABELS: Final = {"pod_namespace": "Namespace of the pods"}
"""What a variable is called, if not as its name."""
_WORKLOAD: Final = "workload_namespace, workload_kind, workload"
"""The labels of a workload's metrics."""
_FAMILIES: Final = {family.name: family for family in declared_families()}


class Panel(NamedTuple):
    """A panel: what it shows, what that means, and what to do.

    `queries` are by their legend. `steps` are (from this value on, colour). `runbooks` are alerts
    whose page says more.
    """

    title: str
    description: str
    queries: dict[str, str]
    unit: str
    kind: str = "timeseries"
    width: int = 8
    height: int = 7
    steps: tuple[tuple[float, str], ...] = ()
    stacked: bool = False
    bars: bool = False
    maximum: float | None = None
    texts: tuple[tuple[float, str, str], ...] = ()
    runbooks: tuple[str, ...] = ()


class Row(NamedTuple):
    """A heading and the panels below it."""

    title: str
    panels: Sequence[Panel]


def metric(name: str, matchers: str = "", suffix: str = "") -> str:
    """Return a selector of a family that the code declares; raises ValueError if it does not."""
    family = _FAMILIES.get(name)
    if family is None:
        raise ValueError(f"no code declares the metric {name}")
    for label in re.findall(r"(\w+)[!=]", matchers):
        if label not in family.labels:
            raise ValueError(f"{name} has no label {label}")
    ending = suffix or ("_total" if family.kind == "counter" else "")
    return f"{PREFIX}{name}{ending}{{{_TARGETS}{',' if matchers else ''}{matchers}}}"


def of_process(name: str) -> str:
    """Return a selector of the processes of controllers; others have these metrics, too."""
    build = f"{PREFIX}build_info{{{_TARGETS}}}"
    return f"{name} and {_ONE_TARGET} {build}"


def per_second(selector: str, by: str = "") -> str:
    """Return a counter's rate, summed."""
    return f"{over('sum', by)} (rate({selector}[$__rate_interval]))"


def growth(selector: str, by: str = "") -> str:
    """Return by how much a counter grows from point to point, summed."""
    return f"{over('sum', by)} (increase({selector}[$__rate_interval]))"


def counted(selector: str, by: str = "") -> str:
    """Return how much a counter counted in the range of the dashboard."""
    return f"{over('sum', by)} ({_counted(selector)})"


def _counted(selector: str) -> str:
    """Return how much each series counted in the range of the dashboard.

    `increase` misses what a series counted before its first scrape, and most series here begin
    with an eviction. Of a series that began in the range, its last value is taken instead.
    """
    before = f"increase({selector}[$__range]) and {selector} offset $__range"
    return f"({before}) or last_over_time({selector}[$__range])"


def quantiles(name: str) -> dict[str, str]:
    """Return the usual quantiles of a histogram by their legend."""
    buckets = f"{over('sum', 'le')} (rate({metric(name, suffix='_bucket')}[$__rate_interval]))"
    return {
        legend: f"histogram_quantile({share}, {buckets})"
        for legend, share in (("half within", 0.5), ("90% within", 0.9), ("99% within", 0.99))
    }


def over(function: str, by: str = "") -> str:
    """Return an aggregation that keeps releases apart, and besides them these labels."""
    return f"{function} by ({', '.join((*_OURS, *filter(None, [by])))})"


def _evicted_pods(by: str) -> str:
    """Count evictions by a label of the moved pods, `node` or `pod_namespace`, and by release.

    A scrape that does not honour labels calls the pod's namespace `exported_namespace`, as
    `namespace` is the controller's there; one that does has no namespace of the controller.
    """
    name = "descheduler_pods_evicted_total"
    at = 'cluster=~"$cluster",job=~"$job",instance=~"$instance",result="success"'
    counts = _counted(
        f'{name}{{{at},namespace=~"$namespace",exported_namespace=~"$pod_namespace",'
        'exported_namespace!=""}'
    )
    plain = _counted(f'{name}{{{at},exported_namespace="",namespace=~"$pod_namespace"}}')
    of_others = _renamed(
        f"{over('sum', 'node, exported_namespace')} ({counts})", "exported_namespace"
    )
    honoured = _renamed(f"{over('sum', 'node')} ({plain})", "namespace")
    nameless = f'label_replace({honoured}, "namespace", "", "namespace", ".*")'
    return f"{over('sum', by)} ({of_others} or {nameless})"


def _renamed(query: str, label: str) -> str:
    """Return a query whose label with the pod's namespace is called `pod_namespace`."""
    return f'label_replace({query}, "pod_namespace", "$1", "{label}", "(.*)")'


_WELL: Final = ((0, "green"), (1, "red"))
_YES_NO: Final = ((0.0, "no", "red"), (1.0, "yes", "green"))
_WORKING: Final = ((0.0, "good", "green"), (1.0, "failing", "red"))
_ON_OFF: Final = ((0.0, "off", "green"), (1.0, "engaged", "orange"))


def operator() -> list[Row]:
    """Describe what an operator looks at: what the controller does, and why not."""
    return [
        Row("Is it well", _health()),
        Row("What it does, and why not", _decisions()),
        Row("What is left of the limits", _budgets()),
        Row("Migration jobs", _jobs()),
        Row("How fast it reacts", _latency()),
        Row("The record and its sinks", _records()),
        Row("The process", _process()),
    ]


def _health() -> list[Panel]:
    return [
        Panel(
            "Controllers",
            "Processes that are scraped. None: look whether the Deployment has a pod, and whether "
            "Prometheus may reach its port.",
            {"": f"{over('count')} ({PREFIX}build_info{{{_TARGETS}}})"},
            "short",
            kind="stat",
            width=4,
            height=4,
            steps=((0, "red"), (1, "green")),
            runbooks=("ReactiveDeschedAbsent",),
        ),
        Panel(
            "Leaders",
            "Processes that may act. It should be 1: with 0 nothing is evicted.",
            {"": f"{over('sum')} ({metric('leader')})"},
            "short",
            kind="stat",
            width=4,
            height=4,
            steps=((0, "red"), (1, "green"), (2, "red")),
            runbooks=("ReactiveDeschedNoLeader",),
        ),
        Panel(
            "Mode",
            "In a dry run everything is decided, and no eviction request is sent.",
            {"": f"{over('max')} ({metric('dry_run')})"},
            "short",
            kind="stat",
            width=4,
            height=4,
            texts=((0.0, "evicts", "green"), (1.0, "dry run", "blue")),
        ),
        Panel(
            "Kinds not synced",
            "Kinds that cannot be listed or watched now. Nothing is evicted on half a picture: "
            "look at the controller's role and at the API server.",
            {"": f"{over('sum')} (1 - {over('min', 'resource')} ({metric('reflector_synced')}))"},
            "short",
            kind="stat",
            width=4,
            height=4,
            steps=_WELL,
            runbooks=("ReactiveDeschedNotSynced", "ReactiveDeschedAnotherCluster"),
        ),
        Panel(
            "Journal can write",
            "While it cannot, nothing is evicted, as no eviction goes unrecorded. Look at the "
            "space on its volume.",
            {"": f"{over('min')} ({metric('journal_healthy')} and {metric('leader')} == 1)"},
            "short",
            kind="stat",
            width=4,
            height=4,
            texts=_YES_NO,
            runbooks=("ReactiveDeschedJournalFault", "ReactiveDeschedRecordingFault"),
        ),
        Panel(
            "Policy in force is the one in the files",
            "No: the files were rejected, and an earlier policy stays. The log has the line that "
            "is wrong; `reactive-desched policy check` says the same.",
            {"": f"1 - {over('max')} ({metric('policy_kept')})"},
            "short",
            kind="stat",
            width=4,
            height=4,
            texts=_YES_NO,
            runbooks=("ReactiveDeschedPolicyRejected",),
        ),
        Panel(
            "Brakes and pauses",
            "Each brake that holds evictions, everywhere or in part; `manual` is a pause by a "
            "person. Resume with `reactive-desched resume` when you know why it engaged.",
            {"{{brake}}": f"{over('max', 'brake')} ({metric('brake_engaged')})"},
            "short",
            kind="state-timeline",
            texts=_ON_OFF,
            runbooks=("ReactiveDeschedBrakeEngaged", "ReactiveDeschedPaused"),
        ),
        Panel(
            "Kinds synced",
            "Each watched kind, over time: no while it is not listed or its watch is closed.",
            {"{{resource}}": f"{over('min', 'resource')} ({metric('reflector_synced')})"},
            "short",
            kind="state-timeline",
            texts=_YES_NO,
            runbooks=("ReactiveDeschedNotSynced",),
        ),
        Panel(
            "Credentials",
            "Of each process, over time: failing while the credentials for the API server are not "
            "renewed, or not accepted. `/readyz?verbose` and `reactive-desched status` say why.",
            {"{{instance}}": f"{over('max', 'instance')} ({metric('credentials_failing')})"},
            "short",
            kind="state-timeline",
            texts=_WORKING,
            runbooks=("ReactiveDeschedCredentialsFail",),
        ),
    ]


def _decisions() -> list[Panel]:
    held = metric("decisions", 'decision!="evict"')
    return [
        Panel(
            "Outcomes of evictions",
            "Eviction requests by how they ended. Many that fail: the runbook. A "
            "PodDisruptionBudget that refuses is no fault: the pod is tried again.",
            {"{{result}}": growth(metric("outcomes"), "result")},
            "short",
            stacked=True,
            bars=True,
            runbooks=("ReactiveDeschedEvictionsFail",),
        ),
        Panel(
            "What waits, by gate",
            "Findings that a gate holds until an object changes or a time comes. "
            "`reactive-desched pending` lists the pods, `reactive-desched why NS/POD` explains "
            "one.",
            {"{{gate}}": f"{over('sum', 'gate')} ({metric('blocked_findings')})"},
            "short",
            stacked=True,
        ),
        Panel(
            "Waiting to be looked at",
            "Subjects that a change marked; those that settle wait until an object stops "
            "flapping. It should return to 0 after each burst.",
            {
                "all": f"{over('sum')} ({metric('dirty_subjects')})",
                "of them settling": f"{over('sum')} ({metric('settling_subjects')})",
            },
            "short",
        ),
        Panel(
            "Deferred and refused, by reason",
            "Why pods stayed, in this range: the gate and the reason, whose meaning and setting "
            "are in the documentation's page on reasons. A high number is often one pod that is "
            "asked about again and again.",
            {"": counted(held, "decision, gate, reason")},
            "short",
            kind="table",
            width=12,
            height=9,
        ),
        Panel(
            "Findings by plugin",
            "What plugins find, whether it is evicted or not. A plugin with none has nothing to "
            "do, or is not enabled.",
            {"{{plugin}}": per_second(metric("findings"), "plugin")},
            "ops",
            width=12,
            height=9,
            runbooks=("ReactiveDeschedPluginOff",),
        ),
    ]


def _jobs() -> list[Panel]:
    return [
        Panel(
            "Jobs by phase",
            "Pending jobs wait for arbitration, running ones for their place or for the gates: "
            "`reactive-desched migrations` says for what. Old jobs go some minutes after their "
            "time to live.",
            {"{{phase}}": f"{over('max', 'phase')} ({metric('migration_jobs')})"},
            "short",
            stacked=True,
            width=12,
        ),
        Panel(
            "Jobs that ended",
            "By phase and reason. `Timeout`: the time to live is too short for what holds the "
            "pods up, or no node has room. The page on moving pods says what each reason means.",
            {"{{phase}} {{reason}}": growth(metric("migration_jobs_ended"), "phase, reason")},
            "short",
            stacked=True,
            bars=True,
            width=12,
            runbooks=("ReactiveDeschedMigrationJobsFail",),
        ),
    ]


def _budgets() -> list[Panel]:
    return [
        Panel(
            "Evictions allowed now",
            "Tokens of the emptiest bucket of each scope: cluster, zone, node, namespace, owner, "
            "plugin. At 0 evictions of that scope wait. `evictions` in the settings has the rates.",
            {"{{scope}}": f"{over('min', 'scope')} ({metric('tokens_available')})"},
            "short",
        ),
        Panel(
            "Deferred for want of a token",
            "Which limit is the narrow one. Raise it if the cluster can take it.",
            {"{{scope}}": growth(metric("rate_limited"), "scope")},
            "short",
            stacked=True,
            bars=True,
        ),
        Panel(
            "Rates in force",
            "What each scope allows per minute, by the size of the cluster and the warm-up.",
            {"{{scope}}": f"{over('max', 'scope')} ({metric('eviction_rate_limit_per_minute')})"},
            "opm",
        ),
        Panel(
            "Left of schedules",
            "Evictions that a schedule still allows, while its window is open; empty where no "
            "schedule is set.",
            {"{{schedule}}": f"{over('min', 'schedule')} ({metric('schedule_evictions_left')})"},
            "short",
        ),
        Panel(
            "Warm-up",
            "The share of the rates that counts: it grows to 100% after a start, so that a fresh "
            "process does nothing rash.",
            {"warmed up": f"{over('min')} ({metric('warm_up_ratio')})"},
            "percentunit",
            maximum=1,
        ),
        Panel(
            "Left alone",
            "Owners and nodes that rest because moves did not help them, and owners that a plugin "
            "leaves alone. `reactive-desched eviction-loops` lists them, and has them tried again.",
            {
                "futile owners": f"{over('sum')} ({metric('futile_owners')})",
                "resting owners": f"{over('sum')} ({metric('resting_owners')})",
                "resting nodes": f"{over('sum')} ({metric('resting_nodes')})",
            },
            "short",
        ),
    ]


def _latency() -> list[Panel]:
    return [
        Panel(
            "From a change to the decision",
            "It includes the quiet time (`debounce`). Far above it: the process lacks CPU, or a "
            "plugin is slow.",
            quantiles("change_to_decision_seconds"),
            "s",
        ),
        Panel(
            "From a change to the eviction request",
            "It includes waiting for limits: compare it with what waits.",
            quantiles("change_to_eviction_seconds"),
            "s",
        ),
        Panel(
            "How late the event loop runs",
            "Seconds in which nothing else was done. Above 0.1 for long: give it more CPU.",
            quantiles("loop_lag_seconds"),
            "s",
            steps=((0, "green"), (0.1, "orange"), (1, "red")),
        ),
    ]


def _records() -> list[Panel]:
    return [
        Panel(
            "Lag of sinks",
            "Age of the oldest record that a sink lacks. Nothing is lost while the journal keeps "
            "it; `reactive-desched status` has the sink's error.",
            {"{{sink}}": f"{over('max', 'sink')} ({metric('sink_lag_seconds')})"},
            "s",
            steps=((0, "green"), (600, "red")),
            runbooks=("ReactiveDeschedSinkBehind",),
        ),
        Panel(
            "Faults of sinks",
            "Deliveries that were tried again, records rejected for good (kept as dead letters), "
            "and records that a sink will never get.",
            {
                "{{sink}}: tried again": growth(metric("sink_retries"), "sink"),
                "{{sink}}: dead letters": growth(metric("sink_dead_letters"), "sink"),
                "{{sink}}: lost": growth(metric("sink_lost"), "sink"),
            },
            "short",
            bars=True,
            runbooks=("ReactiveDeschedRecordsLost",),
        ),
        Panel(
            "Size of the journal",
            "Beyond the hard maximum segments are removed even if a sink has not read them.",
            {
                "journal": f"{over('max')} ({metric('journal_bytes')})",
                "hard maximum": f"{over('max')} ({metric('journal_hard_max_bytes')})",
            },
            "bytes",
            runbooks=("ReactiveDeschedRecordsLost",),
        ),
        Panel(
            "Duration of a write to disk",
            "A write and its fsync. An eviction waits for one: above 0.1 s use a faster volume.",
            quantiles("journal_fsync_seconds"),
            "s",
            steps=((0, "green"), (0.1, "orange"), (1, "red")),
        ),
        Panel(
            "Records",
            "Records that were made durable; refused ones were not, because the disk failed or was "
            "stuck; unrecorded are decisions beyond their rate limit.",
            {
                "durable": per_second(metric("journal_records")),
                "refused": per_second(metric("journal_records_refused")),
                "unrecorded": per_second(metric("journal_records_unrecorded")),
            },
            "wps",
            runbooks=("ReactiveDeschedJournalFault",),
        ),
        Panel(
            "Kubernetes Events",
            "Events written on pods and nodes, by result.",
            {"{{result}}": growth(metric("events"), "result")},
            "short",
            stacked=True,
            bars=True,
        ),
    ]


def _process() -> list[Panel]:
    return [
        Panel(
            "Requests to the API server",
            "By HTTP status; `none` had no answer. 429: the server asks to be left alone, or the "
            "client's own limit is too high; 403: the role lacks a right.",
            {"{{method}} {{code}}": per_second(metric("api_requests"), "method, code")},
            "reqps",
            width=6,
        ),
        Panel(
            "Watch events, lists and reconnects",
            "Events applied per second; lists and watches after the first. Many lists: the API "
            "server ends watches, or the process cannot keep up.",
            {
                "events": per_second(metric("reflector_events")),
                "lists": per_second(metric("reflector_relists")),
                "reconnects": per_second(metric("reflector_reconnects")),
                "unreadable": per_second(metric("reflector_malformed")),
            },
            "ops",
            width=6,
        ),
        Panel(
            "CPU",
            "Cores used. It is one process with one event loop: near 1 it cannot do more.",
            {
                "{{instance}}": "rate(process_cpu_seconds_total{"
                f"{_TARGETS}}}[$__rate_interval]) and {_ONE_TARGET} "
                f"{PREFIX}build_info{{{_TARGETS}}}"
            },
            "short",
            width=6,
            steps=((0, "green"), (0.9, "red")),
        ),
        Panel(
            "Memory",
            "Resident memory. Compare it with the container's limit; it grows with pods and nodes.",
            {"{{instance}}": of_process(f"process_resident_memory_bytes{{{_TARGETS}}}")},
            "bytes",
            width=6,
        ),
    ]


def platform_owner() -> list[Row]:
    """Describe what the owner of a platform asks: what moved, and whether it helped."""
    evicted = metric("outcomes", 'result="evicted"')
    helped = counted(metric("moves", 'helped="yes"'))
    known = counted(metric("moves", 'helped=~"yes|no"'))
    return [
        Row(
            "In this range",
            [
                Panel(
                    "Evicted pods",
                    "Evictions that the API server accepted.",
                    {"": counted(evicted)},
                    "short",
                    kind="stat",
                    width=6,
                    height=4,
                ),
                Panel(
                    "Moves that helped",
                    "The share of moves after which the plugin no longer finds the fault, of those "
                    "where this is known. Below a half: a plugin and the scheduler disagree; set "
                    "`evictions` stricter or the plugin off until you know why.",
                    {"": f"{helped} / {known}"},
                    "percentunit",
                    kind="stat",
                    width=6,
                    height=4,
                    steps=((0, "red"), (0.5, "orange"), (0.8, "green")),
                    maximum=1,
                    runbooks=("ReactiveDeschedMovesDoNotHelp",),
                ),
                Panel(
                    "Replacements Ready within",
                    "In this time 90% of the replacements were Ready, counted from the eviction.",
                    {
                        "": "histogram_quantile(0.9, "
                        + counted(metric("eviction_to_ready_seconds", suffix="_bucket"), "le")
                        + ")"
                    },
                    "s",
                    kind="stat",
                    width=6,
                    height=4,
                ),
                Panel(
                    "On the move now",
                    "Pods that are evicted and have no Ready replacement yet. If it stays up, "
                    "replacements cannot start: look for Pending pods.",
                    {"": f"{over('sum')} ({metric('moving_pods')})"},
                    "short",
                    kind="stat",
                    width=6,
                    height=4,
                ),
            ],
        ),
        Row(
            "What moved",
            [
                Panel(
                    "Evictions by plugin",
                    "What asked for them. In a dry run nothing is shown: see the next panel.",
                    {"{{plugin}}": growth(evicted, "plugin")},
                    "short",
                    stacked=True,
                    bars=True,
                    width=12,
                    height=8,
                ),
                Panel(
                    "Evictions a dry run would make",
                    "What would be evicted without `--dry-run`; 0 in a controller that evicts.",
                    {"{{plugin}}": growth(metric("outcomes", 'result="dry_run"'), "plugin")},
                    "short",
                    stacked=True,
                    bars=True,
                    width=12,
                    height=8,
                ),
                Panel(
                    "By namespace",
                    "Whose pods were evicted in this range (in a dry run: would be), most first. "
                    "Keep a namespace's pods with `budgets` or a plugin's `namespaces`.",
                    {"": _evicted_pods("pod_namespace")},
                    "short",
                    kind="table",
                    height=9,
                ),
                Panel(
                    "By node",
                    "Which nodes they left, most first.",
                    {"": _evicted_pods("node")},
                    "short",
                    kind="table",
                    height=9,
                ),
                Panel(
                    "By plugin, result and reason",
                    "How the requests ended; the page on reasons explains each code.",
                    {"": f"{counted(metric('outcomes'), 'plugin, result, reason')} > 0"},
                    "short",
                    kind="table",
                    height=9,
                ),
                Panel(
                    "Workloads that moved most",
                    "Evicted pods of the last day, also before a restart; of the "
                    "`moves.workloadsInMetrics` workloads that had most. One far above the others: "
                    "`reactive-desched audit report --owner KIND/NAME` says what moves it.",
                    {"": f"{over('max', _WORKLOAD)} ({metric('workload_moves')})"},
                    "short",
                    kind="table",
                    width=12,
                    height=9,
                ),
                Panel(
                    "What kept the same workloads",
                    "Decisions in this range that refused or deferred their pods, by reason; the "
                    "page on reasons explains each code.",
                    {"": f"{counted(metric('workload_blocked'), f'{_WORKLOAD}, reason')} > 0"},
                    "short",
                    kind="table",
                    width=12,
                    height=9,
                ),
            ],
        ),
        Row(
            "Whether it helped",
            [
                Panel(
                    "Moves by whether they helped",
                    "yes: the plugin finds nothing any more; no: the replacement landed where it "
                    "should leave again; unknown: it was never Ready, or was not followed.",
                    {"{{helped}}": growth(metric("moves"), "helped")},
                    "short",
                    stacked=True,
                    bars=True,
                    runbooks=("ReactiveDeschedMovesDoNotHelp",),
                ),
                Panel(
                    "What came of moves",
                    "By plugin, result and whether it helped, in this range.",
                    {"": counted(metric("moves"), "plugin, result, helped")},
                    "short",
                    kind="table",
                ),
                Panel(
                    "Time until replacements were Ready",
                    "From the accepted eviction. It is the disturbance that a move costs: images, "
                    "start-up and the scheduler's queue.",
                    quantiles("eviction_to_ready_seconds"),
                    "s",
                ),
                Panel(
                    "Nodes and owners that rest",
                    "Moves did not relieve these nodes, or were in vain for these owners, so they "
                    "are left alone for a time. Many: targets cannot be reached with this cluster.",
                    {
                        "nodes": f"{over('sum')} ({metric('resting_nodes')})",
                        "owners": f"{over('sum')} ({metric('resting_owners')})",
                        "owners left alone as futile": f"{over('sum')} ({metric('futile_owners')})",
                    },
                    "short",
                ),
                Panel(
                    "Nodes with measured use",
                    "Nodes with a sample that is not too old, by source: plugins that go by "
                    "measured use judge no others. Empty where no policy uses it. "
                    "`reactive-desched nodes` shows each node's class and use.",
                    {"{{source}}": f"{over('sum', 'source')} ({metric('usage_samples')})"},
                    "short",
                ),
                Panel(
                    "What limits defer or refuse",
                    "Findings that wait now, by gate. `reactive-desched pending` lists the pods.",
                    {"{{gate}}": f"{over('sum', 'gate')} ({metric('blocked_findings')})"},
                    "short",
                    stacked=True,
                ),
            ],
        ),
    ]


def dashboard(uid: str, title: str, description: str, rows: Sequence[Row]) -> Json:
    """Return a dashboard as Grafana imports it."""
    return {
        "annotations": {"list": _annotations()},
        "description": description,
        "editable": False,
        "graphTooltip": 1,
        "links": [
            {
                "asDropdown": True,
                "includeVars": True,
                "keepTime": True,
                "tags": ["reactive-desched"],
                "title": "reactive-desched",
                "type": "dashboards",
            },
            {"targetBlank": True, "title": "Documentation", "type": "link", "url": "${docs}"},
        ],
        "panels": list(_placed(rows)),
        "refresh": "30s",
        "schemaVersion": _SCHEMA_VERSION,
        "tags": ["reactive-desched", "kubernetes"],
        "templating": {"list": _variables(rows)},
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "title": title,
        "uid": uid,
        "version": 1,
    }


def _placed(rows: Sequence[Row]) -> Iterator[Json]:
    """Yield the panels from left to right, each row below the one before."""
    number, y = 0, 0
    for row in rows:
        number += 1
        place = {"h": 1, "w": _WIDTH, "x": 0, "y": y}
        yield {
            "collapsed": False,
            "gridPos": place,
            "id": number,
            "panels": [],
            "title": row.title,
            "type": "row",
        }
        x, y, height = 0, y + 1, 0
        for panel in row.panels:
            if x + panel.width > _WIDTH:
                x, y, height = 0, y + height, 0
            number += 1
            place = {"h": panel.height, "w": panel.width, "x": x, "y": y}
            yield _panel(panel) | {"gridPos": place, "id": number}
            x, height = x + panel.width, max(height, panel.height)
        y += height


def _panel(panel: Panel) -> Json:
    return {
        "datasource": _SOURCE,
        "description": panel.description,
        "fieldConfig": {"defaults": _field(panel), "overrides": []},
        "links": [
            {
                "targetBlank": True,
                "title": f"Runbook: {alert}",
                "url": f"${{docs}}/runbooks/{alert}.html",
            }
            for alert in panel.runbooks
        ],
        "options": _options(panel),
        "targets": [
            {
                "datasource": _SOURCE,
                "editorMode": "code",
                "expr": query,
                "format": "table" if panel.kind == "table" else "time_series",
                "instant": panel.kind in {"table", "stat"},
                "legendFormat": f"{_RELEASE} {legend}".strip(),
                "range": panel.kind not in {"table", "stat"},
                "refId": chr(ord("A") + place),
            }
            for place, (legend, query) in enumerate(panel.queries.items())
        ],
        "title": panel.title,
        "transformations": _transformations(panel),
        "type": panel.kind,
    }


def _field(panel: Panel) -> Json:
    """Return how values look: their unit, their colours and the words for them."""
    steps = [{"color": colour, "value": start or None} for start, colour in panel.steps]
    field: Json = {
        "mappings": [],
        "thresholds": {"mode": "absolute", "steps": steps or [{"color": "text", "value": None}]},
        "unit": panel.unit,
    }
    if panel.unit not in {"opm", "ops", "reqps", "wps", "s"}:
        field["min"] = 0
    if panel.unit == "short" and panel.kind in {"table", "stat"}:
        field["decimals"] = 0
    if panel.maximum is not None:
        field["max"] = panel.maximum
    if panel.texts:
        words = {
            f"{value:g}": {"color": colour, "index": place, "text": text}
            for place, (value, text, colour) in enumerate(panel.texts)
        }
        field["mappings"] = [{"options": words, "type": "value"}]
    if panel.kind == "timeseries":
        field["color"] = {"mode": "palette-classic"}
        field["custom"] = {
            "drawStyle": "bars" if panel.bars else "line",
            "fillOpacity": 60 if panel.bars else 20 if panel.stacked else 0,
            "lineWidth": 1,
            "showPoints": "never",
            "stacking": {"group": "A", "mode": "normal" if panel.stacked else "none"},
            "thresholdsStyle": {"mode": "dashed" if panel.steps else "off"},
        }
    elif panel.kind == "stat":
        field["color"] = {"mode": "thresholds"}
        field["noValue"] = "none"
    return field


def _options(panel: Panel) -> Json:
    if panel.kind == "stat":
        return {
            "colorMode": "value",
            "graphMode": "none",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "textMode": "auto",
        }
    if panel.kind == "table":
        return {"showHeader": True, "sortBy": [{"desc": True, "displayName": "pods"}]}
    legend = {"displayMode": "list", "placement": "bottom", "showLegend": True}
    if panel.kind == "state-timeline":
        return {"legend": legend, "mergeValues": True, "rowHeight": 0.8, "showValue": "never"}
    return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}


def _transformations(panel: Panel) -> list[Json]:
    """Return what makes a table of an instant query."""
    if panel.kind != "table":
        return []
    options = {"excludeByName": {"Time": True}, "renameByName": {"Value": "pods"}}
    return [{"id": "organize", "options": options}]


def _annotations() -> list[Json]:
    """Return what is marked in all graphs: brakes, starts and policies."""
    marks = {
        "Brakes": (
            "orange",
            f"{over('max', 'brake')} ({metric('brake_engaged')}) == 1",
            f"{_RELEASE} {{{{brake}}}} brake",
        ),
        "Starts": (
            "blue",
            "changes(" + f"process_start_time_seconds{{{_TARGETS}}}" + "[$__rate_interval]) > 0"
            f" and {_ONE_TARGET} {PREFIX}build_info{{{_TARGETS}}}",
            f"{_RELEASE} {{{{instance}}}} started again",
        ),
        "Reloads": (
            "purple",
            f"{over('sum', 'result')} (increase({metric('policy_reloads')}[$__rate_interval])) > 0",
            f"{_RELEASE} policy {{{{result}}}}",
        ),
    }
    return [
        {
            "datasource": _SOURCE,
            "enable": True,
            "expr": query,
            "iconColor": colour,
            "name": name,
            "step": "60s",
            "titleFormat": text,
        }
        for name, (colour, query, text) in marks.items()
    ]


def _variables(rows: Sequence[Row]) -> list[Json]:
    """Return what the reader chooses: where to ask, and about what."""
    build = f"{PREFIX}build_info"
    asked, narrowed = {}, ""
    for label in (*_OURS, "instance"):
        asked[label] = f"label_values({build}{{{narrowed}}}, {label})"
        narrowed += f'{"," if narrowed else ""}{label}=~"${label}"'
    if any("$pod_namespace" in query for query in _queries(rows)):
        asked["pod_namespace"] = (
            "query_result(sum by (namespace) (label_replace(descheduler_pods_evicted_total{"
            'cluster=~"$cluster",job=~"$job"}, "namespace", "$1", "exported_namespace", "(.+)")))'
        )
    variables: list[Json] = [
        {
            "current": {},
            "hide": 0,
            "label": "Data source",
            "name": "datasource",
            "options": [],
            "query": "prometheus",
            "refresh": 1,
            "type": "datasource",
        }
    ]
    for name, query in asked.items():
        variables.append(
            {
                # A scrape need not add these labels; so empty is one of all.
                "allValue": ".*" if name in {"cluster", "namespace"} else ".+",
                "current": {"selected": True, "text": "All", "value": "$__all"},
                "datasource": _SOURCE,
                "definition": query,
                "hide": 0,
                "includeAll": True,
                "label": _LABELS.get(name, name.capitalize()),
                "multi": True,
                "name": name,
                "options": [],
                "query": {"query": query, "refId": name},
                "refresh": 2,
                "regex": '/namespace="([^"]+)"/' if name == "pod_namespace" else "",
                "sort": 1,
                "type": "query",
            }
        )
    variables.append(
        {
            "current": {"selected": True, "text": DOCS_URL, "value": DOCS_URL},
            "description": "Where the documentation is served; the runbooks are below it.",
            "hide": 0,
            "label": "Documentation",
            "name": "docs",
            "options": [{"selected": True, "text": DOCS_URL, "value": DOCS_URL}],
            "query": DOCS_URL,
            "type": "textbox",
        }
    )
    return variables


def _queries(rows: Iterable[Row]) -> Iterator[str]:
    for row in rows:
        for panel in row.panels:
            yield from panel.queries.values()


def dashboards() -> dict[str, Json]:
    """Return every dashboard by the name of its file."""
    return {
        "operator.json": dashboard(
            "reactive-desched-operator",
            "reactive-desched / Operator",
            "What the controller does now, and what keeps it from doing more.",
            operator(),
        ),
        "platform-owner.json": dashboard(
            "reactive-desched-owner",
            "reactive-desched / Platform owner",
            "Which pods were moved, by what and where, and whether it helped.",
            platform_owner(),
        ),
    }


def written() -> dict[str, str]:
    """Return the text of each dashboard by the name of its file."""
    return {
        name: json.dumps(found, indent=2, ensure_ascii=False) + "\n"
        for name, found in dashboards().items()
    }


def main() -> None:
    """Write every dashboard, and remove those that are gone."""
    texts = written()
    DASHBOARDS.mkdir(parents=True, exist_ok=True)
    for path in DASHBOARDS.glob("*.json"):
        if path.name not in texts:
            path.unlink()
    for name, text in texts.items():
        (DASHBOARDS / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
