import io
import json
import logging
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any  # a decoded JSON line

import pytest
import structlog

from reactive_desched.errors import ConfigError
from reactive_desched.telemetry import logs
from tests.support.golden import Golden

CANARY = "c4n4ry-s3cr3t-v4lue"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers = []
    yield
    logging.captureWarnings(capture=False)
    root.handlers = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def json_lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_importing_the_module_does_not_import_structlog() -> None:
    code = "import sys, reactive_desched.telemetry.logs; print('structlog' in sys.modules)"

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout == "False\n"


def test_json_is_one_object_per_line_with_time_level_and_fields() -> None:
    stream = io.StringIO()
    logs.configure("info", "json", stream)

    logs.logger("reactive_desched.act").info("evicted", pod="shop/web-1", waited_s=0.5)

    (line,) = json_lines(stream)
    assert list(line)[:3] == ["timestamp", "level", "event"]
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "level": "info",
        "event": "evicted",
        "logger": "reactive_desched.act",
        "pod": "shop/web-1",
        "waited_s": 0.5,
    }


def test_a_line_that_says_when_it_was_said_keeps_that_time() -> None:
    stream = io.StringIO()
    logs.configure("info", "json", stream)

    logs.logger("act").info("evicted", timestamp=logs.format_timestamp(0.25))

    (line,) = json_lines(stream)
    assert line["timestamp"] == "1970-01-01T00:00:00.250000Z"


@pytest.mark.parametrize("style", logs.FORMATS)
@pytest.mark.parametrize("log", [lambda: logs.logger("act"), lambda: logging.getLogger("lib")])
def test_what_is_not_known_is_left_out(style: str, log: Any) -> None:
    stream = io.StringIO()
    logs.configure("info", style, stream)

    fields = {"extra": {"node": None}} if isinstance(log(), logging.Logger) else {"node": None}
    log().info("looked", **fields)

    assert "looked" in stream.getvalue()
    assert "node" not in stream.getvalue()


def test_the_console_shows_the_same_for_eyes() -> None:
    stream = io.StringIO()
    logs.configure("info", "console", stream)

    logs.logger("act").warning("refused", pod="shop/web-1")

    text = stream.getvalue()
    assert "refused" in text
    assert "pod=shop/web-1" in text
    assert "warning" in text
    assert "\x1b" not in text


def test_a_terminal_gets_colours_that_differ_by_severity() -> None:
    stream = Terminal()
    logs.configure("info", "console", stream, environ={"TERM": "xterm"})

    logs.logger("act").info("same")
    logs.logger("act").warning("same")
    logs.logger("act").error("same")

    colours = re.findall(r"\[(\x1b\[\S+?m)\w+ *\x1b", stream.getvalue())
    assert len(set(colours)) == 3


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_a_terminal_without_colours_gets_none(environ: dict[str, str]) -> None:
    stream = Terminal()
    logs.configure("info", "console", stream, environ=environ)

    logs.logger("act").error("evicted")

    assert "\x1b" not in stream.getvalue()


LINE = {
    "gate": "G",
    "reason": "R",
    "trigger": "a change",
    "node": "n1",
    "plugin": "P",
    "pod": "a/b",
}


def test_fields_have_an_order_in_which_a_person_looks_for_them() -> None:
    stream = io.StringIO()
    logs.configure("info", "console", stream, mode="dry_run")

    logs.logger("act").info("deferred", timestamp=logs.format_timestamp(0.25), **LINE)

    assert stream.getvalue() == (
        "1970-01-01T00:00:00.250Z [info     ] deferred                       mode=dry_run pod=a/b"
        ' node=n1 plugin=P reason=R gate=G trigger="a change" logger=act\n'
    )


def test_the_fields_of_json_have_the_same_order() -> None:
    stream = io.StringIO()
    logs.configure("info", "json", stream, mode="dry_run")

    logs.logger("act").info("deferred", **LINE)

    assert list(json_lines(stream)[0]) == [
        *("timestamp", "level", "event", "mode", "pod", "node", "plugin", "reason"),
        *("gate", "trigger", "logger"),
    ]


