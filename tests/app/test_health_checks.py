"""What /readyz says of the checks that ask a server."""

from random import Random
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

from reactive_desched.app.config_reload import ActiveConfig
from reactive_desched.app.health_checks import HealthChecks
from reactive_desched.app.input_notes import InputNotes
from reactive_desched.model.health import HealthAnswer
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import load_sources
from reactive_desched.web.health import CheckResult
from tests.support.manual_clock import ManualClock, wait_until
from tests.support.recording_logger import RecordingLogger

pytestmark = pytest.mark.anyio

FILES = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles: [{name: p}]
---
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
brakes:
  health:
  - name: errors
    alertmanager:
      url: http://127.0.0.1:%d
      alerts: ['severity="page"']
      knownBy: ['alertname="Watchdog"']
"""


async def test_a_check_is_not_well_before_its_server_has_answered() -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        config = load_sources([SourceText(FILES % port, "f.yaml")], plugin_registry())
        pauses = SimpleNamespace(health_answer=HealthAnswer)
        checks = HealthChecks(
            ActiveConfig(config),
            cast("Any", SimpleNamespace(pauses=pauses)),  # of a controller it asks for an answer
            InputNotes(),
            ManualClock(),
            Random(1),
            RecordingLogger(),
        )
        unanswered = CheckResult(ok=False, message="errors: no answer yet")
        assert checks.check() == unanswered
        asked = anyio.Event()

        async def keep_waiting(stream: anyio.abc.SocketStream) -> None:
            async with stream:
                asked.set()
                await anyio.sleep_forever()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, keep_waiting)
            tasks.start_soon(checks.run)
            await wait_until(asked.is_set)
            assert checks.check() == unanswered
            tasks.cancel_scope.cancel()
