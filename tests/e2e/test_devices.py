"""What we say of a pod's ResourceClaims is what the real kube-scheduler does, node by node."""

import json
import os
import time
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from reactive_desched.fit.scheduler import SchedulerNodeFit
from reactive_desched.kube.codec import ResourceCodec
from reactive_desched.model.objects import Pod
from reactive_desched.model.scheduler_profile import DEFAULT_PROFILES
from reactive_desched.state.cluster import ClusterState, ClusterView
from reactive_desched.state.kinds.interning import InternTables
from reactive_desched.state.resources import DEVICE_RESOURCES, NODES, PODS, WATCHED_KINDS
from tests.support.all_nodes import fitting_nodes
from tests.support.control_plane import ControlPlane, wait_until
from tests.support.kubectl import Kubectl
from tests.support.playground import OWNER, E2ENamespace

pytestmark = pytest.mark.real

Object = dict[str, Any]  # a Kubernetes object as JSON
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
OUR_NODES = ("a1", "a2", "b1", "b2")
API = "resource.k8s.io/v1"
CLASSES = ("gpu", "net", "any", "each", "ruled", "part", "share", "ext", "multi", "drawn", "bound")
EXTENDED = ("ext", "multi")
ROLE, INIT, SIDECAR = "role", "init", "sidecar"
DRAWN = range(12)
RESIDENTS = 6
REFUSAL_LASTS_S = 12.0
NOT_TRIED_S = 10.0  # without its claims a pod is not even tried, and has no condition
NOT_YET = "not created yet"  # as the scheduler says of a claim that is still to be made
PROFILES = replace(DEFAULT_PROFILES, watches_devices=True)


def gpu(name: str, model: str, memory: str, numa: int, **more: Any) -> Object:  # any JSON value
    attributes = {"model": {"string": model}, "numa": {"int": numa}, "fw": {"version": "1.10.0"}}
    return {
        "name": name,
        "attributes": attributes,
        "capacity": {"memory": {"value": memory}},
        **more,
    }


def plain(name: str, **more: Any) -> Object:  # any JSON value
    return {"name": name, **more}


def part(name: str, size: int) -> Object:
    """Return a part of a larger device, which takes so many Gi of its memory."""
    counters = [{"counterSet": "whole", "counters": {"memory": {"value": f"{size}Gi"}}}]
    return plain(name, attributes={"size": {"int": size}}, consumesCounters=counters)


def shared(capacity: str, **policy: Any) -> Object:  # any JSON value
    """Return a device of whose memory several claims can have some."""
    memory = {"value": capacity, **({"requestPolicy": policy} if policy else {})}
    return plain("s0", allowMultipleAllocations=True, capacity={"memory": memory})


def of_memory(quantity: str, **more: Any) -> Object:  # any JSON value
    """Return a request for a share of a device's memory."""
    asked: Object = {"capacity": {"requests": {"memory": quantity}}} if quantity else {}
    return exactly("share", **asked, **more)


def exactly(of: str = "gpu", name: str = "r", **more: Any) -> Object:  # any JSON value
    return {"name": name, "exactly": {"deviceClassName": of, **more}}


def where(expression: str) -> list[Object]:
    return [{"cel": {"expression": expression}}]


def of_size(size: int) -> list[Object]:
    return where(f'device.attributes["PARTS"].size == {size}')


def drawn_devices(dice: Random) -> Iterator[Object]:
    """Yield devices of a node that differ in attributes, some of which lack one, and in taints."""
    taint = {"key": "maintenance", "value": "yes", "effect": "NoSchedule"}
    for number in range(dice.randint(2, 5)):
        attributes: Object = {"x": {"int": dice.randint(1, 3)}}
        if dice.random() < 0.8:
            attributes["y"] = {"string": dice.choice("pq")}
        taints = {"taints": [taint]} if dice.random() < 0.2 else {}
        memory = {"memory": {"value": dice.choice(["8Gi", "16Gi"])}}
        yield plain(f"w{number}", attributes=attributes, capacity=memory, **taints)


