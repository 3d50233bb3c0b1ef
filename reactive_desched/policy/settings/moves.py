"""Settings of moves: how many at once, how long each may take, and how soon one may be repeated."""

from typing import Annotated

from pydantic import Field, PlainValidator, WithJsonSchema

from reactive_desched.api.args import Seconds, Section
from reactive_desched.policy.settings.limit_values import limit_error
from reactive_desched.text.counts import format_count

MAX_WORKLOADS = 200
"""The most workloads with metrics of their own."""

_MAX_COUNT = 1_000_000
_PERCENT = 100


def _read_count_or_percent(written: object) -> int | str:
    """Read a count from 1 on, or a percentage from 1% to 100%; anything else is one error."""
    if isinstance(written, (int, str)) and not isinstance(written, bool):
        number = str(written).removesuffix("%")
        is_percent = str(written).endswith("%")
        highest = _PERCENT if is_percent else _MAX_COUNT
        if number.isascii() and number.isdecimal() and 1 <= int(number) <= highest:
            return str(written) if is_percent else int(number)
    raise limit_error(written, "10%")


CountOrPercent = Annotated[
    int | str,
    PlainValidator(_read_count_or_percent),
    WithJsonSchema(
        {"anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^[1-9][0-9]*%?$"}
    ),
]
PodCount = Annotated[int, Field(ge=1, le=_MAX_COUNT)]


class MaxMovingSettings(Section):
    """The most pods that move at once: evicted, and not yet replaced by a Ready pod.

    `null` switches a scope off.
    """

    owner: CountOrPercent | None = Field(
        default="10%",
        description="Of one workload (its topmost controller): a number, or a percentage of the "
        "pods it wants, rounded down, but at least 1.",
    )
    namespace: PodCount | None = Field(default=20, description="Of one namespace.")
    node: PodCount | None = Field(default=10, description="That left one node.")
    zone: PodCount | None = Field(default=25, description="That left one zone.")
    cluster: PodCount | None = Field(default=50, description="Of the whole cluster.")


class MoveSettings(Section):
    """Evicted pods are followed until their replacement is Ready, and moves are remembered."""

    max_moving: MaxMovingSettings = Field(
        default=MaxMovingSettings.model_construct(),
        description="How many pods may be moving at once.",
    )
    ready_timeout_s: Seconds = Field(
        default=600.0,
        description="A replacement that is not Ready after this long is given up, and no longer "
        "counts as moving.",
    )
    cooldown_s: Seconds = Field(
        default=300.0,
        description="A replacement stays at least this long before it is evicted again; it "
        "doubles with each repetition, up to 12 hours. 0 switches it off.",
    )
    node_cooldown_s: Seconds = Field(
        default=60.0,
        description="A node to which a plugin moved a pod gives that plugin no pods for this "
        "long, unless its labels or taints change; it concerns plugins that choose the nodes to "
        "move pods to. 0 switches it off.",
    )
    futile_backoff_s: Seconds = Field(
        default=300.0,
        description="A workload rests this long after a move that was futile: the finding holds "
        "for the replacement, too, or the replacement does not run; and so does a node that the "
        "move was to relieve. It doubles each time, up to 12 hours. 0 switches it off.",
    )
    futile_after: Annotated[int, Field(ge=1, le=100)] = Field(
        default=3,
        description="After so many futile moves in a row, a plugin leaves a workload alone until "
        "its template, a node or the policy changes, or a person clears it; a day at most. A node "
        "rests when moves of so many workloads in a row were futile.",
    )
    workloads_in_metrics: Annotated[int, Field(ge=0, le=MAX_WORKLOADS)] = Field(
        default=20,
        description="So many workloads have metrics of their own: those of which most pods were "
        "evicted in the last day. 0 for none.",
    )

    def describe(self) -> dict[str, str]:
        """Say to a person how many pods may be moving, and how long they are left alone."""
        limits: dict[str, int | str | None] = dict(self.max_moving)
        return {
            **{scope: _describe_limit(limit) for scope, limit in limits.items()},
            "cooldown": f"{self.cooldown_s:g} s",
            "nodeCooldown": f"{self.node_cooldown_s:g} s",
            "futile": f"after {self.futile_after} moves",
        }


def _describe_limit(limit: int | str | None) -> str:
    match limit:
        case None:
            return "any number"
        case int():
            return format_count(limit, "pod")
        case _:
            return limit.replace("%", " %")
