"""Calendars are read again and again; one that cannot be read keeps what was read last."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from ssl import SSLContext

import anyio
import pytest
from aiohttp import web

from reactive_desched.app.calendars import FILE, CalendarPolling, read_kept
from reactive_desched.app.config_reload import ActiveConfig
from reactive_desched.app.input_notes import in_force
from reactive_desched.plan.recorded_moment import read_configuration
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.freeze_calendar import MAX_BYTES, CalendarError
from reactive_desched.policy.load import load_sources
from reactive_desched.policy.settings.limits import CalendarSettings
from reactive_desched.recording.items import NO_TIME
from reactive_desched.usage.calendars import read_calendar
from tests.support.authority import CertificateAuthority
from tests.support.golden import Golden
from tests.support.http_proxy import HttpProxy
from tests.support.manual_clock import ManualClock, wait_until
from tests.support.recording_logger import RecordingLogger

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

POLICY = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\nprofiles: [{name: p}]\n"
SETTINGS = "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\nbudgets:\n  schedules:\n"
FREEZES = "{name: freezes, calendar: {file: a.ics, refresh: 15m, timeout: 5s}}"
SECRET = "c4n4ry"


def calendar(*days: str) -> bytes:
    events = "".join(
        f"BEGIN:VEVENT\r\nUID:{day}\r\nDTSTART;VALUE=DATE:{day}\r\nEND:VEVENT\r\n" for day in days
    )
    return f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\n{events}END:VCALENDAR\r\n".encode()


def configuration(*schedules: str) -> Configuration:
    settings = SETTINGS + "".join(f"  - {each}\n" for each in schedules)
    texts = [SourceText(POLICY, "p.yaml"), SourceText(settings, "s.yaml")]
    return load_sources(texts, plugin_registry())


class Polling(CalendarPolling):
    """Reads texts that a test sets, by the file's name; `put` has what was put in force."""

    def __init__(self, *schedules: str) -> None:
        self.clock = ManualClock()
        self.log = RecordingLogger()
        self.texts: dict[str, bytes | str | float] = {}
        self.reads: list[str] = []
        self.put: list[Configuration] = []
        self.active = ActiveConfig(configuration(*(schedules or (FREEZES,))))
        super().__init__(self.active, self, self.clock, self.log, self.read)

    async def read(self, settings: CalendarSettings) -> bytes:
        self.reads.append(settings.file)
        found = self.texts[settings.file]
        if isinstance(found, str):
            raise CalendarError(found)
        if isinstance(found, float):
            await anyio.sleep(found)
            return b""
        return found

    def reconfigure(self, config: Configuration) -> None:
        self.put.append(config)

    @property
    def known(self) -> dict[int, int]:
        """How many freezes are in force, by schedule."""
        return {number: len(each) for number, each in self.active.configuration.calendars.items()}

    def warnings(self) -> list[str]:
        return [each["message"] for each in self.log.values_of("a calendar cannot be read")]


async def test_a_calendar_is_put_in_force_once_and_read_again_when_it_is_due() -> None:
    polling = Polling()
    polling.texts["a.ics"] = calendar("20261224")
    await polling.poll()
    assert polling.known == {0: 1}
    assert polling.put == [polling.active.configuration]

    await polling.poll()
    polling.clock.advance(899)
    await polling.poll()
    assert polling.reads == ["a.ics"]
    polling.clock.advance(1)
    await polling.poll()
    assert len(polling.reads) == 2
    assert len(polling.put) == 1

    polling.texts["a.ics"] = calendar("20261224", "20261231")
    polling.clock.advance(900)
    await polling.poll()
    assert polling.known == {0: 2}
    assert len(polling.put) == 2


async def test_one_that_was_never_read_is_not_well() -> None:
    polling = Polling()
    assert polling.check() == (False, "freezes: no answer yet", False)
    polling.texts["a.ics"] = 5.0
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(polling.poll)
        await wait_until(lambda: bool(polling.reads))
        assert polling.check() == (False, "freezes: no answer yet", False)
        assert [each.problem for each in polling.states()] == ["no answer yet"]
        tasks.cancel_scope.cancel()


