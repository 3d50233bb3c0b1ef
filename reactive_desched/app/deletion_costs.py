"""Writes the costs of pods that plugins rank for deletion, where they differ."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import anyio

from reactive_desched.api.deletion_costs import RanksForDeletion
from reactive_desched.api.event import DeletionCostsWritten
from reactive_desched.controller.instances import PluginInstance
from reactive_desched.controller.pipeline import Pipeline
from reactive_desched.controller.slices import in_slices
from reactive_desched.errors import ClusterError
from reactive_desched.eviction.recorder import Recorder
from reactive_desched.model.deletion_cost import read_deletion_cost
from reactive_desched.model.modes import ACT
from reactive_desched.model.objects import Pod
from reactive_desched.telemetry.logs import Logger

LOOK_S: Final = 30.0
"""How often pods are ranked: one that comes shifts the ranks of others."""

MAX_WRITES: Final = 100
"""So many costs are written after each look at most; the others follow."""

RIGHT: Final = "kubectl apply -f deploy/deletion-cost/rbac.yaml gives the right to patch pods"

WriteCost = Callable[[Pod, int], Awaitable[bool]]
"""Writes the cost of a pod; says whether that is there still; raises ClusterError."""


class DeletionCosts:
    """Writes for the plugins that act; `write` is None in a dry run, which writes nothing."""

    def __init__(
        self, pipeline: Pipeline, recorder: Recorder, write: WriteCost | None, log: Logger
    ) -> None:
        self._controller = pipeline.controller
        self._recorder = recorder
        self._write = write
        self._log = log

    async def run(self) -> None:
        """Rank pods and write their costs, while this process acts, until cancelled.

        Where no plugin ranks pods it sleeps until there are other plugins.
        """
        if self._write is None:
            return
        evaluator = self._controller.evaluator
        await self._controller.initial_sync_done.wait()
        while True:
            ranking = [
                (each, plugin)
                for each in evaluator.instances
                if isinstance(plugin := each.plugin, RanksForDeletion)
            ]
            for instance, plugin in ranking:
                await self._look(instance, plugin, self._write)
            if ranking:
                await anyio.sleep(LOOK_S)
            else:
                await evaluator.installed.wait()

    async def _look(
        self, instance: PluginInstance, plugin: RanksForDeletion, write: WriteCost
    ) -> None:
        if instance.mode != ACT or self._controller.pauses.check():
            return
        steps = plugin.deletion_costs(instance.view)
        costs = await in_slices(self._controller.state.answered_apart(steps))
        differing = [
            (pod, cost)
            for pod, cost in costs
            if read_deletion_cost(pod.annotations.deletion_cost) != cost
        ]
        written: list[str] = []
        refused = 0
        for pod, cost in differing[:MAX_WRITES]:
            if self._controller.pauses.check():
                break
            try:
                if await write(pod, cost):
                    written.append(f"{pod} {cost}")
            except ClusterError as error:
                if not refused:  # one line for a look
                    text = "the deletion cost of a pod cannot be written"
                    remedy = error.if_denied(RIGHT)
                    self._log.warning(text, pod=str(pod), message=str(error), remedy=remedy)
                refused += 1
                if error.is_denied or error.retryable:  # as for all other pods
                    break
        if written:
            self._record(instance, written, len(differing))

    def _record(self, instance: PluginInstance, written: Sequence[str], differing: int) -> None:
        self._log.info(
            "deletion costs are written",
            profile=instance.profile,
            plugin=instance.name,
            pods=len(written),
        )
        event = DeletionCostsWritten(
            profile=instance.profile,
            plugin=instance.name,
            pods=len(written),
            left=max(0, differing - len(written)),
            costs=tuple(written),
        )
        self._recorder.record(event, "deletion-costs", version=instance.profile, cause="pods")
