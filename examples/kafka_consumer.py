#!/usr/bin/env python3
"""Counts evictions from Kafka, each exactly once, whenever this program is killed.

Events come at least once; one that is sent again has the same source and id. What was seen and the
place in the topic are one SQLite transaction: both hold, or neither.
"""

import asyncio
import json
import sqlite3
import sys

from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]  # it has no types

TABLES = """
CREATE TABLE IF NOT EXISTS place (topic, partition, next, PRIMARY KEY (topic, partition));
CREATE TABLE IF NOT EXISTS seen (source, id, namespace, result, PRIMARY KEY (source, id));
CREATE VIEW IF NOT EXISTS outcomes AS SELECT namespace, result, count(*) AS count FROM seen
    WHERE result IS NOT NULL GROUP BY namespace, result;
"""


def handle(store: sqlite3.Connection, raw: bytes) -> None:
    """Take in one event, unless it was seen before, and print how an eviction ended."""
    event = json.loads(raw)
    ended = event["data"].get("outcome")
    what = (event["data"]["who"]["namespace"], ended["result"]) if ended else (None, None)
    row = (event["source"], event["id"], *what)
    if store.execute("INSERT OR IGNORE INTO seen VALUES (?, ?, ?, ?)", row).rowcount and ended:
        print(f"{event['time']} {event['subject']}: {ended['result']}", flush=True)  # noqa: T201 - its job


async def consume(brokers: str, topic: str, store: sqlite3.Connection) -> None:
    """Follow every partition of the topic from the place that is kept, for ever."""
    store.executescript(TABLES)
    start = {"bootstrap_servers": brokers, "auto_offset_reset": "earliest"}
    async with AIOKafkaConsumer(topic, **start) as consumer:
        places = {(at[0], at[1]): at[2] for at in store.execute("SELECT * FROM place")}
        for partition in consumer.assignment() & places.keys():
            consumer.seek(partition, places[partition])
        while True:
            for partition, records in (await consumer.getmany(timeout_ms=1000)).items():
                with store:  # one transaction
                    for record in records:
                        handle(store, record.value)
                    place = (*partition, records[-1].offset + 1)
                    store.execute("INSERT OR REPLACE INTO place VALUES (?, ?, ?)", place)


if __name__ == "__main__":
    if len(sys.argv) != 4:  # noqa: PLR2004 - the program and what it needs
        sys.exit("usage: kafka_consumer.py BROKERS TOPIC DATABASE")
    asyncio.run(consume(sys.argv[1], sys.argv[2], sqlite3.connect(sys.argv[3])))
