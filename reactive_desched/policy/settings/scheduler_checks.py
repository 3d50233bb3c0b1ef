"""Checks what the kube-scheduler checks in its configuration, and node fit does not read.

A file that it would refuse is refused here, by the rules of `ValidateKubeSchedulerConfiguration`
and of its plugins in 1.36, and of the leader election without which it would end at once.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import Annotated, Any, ClassVar, Final, Literal, get_args

from pydantic import BaseModel, Field, ValidationError, model_validator

from reactive_desched.api.args import (
    FieldError,
    Section,
    fix_to,
    prefixed,
    raise_field_errors,
)
from reactive_desched.api.rules import Rule
from reactive_desched.model.labels import label_key_error
from reactive_desched.policy.yaml.decode import fields_by_key
from reactive_desched.primitives.durations import parse_duration
from reactive_desched.primitives.hints import quote, sole_near_name

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"

GONE_PLUGINS: Final = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
"""The plugins that v1 refuses: NodeVolumeLimits has taken their place."""

_JITTER: Final = 1.2
"""The scheduler renews its lease after up to so many retry periods."""

Percentage = Annotated[int, Field(ge=0, le=100)]
LARGEST: Final = 2**31 - 1
"""Of the numbers that the kube-scheduler reads into 32 bits."""

Count = Annotated[int, Field(ge=0, le=LARGEST)]


class TypedArgs(Section):
    """Arguments of a plugin; their type may be written with them."""

    api_version: Literal["kubescheduler.config.k8s.io/v1"] = API_VERSION
    kind: str = ""


class _DefaultPreemption(TypedArgs):
    """The arguments of DefaultPreemption."""

    min_candidate_nodes_percentage: Percentage = 10
    min_candidate_nodes_absolute: Count = 100

    @model_validator(mode="after")
    def _check(self) -> "_DefaultPreemption":
        if not self.min_candidate_nodes_percentage and not self.min_candidate_nodes_absolute:
            path = ("minCandidateNodesPercentage",)
            hint = "write more than 0 for one of them"
            message = "must not be 0 together with minCandidateNodesAbsolute"
            raise_field_errors([FieldError(message, hint, path, rule=Rule.OUT_OF_BOUNDS)])
        return self


class _VolumeBinding(TypedArgs):
    """The arguments of VolumeBinding; its shape needs a feature that is off by default."""

    bind_timeout_seconds: Annotated[int, Field(ge=0)] = 600


class _DynamicResources(TypedArgs):
    """The arguments of DynamicResources."""

    filter_timeout: str = "0s"
    binding_timeout: str = "1s"

    @model_validator(mode="after")
    def _check(self) -> "_DynamicResources":
        errors = (
            *_duration_errors("filterTimeout", self.filter_timeout),
            *_duration_errors("bindingTimeout", self.binding_timeout, 1),
        )
        raise_field_errors(errors)
        return self


UNREAD_ARGUMENTS: Final[Mapping[str, type[TypedArgs]]] = {
    "DefaultPreemption": _DefaultPreemption,
    "DynamicResources": _DynamicResources,
    "VolumeBinding": _VolumeBinding,
}
"""The arguments of the kube-scheduler's plugins that are checked and not used."""


