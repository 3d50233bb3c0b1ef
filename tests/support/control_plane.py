"""A real control plane on loopback ports, so that tests meet true Kubernetes answers.

etcd, kube-apiserver (RBAC on, evictions audited), kube-controller-manager and kube-scheduler run as
child processes; KWOK plays every kubelet. Nothing outlives `ControlPlane.__exit__`.
"""

import contextlib
import json
import secrets
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self, TypeVar

from tests.support.audit_log import AuditLog
from tests.support.component import ChildProcess, ChildProcessFailedError
from tests.support.ports import free_ports
from tests.support.quick_kubectl import QuickKubectl

T = TypeVar("T")

# Every request of the controller, but bodies only where they are evidence: evictions.
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Request", "resources": [{"group": "", "resources": ["pods/eviction"]}]},
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None"},
    ],
}
STARTS_S = 180
"""So long a part of it may take to start on a busy machine; one that has ended is found at once."""
ANSWERS_S = 20
"""So long one answer may take there: of those that took two seconds none counted."""
PACKING = "packing"  # the name of a second scheduler, which fills nodes up
FEWER_FILTERS = "fewer-filters"
ADDED_AFFINITY = "added-affinity"
IGNORING = "ignoring"
SPREADING_HARD = "spreading-hard"
WEIGHED = "weighed"  # its profile changes the weights of scores, and how resources count
ARGUED = "argued"  # its profile changes the arguments of the other scores
SCHEDULER_PROFILES: list[dict[str, object]] = [
    {"schedulerName": "default-scheduler"},
    {
        "schedulerName": PACKING,
        "plugins": {
            "score": {
                "enabled": [{"name": "NodeResourcesFit", "weight": 1}],
                "disabled": [{"name": "*"}],
            }
        },
        "pluginConfig": [
            {
                "name": "NodeResourcesFit",
                "args": {"scoringStrategy": {"type": "MostAllocated"}},
            }
        ],
    },
    {
        "schedulerName": FEWER_FILTERS,
        "plugins": {
            "multiPoint": {"disabled": [{"name": "InterPodAffinity"}]},
            "filter": {
                "enabled": [{"name": "InterPodAffinity"}],
                "disabled": [{"name": "TaintToleration"}, {"name": "NodePorts"}],
            },
            "preFilter": {"enabled": [{"name": "InterPodAffinity"}]},
        },
    },
    {
        "schedulerName": ADDED_AFFINITY,
        "pluginConfig": [
            {
                "name": "NodeAffinity",
                "args": {
                    "addedAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {
                                    "matchExpressions": [
                                        {"key": "disk", "operator": "In", "values": ["ssd"]}
                                    ]
                                }
                            ]
                        }
                    }
                },
            }
        ],
    },
    {
        "schedulerName": IGNORING,
        "plugins": {
            "multiPoint": {"disabled": [{"name": "PodTopologySpread"}, {"name": "VolumeZone"}]}
        },
        "pluginConfig": [
            {
                "name": "NodeResourcesFit",
                "args": {
                    "ignoredResources": ["example.com/license"],
                    "ignoredResourceGroups": ["ignored.example.com"],
                },
            }
        ],
    },
    {
        "schedulerName": SPREADING_HARD,
        "pluginConfig": [
            {
                "name": "PodTopologySpread",
                "args": {
                    "defaultingType": "List",
                    "defaultConstraints": [
                        {
                            "maxSkew": 1,
                            "topologyKey": "topology.kubernetes.io/zone",
                            "whenUnsatisfiable": "DoNotSchedule",
                            "nodeAffinityPolicy": "Ignore",
                        }
                    ],
                },
            }
        ],
    },
    {
        "schedulerName": WEIGHED,
        "plugins": {
            "multiPoint": {
                "enabled": [{"name": "NodeAffinity", "weight": 3}],
                "disabled": [{"name": "ImageLocality"}],
            },
            "score": {
                "enabled": [{"name": "NodeResourcesFit", "weight": 4}],
                "disabled": [{"name": "NodeResourcesBalancedAllocation"}],
            },
        },
        "pluginConfig": [
            {
                "name": "NodeResourcesFit",
                "args": {
                    "scoringStrategy": {
                        "type": "RequestedToCapacityRatio",
                        "resources": [
                            {"name": "cpu", "weight": 2},
                            {"name": "memory"},
                            {"name": "example.com/gpu", "weight": 5},
                        ],
                        "requestedToCapacityRatio": {
                            "shape": [
                                {"utilization": 0, "score": 2},
                                {"utilization": 70, "score": 10},
                                {"utilization": 100, "score": 0},
                            ]
                        },
                    }
                },
            },
            {
                "name": "PodTopologySpread",
                "args": {
                    "defaultingType": "List",
                    "defaultConstraints": [
                        {
                            "maxSkew": 1,
                            "topologyKey": "topology.kubernetes.io/zone",
                            "whenUnsatisfiable": "ScheduleAnyway",
                        }
                    ],
                },
            },
        ],
    },
    {
        "schedulerName": ARGUED,
        "plugins": {
            "score": {"enabled": [{"name": "NodeResourcesBalancedAllocation", "weight": 3}]}
        },
        "pluginConfig": [
            {
                "name": "NodeResourcesBalancedAllocation",
                "args": {
                    "resources": [{"name": "memory"}, {"name": "cpu"}, {"name": "example.com/gpu"}]
                },
            },
            {
                "name": "InterPodAffinity",
                "args": {
                    "hardPodAffinityWeight": 70,
                    "ignorePreferredTermsOfExistingPods": True,
                },
            },
            {
                "name": "NodeAffinity",
                "args": {
                    "addedAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "weight": 4,
                                "preference": {
                                    "matchExpressions": [
                                        {"key": "disk", "operator": "DoesNotExist"}
                                    ]
                                },
                            }
                        ]
                    }
                },
            },
            {
                "name": "PodTopologySpread",
                "args": {
                    "defaultingType": "List",
                    "defaultConstraints": [
                        {
                            "maxSkew": 2,
                            "topologyKey": "topology.kubernetes.io/zone",
                            "whenUnsatisfiable": "ScheduleAnyway",
                            "nodeAffinityPolicy": "Ignore",
                            "nodeTaintsPolicy": "Honor",
                        }
                    ],
                },
            },
        ],
    },
]
POD_AND_NODE_STAGES = (
    "node/fast/node-initialize.yaml",
    "node/heartbeat/node-heartbeat.yaml",
    "pod/general/pod-create.yaml",
    "pod/general/pod-init-container-running.yaml",
    "pod/general/pod-init-container-completed.yaml",
    "pod/general/pod-ready.yaml",
    "pod/general/pod-complete.yaml",
    "pod/general/pod-delete.yaml",
)


