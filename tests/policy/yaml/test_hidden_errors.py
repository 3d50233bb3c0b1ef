"""A mistake in one value does not hide that others contradict each other."""

import json

import pytest
from pydantic import BaseModel, Field, model_validator

from reactive_desched.api.args import FieldError, FieldErrors
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import check_source
from reactive_desched.policy.yaml import hidden_errors as module
from reactive_desched.policy.yaml.decode import Decoder, FieldHints
from reactive_desched.policy.yaml.diagnostics import DiagnosticList, PolicyErrors
from reactive_desched.policy.yaml.reader import read_documents
from reactive_desched.policy.yaml.source_location import SourceLocation
from tests.support.small_plugins import HEAD

SETTINGS = "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"


class Window(BaseModel):
    low: int = 0
    high: int = 9
    name: str = ""
    kind: int = 0

    @model_validator(mode="after")
    def _check(self) -> "Window":
        if self.low > self.high:
            raise FieldErrors([FieldError("low is above high", path=("low",))])
        if self.name and self.kind:
            raise FieldErrors([FieldError("name and kind")])
        return self


class House(BaseModel):
    windows: tuple[Window, ...] = ()
    front: Window | None = None
    floors: int = Field(default=1, ge=1)

    @model_validator(mode="after")
    def _check(self) -> "House":
        if self.front is not None and self.front.high > self.floors * 10:
            raise FieldErrors([FieldError("too high", path=("front", "high"))])
        return self


def wrong_places(text: str) -> list[str]:
    found = DiagnosticList()
    (tree,) = read_documents(text, "p")
    Decoder(found, FieldHints()).decode(House, SourceLocation("p", tree))
    try:
        found.raise_if_errors()
    except PolicyErrors as errors:
        return [f"{each.path}: {each.message}" for each in errors.diagnostics]
    return []


TYPE = "must be a whole number"


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("{front: {low: 5, high: 2, kind: x}}", ["front.low: low is above high"]),
        ("{windows: [{}, {low: 5, high: 2, kind: x}]}", ["windows[1].low: low is above high"]),
        ("{front: {low: x, name: a, kind: 3}}", ["front: name and kind"]),
        ("{front: {low: x, high: 30}, floors: 2}", ["front.high: too high"]),
        ("{windows: [{low: x}], front: {high: 30}, floors: 2}", ["front.high: too high"]),
    ],
)
def test_values_that_contradict_each_other_are_named_beside_a_wrong_one(
    text: str, hidden: list[str]
) -> None:
    (wrong, *others) = sorted(wrong_places(text), key=lambda each: TYPE not in each)
    assert TYPE in wrong
    assert others == hidden


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{front: {low: 12, high: x}}", id="against the default of the wrong one"),
        pytest.param("{front: {low: x, kind: 3}}", id="nothing contradicts"),
        pytest.param("{front: {high: 30}, floors: x}", id="against a default further out"),
    ],
)
def test_what_is_only_wrong_because_a_value_was_left_out_is_not_named(text: str) -> None:
    (wrong,) = wrong_places(text)
    assert TYPE in wrong


def test_data_is_read_again_a_limited_number_of_times() -> None:
    keys = [f"k{number}" for number in range(module.MAX_READINGS)]
    reads = 0

    def read(data: object) -> None:
        nonlocal reads
        reads += 1
        House.model_validate_json(json.dumps(data))

    data = {"front": {"low": 5, "high": 2, "kind": "x", **dict.fromkeys(keys, 1)}}
    with pytest.raises(ValueError, match="kind") as caught:
        House.model_validate_json(json.dumps(data))
    known = module.error_details(caught.value)  # type: ignore[arg-type]  # it is pydantic's
    list(module.hidden_errors(read, data, known))
    assert reads <= module.MAX_READINGS


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        pytest.param(
            f"{HEAD}profiles:\n- name: p\n"
            "  plugins: {balance: {enabled: [LowNodeUtilization]}}\n"
            "  pluginConfig:\n  - name: LowNodeUtilization\n"
            "    args: {thresholds: {cpu: 20, pods: 101}, targetThresholds: {cpu: 10}}\n",
            "profiles[0].pluginConfig[0].args.targetThresholds.cpu",
            id="thresholds of SIG",
        ),
        pytest.param(
            f"{HEAD}profiles:\n- name: p\n  plugins: {{balance: {{enabled: [LowNodeLoad]}}}}\n"
            "  pluginConfig:\n  - name: LowNodeLoad\n"
            "    args: {lowThresholds: {cpu: 50, memory: x}, highThresholds: {cpu: 40}}\n",
            "profiles[0].pluginConfig[0].args.lowThresholds.cpu",
            id="thresholds of koordinator",
        ),
        pytest.param(
            f"{SETTINGS}journal: {{retention: {{maxBytes: 9000000000, "
            "hardMaxBytes: 8000000000}}\nmoves: {cooldown: x}\n",
            "journal.retention.hardMaxBytes",
            id="settings, a mistake in another section",
        ),
        pytest.param(
            f"{SETTINGS}debounce: {{quiet: 5m, maxWait: 1m, flapping: {{quiet: x}}}}\n",
            "debounce.quiet",
            id="settings, a mistake in the section",
        ),
        pytest.param(
            f"{SETTINGS}budgets: {{named: [{{name: a, evictions: 1, per: 1m}}, "
            "{name: a, evictions: 1, per: 1m}], cluster: {burst: x}}\n",
            "budgets.named[1].name",
            id="names twice",
        ),
    ],
)
def test_a_file_with_a_mistake_has_its_contradictions_named_too(text: str, hidden: str) -> None:
    found = check_source(SourceText(text, "p.yaml"), plugin_registry())
    assert hidden in [each.path for each in found.errors]
    assert len(found.errors) > 1
