"""However files change, a text counts once it is whole and stays the same."""

import os
import threading
from pathlib import Path

import anyio
import pytest

from reactive_desched.app.config_reload import ConfigFiles, fingerprint
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.load import load_files
from reactive_desched.policy.scheduler_texts import SchedulerTexts
from tests.support.golden import Golden
from tests.support.reloading_bench import HEAD, SETTINGS, ReloaderBench, policy_text

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "policy.yaml"
    made.write_text(policy_text("first"))
    return made


async def test_files_that_stay_as_they_are_are_not_even_read(path: Path) -> None:
    async with ReloaderBench(path).running() as bench:
        await anyio.sleep(5)
        os.utime(path, (1, 1))
        bench.write(policy_text("first"))
        await anyio.sleep(5)

    assert (bench.reads, bench.configs, bench.logger.lines) == (0, [], [])


async def test_a_change_that_keeps_size_and_time_is_seen(path: Path) -> None:
    async with ReloaderBench(path).running() as bench:
        before = os.stat(path)  # noqa: PTH116 -- pathlib's must not be called here
        bench.write(policy_text("other"))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        after = os.stat(path)  # noqa: PTH116 -- as above
        assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
        await anyio.sleep(3)

    assert bench.names == ["other"]


async def test_a_text_is_not_judged_while_it_is_being_written(path: Path) -> None:
    whole = policy_text("second", "nodeSelector: pool=a\n")
    async with ReloaderBench(path).running() as bench:
        for length in range(len(HEAD), len(whole), 9):  # many of these are policies of their own
            bench.write(whole[:length])
            await anyio.sleep(1)
        assert (bench.configs, bench.notifications) == ([], [])
        bench.write(whole)
        await anyio.sleep(2.1)

    assert bench.names == ["second"]
    assert str(bench.configs[0].policy.node_selector) == "pool in (a)"


async def test_a_text_that_changes_while_it_is_read_is_read_again(path: Path) -> None:
    async with ReloaderBench(path).running() as bench:
        bench.while_read = lambda: bench.write(policy_text("third"))
        bench.write(policy_text("second"))
        await anyio.sleep(10)

    assert bench.names == ["third"]
    assert bench.notifications[0][0] == "reloaded"


async def test_a_file_that_is_missing_for_a_moment_is_waited_for(path: Path) -> None:
    async with ReloaderBench(path).running() as bench:
        await anyio.sleep(0.5)
        bench.remove()
        await anyio.sleep(1)
        bench.write(policy_text("second"))
        await anyio.sleep(2.1)

    assert bench.names == ["second"]
    assert [kind for kind, _ in bench.notifications] == ["reloaded"]


async def test_a_file_that_stays_away_is_reported_and_the_policy_stays(
    path: Path, golden: Golden
) -> None:
    async with ReloaderBench(path).running() as bench:
        bench.remove()
        await anyio.sleep(5)
        assert golden() in (bench.active.problems[0])
        bench.write(policy_text("first"))
        await anyio.sleep(3)

    assert bench.active.problems == ()
    assert bench.configs == []


async def test_an_editor_that_renames_over_the_file_is_followed(path: Path) -> None:
    async with ReloaderBench(path).running() as bench:
        for name in ("second", "third"):
            new = path.with_suffix(".tmp")
            new.write_text(policy_text(name))
            new.replace(path)
            await anyio.sleep(3)

    assert bench.names == ["second", "third"]


def publish(volume: Path, number: int, **texts: str) -> None:
    """Do as the kubelet does with a ConfigMap: a new folder, and one symlink swapped."""
    folder = volume / f"..{number}"
    folder.mkdir()
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
    link = volume / "..data_tmp"
    link.symlink_to(folder.name)
    link.replace(volume / "..data")


async def test_a_config_map_that_swaps_its_symlink_changes_all_its_files_at_once(
    tmp_path: Path,
) -> None:
    paths = [tmp_path / "policy.yaml", tmp_path / "settings.yaml"]
    publish(tmp_path, 1, policy=policy_text("first"), settings=SETTINGS + "debounce: {quiet: 1s}\n")
    for one in paths:
        one.symlink_to(f"..data/{one.name}")
    async with ReloaderBench(*paths).running() as bench:
        publish(
            tmp_path, 2, policy=policy_text("2nd"), settings=SETTINGS + "debounce: {quiet: 2s}\n"
        )
        await anyio.sleep(3)
        assert bench.names == ["2nd"]
        assert bench.configs[0].settings.debounce.quiet_s == 2

        publish(
            tmp_path, 3, policy=policy_text("3rd"), settings=SETTINGS + "debounce: {quiet: x}\n"
        )
        await anyio.sleep(3)
        assert bench.names == ["2nd"]
        assert bench.active.configuration.settings.debounce.quiet_s == 2
        assert "settings.yaml" in bench.active.problems[0]


async def test_what_changed_between_reading_at_the_start_and_the_first_look_is_taken(
    path: Path,
) -> None:
    bench = ReloaderBench(path)
    bench.write(policy_text("second"))
    async with bench.running():
        await anyio.sleep(3)

    assert bench.names == ["second"]


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    assert fingerprint((str(pipe), str(tmp_path))) == ("no file", "no file")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_files_are_read_in_a_thread(path: Path) -> None:
    threads = []

    def read(_: SchedulerTexts) -> Configuration:
        threads.append(threading.current_thread())
        return load_files([path], plugin_registry())

    files = ConfigFiles((str(path),), read)

    assert await files.fingerprint() == fingerprint((str(path),))
    assert (await files.read()).policy.profiles[0].name == "first"
    assert threads != [threading.main_thread()]


async def test_the_place_where_reading_hangs_is_that_of_its_thread(path: Path) -> None:
    entered, released = threading.Event(), threading.Event()

    def hang_in_a_plugin(_: SchedulerTexts) -> Configuration:
        entered.set()
        while not released.is_set():
            pass
        return load_files([path], plugin_registry())

    files = ConfigFiles((str(path),), hang_in_a_plugin)
    assert files.place() == ""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(files.read)
        while not entered.is_set():
            await anyio.lowlevel.checkpoint()
        assert "test_config_reload_files.py" in files.place() or "threading.py" in files.place()
        released.set()