@dataclass(frozen=True)
class RealTools:
    """Where the binaries and KWOK's stage files are, as `tools/real/build.py --where` says."""

    paths: Mapping[str, Path]
    stages: Path | None
    missing: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the answer of `tools/real/build.py --where`."""
        answer = json.loads(text)
        entries = {name: Path(path) for name, path in answer["tools"].items() if path}
        stages = Path(answer["stages"]) if answer["stages"] else None
        missing = [name for name in answer["tools"] if name not in entries]
        return cls(entries, stages, tuple(missing if stages else [*missing, "KWOK stages"]))


def wait_until(
    check: Callable[[], T | None],
    *,
    within_s: float,
    what: str,
    every_s: float = 0.2,
    describe: Callable[[], str] | None = None,
) -> T:
    """Return the first true answer of `check`, or raise `TimeoutError` naming what was awaited.

    The error says what `describe` finds instead, or else the last answer.
    """
    deadline = time.monotonic() + within_s
    while not (answer := check()):
        if time.monotonic() > deadline:
            found = f"the last answer: {answer}" if describe is None else f"instead:\n{describe()}"
            raise TimeoutError(f"waited {within_s:g} s in vain: {what}; {found}")
        time.sleep(every_s)
    return answer


_FEATURES: Final = ("DRADeviceTaintRules",)
_APIS: Final = ("resource.k8s.io/v1beta2/devicetaintrules",)
"""Off by default in 1.36, as the feature is."""

GANG_FEATURES: Final = ("GenericWorkload", "GangScheduling", "WorkloadAwarePreemption")
GANG_APIS: Final = ("scheduling.k8s.io/v1alpha2",)
"""By which Kubernetes 1.36 has PodGroups of its own, and places their pods together."""


@dataclass
class ControlPlane:
    """A whole cluster as a context manager; `folder` keeps data, logs and the audit log.

    `features` and `apis` are switched on besides those that all tests need. `ready_since` is how
    many bytes the audit log had when the API server was ready last.
    """

    tools: RealTools
    folder: Path
    features: tuple[str, ...] = ()
    apis: tuple[str, ...] = ()
    ready_since: int = field(init=False, default=0)
    _ports: dict[str, int] = field(init=False)
    _components: dict[str, ChildProcess] = field(init=False, default_factory=dict)
    _token: str = field(init=False, default_factory=lambda: secrets.token_urlsafe(24))

    def __post_init__(self) -> None:
        names = ("etcd", "etcd-peer", "api", "kcm", "scheduler", "kwok")
        self._ports = dict(zip(names, free_ports(len(names)), strict=True))

    def __enter__(self) -> Self:
        """Start everything; a part that fails to start takes the others down with it."""
        try:
            self._write_files()
            self._start("etcd", self._etcd_arguments())
            wait_until(self._etcd_answers, within_s=STARTS_S, what="etcd answers")
            self.start_api_server()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End every process that was started."""
        self.stop()

    @property
    def url(self) -> str:
        """Where the API server answers; the same after a restart."""
        return f"https://127.0.0.1:{self._ports['api']}"

    @property
    def admin_token(self) -> str:
        """The token of who may do everything."""
        return self._token

    @property
    def admin_kubeconfig(self) -> Path:
        """Credentials that may do everything, for the hands of the test."""
        return self.folder / "admin.kubeconfig"

    @property
    def audit(self) -> AuditLog:
        """What the API server wrote down: the referee for who evicted what."""
        return AuditLog(self.folder / "audit.log")

    def kubectl(self, kubeconfig: Path | None = None) -> QuickKubectl:
        """Return the hands of the test: kubectl as the admin, or with another kubeconfig."""
        cache = self.folder / "kubectl-cache"
        kubectl = self.tools.paths["kubectl"]
        return QuickKubectl(kubectl, kubeconfig or self.admin_kubeconfig, cache)

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """Write credentials that can do what this ServiceAccount was granted, and no more."""
        token = self.kubectl().run("create", "token", name, "-n", namespace, "--duration=1h")
        return self._write_kubeconfig(f"{namespace}.{name}", token.strip())

    def start_api_server(self) -> None:
        """Start the API server where it was before, and then the controllers of Kubernetes.

        Those start afresh: left alone, their back-off after an outage costs a test a minute.
        """
        self._start("kube-apiserver", self._api_server_arguments())
        wait_until(self._api_server_ready, within_s=STARTS_S, what="the API server is ready")
        self._start("kube-controller-manager", self._controller_manager_arguments())
        self._start("kube-scheduler", self._scheduler_arguments())
        self._start("kwok", self._kwok_arguments())
        self.ready_since = self.audit.size_bytes()

    @contextlib.contextmanager
    def outage(self) -> Iterator[None]:
        """Crash the API server, so that every connection breaks; it is back after the block."""
        self._components["kube-apiserver"].kill()
        try:
            yield
        finally:
            self.start_api_server()

    @contextlib.contextmanager
    def without_scheduler(self) -> Iterator[None]:
        """Crash the kube-scheduler; it starts again after the block."""
        self._components["kube-scheduler"].kill()
        try:
            yield
        finally:
            self._start("kube-scheduler", self._scheduler_arguments())

    @contextlib.contextmanager
    def kubelets_silent(self) -> Iterator[None]:
        """Stop the time of every kubelet, so that no node reports during the block."""
        self._components["kwok"].freeze()
        try:
            yield
        finally:
            self._components["kwok"].thaw()

    @contextlib.contextmanager
    def controllers_silent(self) -> Iterator[None]:
        """Stop the time of the controllers of Kubernetes, so that taints lag behind conditions."""
        self._components["kube-controller-manager"].freeze()
        try:
            yield
        finally:
            self._components["kube-controller-manager"].thaw()

    def compact_history(self) -> int:
        """Make etcd forget all revisions up to now, so that older watches cannot resume."""
        status = json.loads(self._etcdctl("endpoint", "status", "-w", "json"))
        revision = int(status[0]["Status"]["header"]["revision"])
        self._etcdctl("compact", "--physical=true", str(revision))
        return revision

    def log_tails(self, about: str = "", lines: int = 12) -> Iterator[tuple[str, str]]:
        """Yield each component and the last words of its log, for a failure report.

        Where a part has lines `about` a namespace, these are shown, and of the others few.
        """
        for name, component in self._components.items():
            concerning = component.tail(3 * lines, about) if about else ""
            yield name, f"{concerning}{component.tail(3 if concerning else lines)}"

    def stop(self) -> None:
        """End every process that was started, the last one first; none of their data is kept."""
        for component in reversed(self._components.values()):
            component.kill()

    def _start(self, name: str, arguments: list[str]) -> None:
        argv = [str(self.tools.paths[name]), *arguments]
        component = self._components.get(name)
        if component is None:
            component = ChildProcess(name, argv, self.folder / f"{name}.log")
            self._components[name] = component
        component.kill()
        component.start()

    def _write_files(self) -> None:
        _write_signing_key(self.folder / "sa.key")
        (self.folder / "audit.yaml").write_text(json.dumps(AUDIT_POLICY))
        (self.folder / "scheduler.yaml").write_text(json.dumps(self.scheduler_configuration()))
        tokens = self.folder / "tokens.csv"
        tokens.write_text(f'{self._token},admin,admin,"system:masters"\n')
        self._write_kubeconfig("admin", self._token)

    def _write_kubeconfig(self, name: str, token: str) -> Path:
        cluster = {"server": self.url, "certificate-authority": str(self.ca)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "real", "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": name, "context": {"cluster": "real", "user": name}}],
            "current-context": name,
        }
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(json.dumps(config, indent=1))
        return path

    @property
    def ca(self) -> Path:
        # The API server signs for itself into its --cert-dir.
        return self.folder / "pki" / "apiserver.crt"

    @property
    def _etcd_url(self) -> str:
        return f"http://127.0.0.1:{self._ports['etcd']}"

    def _etcd_arguments(self) -> list[str]:
        peer = f"http://127.0.0.1:{self._ports['etcd-peer']}"
        return [
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={self._etcd_url}",
            f"--advertise-client-urls={self._etcd_url}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
        ]

    def _api_server_arguments(self) -> list[str]:
        key = self.folder / "sa.key"
        return [
            f"--etcd-servers={self._etcd_url}",
            "--etcd-compaction-interval=0",  # history is forgotten only when a test says so
            f"--cert-dir={self.folder / 'pki'}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self._ports['api']}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--service-account-issuer={self.url}/",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--endpoint-reconciler-type=none",
            f"--runtime-config={_all_on(_APIS + self.apis)}",
            f"--feature-gates={_all_on(_FEATURES + self.features)}",
            f"--audit-policy-file={self.folder / 'audit.yaml'}",
            f"--audit-log-path={self.folder / 'audit.log'}",
        ]

    def _controller_manager_arguments(self) -> list[str]:
        return [
            f"--kubeconfig={self.admin_kubeconfig}",
            "--leader-elect=false",
            "--use-service-account-credentials=true",  # so that the audit log names each controller
            f"--service-account-private-key-file={self.folder / 'sa.key'}",
            f"--root-ca-file={self.ca}",
            "--node-monitor-grace-period=100s",  # a late KWOK never makes pods Ready again
            "--bind-address=127.0.0.1",
            f"--secure-port={self._ports['kcm']}",
        ]

    def scheduler_configuration(self) -> dict[str, object]:
        """Return the KubeSchedulerConfiguration that the kube-scheduler runs with."""
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(self.admin_kubeconfig)},
            "profiles": SCHEDULER_PROFILES,
        }

    def _scheduler_arguments(self) -> list[str]:
        return [
            f"--config={self.folder / 'scheduler.yaml'}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._ports['scheduler']}",
            f"--feature-gates={_all_on(_FEATURES + self.features)}",
            "--v=2",  # which pod has no node, and why: for a failure report
        ]

    def _kwok_arguments(self) -> list[str]:
        if self.tools.stages is None:
            raise ChildProcessFailedError("KWOK's stage files are missing: run `make real-tools`")
        return [
            f"--kubeconfig={self.admin_kubeconfig}",
            "--manage-all-nodes=true",
            "--node-lease-duration-seconds=0",  # none to wait for when KWOK starts afresh
            f"--server-address=127.0.0.1:{self._ports['kwok']}",
            *(f"--config={self.tools.stages / stage}" for stage in POD_AND_NODE_STAGES),
        ]

    def _etcd_answers(self) -> bool:
        self._components["etcd"].ensure_alive()
        try:
            with urllib.request.urlopen(f"{self._etcd_url}/health", timeout=ANSWERS_S) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _api_server_ready(self) -> bool:
        self._components["kube-apiserver"].ensure_alive()
        request = urllib.request.Request(
            f"{self.url}/readyz", headers={"Authorization": f"Bearer {self._token}"}
        )
        try:
            trust = ssl.create_default_context(cafile=self.ca)
            with urllib.request.urlopen(request, timeout=ANSWERS_S, context=trust) as answer:
                return bool(answer.read() == b"ok")
        except OSError:
            return False

    def _etcdctl(self, *arguments: str) -> str:
        argv = (str(self.tools.paths["etcdctl"]), f"--endpoints={self._etcd_url}", *arguments)
        done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=30)
        return done.stdout


def _all_on(names: tuple[str, ...]) -> str:
    return ",".join(f"{name}=true" for name in names)


def _write_signing_key(path: Path) -> None:
    """Make the key that signs ServiceAccount tokens; cryptography is a development dependency."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    path.touch(mode=0o600)
    path.write_bytes(pem)
