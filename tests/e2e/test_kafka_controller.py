"""The whole controller between a real control plane and a real Kafka broker."""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, Final

import pytest

from reactive_desched.api.event import DISRUPTION_OBSERVED, EVICTION_FOLLOWED_UP
from tests.support.audit_crosscheck import AuditCrosscheck
from tests.support.control_plane import wait_until
from tests.support.controller_process import ControllerProcess
from tests.support.kafka_broker import KafkaBroker
from tests.support.kafka_group import read_group
from tests.support.limits import UNLIMITED
from tests.support.playground import E2ENamespace

pytestmark = pytest.mark.real

SETTINGS = """
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
debounce: {{quiet: 200ms, maxWait: 2s}}
evictions: {{retry: {{initial: 1s, max: 5s}}}}
sinks: {{kafka: {{brokers: ["{address}"], topic: "{topic}"}}}}
"""
PREFIX = "io.reactive-desched.descheduler."
WAY = ["finding.made.v1", "decision.evict.v1", "eviction.requested.v1", "eviction.succeeded.v1"]


def cases(broker: KafkaBroker, topic: str) -> dict[str, list[dict[str, Any]]]:
    """Return the events about pods by their case, in the order of their partitions.

    Pods that others end are left out: other tests delete theirs in the same cluster.
    """
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for message in read_group(broker.address, topic):
        event = json.loads(message.value)
        assert message.key == event["partitionkey"].encode()
        if "who" in event["data"] and event["type"] != DISRUPTION_OBSERVED:
            found[event["correlationid"]].append(event)
    return found


def test_a_taint_becomes_evictions_whose_whole_story_arrives_in_kafka(
    broker: KafkaBroker,
    topic: str,
    kubeconfig: Path,
    playground: E2ENamespace,
    referee: AuditCrosscheck,
    tmp_path: Path,
) -> None:
    broker.admin.create_topic(topic, partitions=3)
    playground.add_nodes("n1")
    web = playground.deploy("web", 3)
    playground.add_nodes("n2")
    settings = SETTINGS.format(address=broker.address, topic=topic) + UNLIMITED

    with ControllerProcess(tmp_path, kubeconfig, playground.policy(), settings) as controller:
        playground.taint("n1", "gpu=yes:NoSchedule")
        playground.await_healthy("web", 3, off="n1", within_s=60)
        wait_until(lambda: len(referee.evicted()) == len(web), within_s=60, what="all are evicted")
        assert controller.stop() == 0, controller.tail()

    evicted = {}
    for case in cases(broker, topic).values():
        assert [event["type"].removeprefix(PREFIX) for event in case[: len(WAY)]] == WAY
        assert {event["type"] for event in case[len(WAY) :]} <= {EVICTION_FOLLOWED_UP}
        assert len({event["partitionkey"] for event in case}) == 1
        assert [event["causationid"] for event in case[1:]] == [event["id"] for event in case[:-1]]
        finding, ending = case[0], case[len(WAY) - 1]
        assert finding["data"]["trigger"]["change"] == "NodeTaintsChanged"
        evicted[ending["data"]["who"]["uid"]] = ending["data"]["outcome"]["result"]
    assert evicted == dict.fromkeys(web, "evicted")


def test_the_controller_works_without_the_broker_and_sends_it_everything_later(
    broker: KafkaBroker,
    topic: str,
    kubeconfig: Path,
    playground: E2ENamespace,
    tmp_path: Path,
) -> None:
    broker.admin.create_topic(topic, partitions=3)
    playground.add_nodes("n1")
    web = playground.deploy("web", 3)
    playground.add_nodes("n2")
    settings = SETTINGS.format(address=broker.address, topic=topic) + UNLIMITED

    broker.kill()
    with ControllerProcess(tmp_path, kubeconfig, playground.policy(), settings) as controller:
        playground.taint("n1", "gpu=yes:NoSchedule")
        playground.await_healthy("web", 3, off="n1", within_s=60)
        controller.await_ready()
        controller.kill()
        controller.start()
        broker.start()
        wait_until(lambda: told(broker, topic) == set(web), within_s=60, what="all is told")
        assert controller.stop() == 0, controller.tail()


def told(broker: KafkaBroker, topic: str) -> set[str]:
    """Return the pods of whose eviction Kafka knows."""
    events = (event["data"] for case in cases(broker, topic).values() for event in case)
    return {
        data["who"]["uid"] for data in events if data.get("outcome", {}).get("result") == "evicted"
    }


SEVERAL: Final = """
apiVersion: reactive-desched/v1alpha1
kind: ReactiveSettings
debounce: {{quiet: 200ms, maxWait: 2s}}
sinks:
  kafka: {{brokers: ["{address}"], topic: "{topic}", types: [eviction.succeeded]}}
  additionalKafka:
  - {{name: missing, brokers: ["{address}"], topic: "{topic}-missing", types: [eviction]}}
  - {{name: away, brokers: ["127.0.0.1:9"], topic: "{topic}"}}
  - {{name: decisions, brokers: ["{address}"], topic: "{topic}-decisions", types: [decision]}}
"""


def types_in(broker: KafkaBroker, topic: str) -> Counter[str]:
    """Return how many events of each type a topic has."""
    events = (json.loads(message.value) for message in read_group(broker.address, topic))
    return Counter(event["type"].removeprefix(PREFIX) for event in events)


def test_of_several_sinks_one_fails_and_the_others_go_on_each_with_its_types(
    broker: KafkaBroker,
    topic: str,
    kubeconfig: Path,
    playground: E2ENamespace,
    tmp_path: Path,
) -> None:
    missing, decisions = f"{topic}-missing", f"{topic}-decisions"
    for each in (topic, decisions):
        broker.admin.create_topic(each, partitions=3)
    playground.add_nodes("n1")
    web = playground.deploy("web", 3)
    playground.add_nodes("n2")
    settings = SEVERAL.format(address=broker.address, topic=topic) + UNLIMITED

    with ControllerProcess(tmp_path, kubeconfig, playground.policy(), settings) as controller:
        playground.taint("n1", "gpu=yes:NoSchedule")
        playground.await_healthy("web", 3, off="n1", within_s=60)
        wait_until(
            lambda: types_in(broker, topic) == {"eviction.succeeded.v1": len(web)},
            within_s=60,
            what="the first topic has what succeeded alone",
        )
        wait_until(
            lambda: types_in(broker, decisions)["decision.evict.v1"] == len(web),
            within_s=60,
            what="the other topic has the decisions",
        )
        assert all(name.startswith("decision.") for name in types_in(broker, decisions))
        ups = {
            name: f'reactive_desched_sink_up{{sink="{name}"}} {up}'
            for name, up in {
                "kafka": 1,
                "kafka-decisions": 1,
                "kafka-missing": 0,
                "kafka-away": 0,
            }.items()
        }
        wait_until(
            lambda: (
                [each for each in ups.values() if each not in controller.page("/metrics")] == []
            ),
            within_s=60,
            what="the metrics tell the sinks apart",
        )
        controller.await_ready()

        broker.admin.create_topic(missing, partitions=3)
        wait_until(
            lambda: types_in(broker, missing)["eviction.succeeded.v1"] == len(web),
            within_s=90,
            what="the topic that was missing has what waited",
        )
        assert all(name.startswith("eviction.") for name in types_in(broker, missing))
        assert types_in(broker, topic) == {"eviction.succeeded.v1": len(web)}
        assert controller.stop() == 0, controller.tail()
