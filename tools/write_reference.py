"""Writes the reference pages that come from code; a test holds them equal."""

import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import UnionType
from typing import ClassVar, Union, get_args, get_origin

from prometheus_client import Metric
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from reactive_desched.metrics import Metrics, Sources
from reactive_desched.planning import BUILT_IN
from reactive_desched.policy.evictor import DefaultEvictorArgs
from reactive_desched.policy.settings import ReactiveSettings

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"
_SKIPPED = ("apiVersion", "kind")


def settings_page() -> str:
    """Return the page on ReactiveSettings."""
    lines = [
        "# Settings",
        "",
        "A second document beside the policy, in the same file or another (`--settings FILE`):",
        "",
        "```yaml",
        "apiVersion: reactive-desched/v1alpha1",
        "kind: ReactiveSettings",
        "debounce: {quiet: 500ms}",
        "budgets:",
        "  cluster: {evictions: 60, per: 1m, burst: 10}",
        "  node: null",
        "```",
        "",
        "Durations are written as `90s` or `1h30m`. Unknown keys are errors.",
        "",
        "| field | default | meaning |",
        "|---|---|---|",
        *_rows(ReactiveSettings, ""),
    ]
    return "\n".join(lines) + "\n"


def plugins_page() -> str:
    """Return the page on plugins and the evictor."""
    lines = ["# Plugins", "", "Names and arguments are those of the SIG descheduler.", ""]
    for name, (plugin, args) in BUILT_IN.items():
        lines += [f"## {name}", "", inspect.getdoc(plugin) or "", ""]
        lines += ["Reacts to: " + ", ".join(f"`{c.__name__}`" for c in plugin.reacts_to) + ".", ""]
        lines += ["| argument | default | meaning |", "|---|---|---|", *_rows(args, ""), ""]
    lines += ["## DefaultEvictor", "", inspect.getdoc(DefaultEvictorArgs) or "", ""]
    lines += ["| argument | default | meaning |", "|---|---|---|", *_rows(DefaultEvictorArgs, "")]
    return "\n".join(lines) + "\n"


def metrics_page() -> str:
    """Return the page on what /metrics serves."""
    lines = [
        "# Metrics",
        "",
        "Served at `/metrics`, in the Prometheus text format or OpenMetrics.",
        "",
        "| name | type | meaning |",
        "|---|---|---|",
    ]
    for family in _families():
        suffix = "_total" if family.type == "counter" else ""
        lines.append(f"| `{family.name}{suffix}` | {family.type} | {family.documentation} |")
    return "\n".join(lines) + "\n"


def _families() -> Iterator[Metric]:
    metrics = Metrics()
    metrics.policy_loaded("policy.yaml", "0")
    metrics.sources = Sources(journal=_Journal(), folder=_Folder(), stream=_Stream())
    yield from metrics.collect()


class _Journal:
    records_written = records_refused = records_unrecorded = 0
    last_seq = torn_bytes = damaged_lines = checkpoint_size = 0
    checkpoint_root = ""
    healthy = True


class _Folder:
    bytes = segments = oldest_seq = removed = 0
    faults: ClassVar[Mapping[str, int]] = {}


class _Stream:
    clients = turned_away = cut = sent = resets = 0


def _rows(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        written = str(field.serialization_alias or field.alias or name)
        if written in _SKIPPED:
            continue
        section = _section(field)
        if section is not None and get_origin(field.annotation) is not dict:
            yield from _rows(section, f"{prefix}{written}.")
        else:
            meaning = re.sub(r"\s+", " ", field.description or "").replace("|", "\\|")
            yield f"| `{prefix}{written}` | {_default(name, field)} | {meaning} |"


def _section(field: FieldInfo) -> type[BaseModel] | None:
    kinds = [field.annotation]
    if get_origin(field.annotation) in (Union, UnionType):
        kinds = list(get_args(field.annotation))
    for kind in kinds:
        if inspect.isclass(kind) and issubclass(kind, BaseModel):
            return kind
    return None


def _default(name: str, field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, float):
        return f"`{value:g}{'s' if name.endswith('_s') else ''}`"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"`{text}`" if text and value not in (None, (), {}) else "-"


def main() -> None:
    """Write every page."""
    REFERENCE.mkdir(parents=True, exist_ok=True)
    (REFERENCE / "settings.md").write_text(settings_page(), encoding="utf-8")
    (REFERENCE / "plugins.md").write_text(plugins_page(), encoding="utf-8")
    (REFERENCE / "metrics.md").write_text(metrics_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
