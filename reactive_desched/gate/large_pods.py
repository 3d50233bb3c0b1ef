"""Holds pods of which not all is read: what is left out might keep them where they are."""

from typing import Final

from reactive_desched.model.decisions import GateReason, Refuse
from reactive_desched.model.findings import Finding
from reactive_desched.model.wakes import WakeOnPod

POD_TOO_LARGE: Final = GateReason(
    "LargePods",
    "PodTooLarge",
    "The pod has more tolerations, affinity terms, labels or the like than are evaluated; the "
    "message names them. What they say might keep the pod where it is.",
)


class LargePods:
    """Refuses the pods of which parts are not read, until they change."""

    name = POD_TOO_LARGE.gate

    def check(self, finding: Finding, now: float) -> Refuse | None:  # noqa: ARG002 -- as other gates
        """Return the refusal of a pod with a part that is too long."""
        pod = finding.pod
        if not pod.spec.unread:
            return None
        message = (
            f"too much to be evaluated: {pod.spec.unread}; give its template fewer or shorter"
            " entries there"
        )
        return POD_TOO_LARGE.refuse(finding, message, (WakeOnPod(pod.uid),))
