"""A plugin's opinion: this pod should leave its node, and why."""

from collections.abc import Mapping

from msgspec import Struct

from reactive_desched.model.objects import Pod, PodKey


class Finding(Struct, frozen=True, gc=False):
    """The pod should leave its node, for a reason a person can read.

    `needs_fit` is set by plugins that demand a feasible node whatever the evictor says. Of
    findings made together those of lower `rank` go first. `against` names the pods it cannot be
    together with: if they all leave, nothing is wrong any more. `numbers` are the figures behind
    the reason, by names in camelCase that end in their unit: whole numbers and texts, no fractions.
    """

    pod: Pod
    plugin: str
    message: str
    needs_fit: bool = False
    rank: tuple[int, ...] = ()
    conflicts_with: tuple[PodKey, ...] = ()
    details: Mapping[str, int | str] = {}


class RequeueAfter(Struct, frozen=True, gc=False):
    """Only time can change the verdict on this subject: judge it again then."""

    delay_s: float