async def test_one_that_cannot_be_read_keeps_what_was_read_last_and_says_so(
    golden: Golden,
) -> None:
    polling = Polling()
    polling.texts["a.ics"] = "the server answers 503"
    await polling.poll()
    assert polling.known == {}
    assert not polling.check().ok

    polling.texts["a.ics"] = calendar("20261224")
    polling.clock.advance(60)
    await polling.poll()
    assert polling.known == {0: 1}
    assert polling.check() == (True, "freezes: ok", True)

    polling.clock.advance(900)
    for text in (b"<html>", b"<html>", "the server answers 503"):
        polling.texts["a.ics"] = text
        await polling.poll()
        polling.clock.advance(60)
    assert polling.known == {0: 1}
    assert len(polling.put) == 1
    assert polling.check() == (False, "freezes: the server answers 503", False)
    assert "\n".join(polling.warnings()) == golden()
    reads, age = polling.collect()
    assert reads.samples == {("freezes", "ok"): 1, ("freezes", "failed"): 4}
    assert age.samples == {("freezes",): 1080}


async def test_no_answer_ends_after_the_timeout(golden: Golden) -> None:
    polling = Polling("{name: f, calendar: {file: a.ics, timeout: 1ms, whileUnread: open}}")
    polling.texts["a.ics"] = 60.0
    await polling.poll()

    assert polling.warnings() == [golden()]


async def test_a_reload_keeps_the_calendars_that_stay_and_reads_others() -> None:
    polling = Polling(FREEZES)
    polling.texts |= {"a.ics": calendar("20261224"), "b.ics": calendar()}
    await polling.poll()

    other = configuration("{name: b, calendar: {file: b.ics}}", "{close: [tue]}", FREEZES)
    kept = other.keep_calendars(polling.active.configuration)
    assert {number: len(each) for number, each in kept.calendars.items()} == {2: 1}
    polling.active.replace(kept)
    await polling.poll()

    assert polling.known == {0: 0, 2: 1}
    assert polling.reads == ["a.ics", "b.ics"]
    zone = FREEZES.replace("{name", "{timeZone: Asia/Tokyo, name")
    assert configuration(zone).keep_calendars(kept).calendars == {}


async def test_a_recording_has_what_was_read() -> None:
    polling = Polling(FREEZES, "{name: none, calendar: {file: b.ics}}")
    polling.texts |= {"a.ics": calendar("20261224", "20261231"), "b.ics": calendar()}
    await polling.poll()

    recorded = in_force(NO_TIME, polling.active.configuration, dry_run=False)
    read = read_configuration(recorded, plugin_registry())

    assert read.calendars == polling.active.configuration.calendars
    assert polling.known == {0: 2, 1: 0}


