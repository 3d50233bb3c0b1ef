"""Writes to a chat what plugins propose: one message about all that is new, now and then."""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
from yarl import URL

from reactive_desched.controller.pipeline import Pipeline
from reactive_desched.controller.proposals import ProposalGroup
from reactive_desched.errors import EventRejected, SinkUnavailable
from reactive_desched.journal.cluster import ClusterIdentity
from reactive_desched.model.kube_events import CONTROLLER
from reactive_desched.policy.settings.chat import ChatSettings
from reactive_desched.policy.settings.webhook_url import webhook_url_error
from reactive_desched.sinks.webhook.chat import ProposedPods, encode
from reactive_desched.sinks.webhook.client import WebhookAddress, WebhookClient
from reactive_desched.sinks.webhook.responses import classify_response
from reactive_desched.sinks.webhook.signing import WebhookSigner
from reactive_desched.telemetry.logs import Logger
from reactive_desched.telemetry.metrics import Metric, counter
from reactive_desched.text.ages import describe_asked_wait
from reactive_desched.text.counts import format_count

CHAT_MESSAGES: Final = counter(
    "chat_messages",
    "Messages to the chat about what is proposed: sent, rejected by it, or failed and tried again.",
    "result",
)

MAX_RETRY_AFTER_S: Final = 3600.0
"""The longest Retry-After that is obeyed."""

MAX_URL_BYTES: Final = 4096
TIMEOUT_S: Final = 10.0

Post = Callable[[bytes], Awaitable[None]]
"""Posts a message; raises SinkUnavailable where it is to be tried again, else EventRejected."""


class ProposalMessages:
    """Says in a chat what is proposed, each proposal once in the life of this process.

    At most one message is sent in `settings.every_s`, about all that was proposed since the last.
    `cluster` names the cluster, for people.
    """

    def __init__(
        self, pipeline: Pipeline, settings: ChatSettings, post: Post, cluster: str, log: Logger
    ) -> None:
        self._controller = pipeline.controller
        self._description = pipeline.description
        self._settings = settings
        self._post = post
        self._cluster = cluster
        self._log = log
        self._said: frozenset[str] = frozenset()
        self._results: Counter[str] = Counter()
        self._problem = ""

    def collect(self) -> Iterator[Metric]:
        """Yield how many messages there were."""
        yield CHAT_MESSAGES.by_label(self._results)

    async def run(self) -> None:
        """Write messages until cancelled."""
        await self._controller.initial_sync_done.wait()
        wait_s = self._settings.every_s
        while True:
            await anyio.sleep(wait_s)
            wait_s = max(self._settings.every_s, await self._say_what_is_new())

    async def _say_what_is_new(self) -> float:
        """Send a message if there is something new; return how long the chat wants us to wait."""
        found = await self._description.proposals()
        standing = {each.id for group in found.groups for each in group.proposals}
        new = [
            group
            for group in found.groups
            if any(each.id not in self._said for each in group.proposals)
        ]
        self._said &= standing
        if not new:
            return 0.0
        pods = format_count(sum(group.total for group in new), "pod", "is", "are")
        title = f"{self._cluster}: {pods} proposed to be evicted"
        try:
            await self._post(encode(self._settings.form, title, [*map(_proposed, new)]))
        except SinkUnavailable as error:
            asked_s = error.retry_after_s
            self._note("failed", f"{error}{describe_asked_wait(asked_s, MAX_RETRY_AFTER_S)}")
            return min(asked_s or 0.0, MAX_RETRY_AFTER_S)
        except EventRejected as error:
            self._note("rejected", str(error))
        else:
            self._note("sent", "")
        self._said |= standing
        return 0.0

    def _note(self, result: str, problem: str) -> None:
        self._results[result] += 1
        if problem and problem != self._problem:
            self._log.warning("a message to the chat failed", result=result, message=problem)
        self._problem = problem


def open_chat(
    settings: ChatSettings, pipeline: Pipeline, cluster: ClusterIdentity, log: Logger
) -> ProposalMessages:
    """Return what writes to the chat of these settings."""
    post = partial(post_to_chat, settings, time.time)
    return ProposalMessages(pipeline, settings, post, cluster.title or CONTROLLER, log)


def _proposed(group: ProposalGroup) -> ProposedPods:
    return ProposedPods(
        group.id,
        group.profile,
        group.plugin,
        group.node,
        group.finding,
        group.total,
        tuple(f"{each.namespace}/{each.pod}" for each in group.proposals),
    )


async def post_to_chat(settings: ChatSettings, wall: Callable[[], float], message: bytes) -> None:
    """Post a message to the URL that the file holds now; the URL is in no error.

    Raises SinkUnavailable where it is to be tried again, and EventRejected where the chat takes no
    such message.
    """
    url = await anyio.to_thread.run_sync(_read_url, settings.url_file)
    address = WebhookAddress(
        URL(url, encoded=True), "application/json; charset=utf-8", settings.ca_file, TIMEOUT_S
    )
    client = WebhookClient(address, WebhookSigner("", ""), wall)
    try:
        answer = await client.post("proposals", message)
    finally:
        await client.close()
    if (error := classify_response(answer, client.origin, wall())) is not None:
        raise error


def _read_url(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            url = file.read(MAX_URL_BYTES).decode(errors="replace").strip()
    except OSError as error:
        raise SinkUnavailable(f"urlFile {path} cannot be read: {error.strerror}") from error
    if (wrong := webhook_url_error(url)) is not None:
        raise SinkUnavailable(f"urlFile {path}: {wrong.message}; {wrong.hint}")
    return url
