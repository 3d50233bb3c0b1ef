"""The status of a controller as it was at an earlier moment, which was run up to then."""

from reactive_desched.app.status import (
    ACTED,
    STANDS_BY,
    ControllerStatus,
    PolicyInForce,
    controller_status,
)
from reactive_desched.controller.description import ControllerDescription
from reactive_desched.replay.controller_run import LifeRun
from reactive_desched.text.times import utc_time


async def recorded_status(run: LifeRun) -> ControllerStatus:
    """Return the status; of its host, its journal and its sinks a recording has nothing."""
    controller, clock, picture = run.controller, run.clock, run.life.picture
    policy = controller.config.policy
    return await controller_status(
        controller,
        ControllerDescription(controller, clock.monotonic, clock.wall),
        time=utc_time(clock.wall()),
        started=utc_time(picture.at.wall_s),
        version=picture.version,
        cluster=picture.cluster,
        cluster_uid=picture.cluster_uid,
        api_server="",
        credentials="",
        host="",
        mode="dry_run" if run.is_dry_run else "live",
        leadership=STANDS_BY if controller.readiness.pauses["leader"].reason else ACTED,
        policy=PolicyInForce(
            policy.source,
            policy.revision,
            tuple(profile.name for profile in policy.profiles),
            (),
        ),
        recent=run.recent.newest_first(),
        journal=None,
        recording=None,
        sinks=(),
    )