@pytest.mark.parametrize("style", logs.FORMATS)
def test_without_a_mode_no_line_names_one(style: str) -> None:
    stream = io.StringIO()
    logs.configure("info", style, stream)

    logs.logger("act").info("evicted")

    assert "mode" not in stream.getvalue()


@pytest.mark.parametrize(
    ("value", "written"),
    [
        pytest.param("web-1", "web-1", id="a word"),
        pytest.param("", '""', id="nothing"),
        pytest.param('say "no"', r'"say \"no\""', id="quotes"),
        pytest.param("a\nb", r'"a\nb"', id="two lines"),
        pytest.param(True, "true", id="a truth"),
        pytest.param(["a", "b c"], '["a","b c"]', id="a list"),
    ],
)
def test_a_value_stands_on_the_console_so_that_its_end_is_seen(value: Any, written: str) -> None:
    stream = io.StringIO()
    logs.configure("info", "console", stream)

    logs.logger("act").info("looked", value=value)

    assert f" value={written} logger=act\n" in stream.getvalue()


def test_less_than_the_level_is_silent() -> None:
    stream = io.StringIO()
    logs.configure("warning", "json", stream)

    logs.logger("act").info("no")
    logging.getLogger("aiohttp").info("no")
    logs.logger("act").error("yes")

    assert [line["event"] for line in json_lines(stream)] == ["yes"]


def test_libraries_that_use_the_standard_logging_look_the_same() -> None:
    stream = io.StringIO()
    logs.configure("info", "json", stream)

    logging.getLogger("aiohttp.server").error("bad %s", "request", extra={"peer": "10.0.0.1"})

    (line,) = json_lines(stream)
    assert (line["event"], line["logger"], line["level"], line["peer"]) == (
        "bad request",
        "aiohttp.server",
        "error",
        "10.0.0.1",
    )


def test_warnings_are_logged() -> None:
    stream = io.StringIO()
    logging.captureWarnings(capture=False)  # pytest undoes half of what an earlier test set up
    logs.configure("info", "json", stream)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old thing", DeprecationWarning, stacklevel=1)

    assert "old thing" in json_lines(stream)[0]["event"]


@pytest.mark.parametrize("style", logs.FORMATS)
@pytest.mark.parametrize("log", [lambda: logs.logger("act"), lambda: logging.getLogger("lib")])
def test_exceptions_come_with_their_traceback_but_no_local_variables(style: str, log: Any) -> None:
    stream = io.StringIO()
    logs.configure("info", style, stream)

    def fail(hidden: str) -> None:
        raise OSError(f"{len(hidden)} bytes lost")

    try:
        fail(CANARY)
    except OSError:
        log().exception("failed")

    text = stream.getvalue()
    assert "OSError: 19 bytes lost" in text
    assert "Traceback" in text
    assert CANARY not in text


@pytest.mark.parametrize("style", logs.FORMATS)
@pytest.mark.parametrize(
    "fields",
    [
        {"token": CANARY},
        {"bearerToken": CANARY},
        {"client_secret": CANARY.encode()},
        {"passwords": {"password": CANARY}},
        {"headers": {"Authorization": f"Bearer {CANARY}"}},
        {"headers": [{"Set-Cookie": CANARY}]},
        {"client-key-data": CANARY},
        {"user": {"apiKey": CANARY}},
        {"text": f"curl -H 'authorization: bearer {CANARY}'"},
        {"url": f"https://user:{CANARY}@host/path"},
        {"error": ValueError(f"Bearer {CANARY} was refused")},
        {"raw": f"Basic {CANARY}".encode()},
        {"pem": f"-----BEGIN EC PRIVATE KEY-----\n{CANARY}\n-----END EC PRIVATE KEY-----"},
        {"jwt": f"got eyJhbGciOiJSUzI1NiJ9.{CANARY}.sig"},
        {"deep": [[[[[[[[{"token": CANARY}]]]]]]]]},
    ],
    ids=str,
)
def test_secrets_never_reach_the_stream(style: str, fields: dict[str, Any]) -> None:
    stream = io.StringIO()
    logs.configure("info", style, stream)

    logs.logger("act").info("said", **fields)
    logging.getLogger("lib").info("said %s", fields.get("text", ""), extra=fields)

    assert "said" in stream.getvalue()
    assert CANARY not in stream.getvalue()