class _TLS(Section):
    """The TLS by which an extender is reached."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: str = ""
    key_data: str = ""
    ca_data: str = ""


class _ManagedResource(Section):
    """A resource that an extender manages."""

    name: str
    ignored_by_scheduler: bool = False


class _Extender(Section):
    """A program that the scheduler asks as well."""

    REFUSES_NULL: ClassVar = frozenset({"httpTimeout"})
    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    bind_verb: str = ""
    enable_https: Annotated[bool, Field(alias="enableHTTPS")] = False
    tls_config: _TLS | None = None
    http_timeout: str = "0s"
    node_cache_capable: bool = False
    managed_resources: tuple[_ManagedResource, ...] = ()
    ignorable: bool = False

    @model_validator(mode="after")
    def _check(self) -> "_Extender":
        raise_field_errors(self._errors())
        return self

    def _errors(self) -> Iterator[FieldError]:
        yield from _duration_errors("httpTimeout", self.http_timeout, -inf)
        if self.prioritize_verb and self.weight <= 0:
            hint = "write a weight of 1 or more, or remove prioritizeVerb"
            message = "must be above 0 beside prioritizeVerb"
            yield FieldError(message, hint, ("weight",), rule=Rule.OUT_OF_BOUNDS)
        for number, each in enumerate(self.managed_resources):
            group, slash, _ = each.name.partition("/")
            is_native = "kubernetes.io/" in f"{group}/" or group.startswith("requests.")
            if not slash or label_key_error(each.name) or is_native:
                yield FieldError(
                    f"{quote(each.name)} is no extended resource",
                    "write it with its domain, such as example.com/gpu",
                    ("managedResources", number, "name"),
                    rule=Rule.NOT_A_NAME,
                )


class LeaderElectionConfig(Section):
    """The election among replicas of the scheduler: checked and not used."""

    REFUSES_NULL: ClassVar = frozenset({"leaseDuration", "renewDeadline", "retryPeriod"})
    leader_elect: bool = True
    lease_duration: str = "15s"
    renew_deadline: str = "10s"
    retry_period: str = "2s"
    resource_lock: str = "leases"
    resource_name: str = ""
    resource_namespace: str = ""

    @model_validator(mode="after")
    def _check(self) -> "LeaderElectionConfig":
        raise_field_errors(self._errors())
        return self

    def _errors(self) -> Iterator[FieldError]:
        waits = {
            "leaseDuration": self.lease_duration,
            "renewDeadline": self.renew_deadline,
            "retryPeriod": self.retry_period,
        }
        least_s = 0 if self.leader_elect else -inf
        wrong = [
            each for key, text in waits.items() for each in _duration_errors(key, text, least_s)
        ]
        yield from wrong
        if wrong or not self.leader_elect:
            return
        if self.resource_lock not in ("", "leases"):
            message = f"{quote(self.resource_lock)} is no lock"
            yield FieldError(message, "write leases", ("resourceLock",), rule=Rule.NOT_A_NAME)
        defaults = (15.0, 10.0, 2.0)  # 0 stands for the default
        lease, deadline, retry = (
            parse_duration(text) or default
            for text, default in zip(waits.values(), defaults, strict=True)
        )
        if lease <= deadline:
            yield _too_short("leaseDuration", "renewDeadline")
        if deadline <= retry * _JITTER:
            yield _too_short("renewDeadline", f"{_JITTER} times retryPeriod")
        if retry <= 0:
            yield _too_short("retryPeriod", "0s")


class ClientConnectionConfig(Section):
    """The connection to the API server: checked and not used."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float = 0
    burst: Count = 0


def _duration_errors(key: str, text: str, least_s: float = 0) -> Iterator[FieldError]:
    """Yield an error for what is no duration of Go's, or one that is too short."""
    try:
        seconds = parse_duration(text)
    except ValueError:
        hint = "write a duration such as 15s"
        yield FieldError(f"{quote(text)} is no duration", hint, (key,), rule=Rule.WRONG_TYPE)
        return
    if seconds < least_s:
        yield _too_short(key, f"{least_s:g}s", at_least=True)


def _too_short(key: str, least: str, *, at_least: bool = False) -> FieldError:
    message = f"must be {least} or more" if at_least else f"must be longer than {least}"
    return FieldError(message, "", (key,), rule=Rule.OUT_OF_BOUNDS)


