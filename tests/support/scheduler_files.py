"""Configurations that the kube-scheduler refuses, and some that it takes."""

from typing import Any, Final

__all__ = [
    "REFUSED",
    "TAKEN",
    "Written",
    "added",
    "configured",
    "extender",
    "listed",
    "named",
    "required",
    "spread",
    "strategy",
]

Written = dict[str, Any]  # YAML as it is read


def named(*names: str) -> list[Written]:
    return [{"name": name} for name in names]


def configured(plugin: str, **args: Any) -> Written:  # any YAML value
    return {"pluginConfig": [{"name": plugin, "args": args}]}


def spread(key: str, when: str = "ScheduleAnyway", **more: Any) -> Written:  # any YAML value
    return {"maxSkew": 2, "topologyKey": key, "whenUnsatisfiable": when, **more}


def strategy(**written: Any) -> Written:  # any YAML value
    return configured("NodeResourcesFit", scoringStrategy=written)


def extender(**more: Any) -> Written:  # any YAML value
    return {"extenders": [{"urlPrefix": "http://x", **more}]}


def added(**affinity: Any) -> Written:  # any YAML value
    return configured("NodeAffinity", addedAffinity=affinity)


def required(**term: Any) -> Written:  # any YAML value
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}


def preferred(term: Written) -> Written:
    return {"preferredDuringSchedulingIgnoredDuringExecution": [term]}


def listed(*constraints: Written) -> Written:
    return configured(
        "PodTopologySpread", defaultingType="List", defaultConstraints=list(constraints)
    )


