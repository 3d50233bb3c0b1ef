"""The tables of migration jobs and Reservations, as their definitions say."""

from collections.abc import Mapping
from types import MappingProxyType

from reactive_desched.sim.objects import Obj, name_of
from reactive_desched.sim.tables.columns import AGE, NAME, Table, age_of, text, wide

__all__ = ["MIGRATION_TABLES"]


def _job(job: Obj, now: float) -> list[object]:
    spec, status = job.get("spec", {}), job.get("status", {})
    pod, options = spec.get("podRef", {}), spec.get("reservationOptions", {})
    return [
        name_of(job),
        status.get("phase", ""),
        status.get("status", ""),
        age_of(job, now),
        status.get("nodeName", ""),
        options.get("reservationRef", {}).get("name", ""),
        pod.get("namespace", ""),
        pod.get("name", ""),
        status.get("podRef", {}).get("name", ""),
        spec.get("ttl", ""),
        status.get("reason", ""),
    ]


def _kept(reservation: Obj, now: float) -> list[object]:
    spec, status = reservation.get("spec", {}), reservation.get("status", {})
    return [
        name_of(reservation),
        status.get("phase", ""),
        age_of(reservation, now),
        status.get("nodeName", ""),
        spec.get("ttl", ""),
        spec.get("expires", ""),
    ]


MIGRATION_TABLES: Mapping[str, Table] = MappingProxyType(
    {
        "podmigrationjobs": Table(
            (
                NAME,
                *text("Phase", "Status"),
                AGE,
                *text("Node", "Reservation", "PodNamespace", "Pod", "NewPod", "TTL"),
                *wide("Reason"),
            ),
            _job,
        ),
        "reservations": Table((NAME, *text("Phase"), AGE, *text("Node", "TTL", "Expires")), _kept),
    }
)