def drawn_request(dice: Random, name: str) -> Object:
    """Return a request for some of them, or for the first of two alternatives."""

    def wanted() -> Object:
        found: Object = {"deviceClassName": "drawn"}
        found |= {"allocationMode": "All"} if dice.random() < 0.1 else {}
        if "allocationMode" not in found:
            found["count"] = dice.choice([1, 1, 2, 3])
        selector = dice.choice(
            [
                'device.attributes["DRAWN"].x < 3',
                'device.attributes["DRAWN"].?y.orValue("p") == "p"',
                'device.capacity["DRAWN"].memory.compareTo(quantity("16Gi")) >= 0',
            ]
        )
        found |= {"selectors": where(selector)} if dice.random() < 0.3 else {}
        found |= {"tolerations": TOLERANT} if dice.random() < 0.3 else {}
        return found

    if dice.random() < 0.2:
        return {"name": name, "firstAvailable": [{"name": each, **wanted()} for each in "ab"]}
    return {"name": name, "exactly": wanted()}


def drawn_claim(dice: Random) -> Object:
    """Return a claim of up to three requests, and constraints on some of them."""
    names = "rst"[: dice.choice([1, 1, 2, 3])]
    constraints = []
    for _ in range(dice.choice([0, 1, 1, 2])):
        some = [name for name in names if dice.random() < 0.7]
        kind = dice.choice(["matchAttribute", "distinctAttribute"])
        of = {"requests": some} if some else {}
        constraints.append({kind: f"DRAWN/{dice.choice('xxy')}", **of})
    more = {"constraints": constraints} if constraints else {}
    return one(*(drawn_request(dice, name) for name in names), **more)


TOLERANT = [{"key": "maintenance", "operator": "Exists"}]
TWO_TOLERANT = exactly(count=2, tolerations=TOLERANT)