@asynccontextmanager
async def kept_in(polling: Polling, folder: Path) -> AsyncIterator[None]:
    """Keep what is read in a folder while the block lasts."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(polling.keep_in, folder)
        await anyio.wait_all_tasks_blocked()
        yield
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()  # a file that is being written is written to its end


async def read_once(folder: Path, *schedules: str) -> None:
    """Let a process read the calendars of these schedules, and end."""
    polling = Polling(*schedules)
    polling.texts |= {"a.ics": calendar("20261224"), "b.ics": calendar("20261231", "20270103")}
    async with kept_in(polling, folder):
        await polling.poll()


async def test_a_process_goes_by_what_an_earlier_one_read_until_it_has_read_it_itself(
    tmp_path: Path,
) -> None:
    await read_once(tmp_path)
    polling = Polling()
    polling.clock.advance(3600)
    polling.texts["a.ics"] = "the server answers 503"
    await polling.poll()
    assert polling.known == {}
    async with kept_in(polling, tmp_path):
        await until_known(polling)
        assert polling.known == {0: 1}
        [state] = polling.states()
        assert state.is_kept
        assert state.problem == "the server answers 503"
        assert state.read is not None
        assert polling.clock.wall() - state.read.timestamp() == pytest.approx(3600)

        polling.texts["a.ics"] = calendar("20261224", "20261231")
        polling.clock.advance(60)
        await polling.poll()
        assert polling.known == {0: 2}
        [state] = polling.states()
        assert not state.is_kept
        assert not state.problem


async def until_known(polling: Polling) -> None:
    """Poll until something counts: the folder is read by another thread."""
    while not polling.known:
        await anyio.sleep(0.001)
        await polling.poll()


async def test_only_the_calendars_of_the_settings_are_kept_and_no_address(tmp_path: Path) -> None:
    other = "{name: b, calendar: {file: b.ics}}"
    await read_once(tmp_path, FREEZES, other)
    await read_once(tmp_path, other)
    kept = read_kept(tmp_path)
    assert [len(each.spans) for each in kept.values()] == [2]
    assert "b.ics" not in (tmp_path / FILE).read_text()


async def test_another_time_zone_or_place_is_another_calendar(tmp_path: Path) -> None:
    await read_once(tmp_path)
    zone = FREEZES.replace("{name", "{timeZone: Asia/Tokyo, name")
    polling = Polling(zone, FREEZES.replace("a.ics", "c.ics"), FREEZES)
    polling.texts |= {"a.ics": "gone", "c.ics": "gone"}
    async with kept_in(polling, tmp_path):
        await until_known(polling)
    assert polling.known == {2: 1}


async def test_a_damaged_file_counts_as_none_and_is_written_anew(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("{")
    polling = Polling()
    polling.texts["a.ics"] = "gone"
    async with kept_in(polling, tmp_path):
        await polling.poll()
        assert polling.known == {}
        [warning] = polling.log.values_of("kept calendars cannot be read")
        polling.texts["a.ics"] = calendar("20261224")
        polling.clock.advance(60)
        await polling.poll()
    assert FILE in warning["message"]
    assert len(read_kept(tmp_path)) == 1


@asynccontextmanager
async def serving(body: bytes, tls: SSLContext | None = None) -> AsyncIterator[int]:
    """Serve a body to whoever shows the token, on a free port, and return that."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.headers.get("Authorization") not in (None, f"Bearer {SECRET}"):
            return web.Response(status=401)
        if request.path == "/moved":
            return web.Response(status=302, headers={"Location": "/"})
        return web.Response(body=body)

    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def refusal(settings: CalendarSettings, **environ: str) -> str:
    with pytest.raises(CalendarError) as caught:
        await read_calendar(settings, environ)
    assert SECRET not in str(caught.value)
    return str(caught.value)


async def test_an_address_is_asked_with_the_token_and_the_authority(tmp_path: Path) -> None:
    authority, token = CertificateAuthority(), tmp_path / "token"
    token.write_text(f"{SECRET}\n")
    ca_file = authority.write(tmp_path / "ca.crt")
    tls = authority.server_context(tmp_path, "localhost")
    async with serving(calendar("20261224"), tls) as port:
        url = f"https://localhost:{port}/{SECRET}.ics"
        settings = CalendarSettings(url=url, ca_file=str(ca_file), token_file=str(token))
        assert await read_calendar(settings, {}) == calendar("20261224")

        text = await refusal(CalendarSettings(url=url, token_file=str(token)))
        assert "cannot trust" in text


async def test_it_is_asked_through_the_environments_proxy(tmp_path: Path) -> None:
    authority = CertificateAuthority()
    ca_file = authority.write(tmp_path / "ca.crt")
    tls = authority.server_context(tmp_path, "calendar.example")
    async with serving(calendar(), tls) as port, HttpProxy().serving() as proxy:
        settings = CalendarSettings(
            url=f"https://calendar.example:{port}/a.ics", ca_file=str(ca_file)
        )
        assert await read_calendar(settings, {"https_proxy": proxy.url}) == calendar()
    assert proxy.asked == [f"CONNECT calendar.example:{port}"]


async def test_what_is_no_answer_says_why_without_the_address(tmp_path: Path) -> None:
    async with serving(b"x" * (MAX_BYTES + 10)) as port:
        url = f"http://127.0.0.1:{port}/{SECRET}"
        assert len(await read_calendar(CalendarSettings(url=url), {})) == MAX_BYTES + 1
        moved = CalendarSettings(url=f"http://127.0.0.1:{port}/moved")
        assert await refusal(moved) == "the server answers 302 Found"
        token = tmp_path / "token"
        token.write_text("wrong")
        text = await refusal(CalendarSettings(url=url, token_file=str(token)))
        assert text == "the server answers 401 Unauthorized"
    assert "127.0.0.1" in await refusal(CalendarSettings(url=url))
    missing = CalendarSettings(file=str(tmp_path / "none.ics"))
    assert await refusal(missing) == f"{missing.file} is no file"


async def test_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.ics"
    file.write_bytes(calendar("20261224"))

    assert await read_calendar(CalendarSettings(file=str(file)), {}) == calendar("20261224")