REFUSED: Final[list[tuple[list[Written], Written, tuple[str | int, ...]]]] = [
    ([{}, {"schedulerName": "b"}], {}, ("profiles", 0)),
    ([{}], {"parallelism": 0}, ("parallelism",)),
    ([{}], {"parallelism": 2**31}, ("parallelism",)),
    ([{}], {"clientConnection": {"burst": 2**31}}, ("clientConnection", "burst")),
    (
        [configured("DefaultPreemption", minCandidateNodesAbsolute=2**31)],
        {},
        ("minCandidateNodesAbsolute",),
    ),
    (
        [configured("PodTopologySpread", defaultConstraints=[spread("zone", maxSkew=2**31)])],
        {},
        ("maxSkew",),
    ),
    (
        [{"plugins": {"preScore": {"enabled": named("DynamicResources")}}}],
        {},
        ("plugins", "preScore", "enabled", 0, "name"),
    ),
    ([{}], {"percentageOfNodesToScore": 101}, ("percentageOfNodesToScore",)),
    ([{}], {"podInitialBackoffSeconds": 0}, ("podInitialBackoffSeconds",)),
    ([{}], {"podInitialBackoffSeconds": 11}, ("podInitialBackoffSeconds",)),
    (
        [{}],
        {"podInitialBackoffSeconds": 5, "podMaxBackoffSeconds": 4},
        ("podMaxBackoffSeconds",),
    ),
    (
        [
            {"schedulerName": "a"},
            {"schedulerName": "b", "plugins": {"queueSort": {"enabled": named("Mine")}}},
        ],
        {},
        ("profiles", 1, "plugins", "queueSort"),
    ),
    ([{}], {"leaderElection": {"resourceLock": "endpoints"}}, ("leaderElection", "resourceLock")),
    ([{}], {"leaderElection": {"leaderElected": True}}, ("leaderElection", "leaderElected")),
    ([{}], {"clientConnection": {"QPS": 3}}, ("clientConnection", "QPS")),
    ([{}], extender(prioritizeVerb="p"), ("extenders", 0, "weight")),
    ([{}], extender(verb="p"), ("extenders", 0, "verb")),
    (
        [{}],
        extender(managedResources=[{"name": "cpu"}]),
        ("extenders", 0, "managedResources", 0, "name"),
    ),
    (
        [{}],
        {"extenders": [{"urlPrefix": "a", "bindVerb": "b"}, {"urlPrefix": "c", "bindVerb": "d"}]},
        ("extenders", 1, "bindVerb"),
    ),
    (
        [{"plugins": {"filter": {"enabled": named("EBSLimits")}}}],
        {},
        ("profiles", 0, "plugins", "filter", "enabled", 0, "name"),
    ),
    ([configured("InterPodAffinity", hardPodAffinityWeight=101)], {}, ("hardPodAffinityWeight",)),
    ([configured("InterPodAffinity", hardPodAfinityWeight=1)], {}, ("hardPodAfinityWeight",)),
    ([configured("InterPodAffinity", kind="NodeAffinityArgs")], {}, ("kind",)),
    (
        [
            configured(
                "DefaultPreemption", minCandidateNodesPercentage=0, minCandidateNodesAbsolute=0
            )
        ],
        {},
        ("minCandidateNodesPercentage",),
    ),
    (
        [configured("NodeResourcesBalancedAllocation", resources=[{"name": "a", "weight": 2}])],
        {},
        ("resources", 0, "weight"),
    ),
    (
        [configured("NodeResourcesBalancedAllocation", resources=named("a", "a"))],
        {},
        ("resources", 1, "name"),
    ),
    ([configured("VolumeBinding", bindTimeoutSeconds=-1)], {}, ("bindTimeoutSeconds",)),
    ([configured("VolumeBinding", shape=[])], {}, ("shape",)),
    (
        [
            configured(
                "PodTopologySpread",
                defaultingType="List",
                defaultConstraints=[spread("zone"), spread("zone")],
            )
        ],
        {},
        ("defaultConstraints", 1),
    ),
    (
        [configured("NodeResourcesFit", ignoredResources=["a b"])],
        {},
        ("ignoredResources", 0),
    ),
    (
        [strategy(type="MostAllocated", requestedToCapacityRatio={"shape": []})],
        {},
        ("scoringStrategy", "requestedToCapacityRatio"),
    ),
    (
        [{"plugins": {"filter": {"enabled": named("NodePorts", "NodePorts")}}}],
        {},
        ("plugins", "filter", "enabled", 1, "name"),
    ),
    (
        [{"plugins": {"score": {"enabled": named("NodePorts")}}}],
        {},
        ("plugins", "score", "enabled", 0, "name"),
    ),
    ([{"plugins": {"bind": {"disabled": named("*")}}}], {}, ("plugins", "bind")),
    ([{"plugins": {"multiPoint": {"disabled": named("*")}}}], {}, ("plugins", "queueSort")),
    (
        [
            configured(
                "NodeAffinity",
                addedAffinity={
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 5,
                            "preference": {
                                "matchExpressions": [{"key": "a b", "operator": "Exists"}]
                            },
                        }
                    ]
                },
            )
        ],
        {},
        ("preferredDuringSchedulingIgnoredDuringExecution", 0),
    ),
    ([strategy(resources=named("cpu"))], {}, ("scoringStrategy", "type")),
    (
        [configured("NodeResourcesFit", ignoredResourceGroups=["a b"])],
        {},
        ("ignoredResourceGroups", 0),
    ),
    ([configured("DynamicResources", filterTimeout="-10s")], {}, ("filterTimeout",)),
    ([configured("DynamicResources", bindingTimeout="10ms")], {}, ("bindingTimeout",)),
    ([{}], extender(httpTimeout="soon"), ("extenders", 0, "httpTimeout")),
    (
        [{}],
        extender(managedResources=named("requests.example.com/gpu")),
        ("managedResources", 0, "name"),
    ),
    (
        [{}],
        {"leaderElection": {"leaseDuration": "15s", "renewDeadline": "20s"}},
        ("leaderElection", "leaseDuration"),
    ),
    ([{}], {"clientConnection": {"burst": -1}}, ("clientConnection", "burst")),
    ([{}], {"leaderElection": "off"}, ("leaderElection",)),
    ([{}], {"leaderElection": {"leaseDuration": None}}, ("leaderElection", "leaseDuration")),
    ([{}], extender(httpTimeout=None), ("extenders", 0, "httpTimeout")),
    (
        [added(**required(matchFields=[{"key": "spec.other", "operator": "Exists"}]))],
        {},
        ("nodeSelectorTerms", 0),
    ),
    ([{}], {"delayCacheUntilActive": "1"}, ("delayCacheUntilActive",)),
    ([{}], extender(ignorable=1), ("extenders", 0, "ignorable")),
    ([{}], extender(managedResources=[{"name": []}]), ("managedResources", 0, "name")),
    ([configured("InterPodAffinity", hardPodAffinityWeight="5")], {}, ("hardPodAffinityWeight",)),
    ([configured("InterPodAffinity", hardPodAffinityWeight=True)], {}, ("hardPodAffinityWeight",)),
    ([configured("NodeResourcesFit", ignoredResources="cpu")], {}, ("ignoredResources",)),
    (
        [{"plugins": {"filter": {"enabled": named("*")}}}],
        {},
        ("plugins", "filter", "enabled", 0, "name"),
    ),
    *(
        (
            [{"plugins": {point: {"enabled": named(plugin)}}}],
            {},
            ("plugins", point, "enabled", 0, "name"),
        )
        for point, plugin in (
            ("preEnqueue", "NodePorts"),
            ("preFilter", "TaintToleration"),
            ("postFilter", "NodeResourcesFit"),
            ("preScore", "ImageLocality"),
            ("reserve", "NodePorts"),
            ("preBind", "DefaultBinder"),
            ("bind", "PrioritySort"),
            ("postBind", "InterPodAffinity"),
        )
    ),
]
"""Each with the end of the path at which it is said."""