class Arena:
    """Four nodes with devices, some of which two pods hold."""

    def __init__(self, ours: E2ENamespace) -> None:
        self.ours = ours
        self.space = ours.namespace
        self.kubectl = ours.kubectl
        self.at_rest = 0

    def driver(self, name: str) -> str:
        return f"{name}.{self.space}.example.com"

    @property
    def resource(self) -> str:
        """The extended resource that the class `ext` has devices for."""
        return self.resource_of("ext")

    def resource_of(self, name: str) -> str:
        """Return the extended resource that a class has devices for."""
        return f"{self.space}.example.com/{name}"

    def slice(
        self, name: str, devices: list[Object], driver: str = "gpu", **spec: Any
    ) -> Object:  # any JSON value
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1, **spec.pop("pool", {})}
        return {
            "apiVersion": API,
            "kind": "ResourceSlice",
            "metadata": {
                "name": f"{self.space}-{name}-{pool['generation']}{'' if devices else '-counters'}",
                "labels": {OWNER: self.space},
            },
            "spec": {
                "driver": self.driver(driver),
                "pool": pool,
                **({"devices": devices} if devices else {}),
                **spec,
            },
        }

    def slices(self) -> Iterator[Object]:
        at, in_a = (
            self.ours.node,
            {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]},
        )
        near_a = {"nodeSelectorTerms": [in_a]}
        taint = {"key": "maintenance", "value": "yes", "effect": "NoSchedule"}
        yield self.slice(
            "a1",
            [gpu("g0", "A100", "40Gi", 0), gpu("g1", "A100", "40Gi", 0)],
            nodeName=at("a1"),
        )
        yield self.slice(
            "a2",
            [
                gpu("g0", "H100", "80Gi", 0),
                gpu("g1", "H100", "80Gi", 1),
                gpu("g2", "H100", "80Gi", 1, taints=[taint]),
            ],
            nodeName=at("a2"),
        )
        yield self.slice(
            "b1",
            [gpu("g0", "A100", "80Gi", 0)],
            nodeName=at("b1"),
            pool={"resourceSliceCount": 2},
        )
        old = [gpu("g0", "A100", "80Gi", 0), gpu("g1", "A100", "80Gi", 0)]
        yield self.slice("b2", old, nodeName=at("b2"))
        new = [gpu("g0", "A100", "80Gi", 0)]
        yield self.slice("b2", new, nodeName=at("b2"), pool={"generation": 2})
        yield self.slice("net", [plain("n0")], "net", nodeSelector=near_a)
        yield self.slice("any", [plain("u0")], "any", allNodes=True)
        for name, memory in (("a1", "80Gi"), ("a2", "80Gi"), ("b1", "40Gi")):
            here: Object = {"pool": {"resourceSliceCount": 2}, "nodeName": at(name)}
            counters = [{"name": "whole", "counters": {"memory": {"value": memory}}}]
            parts = [part(f"p{number}", size) for number, size in enumerate((80, 40, 40, 20, 20))]
            yield self.slice(f"part-{name}", [], "part", sharedCounters=counters, **here)
            yield self.slice(f"part-{name}", parts, "part", **here)
        each = [plain("p0", nodeName=at("b1")), plain("p1", nodeSelector=near_a)]
        for name in ("a1", "b1"):
            yield self.slice(f"ruled-{name}", [plain("d0")], "ruled", nodeName=at(name))
        yield self.slice("each", each, "each", perDeviceNodeSelection=True)
        ranged = {"min": "8Gi", "max": "24Gi", "step": "8Gi"}
        for name, device in (
            ("a1", shared("40Gi")),
            ("a2", shared("40Gi", default="8Gi", validRange=ranged)),
            ("b1", shared("40Gi", default="10Gi", validValues=["10Gi", "20Gi"])),
            ("b2", plain("s0", capacity={"memory": {"value": "40Gi"}})),
        ):
            yield self.slice(f"share-{name}", [device], "share", nodeName=at(name))
        bound = {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"]}
        yield self.slice("bound", [plain("b0", **bound)], "bound", nodeName=at("b1"))
        for name in OUR_NODES:
            drawn = list(drawn_devices(Random(name)))
            yield self.slice(f"drawn-{name}", drawn, "drawn", nodeName=at(name))
        for name, number in (("a1", 1), ("a2", 2), ("b1", 2)):
            devices = [plain(f"x{each}") for each in range(number)]
            yield self.slice(f"ext-{name}", devices, "ext", nodeName=at(name))
        for name, devices in (
            ("a1", [shared("40Gi", default="20Gi")]),
            ("a2", [shared("30Gi", default="10Gi"), {**shared("10Gi"), "name": "s1"}]),
            ("b2", [plain("s0"), plain("s1"), plain("s2")]),
        ):
            yield self.slice(f"multi-{name}", devices, "multi", nodeName=at(name))

    def rule(self) -> Object:
        """Return a rule that closes one of the devices of the class `ruled`."""
        return {
            "apiVersion": "resource.k8s.io/v1beta2",
            "kind": "DeviceTaintRule",
            "metadata": {"name": self.space, "labels": {OWNER: self.space}},
            "spec": {
                "deviceSelector": {"driver": self.driver("ruled"), "pool": "ruled-a1"},
                "taint": {"key": "maintenance", "value": "yes", "effect": "NoSchedule"},
            },
        }

    def classes(self) -> Iterator[Object]:
        for name in CLASSES:
            yield {
                "apiVersion": API,
                "kind": "DeviceClass",
                "metadata": {"name": f"{self.space}-{name}", "labels": {OWNER: self.space}},
                "spec": {
                    "selectors": where(f'device.driver == "{self.driver(name)}"'),
                    **(
                        {"extendedResourceName": self.resource_of(name)} if name in EXTENDED else {}
                    ),
                },
            }

    def spec(self, claim: Object) -> Object:
        """Return a claim's spec with the names of this arena."""
        text = json.dumps({"devices": claim})
        of = {"DRIVER": "gpu", "PARTS": "part", "DRAWN": "drawn"}
        for placeholder, name in of.items():
            text = text.replace(placeholder, self.driver(name))
        for name in CLASSES:
            text = text.replace(
                f'"deviceClassName": "{name}"', f'"deviceClassName": "{self.space}-{name}"'
            )
        loaded: Object = json.loads(text)
        return loaded

    def named_claim(self, name: str, claim: Object) -> Object:
        return {
            "apiVersion": API,
            "kind": "ResourceClaim",
            "metadata": {"namespace": self.space, "name": name},
            "spec": self.spec(claim),
        }

    def template(self, name: str, claim: Object) -> Object:
        return {
            "apiVersion": API,
            "kind": "ResourceClaimTemplate",
            "metadata": {"namespace": self.space, "name": name},
            "spec": {"spec": self.spec(claim)},
        }

    def pod(self, name: str, node: str, *requests: Object, **claims: Object) -> Object:
        """Return a pod with a container for each of the requests, or one that requests nothing.

        One with `ROLE` is an init container's, or a sidecar's.
        """
        apps, inits = list[Object](), list[Object]()
        for number, wanted in enumerate(requests or ({},)):
            role = wanted.get(ROLE, "")
            amounts = {name: amount for name, amount in wanted.items() if name != ROLE}
            (inits if role else apps).append(
                {
                    "name": f"c{number}",
                    "image": "example.invalid/nothing",
                    "resources": {"requests": amounts, "limits": amounts},
                    **({"restartPolicy": "Always"} if role == SIDECAR else {}),
                }
            )
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"namespace": self.space, "name": name},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "automountServiceAccountToken": False,
                "containers": apps,
                "initContainers": inits,
                "resourceClaims": [{"name": key, **source} for key, source in claims.items()],
                **({"nodeSelector": {HOST: self.ours.node(node)}} if node else {}),
            },
        }

    def report_device(self, **conditions: str) -> None:
        """Report conditions of the device that is bound by some, as its driver does."""
        seen = [
            {
                "type": kind,
                "status": status,
                "reason": "Reported",
                "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            for kind, status in conditions.items()
        ]
        device = {"driver": self.driver("bound"), "pool": "bound", "device": "b0"}
        patch = json.dumps({"status": {"devices": [{**device, "conditions": seen}]}})
        named = ("resourceclaim", "bound", "-n", self.space)
        self.kubectl.run("patch", *named, "--subresource=status", "--type=merge", "-p", patch)

    def claims(self) -> list[Object]:
        found: list[Object] = self.kubectl.get("resourceclaims", "-n", self.space)
        return found

    def wait_for_rest(self) -> None:
        """Wait until the claims of deleted pods are gone, too."""
        wait_until(
            lambda: len(self.claims()) == self.at_rest,
            within_s=60,
            what="only residents have claims",
        )

    # --- both opinions ---

    def ours_says(self, claims: list[Object], requests: list[Object] | None = None) -> set[str]:
        """Ask our own filters, over what the API server shows."""
        tables, state = InternTables(), ClusterState()
        codecs = {name: ResourceCodec(kind, tables) for name, kind in WATCHED_KINDS.items()}
        for resource in (NODES, PODS, *sorted(DEVICE_RESOURCES)):
            for obj in self.kubectl.get(resource, "-A"):
                state.upsert(codecs[resource].decode_object(json.dumps(obj).encode()))
        uses = {}
        for number, claim in enumerate(claims):
            if isinstance(claim, dict):
                made = self.named_claim(f"new-{number}", claim)
                state.upsert(codecs["resourceclaims"].decode_object(json.dumps(made).encode()))
                uses[f"c{number}"] = {"resourceClaimName": f"new-{number}"}
            else:
                uses[f"c{number}"] = {"resourceClaimName": claim}
        new = self.pod("new", "", *(requests or ()), **uses)
        new["metadata"]["uid"] = "new"
        mover = codecs[PODS].decode_object(json.dumps(new).encode())
        assert isinstance(mover, Pod)
        fit = SchedulerNodeFit(ClusterView(state, lambda: 0), lambda: 0, PROFILES)
        return {name for name in OUR_NODES if self.ours.node(name) in fitting_nodes(fit, mover)}

    def theirs_says(
        self,
        claims: list[Object],
        target: str,
        requests: list[Object] | None = None,
        *,
        likely: bool,
    ) -> bool:
        """Let the real scheduler decide whether it puts a pod on one node."""
        name, uses = f"p-{os.urandom(6).hex()}", {}
        for number, claim in enumerate(claims):
            if isinstance(claim, dict):
                self.kubectl.apply(self.template(f"{name}-{number}", claim))
                uses[f"c{number}"] = {"resourceClaimTemplateName": f"{name}-{number}"}
            else:
                uses[f"c{number}"] = {"resourceClaimName": claim}
        self.kubectl.apply(self.pod(name, target, *(requests or ()), **uses))
        verdicts: list[bool] = []
        began = time.monotonic()
        refused_until = time.monotonic() + (REFUSAL_LASTS_S if likely else 0)

        def decided() -> bool:
            (found,) = self.kubectl.get("pod", "-n", self.space, name)
            conditions = found.get("status", {}).get("conditions", [])
            refused = any(
                c["type"] == "PodScheduled"
                and c["status"] == "False"
                and NOT_YET not in c["message"]
                for c in conditions
            ) or (not likely and time.monotonic() >= began + NOT_TRIED_S)
            lasts = time.monotonic() >= refused_until
            if (refused and lasts) or "nodeName" in found["spec"]:
                verdicts.append("nodeName" in found["spec"])
            return bool(verdicts)

        wait_until(decided, within_s=60, what=f"{name} is scheduled or refused", every_s=0.05)
        self.ours.erase_pod(name)
        return verdicts[0]


@pytest.fixture(scope="module")
def arena(control_plane: ControlPlane) -> Iterator[Arena]:
    """Four nodes in two zones; one device of `a1` and one of `a2` are taken."""
    kubectl = control_plane.kubectl()
    with E2ENamespace(kubectl, f"dev-{os.urandom(5).hex()}") as ours:
        here = Arena(ours)
        kubectl.run("label", "ns", here.space, "resource.kubernetes.io/admin-access=true")
        for name in OUR_NODES:
            ours.add_nodes(name, **{ZONE: name[0]})
        give_resource(kubectl, ours.node("b1"), here.resource)
        kubectl.apply(*here.classes(), *here.slices(), here.rule())
        kubectl.apply(here.template("one", {"requests": [exactly()]}))
        kubectl.apply(here.template("half", one(exactly("part", selectors=of_size(40)))))
        kubectl.apply(here.template("much", one(of_memory("30Gi"))))
        kubectl.apply(here.named_claim("shared", {"requests": [exactly()]}))
        kubectl.apply(here.named_claim("bound", one(exactly("bound"))))
        kubectl.apply(
            here.pod("holder", "a1", own={"resourceClaimTemplateName": "one"}),
            here.pod("binder", "b1", own={"resourceClaimName": "bound"}),
            here.pod("sharer", "a2", own={"resourceClaimName": "shared"}),
            here.pod("part-holder", "a2", own={"resourceClaimTemplateName": "half"}),
            here.pod("share-holder", "a1", own={"resourceClaimTemplateName": "much"}),
            here.pod("ext-holder", "a1", {here.resource: "1"}),
        )

        def are_allocated() -> bool:
            claims = here.claims()
            held = [each for each in claims if each.get("status", {}).get("allocation")]
            return len(held) == len(claims) == RESIDENTS

        wait_until(are_allocated, within_s=60, what="the residents have their devices")
        here.at_rest = len(here.claims())
        here.report_device(Attached="True")
        yield here
        for kind in ("resourceslices", "deviceclasses", "devicetaintrules"):
            kubectl.run("delete", kind, "-l", f"{OWNER}={here.space}", "--wait=false")


def give_resource(kubectl: Kubectl, node: str, resource: str) -> None:
    """Let a node have one of a resource by itself, as by a device plugin."""
    amounts = {"capacity": {resource: "1"}, "allocatable": {resource: "1"}}
    patch = json.dumps({"status": amounts})
    kubectl.run("patch", "node", node, "--subresource=status", "--type=merge", "-p", patch)


def one(*requests: Object, **more: Any) -> Object:  # any JSON value
    return {"requests": list(requests), **more}


def choices(*alternatives: Object) -> Object:
    named = [{"name": f"s{n}", "deviceClassName": "gpu", **a} for n, a in enumerate(alternatives)]
    return one({"name": "r", "firstAvailable": named})


H100 = where('device.attributes["DRIVER"].model == "H100"')
LARGE = where('device.capacity["DRIVER"].memory.compareTo(quantity("80Gi")) >= 0')
NEW = where('device.attributes["DRIVER"].fw.isGreaterThan(semver("1.9.0"))')
ABSENT = where('device.attributes["DRIVER"].nothing == 3')
PERHAPS = where('device.attributes["DRIVER"].?nothing.orValue(3) == 3')
ELSEWHERE = where('has(device.attributes["other.example.com"].model)')
BOUND = where(
    'cel.bind(gpu, device.attributes["DRIVER"], gpu.numa == 1 && gpu.model.lowerAscii() == "h100")'
)


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        pytest.param([one(exactly())], {"a1", "a2", "b2"}, id="a device"),
        pytest.param([one(exactly(count=2))], set(), id="two devices, as many as are free nowhere"),
        pytest.param([one(TWO_TOLERANT)], {"a2"}, id="two devices, one with a taint"),
        pytest.param([one(exactly(selectors=H100))], {"a2"}, id="of a model"),
        pytest.param([one(exactly(selectors=LARGE))], {"a2", "b2"}, id="of a capacity"),
        pytest.param([one(exactly(selectors=NEW))], {"a1", "a2", "b2"}, id="of a version"),
        pytest.param([one(exactly(selectors=ABSENT))], set(), id="an attribute that is not there"),
        pytest.param(
            [one(exactly(selectors=PERHAPS))], {"a1", "a2", "b2"}, id="an optional attribute"
        ),
        pytest.param([one(exactly(selectors=ELSEWHERE))], set(), id="of a domain not there"),
        pytest.param([one(exactly(selectors=BOUND))], {"a2"}, id="by a bound expression"),
        pytest.param([one(exactly(allocationMode="All"))], {"b2"}, id="all devices"),
        pytest.param(
            [choices({"count": 2}, {"selectors": H100})], {"a2"}, id="the first that can be had"
        ),
        pytest.param(
            [one(TWO_TOLERANT, constraints=[{"matchAttribute": "DRIVER/numa"}])],
            {"a2"},
            id="two that are near each other",
        ),
        pytest.param(
            [one(TWO_TOLERANT, constraints=[{"matchAttribute": "DRIVER/nothing"}])],
            set(),
            id="two that have nothing in common",
        ),
        pytest.param(
            [one(TWO_TOLERANT, constraints=[{"distinctAttribute": "DRIVER/numa"}])],
            set(),
            id="two that are to differ",
        ),
        pytest.param(
            [one(exactly(count=2, adminAccess=True))], {"a1", "a2"}, id="to look after them"
        ),
        pytest.param([one(exactly("net"))], {"a1", "a2"}, id="a device of some nodes"),
        pytest.param([one(exactly("any"))], set(OUR_NODES), id="a device of all nodes"),
        pytest.param(
            [one(exactly("each"))], {"a1", "a2", "b1"}, id="devices with nodes of their own"
        ),
        pytest.param(
            [one(exactly("each", count=2))], set(), id="two with different nodes of their own"
        ),
        pytest.param([one(exactly("ruled"))], {"b1"}, id="a device that no rule closes"),
        pytest.param(
            [one(exactly("ruled", tolerations=TOLERANT))],
            {"a1", "b1"},
            id="one that a rule closes, and that it tolerates",
        ),
        pytest.param(
            [one(exactly("part", selectors=of_size(80)))], {"a1"}, id="a device none of whose parts"
        ),
        pytest.param(
            [one(exactly("part", selectors=of_size(40)))], {"a1", "a2", "b1"}, id="a half"
        ),
        pytest.param(
            [one(exactly("part", selectors=of_size(40), count=2))], {"a1"}, id="two halves"
        ),
        pytest.param([one(exactly("part", count=3))], {"a1"}, id="three parts of any size"),
        pytest.param(
            [one(exactly("part", selectors=of_size(20), count=2))],
            {"a1", "a2", "b1"},
            id="two quarters",
        ),
        pytest.param(
            [one(exactly("part", selectors=of_size(40))), one(exactly("part"))],
            {"a1"},
            id="parts for two claims",
        ),
        pytest.param([one(exactly("part", allocationMode="All"))], set(), id="all parts at once"),
        pytest.param([one(exactly()), one(exactly("any"))], {"a1", "a2", "b2"}, id="two claims"),
        pytest.param(
            [one(exactly()), one(exactly())], set(), id="two claims for what is there once"
        ),
        pytest.param([one(of_memory("5Gi"))], set(OUR_NODES), id="a share"),
        pytest.param([one(of_memory("10Gi"))], set(OUR_NODES), id="as much as is left on one"),
        pytest.param([one(of_memory("12Gi"))], {"a2", "b1", "b2"}, id="more than is left on one"),
        pytest.param([one(of_memory("21Gi"))], {"a2", "b2"}, id="more than a policy has"),
        pytest.param([one(of_memory("25Gi"))], {"b2"}, id="more than both policies have"),
        pytest.param([one(of_memory(""))], {"a2", "b1", "b2"}, id="a share of no said amount"),
        pytest.param(
            [one(of_memory("9Gi", name="r"), of_memory("9Gi", name="s"))],
            {"a2", "b1"},
            id="two shares of one device",
        ),
        pytest.param(
            [one(of_memory("17Gi")), one(of_memory("17Gi"))],
            {"b1"},
            id="two that a policy rounds up, for two claims",
        ),
        pytest.param([one(of_memory("1Gi", count=2))], set(), id="two devices of one"),
        pytest.param(
            [one(of_memory("9Gi", allocationMode="All"))], {"a1", "a2", "b2"}, id="a share of all"
        ),
        pytest.param(
            [one(exactly("share", capacity={"requests": {"cores": "1"}}))],
            set(),
            id="a share of a capacity that is not there",
        ),
        pytest.param(
            [one(of_memory("1Gi", selectors=where("device.allowMultipleAllocations")))],
            {"a1", "a2", "b1"},
            id="a device that can be shared",
        ),
        pytest.param(
            [
                one(
                    of_memory("1Gi", name="r"),
                    of_memory("1Gi", name="s"),
                    constraints=[{"distinctAttribute": "DRIVER/numa"}],
                )
            ],
            set(),
            id="shares that are to differ in what they lack",
        ),
        pytest.param(["shared"], {"a2"}, id="a claim that others use"),
        pytest.param(["shared", one(exactly())], {"a2"}, id="and one more"),
        pytest.param(["nothing"], set(), id="a claim that is not there"),
        pytest.param([one(exactly("absent"))], set(), id="a class that is not there"),
    ],
)
def test_devices_are_found_as_by_the_real_scheduler_on_every_node(
    arena: Arena, claims: list[Any], expected: set[str]
) -> None:
    arena.wait_for_rest()
    ours = arena.ours_says(claims)
    real = {name for name in OUR_NODES if arena.theirs_says(claims, name, likely=name in ours)}

    assert ours == real
    assert real == expected


