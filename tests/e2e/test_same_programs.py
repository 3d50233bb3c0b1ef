"""A client sees the same of the real control plane and of the simulator, program by program.

Kubelets are KWOK's there and simulated here, or the program plays them.
"""

import re
import secrets
import ssl
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.component import ChildProcess
from tests.support.control_plane import ControlPlane, wait_until
from tests.support.metrics_adapter import serving_metrics
from tests.support.programs.autoscaling import autoscalers
from tests.support.programs.cluster import CLUSTER
from tests.support.programs.custom import CUSTOM
from tests.support.programs.descriptions import DESCRIPTIONS
from tests.support.programs.fields import FIELDS
from tests.support.programs.requests import REQUESTS, forgotten_versions
from tests.support.programs.workloads import WORKLOADS
from tests.support.two_planes import Plane, Planes

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]

KNOWN: dict[str, str] = {}
"""Programs that show a difference of docs/explain/known-flaws.md."""


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a simulated cluster of one node and no pods."""
    folder = tmp_path_factory.mktemp("simulated")
    size = ("--nodes", "1", "--pods", "0", "--write-kubeconfig", str(folder / "kubeconfig"))
    argv = (sys.executable, "-m", "reactive_desched", "sim", *size)
    process = ChildProcess("sim", argv, folder / "sim.log")
    process.start()
    try:
        wait_until(lambda: "ready:" in process.tail(5), within_s=60, what="the simulator")
        (url, *_) = re.findall(r"http://\S+", process.tail(5))
        # A cluster of its own has no PriorityClass for all pods, and no class for all claims.
        for classes in ("scheduling.k8s.io/v1/priorityclasses", "storage.k8s.io/v1/storageclasses"):
            Plane("simulated", url, "").send("DELETE", f"apis/{classes}/standard")
        yield url
        assert "Traceback" not in process.tail(1000)
    finally:
        process.kill()


@pytest.fixture
def planes(
    control_plane: ControlPlane, simulated: str, request: pytest.FixtureRequest
) -> Iterator[Planes]:
    """A namespace of the same name on both."""
    words = re.sub(r"^test_|\W|_", "-", request.node.name.rpartition("[")[2]).strip("-")
    namespace = f"{words[:40]}-{secrets.token_hex(5)}"
    trust = ssl.create_default_context(cafile=control_plane.ca)
    real = Plane("real", control_plane.url, namespace, control_plane.admin_token, trust)
    both = Planes(real, Plane("simulated", simulated, namespace))
    account = f"api/v1/namespaces/{namespace}/serviceaccounts/default"
    for plane in both.both:
        made = plane.send("POST", "api/v1/namespaces", {"metadata": {"name": namespace}})
        assert made.code == 201
        wait_until(
            lambda plane=plane: plane.send("GET", account).code == 200,  # type: ignore[misc]
            within_s=60,
            what="the namespace has its ServiceAccount",
        )
    yield both
    for plane in both.both:
        plane.send("DELETE", f"api/v1/namespaces/{namespace}")


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(
            each,
            id=each.__name__,
            marks=pytest.mark.xfail(strict=True, reason=KNOWN[each.__name__])
            if each.__name__ in KNOWN
            else (),
        )
        for each in (*REQUESTS, *FIELDS, *DESCRIPTIONS, *WORKLOADS, *CLUSTER, *CUSTOM)
    ],
)
def test_a_program_sees_the_same_of_both(planes: Planes, program: Callable[[Planes], None]) -> None:
    program(planes)

    assert not planes.differences, "\n\n".join(planes.differences)


def test_autoscalers_see_the_same_metrics_and_scale_alike(planes: Planes, tmp_path: Path) -> None:
    with serving_metrics(planes.real, tmp_path):
        autoscalers(planes)

    assert not planes.differences, "\n\n".join(planes.differences)


def test_versions_that_are_forgotten_are_refused_alike(
    planes: Planes, control_plane: ControlPlane
) -> None:
    with control_plane.outage():  # its watches begin anew, and know no older events
        control_plane.compact_history()
    forgotten_versions(planes)

    assert not planes.differences, "\n\n".join(planes.differences)
