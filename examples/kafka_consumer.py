#!/usr/bin/env python3
"""Counts evictions from Kafka, each exactly once, whenever this program is killed.

Events come at least once; one that is sent again has the same source and id. What was seen, what it
was counted as and the place in the topic are one SQLite transaction: all of it holds, or none.
"""

import asyncio
import json
import sqlite3
import sys
from typing import Any

from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]  # it has no types

TABLES = """
CREATE TABLE IF NOT EXISTS place (topic, partition, next, PRIMARY KEY (topic, partition));
CREATE TABLE IF NOT EXISTS seen (source, id, PRIMARY KEY (source, id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS outcomes (namespace, result, count, PRIMARY KEY (namespace, result));
"""
COUNT = "INSERT INTO outcomes VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET count = count + 1"


def handle(store: sqlite3.Connection, event: dict[str, Any]) -> str | None:
    """Count an event that ends an eviction, once; return a line about it, None if there is none."""
    seen = store.execute("INSERT OR IGNORE INTO seen VALUES (?, ?)", (event["source"], event["id"]))
    if not seen.rowcount or not (outcome := event["data"].get("outcome")):
        return None
    store.execute(COUNT, (event["data"]["who"]["namespace"], outcome["result"]))
    return f"{event['time']} {event['subject']}: {outcome['result']}"


async def consume(brokers: str, topic: str, store: sqlite3.Connection) -> None:
    """Follow every partition of the topic from the place that is kept, for ever."""
    store.executescript(TABLES)
    async with AIOKafkaConsumer(
        topic, bootstrap_servers=brokers, auto_offset_reset="earliest"
    ) as consumer:
        places = {(at[0], at[1]): at[2] for at in store.execute("SELECT * FROM place")}
        for partition in consumer.assignment() & places.keys():
            consumer.seek(partition, places[partition])
        while True:
            lines = []
            for partition, records in (await consumer.getmany(timeout_ms=1000)).items():
                with store:  # one transaction
                    lines += [handle(store, json.loads(record.value)) for record in records]
                    next_ = records[-1].offset + 1
                    store.execute(
                        "INSERT OR REPLACE INTO place VALUES (?, ?, ?)", (*partition, next_)
                    )
            for line in filter(None, lines):
                print(line, flush=True)  # noqa: T201 - what this program is for


if __name__ == "__main__":
    try:
        asyncio.run(consume(sys.argv[1], sys.argv[2], sqlite3.connect(sys.argv[3])))
    except IndexError:
        sys.exit("usage: kafka_consumer.py BROKERS TOPIC DATABASE")
