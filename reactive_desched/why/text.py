"""The answers of `why` as text: its state first, then what led to it."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from reactive_desched.primitives.bounded_text import escaped
from reactive_desched.text.ages import format_age, left_until
from reactive_desched.text.counts import and_more, format_count
from reactive_desched.text.layout import TextLayout, align, hanging_indent, titled
from reactive_desched.text.terminal import BOLD, GREEN, RED, YELLOW
from reactive_desched.text.workloads import name_of_key

_STYLES: Final = {"waits": YELLOW, "evicting": RED, "moved": RED, "taken": RED, "stays": GREEN}
_HEAD_WIDTH: Final = 10

Answer = Mapping[str, Any]
"""An answer as its JSON has it."""


def answer_lines(answer: Answer, now: datetime, layout: TextLayout) -> Iterator[str]:
    """Yield the lines of an answer about a pod, a node or a workload."""
    answer = _printable(answer)
    text = _Text(now, layout)
    if "plugins" in answer:
        yield from text.pod(answer)
    elif "taints" in answer:
        yield from text.node(answer)
    else:
        yield from text.owner(answer)


def _printable(value: Any) -> Any:
    """Return an answer, or a part of one, in whose texts a terminal finds no command."""
    match value:
        case str():
            return escaped(value)
        case Mapping():
            return {key: _printable(each) for key, each in value.items()}
        case list() | tuple():
            return [_printable(each) for each in value]
        case _:
            return value


class _Text:
    """Writes answers; ages count to `now`."""

    def __init__(self, now: datetime, layout: TextLayout) -> None:
        self._now = now
        self._layout = layout

    def pod(self, answer: Answer) -> Iterator[str]:
        """Yield the state of a pod, and everything it rests on."""
        names = (name_of_key(each, answer["namespace"]) for each in answer["owners"])
        owners = " < ".join(names) or "no owner"
        yield from self._line("pod", f"{self._facts(answer)}, of {owners}")
        yield from self._state(answer["state"], answer["reason"], answer["summary"])
        yield from self._paused(answer)
        yield from self._next(answer)
        yield from self._jobs(answer["jobs"])
        if answer["plugins"]:
            yield from self._plugins(answer["plugins"])
        for profile in answer["profiles"]:
            yield from self._profile(profile)
        yield from self._history(answer["history"])
        if reason := answer["reason"]:
            yield ""
            explain = f"`reactive-desched policy explain {reason}` explains the reason"
            yield from self._line("docs", explain)

    def node(self, answer: Answer) -> Iterator[str]:
        """Yield the state of a node, and of each of its pods."""
        taints = ", ".join(answer["taints"]) or "no taints"
        yield from self._line(
            "node", f"{answer['node']}, {format_count(answer['total'], 'pod')}, {taints}"
        )
        yield from self._line("", answer["summary"], "" if answer["covered"] else YELLOW)
        yield from self._paused(answer)
        yield from self._pods(answer)

    def owner(self, answer: Answer) -> Iterator[str]:
        """Yield the state of a workload, and of each of its pods."""
        wanted = "" if answer["wanted"] is None else f" of {answer['wanted']} that it wants"
        moving = f", {answer['moving']} moving" if answer["moving"] else ""
        pods = f"{format_count(answer['total'], 'pod')}{wanted}{moving}"
        yield from self._line("owner", f"{name_of_key(answer['owner'])}, {pods}")
        yield from self._paused(answer)
        yield from self._pods(answer)

    def _facts(self, answer: Answer) -> str:
        name = f"{answer['namespace']}/{answer['name']}"
        if answer["created"] is None:
            return f"{name}, gone from {answer['node']}"
        age = self._age(answer["created"])
        return f"{name} on {answer['node'] or 'no node'}, {answer['phase']}, {age} old"

    def _state(self, state: str, reason: str, summary: str) -> Iterator[str]:
        code = f" ({reason})" if reason else ""
        yield from self._line("state", f"{state}{code}: {summary}", _STYLES.get(state, ""))

    def _paused(self, answer: Answer) -> Iterator[str]:
        if answer["paused"]:
            yield from self._line("paused", f"nothing is evicted now: {answer['paused']}", RED)

    def _next(self, answer: Answer) -> Iterator[str]:
        """Say when the pod is evaluated again, and what would change that state.

        The gates answer now: another one than that of the decision may be the first to reject.
        """
        if answer["created"] is None:
            show = f"reactive-desched audit show {answer['namespace']}/{answer['name']}"
            yield from self._line("next", f"`{show}` has its records")
            return
        rejections = [
            gate
            for profile in answer["profiles"]
            if not profile["assumed"]
            for gate in profile["gates"]
            if not gate["passes"]
        ]
        if any(each.get("queued") for each in answer["plugins"]):
            yield from self._line("next", "it is evaluated as soon as it has been quiet")
        if not rejections:
            return
        first = answer if answer["state"] == "waits" else rejections[0]
        setting = first.get("setting") or ""
        is_held = answer["paused"] and not setting.startswith("brakes.")
        texts = ["once evictions go on"] if is_held else []
        times = [each["until"] for each in answer["plugins"] if each.get("until")]
        is_least = any(each.get("isLeast") for each in answer["plugins"])
        if until := min(times, default=rejections[0].get("until")):
            end = "at the earliest" if is_least else "at the latest"
            texts.append(f"{left_until(until, self._now)} {end}")
        if awaited := first.get("waitsFor"):
            texts.append(f"after {' or '.join(awaited)}")
        if setting:
            texts.append(f"setting {setting} {'counts then' if is_held else 'would change it'}")
        if texts:
            yield from self._line("next", f"it is evaluated again {'; '.join(texts)}")

    def _jobs(self, jobs: Sequence[Answer]) -> Iterator[str]:
        """Say which migration jobs name the pod, and how far each is."""
        for each in jobs:
            why = ": ".join(filter(None, (each.get("reason"), _with_setting(each))))
            state = "paused" if each.get("isPaused") else each["phase"]
            text = f"{each['name']}, made: {each['madeBy']}, {state}"
            yield from self._line("job", f"{text}; {why}" if why else text)

    def _plugins(self, plugins: Sequence[Answer]) -> Iterator[str]:
        rows = [("PROFILE", "PLUGIN", "ANSWER", "MESSAGE")]
        rows += [
            (each["profile"], _with_mode(each), each["answer"], each["message"]) for each in plugins
        ]
        yield from self._table("plugins", rows)

    def _profile(self, profile: Answer) -> Iterator[str]:
        title = f"gates of profile {profile['profile']}"
        if profile["assumed"]:
            title += f", as they would answer a finding of {profile['plugin']}"
        passing = [gate["gate"] for gate in profile["gates"] if gate["passes"]]
        rows = [("GATE", "REASON", "MESSAGE")]
        rows += [
            (gate["gate"], gate["reason"], _with_setting(gate))
            for gate in profile["gates"]
            if not gate["passes"]
        ]
        if len(rows) > 1:
            yield from self._table(title, rows)
        else:
            yield ""
            yield self._layout.styled(BOLD, title)
        if passing:
            yield from hanging_indent("  pass: ", ", ".join(passing), self._layout)
        for gate in profile["gates"]:
            if gate["passes"] and gate.get("message"):
                head = f"  {gate['gate']} passes: "
                yield from hanging_indent(head, gate["message"], self._layout)
        yield from hanging_indent("  other nodes: ", profile["nodes"], self._layout)

    def _history(self, history: Sequence[Answer]) -> Iterator[str]:
        if not history:
            return
        rows = [("AGE", "POD", "FROM", "PLUGIN", "RESULT", "TO")]
        rows += [
            (
                self._age(each["ended"]),
                each["pod"],
                each["fromNode"],
                each["plugin"],
                each["result"] if each.get("helped") else f"{each['result']}, did not help",
                each.get("toNode") or "-",
            )
            for each in history
        ]
        yield from self._table("earlier evictions of this workload", rows)

    def _pods(self, answer: Answer) -> Iterator[str]:
        counts = ", ".join(f"{state}: {count}" for state, count in answer["states"].items())
        rows = [("POD", "NODE", "STATE", "REASON", "SUMMARY")]
        rows += [
            (
                f"{each['namespace']}/{each['name']}",
                each["node"] or "-",
                each["state"],
                each["reason"] or "-",
                each["summary"],
            )
            for each in answer["pods"]
        ]
        yield from self._table(f"pods, {counts or 'none'}", rows if answer["pods"] else [])
        if (more := answer["total"] - len(answer["pods"])) > 0:
            yield f"  {and_more(more, 'pod')}"

    def _table(self, title: str, rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
        yield ""
        yield self._layout.styled(BOLD, title)
        if rows:
            yield from align(rows, width=self._layout.width, indent="  ")

    def _line(self, head: str, text: str, style: str = "") -> Iterator[str]:
        yield from titled(head, text, self._layout, width=_HEAD_WIDTH, style=style)

    def _age(self, time: str) -> str:
        span: timedelta = self._now - datetime.fromisoformat(time)
        return format_age(span.total_seconds())


def _with_mode(plugin: Answer) -> str:
    return f"{plugin['plugin']} ({mode})" if (mode := plugin.get("mode")) else plugin["plugin"]


def _with_setting(gate: Answer) -> str:
    setting, message = gate.get("setting"), str(gate.get("message", ""))
    return f"{message} [setting: {setting}]" if setting else message
