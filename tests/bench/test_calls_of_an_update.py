"""A watch event that concerns no plugin takes few Python calls: most events of a cluster are such.

The time of an event grows by little things that no profile shows, each in a place of its own: from
60 calls to 106 in four days.
"""

import sys
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

from bench.generate import Dataset
from bench.measure.target import Target
from bench.resources import Versions, open_resources
from bench.scripts import SCRIPTS
from reactive_desched.controller.pipeline import build_pipeline
from reactive_desched.kube.codec import make_codecs
from reactive_desched.primitives.wakeup import Wakeup
from reactive_desched.state.kinds.interning import InternTables
from tests.support.flow import (
    FakeEvictor,
    FedController,
    MemoryIntentStore,
    RecordingObserver,
    never_suspended,
)

UPDATES = 600
MOST_CALLS = 82
"""One takes 79 on Python 3.11, without those of its connection."""


def controller_of_the_bench(folder: Path) -> FedController:
    target = Target(url="https://127.0.0.1", ca="", pods=0, folder=folder, journal=folder)
    pipeline = build_pipeline(
        target.configuration(),
        recorder=MemoryIntentStore(),
        evictor=FakeEvictor(),
        observer=RecordingObserver(),
        work_available=Wakeup(),
        suspend=never_suspended(),
        clock=lambda: 0.0,
        wall_clock=lambda: 1.8e9,
    )
    return FedController(pipeline)


def test_an_update_of_a_status_takes_few_calls(small: Dataset, tmp_path: Path) -> None:
    flow, calls, decided = controller_of_the_bench(tmp_path), 0, 0
    codecs = make_codecs(InternTables(), flow.controller.state)
    listed = [
        codecs[name].decode_object(bytes(small.items(name).item(number)))
        for name in flow.handlers
        for number in range(len(small.items(name)))
    ]
    flow.sync_and_resume(*listed)
    for _ in flow.controller.work(lambda: False):
        decided += 1
    assert decided == 0
    pods = open_resources(small)["/api/v1/pods"]
    script = SCRIPTS["status"](small.cluster, Versions(), 0)
    lines = [pods.event(each.what, each.obj) for each in islice(script, UPDATES)]
    decode, upsert = codecs["pods"].decode_event, flow.handlers["pods"].upsert
    pod: Any  # each line has one

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        for line in lines:
            pod = decode(line).object
            upsert(pod)
    finally:
        sys.setprofile(None)

    assert calls / UPDATES <= MOST_CALLS