def extender_errors(extenders: Iterable[Mapping[str, object] | None]) -> Iterator[FieldError]:
    """Yield what is wrong in extenders, each at its place below the configuration."""
    binders = 0
    seen: set[str] = set()
    for number, written in enumerate(extenders):
        each = written or {}
        yield from prefixed("extenders", prefixed(number, model_errors(_Extender, each)))
        binders += bool(each.get("bindVerb"))
        if binders > 1 and each.get("bindVerb"):
            path = ("extenders", number, "bindVerb")
            message = "another extender binds already"
            yield FieldError(message, "keep one of them", path, rule=Rule.CONTRADICTING_SETTINGS)
        resources = each.get("managedResources")
        for managed, resource in enumerate(resources if isinstance(resources, list) else ()):
            name = resource.get("name") if isinstance(resource, dict) else None
            if not isinstance(name, str):
                continue  # which the model refuses
            if name in seen:
                place = ("extenders", number, "managedResources", managed, "name")
                yield _repeated(name, place)
            seen.add(name)


def repeated(names: Iterable[str], path: tuple[str, ...], *below: str) -> Iterator[FieldError]:
    """Yield an error for each name that stands in a list before."""
    seen: set[str] = set()
    for number, name in enumerate(names):
        if name in seen:
            yield _repeated(name, (*path, number, *below))
        seen.add(name)


def _repeated(name: str, path: tuple[str | int, ...]) -> FieldError:
    message = f"{quote(name)} is listed already"
    return FieldError(message, "keep one of the entries", path, rule=Rule.CONFIGURED_TWICE)


def model_errors(model: type[BaseModel], written: Mapping[str, object]) -> Iterable[FieldError]:
    """Return what is wrong in a value by its model, each at its place below the value."""
    try:
        text = json.dumps(as_go_reads(model, written))
        model.model_validate_json(text, strict=True)  # JSON, so that lists are taken for tuples
    except ValidationError as error:
        found = error.errors(include_url=False)
        return [each for problem in found for each in _as_field_errors(model, problem)]
    return ()


def as_go_reads(annotation: object, written: object) -> object:
    """Return a value without the nulls that Go takes for nothing, or for an empty item."""
    inner = next(iter(get_args(annotation)), annotation)
    table = inner if isinstance(inner, type) and issubclass(inner, BaseModel) else None
    if isinstance(written, list | tuple):
        empty: object = "" if table is None else {}
        return [empty if each is None else as_go_reads(inner, each) for each in written]
    if not isinstance(written, Mapping) or table is None:
        return written
    kept, fields = getattr(table, "REFUSES_NULL", ()), fields_by_key(table)
    return {
        key: as_go_reads(fields.get(key), value)
        for key, value in written.items()
        if value is not None or key in kept or key not in fields
    }


def _as_field_errors(
    model: type[BaseModel],
    problem: Mapping[str, Any],  # what pydantic says of an error
) -> Iterator[FieldError]:
    path: tuple[str | int, ...] = tuple(problem["loc"])
    inner = problem.get("ctx", {}).get("error")
    if errors := getattr(inner, "errors", ()):
        for step in reversed(path):
            errors = prefixed(step, errors)
        yield from errors
    elif problem["type"] == "extra_forbidden":
        key = str(path[-1])
        near = sole_near_name(key, fields_by_key(model)) if len(path) == 1 else None
        yield FieldError(
            "unknown field",
            f"write {near}" if near else "remove it: nothing reads it",
            path,
            rule=Rule.UNKNOWN_FIELD,
            fix=fix_to(near),
            at_key=True,
        )
    else:
        yield FieldError(_in_words(problem), "", path, rule=Rule.WRONG_TYPE)


def _in_words(problem: Mapping[str, Any]) -> str:  # as above
    if problem["type"] == "missing":
        return "is required"
    message, value = str(problem["msg"]), problem["input"]
    message = message.replace("Input should be", "must be")
    message = message[:1].lower() + message[1:]
    return f"{message}, not {_shown(value)}"


def _shown(value: object) -> str:
    if isinstance(value, str):
        return f"the text {quote(value)}"
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a mapping"
    return json.dumps(value)