def test_a_secret_inside_a_traceback_does_not_reach_the_stream() -> None:
    stream = io.StringIO()
    logs.configure("info", "json", stream)

    def fail() -> None:
        raise OSError("Bearer " + CANARY)

    try:
        fail()
    except OSError:
        logs.logger("act").exception("failed")

    assert "OSError: Bearer [redacted]" in stream.getvalue()


@pytest.mark.parametrize(
    "fields",
    [
        {"tokens": 3},
        {"token": 3},
        {"tokens_left": "2 of 3"},
        {"author": "me"},
        {"monkey": "banana"},
        {"image": "registry:5000/web@sha256:abc"},
        {"pods": ["shop/web-1"]},
        {"reason": "does not tolerate gpu=true:NoSchedule"},
    ],
    ids=str,
)
def test_what_is_no_secret_is_left_alone(fields: dict[str, Any]) -> None:
    stream = io.StringIO()
    logs.configure("info", "json", stream)

    logs.logger("act").info("said", **fields)

    (line,) = json_lines(stream)
    assert fields.items() <= line.items()


@pytest.mark.parametrize(
    "value",
    ["broken \udc80 text", float("nan"), object(), {1: 2}, {"a", "b"}, b"\xff", 1 << 80, "Łódź"],
    ids=lambda value: type(value).__name__,
)
def test_any_value_can_be_logged_as_json(value: object) -> None:
    stream = io.StringIO()
    logs.configure("info", "json", stream)

    logs.logger("act").info("odd", value=value)

    assert json_lines(stream)[0]["event"] == "odd"


def test_configuring_again_replaces_what_was() -> None:
    first, second = io.StringIO(), io.StringIO()
    logs.configure("info", "json", first)
    logs.configure("info", "json", second)

    logs.logger("act").info("once")

    assert first.getvalue() == ""
    assert len(json_lines(second)) == 1


def test_a_logger_that_was_used_before_follows_another_configuration() -> None:
    first, second = io.StringIO(), io.StringIO()
    log = logs.logger("act")
    logs.configure("info", "json", first)
    log.info("once")
    logs.configure("info", "json", second)
    log.info("twice")

    assert [line["event"] for line in json_lines(second)] == ["twice"]


@pytest.mark.parametrize("style", logs.FORMATS)
def test_a_line_that_the_stream_does_not_take_is_lost_and_nothing_else(style: str) -> None:
    stream = io.StringIO()
    logs.configure("info", style, stream)
    stream.close()

    logs.logger("act").info("evicted", pod="shop/web-1")


@pytest.mark.parametrize("text", ["BEARER {}", "basic {}", "got a Basic {}"])
def test_a_secret_is_found_in_small_and_in_capital_letters(text: str) -> None:
    stream = io.StringIO()
    logs.configure("info", "json", stream)

    logs.logger("act").info("refused", message=text.format(CANARY))

    assert CANARY not in stream.getvalue()


@pytest.mark.parametrize(
    ("level", "style"),
    [
        ("loud", "json"),
        ("info", "xml"),
    ],
)
def test_unknown_settings_are_refused_with_the_choices(
    level: str, style: str, golden: Golden
) -> None:
    with pytest.raises(ConfigError) as caught:
        logs.configure(level, style, io.StringIO())

    assert golden() in str(caught.value)


@pytest.mark.parametrize("style", ["console", "json"])
def test_nothing_in_a_line_is_a_command_to_a_terminal(style: str) -> None:
    stream = io.StringIO()
    logs.configure("info", style, stream, environ={})
    text = "\x1b[2J\x9b2J\u202eevil\u2066 \u2028 \U000e0001 ключ"

    logs.logger("test").info("found", pod=text, message="\x9b")

    [line] = stream.getvalue().splitlines()
    assert line.isprintable()
    assert "ключ" in line
    if style == "json":
        assert (json.loads(line)["pod"], json.loads(line)["message"]) == (text, "\x9b")


def test_a_text_in_a_line_has_a_length() -> None:
    stream = io.StringIO()
    logs.configure("info", "console", stream, environ={})

    logs.logger("test").info("found", pod="x" * 1_000_000)

    assert len(stream.getvalue()) < 20_000
    assert "more characters)" in stream.getvalue()