TAKEN: Final[list[Written]] = [
    {"profiles": []},
    {"leaderElection": {"leaderElect": False, "resourceLock": "leases"}},
    {"clientConnection": {"kubeconfig": "/k", "qps": 50.0, "burst": 100}},
    extender(
        enableHTTPS=True,
        tlsConfig={"insecure": True, "serverName": "x"},
        httpTimeout="5s",
        filterVerb="f",
        managedResources=[{"name": "example.com/gpu", "ignoredByScheduler": True}],
    ),
    {"podInitialBackoffSeconds": 2, "podMaxBackoffSeconds": 2, "parallelism": 16},
    {"leaderElection": {"leaderElect": None, "resourceLock": ""}},
    {"leaderElection": {"leaderElect": False, "leaseDuration": "-1s"}},
    {"leaderElection": None, "clientConnection": {"qps": None}},
    {"profiles": [None]},
    {"profiles": [{"pluginConfig": [{"args": {"any": 1}}]}]},
    {"profiles": [{"pluginConfig": [None]}]},
    {"extenders": [{"httpTimeout": "-5s", "managedResources": None}]},
    {"profiles": [added(requiredDuringSchedulingIgnoredDuringExecution={"nodeSelectorTerms": []})]},
    {"profiles": [added(requiredDuringSchedulingIgnoredDuringExecution={})]},
    *(
        {"profiles": [added(**added_terms)]}
        for added_terms in (
            required(matchFields=[{"key": "spec.other", "operator": "NotIn", "values": ["a"]}]),
            preferred({"weight": 3}),
            preferred({"weight": 3, "preference": None}),
            preferred({"preference": {"matchExpressions": [{"key": "a b", "operator": "In"}]}}),
        )
    ),
    {"profiles": [listed(spread("zone", nodeAffinityPolicy="honor", nodeTaintsPolicy="Other"))]},
    {"profiles": [strategy(type="LeastAllocated", resources=[{"name": ""}, {"weight": 2}])]},
    {"profiles": [configured("NodeResourcesBalancedAllocation", resources=[{"name": ""}])]},
    {"profiles": [configured("InterPodAffinity", hardPodAffinityWeight=None)]},
]
