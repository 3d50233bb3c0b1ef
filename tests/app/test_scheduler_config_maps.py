"""A scheduler's configuration in a file or a ConfigMap is read at the start and on each change."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from reactive_desched.api.event import PolicyFile
from reactive_desched.app.config_reload import ActiveConfig, ConfigFiles, ConfigReloader
from reactive_desched.app.input_notes import in_force
from reactive_desched.app.scheduler_config_maps import REFRESH_S, SchedulerConfigMaps
from reactive_desched.errors import ClusterError
from reactive_desched.model.objects import PodSpec
from reactive_desched.model.scheduler_profile import (
    NODE_PORTS,
    UNREAD_CONFIGURATION,
    SchedulerProfiles,
)
from reactive_desched.plan.recorded_moment import read_configuration
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.corrections import correct
from reactive_desched.policy.load import load_runnable
from reactive_desched.policy.scheduler_texts import SchedulerTexts
from reactive_desched.policy.settings.scheduler import ConfigMapKey
from reactive_desched.recording.items import NO_TIME
from tests.support.golden import Golden
from tests.support.manual_clock import ManualClock
from tests.support.recording_logger import RecordingLogger
from tests.support.reloading_bench import SETTINGS, policy_text

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

KEY = ConfigMapKey(namespace="kube-system", name="batch", key="config.yaml")
NAMED = (
    "scheduler:\n  config:\n"
    "  - configMap: {namespace: kube-system, name: batch, key: config.yaml}\n"
)
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
WITHOUT_PORTS = (
    f"{HEAD}profiles:\n- schedulerName: batch\n"
    "  plugins: {filter: {disabled: [{name: NodePorts}]}}\n"
)
MISTAKEN = WITHOUT_PORTS.replace("disabled", "disable")
BATCH, DEFAULT = PodSpec(scheduler_name="batch"), PodSpec()


class Bench:
    """A reloader over files; `texts` has what the API server says of ConfigMaps, or why not."""

    def __init__(self, folder: Path, settings: str) -> None:
        self.settings = folder / "settings.yaml"
        self.settings.write_text(SETTINGS + settings)
        (folder / "policy.yaml").write_text(policy_text("p"))
        self._paths = str(folder / "policy.yaml"), str(self.settings)
        self.files = ConfigFiles(self._paths, self._read)
        self.loaded: list[list[tuple[str, str]]] = []
        self.log, self.clock = RecordingLogger(), ManualClock()
        self.texts: dict[ConfigMapKey, str] = {}
        self.polling = SchedulerConfigMaps(self.files, self._ask, self.clock, self.log)
        configuration, initial = self.files.read_at_start()
        self.active = ActiveConfig(configuration)
        self._reloader = ConfigReloader(self.files, initial, self.active, self, self, self.log)

    def _read(self, texts: SchedulerTexts) -> Configuration:
        return load_runnable(self._paths, plugin_registry(), schedulers=texts)

    async def _ask(self, key: ConfigMapKey) -> str:
        if (text := self.texts.get(key)) is None:
            raise ClusterError("ConfigMap kube-system/batch: 404 not found")
        return text

    async def look(self) -> None:
        """Read ConfigMaps, and let what was read go into force."""
        self.clock.advance(REFRESH_S)
        await self.polling.poll()
        for _ in range(5):
            await self._reloader._poll()

    def reconfigure(self, config: Configuration) -> None:
        """Take another configuration, as a controller does."""
        del config

    def policy_loaded(self, source: str, revision: str, files: Sequence[PolicyFile] = ()) -> None:
        """Hear of it, as a recorder does."""
        del source, revision
        self.loaded.append([(each.name, each.path) for each in files[2:]])

    def policy_rejected(self, source: str, problems: tuple[str, ...]) -> None:
        """Hear of it, as a recorder does."""
        del source, problems

    @property
    def profiles(self) -> SchedulerProfiles:
        """The profiles in force."""
        return self.active.configuration.scheduler_profiles

    @property
    def rejects_ports(self) -> bool:
        """Say whether nodes reject pods of the scheduler `batch` for their ports."""
        return NODE_PORTS in self.profiles.by_name["batch"].filters


async def test_a_file_beside_the_settings_is_followed_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "schedulers" / "batch.yaml"
    file.parent.mkdir()
    file.write_text(WITHOUT_PORTS)
    bench = Bench(tmp_path, "scheduler: {config: [{file: schedulers/batch.yaml}]}\n")
    assert not bench.rejects_ports
    await bench.look()
    assert bench.loaded == []

    file.write_text(f"{HEAD}profiles: [{{schedulerName: batch}}]\n")
    await bench.look()

    assert bench.rejects_ports
    assert bench.loaded == [[(str(file), str(file))]]


async def test_a_file_that_is_refused_keeps_what_is_in_force(
    tmp_path: Path, golden: Golden
) -> None:
    file = tmp_path / "batch.yaml"
    file.write_text(WITHOUT_PORTS)
    bench = Bench(tmp_path, "scheduler: {config: [{file: batch.yaml}]}\n")
    said = []
    for text in (MISTAKEN, WITHOUT_PORTS + "---\n{}\n", "profiles: []\n", "", NAMED, None):
        file.write_text(text) if text is not None else file.unlink()
        await bench.look()
        assert not bench.rejects_ports
        said += [each.replace(f"{tmp_path}/", "") for each in bench.active.problems]

    file.write_text(f"{HEAD}profiles: [{{schedulerName: batch}}]\n")
    await bench.look()

    assert bench.rejects_ports
    assert "\n".join(said) == golden()


def test_what_is_wrong_in_a_file_is_not_corrected_in_the_settings(tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text(SETTINGS + "scheduler: {config: [{file: batch.yaml}]}\n")
    (tmp_path / "batch.yaml").write_text(f"{HEAD}profile: []\n")

    corrected = correct(settings, plugin_registry())

    assert (corrected.text, corrected.corrections) == (settings.read_bytes(), ())
    (left,) = corrected.left.errors
    assert (left.source, left.line, left.column) == (str(tmp_path / "batch.yaml"), 3, 1)


def test_two_files_cannot_have_the_same_scheduler(tmp_path: Path) -> None:
    (tmp_path / "batch.yaml").write_text(WITHOUT_PORTS)
    both = "scheduler: {config: [{file: batch.yaml}, {profiles: [{schedulerName: batch}]}]}\n"

    with pytest.raises(Exception, match='"batch" has a profile already'):
        Bench(tmp_path, both)


def test_nothing_stands_beside_the_name_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="stands for a whole"):
        Bench(tmp_path, "scheduler: {config: [{file: batch.yaml, parallelism: 3}]}\n")


async def test_until_a_config_map_was_read_no_node_fits_the_pods_it_may_be_about(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, NAMED + "  - profiles: [{}]\n")
    unread = UNREAD_CONFIGURATION.about("ConfigMap kube-system/batch key config.yaml")
    assert (bench.profiles.holds(BATCH), bench.profiles.holds(DEFAULT)) == (unread, None)
    await bench.look()
    assert bench.profiles.holds(BATCH) == unread
    assert "404 not found" in bench.polling.check().message

    bench.texts[KEY] = WITHOUT_PORTS
    await bench.look()

    assert bench.profiles.holds(BATCH) is None
    assert not bench.rejects_ports
    assert bench.loaded == [[(str(KEY), "")]]
    assert bench.polling.check().ok


async def test_a_config_map_that_changes_is_a_reload_and_one_that_goes_counts_on(
    tmp_path: Path, golden: Golden
) -> None:
    bench = Bench(tmp_path, NAMED)
    bench.texts[KEY] = WITHOUT_PORTS
    await bench.look()

    bench.texts[KEY] = MISTAKEN
    await bench.look()
    assert not bench.rejects_ports
    del bench.texts[KEY]
    await bench.look()
    await bench.look()
    assert not bench.rejects_ports
    bench.texts[KEY] = f"{HEAD}profiles: [{{schedulerName: batch}}]\n"
    await bench.look()

    assert bench.rejects_ports
    said = [f"{line.level}: {line.event} {line.values}" for line in bench.log.lines]
    assert "\n".join(said).replace(f"{tmp_path}/", "") == golden()


async def test_one_that_is_named_no_more_is_not_read(tmp_path: Path) -> None:
    bench = Bench(tmp_path, NAMED)
    bench.texts[KEY] = WITHOUT_PORTS
    await bench.look()

    bench.settings.write_text(SETTINGS)
    await bench.look()

    assert bench.files.wanted == ()
    assert bench.profiles == SchedulerProfiles()
    assert bench.polling.check().message == "no scheduler has one"


async def test_a_recording_has_what_was_read_in_place_of_the_name(tmp_path: Path) -> None:
    bench = Bench(tmp_path, NAMED + "debounce: {quiet: 2s}\n")
    bench.texts[KEY] = WITHOUT_PORTS
    await bench.look()

    recorded = in_force(NO_TIME, bench.active.configuration, dry_run=False)
    again = read_configuration(recorded, plugin_registry())

    assert again.settings == bench.active.configuration.settings
    assert again.scheduler_profiles == bench.profiles


async def test_one_that_was_not_read_is_not_read_in_a_recording(tmp_path: Path) -> None:
    bench = Bench(tmp_path, NAMED)

    recorded = in_force(NO_TIME, bench.active.configuration, dry_run=False)

    assert read_configuration(recorded, plugin_registry()).scheduler_profiles == bench.profiles
    assert replace(bench.profiles, unread="") == SchedulerProfiles()