def test_a_claim_that_others_use_has_to_have_its_binding_conditions(arena: Arena) -> None:
    """One that reports that its device is broken takes no further pod."""

    def both() -> tuple[set[str], bool]:
        claims: list[Any] = ["bound"]  # a name, or a claim as JSON
        ours = arena.ours_says(claims)
        return ours, arena.theirs_says(claims, "b1", likely="b1" in ours)

    arena.wait_for_rest()
    assert both() == ({"b1"}, True)
    try:
        arena.report_device(Attached="True", Broken="True")
        assert both() == (set(), False)
    finally:
        arena.report_device(Attached="True")
    assert both() == ({"b1"}, True)


@pytest.mark.parametrize("seed", DRAWN)
def test_drawn_claims_find_devices_as_by_the_real_scheduler(arena: Arena, seed: int) -> None:
    dice = Random(seed)
    claims = [drawn_claim(dice) for _ in range(dice.choice([1, 1, 2]))]
    arena.wait_for_rest()
    ours = arena.ours_says(claims)
    real = {name for name in OUR_NODES if arena.theirs_says(claims, name, likely=name in ours)}

    assert ours == real, json.dumps(claims)


@pytest.mark.parametrize(
    ("requests", "claims", "expected"),
    [
        pytest.param([1], [], {"a2", "b1"}, id="one"),
        pytest.param([2], [], {"a2"}, id="two, which a node's own resource lacks"),
        pytest.param([1, 1], [], {"a2"}, id="two of two containers"),
        pytest.param([3], [], set(), id="more than there are"),
        pytest.param([1], [one(exactly("ext"))], {"a2"}, id="one, and a claim of the class"),
        pytest.param([2], [one(exactly("ext"))], set(), id="two, and a claim of the class"),
        pytest.param([1], [one(exactly())], {"a2"}, id="one, and a claim of another class"),
    ],
)
@pytest.mark.parametrize("is_implicit", [False, True])
def test_extended_resources_are_had_by_devices_as_by_the_real_scheduler(
    arena: Arena, requests: list[int], claims: list[Any], expected: set[str], *, is_implicit: bool
) -> None:
    implicit = f"deviceclass.resource.kubernetes.io/{arena.space}-ext"
    resource = implicit if is_implicit else arena.resource
    wanted: list[Object] = [{resource: str(number)} for number in requests]
    arena.wait_for_rest()
    ours = arena.ours_says(claims, wanted)
    real = {n for n in OUR_NODES if arena.theirs_says(claims, n, wanted, likely=n in ours)}

    assert ours == real
    if not is_implicit:
        assert real == expected


@pytest.mark.parametrize("seed", DRAWN)
def test_extended_resources_of_drawn_containers_are_had_as_by_the_real_scheduler(
    arena: Arena, seed: int
) -> None:
    """Each container has a request of its own, so that two may have shares of one device."""
    dice = Random(seed)

    def container(role: str) -> Object:
        wanted = {arena.resource_of(n): dice.choice([0, 0, 1, 1, 2]) for n in EXTENDED}
        amounts = {name: str(number) for name, number in wanted.items() if number}
        return {**({ROLE: role} if role else {}), **amounts}

    roles = [*dice.choices([INIT, SIDECAR], k=dice.randint(0, 3)), *[""] * dice.randint(1, 2)]
    wanted = [container(role) for role in roles]
    arena.wait_for_rest()
    ours = arena.ours_says([], wanted)
    real = {n for n in OUR_NODES if arena.theirs_says([], n, wanted, likely=n in ours)}

    assert ours == real, json.dumps(wanted)
