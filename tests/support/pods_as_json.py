"""Pods by chance, as JSON: every part that we read, null or absent or odd, in a tiny world.

The world is tiny so that parts of different pods often coincide.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final

from hypothesis import strategies as st

Obj = dict[str, Any]  # any JSON object
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_ABSENT = object()

_texts = st.sampled_from(["", "a", "b", "ünï", "🙂", 'q"\\uote', "\u0000", "Always", "null"])
_names = st.sampled_from(["web-1", "web-2", "ключ", "x"])
_string_maps = st.dictionaries(_texts, _texts, max_size=2)
_quantities = st.sampled_from(["100m", "1", "1.5Gi", "0", "1e3", 1, 2, 0.5, 1.25])
_resource_lists = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "hugepages-2Mi"]), _quantities, max_size=2
)
_junk = st.none() | _texts | st.integers() | st.lists(_texts | st.none(), max_size=2) | _string_maps


@st.composite
def _timestamps(draw: Callable[..., Any]) -> str:
    """RFC 3339 as Go writes it: whole seconds or fractions, mostly Z."""
    moment: datetime = draw(st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)))  # noqa: DTZ001  the zone is drawn next
    if draw(st.booleans()):
        moment = moment.replace(microsecond=0)
    zone = draw(st.sampled_from([UTC, timezone(timedelta(hours=2))]))
    return moment.replace(tzinfo=zone).isoformat().replace("+00:00", "Z")


def _objects(
    required: dict[str, st.SearchStrategy[Any]] | None = None,
    **optional: st.SearchStrategy[Any],
) -> st.SearchStrategy[Obj]:
    """Objects whose optional members are mostly there, with one that nobody knows."""
    members = {name: _mostly(strategy) for name, strategy in optional.items()}
    return st.fixed_dictionaries((required or {}) | members | {"unknown": _mostly(_junk)}).map(
        lambda obj: {name: value for name, value in obj.items() if value is not _ABSENT}
    )


def _mostly(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """What is given, now and then null or nothing at all."""
    # Drawn, not united: a union would take the many chances of one strategy for one chance.
    return st.sampled_from(range(8)).flatmap(
        lambda n: strategy if n > 1 else st.just(None if n else _ABSENT)
    )


def _lists(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(strategy, min_size=1, max_size=2) | st.just([])


_requirements = _objects({"key": _texts, "operator": _texts}, values=_lists(_texts))
_selectors = _objects(matchLabels=_string_maps, matchExpressions=_lists(_requirements))
_terms = _objects(matchExpressions=_lists(_requirements), matchFields=_lists(_requirements))
_pod_term = _objects(
    {"topologyKey": _texts},
    labelSelector=_selectors,
    namespaces=_lists(_texts),
    namespaceSelector=_selectors,
    matchLabelKeys=_lists(_texts),
    mismatchLabelKeys=_lists(_texts),
)
_pod_terms = _objects(
    None,
    **{
        _REQUIRED: _lists(_pod_term),
        _PREFERRED: _lists(_objects({"weight": st.integers(1, 9), "podAffinityTerm": _pod_term})),
    },
)
_affinities = _objects(
    nodeAffinity=_objects(
        None,
        **{
            _REQUIRED: _objects({"nodeSelectorTerms": _lists(_terms)}),
            _PREFERRED: _lists(_objects({"weight": st.integers(0, 9), "preference": _terms})),
        },
    ),
    podAffinity=_pod_terms,
    podAntiAffinity=_pod_terms,
)
_spreads = _lists(
    _objects(
        {"maxSkew": st.integers(1, 3), "topologyKey": _texts},
        whenUnsatisfiable=st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
        labelSelector=_selectors,
        matchLabelKeys=_lists(_texts),
        minDomains=st.integers(1, 3),
        nodeAffinityPolicy=st.sampled_from(["Honor", "Ignore"]),
        nodeTaintsPolicy=st.sampled_from(["Honor", "Ignore"]),
    )
)
_resources = _objects(requests=_resource_lists, limits=_resource_lists)
_ports = _lists(_objects(hostPort=st.integers(0, 2), protocol=_texts, hostIP=_texts, name=_texts))
_restarts = _texts | st.just("Always")
_containers = _lists(
    _objects(name=_texts, resources=_resources, ports=_ports, restartPolicy=_restarts, image=_texts)
)
_reasons = _objects(reason=_texts)
_ends = _objects(reason=_texts, exitCode=st.integers(0, 2))
_states = _objects(waiting=_reasons, terminated=_ends, running=_junk)
_container_statuses = _lists(
    _objects(
        {"name": _texts},
        restartCount=st.integers(0, 2),
        state=_states,
        resources=_resources,
        allocatedResources=_resource_lists,
    )
)
_volumes = _lists(
    _objects(
        emptyDir=_string_maps,
        hostPath=_string_maps,
        persistentVolumeClaim=_objects({"claimName": _names}),
        image=_objects(reference=_texts),
        projected=_junk,
    )
)
_tolerations = _lists(
    _objects(
        key=_texts, operator=_texts, value=_texts, effect=_texts, tolerationSeconds=st.integers()
    )
)
PODS: Final = _objects(
    {
        "metadata": _objects(
            {"name": _names, "uid": _names},
            namespace=_texts,
            resourceVersion=st.sampled_from(["", "7", "900000001", "07", "9" * 10]),
            creationTimestamp=_timestamps(),
            deletionTimestamp=_timestamps(),
            labels=_string_maps,
            annotations=st.dictionaries(
                st.sampled_from(
                    [
                        "descheduler.alpha.kubernetes.io/evict",
                        "descheduler.alpha.kubernetes.io/prefer-no-eviction",
                        "kubernetes.io/config.mirror",
                        "kubernetes.io/config.source",
                        "checksum/config",
                    ]
                ),
                st.none() | _texts,
                max_size=3,
            ),
            ownerReferences=_lists(
                _objects(
                    {"kind": _texts, "name": _texts, "uid": _texts},
                    controller=st.booleans(),
                    apiVersion=_texts,
                )
            ),
        )
    },
    spec=_objects(
        nodeName=_texts,
        priority=st.integers(-5, 5),
        nodeSelector=_string_maps,
        tolerations=_tolerations,
        affinity=_affinities,
        topologySpreadConstraints=_spreads,
        overhead=_resource_lists,
        resources=_resources,
        resourceClaims=_lists(_objects(name=_texts, resourceClaimName=_texts)),
        containers=_containers,
        initContainers=_containers,
        volumes=_volumes,
    ),
    status=_objects(
        phase=_texts,
        reason=_texts,
        qosClass=_texts,
        startTime=_timestamps(),
        conditions=_lists(
            _objects(
                {"type": _texts | st.just("PodResizePending"), "status": _texts},
                reason=_texts | st.just("Infeasible"),
                lastTransitionTime=_timestamps(),
                lastProbeTime=_junk,
            )
        ),
        containerStatuses=_container_statuses,
        initContainerStatuses=_container_statuses,
        ephemeralContainerStatuses=_container_statuses,
        resize=_texts | st.just("Infeasible"),
        resources=_resources,
        allocatedResources=_resource_lists,
        resourceClaimStatuses=_lists(_objects(name=_texts, resourceClaimName=_texts)),
    ),
)
