"""Settings name sinks of other packages as they name ours, and only what they name is imported."""

import subprocess
import sys
from pathlib import Path

import pytest

from reactive_desched.app.config_reload import restart_needed
from reactive_desched.errors import PluginError
from reactive_desched.policy.settings.installed_sections import configured_sinks
from reactive_desched.policy.settings.reactive_settings import ReactiveSettings
from reactive_desched.policy.yaml.diagnostics import PolicyErrors
from tests.support.golden import Golden
from tests.support.packages import write_package
from tests.support.policy_texts import load_settings

GROUP = "reactive_desched.sinks"
HEAD = "apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n"
CODE = """\
from pydantic import Field, field_validator
from reactive_desched.api import SinkPlugin, SinkSection
from reactive_desched.api.args import FieldError, FieldErrors, Seconds


class QueueSettings(SinkSection):
    \"\"\"Events into a queue.\"\"\"

    url: str = Field(description="The broker.")
    max_wait_s: Seconds = Field(default=5.0, description="For one event.")

    @field_validator("url")
    @classmethod
    def _check_url(cls, url):
        if url == "ftp":
            raise FieldErrors([FieldError("must be amqp", "write amqp://HOST")])
        if url == "bug":
            raise KeyError("scheme")
        return url


class QueueSink(SinkPlugin[QueueSettings]):
    settings = QueueSettings

    async def deliver(self, records):
        return len(records)
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages, and nothing imported of them."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)
    for name in ("queue_sink", "rival"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return site


@pytest.fixture
def queue(site: Path) -> None:
    write_package(site, GROUP, {"queue": "QueueSink"}, CODE, "queue_sink")


def settings(text: str) -> ReactiveSettings:
    return load_settings(HEAD + text, "settings.yaml")


def problems(text: str) -> list[str]:
    with pytest.raises(PolicyErrors) as refused:
        settings(text)
    return [str(one) for one in refused.value.diagnostics]


def configured(text: str) -> list[tuple[str, str]]:
    return [(one.kind, one.name) for one in configured_sinks(settings(text).sinks)]


@pytest.mark.usefixtures("queue")
def test_an_installed_sink_has_a_section_and_more_of_it_have_names() -> None:
    text = """\
sinks:
  stdout: {}
  stream: {}
  additionalKafka: [{name: far, brokers: ['a:1']}]
  queue: {url: amqp://a, maxWait: 2s, types: [eviction]}
  additionalQueue:
  - {name: b, url: amqp://b}
  - {name: c, url: amqp://c}
"""
    sections = [one.section for one in configured_sinks(settings(text).sinks)]

    assert configured(text) == [
        ("kafka", "kafka-far"),
        ("stdout", "stdout"),
        ("queue", "queue"),
        ("queue", "queue-b"),
        ("queue", "queue-c"),
    ]
    assert sections[2].model_dump() == {
        "types": ("eviction",),
        "url": "amqp://a",
        "max_wait_s": 2.0,
    }


@pytest.mark.usefixtures("queue")
@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        ("{queue: {ulr: a}}", "3:17: sinks.queue.ulr", "did you mean url?"),
        ("{queue: {}}", "3:9: sinks.queue", "url"),
        ("{queue: {url: ftp}}", "3:22: sinks.queue.url", "must be amqp"),
        ("{queue: {url: a, maxWait: 5}}", "3:34: sinks.queue.maxWait", "write 5s"),
        ("{queue: {url: a, types: [evict]}}", "3:25: sinks.queue.types", "evict"),
        ("{queue: []}", "3:9: sinks.queue", "mapping of fields"),
        ("{additionalQueue: [{url: a}]}", "sinks.additionalQueue[0]", "name"),
        (
            "{additionalQueue: [{url: a, name: b}, {url: c, name: b}]}",
            "sinks.additionalQueue[1].name",
            'are called "b"',
        ),
        ("{queu: {url: a}}", "3:9: sinks.queu", "did you mean queue?"),
        ("{kafka: {brokers: []}, queue: {url: a}}", "sinks.kafka.brokers", "must not be empty"),
    ],
)
def test_what_is_wrong_in_its_section_is_named_as_in_ours(text: str, where: str, says: str) -> None:
    [one] = [each for each in problems(f"sinks: {text}") if where in each]
    assert says in one


@pytest.mark.usefixtures("queue")
def test_nothing_is_imported_that_the_settings_do_not_name() -> None:
    settings("sinks: {stdout: {}}")
    assert len(problems("sinks: {other: {}}")) == 1

    assert "queue_sink" not in sys.modules


@pytest.mark.executed
def test_a_controller_without_a_collector_imports_nothing_of_opentelemetry() -> None:
    code = (
        "import sys, reactive_desched.app.run, reactive_desched.app.run_once\n"
        "from reactive_desched.policy.settings.reactive_settings import default_settings\n"
        "default_settings()\n"
        "print([name for name in sys.modules if 'opentelemetry' in name or 'sinks.otlp' in name])"
    )
    argv = [sys.executable, "-c", code]
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_of_a_sink_that_is_not_installed_the_message_says_what_to_do(golden: Golden) -> None:
    [one] = problems("sinks: {parquet: {url: a}}")
    remedy, _, known = one.partition(" known here: ")

    assert remedy == golden()
    assert {"kafka", "additionalKafka"} <= set(known.partition(" [")[0].split(", "))


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("queue", "import no_such_library\n"),
        ("queue", "raise SystemExit(3)\n"),
        ("queue", "QueueSink = 3\n"),
        ("queue", "class QueueSink: pass\n"),
        ("queue", CODE.replace("    async def deliver", "    async def send")),
        ("queue", CODE.replace("    settings = QueueSettings\n", "")),
        ("queue", CODE.replace("settings = QueueSettings", "settings = dict")),
        ("queue", CODE.replace("    url: str =", "    name: str =").replace('("url")', '("name")')),
        ("index", CODE),
        ("a1b", CODE),
        ("additionalQueue", CODE),
    ],
    ids=[
        "does not import",
        "ends the program",
        "is no class",
        "is another class",
        "has no deliver",
        "has no settings",
        "has other settings",
        "has a field name",
        "takes the name of the index",
        "has a name that is no key",
        "takes the name of more sinks",
    ],
)
def test_a_sink_that_is_none_is_named_with_its_package_and_a_remedy(
    site: Path, name: str, code: str, golden: Golden
) -> None:
    write_package(site, GROUP, {name: "QueueSink"}, code, "queue_sink")

    with pytest.raises(PluginError) as refused:
        settings(f"sinks: {{{name}: {{url: a}}}}" if name != "additionalQueue" else MORE)
    assert golden() in str(refused.value)


MORE = "sinks: {additionalQueue: {url: a}, additionalAdditionalQueue: []}"


def test_a_key_of_several_words_names_one_sink_and_more_of_it(site: Path) -> None:
    write_package(site, GROUP, {"queueOfOld": "QueueSink"}, CODE, "queue_sink")
    text = "sinks: {queueOfOld: {url: a}, additionalQueueOfOld: [{name: b, url: c}]}"

    assert configured(text) == [("queueOfOld", "queueOfOld"), ("queueOfOld", "queueOfOld-b")]
    kept = restart_needed(settings(text), settings(""))
    assert [each["field"] for each in kept] == ["sinks.queueOfOld", "sinks.additionalQueueOfOld"]


@pytest.mark.usefixtures("queue")
def test_two_packages_that_offer_one_sink_are_both_named(site: Path, golden: Golden) -> None:
    write_package(site, GROUP, {"queue": "QueueSink"}, CODE, "rival")

    with pytest.raises(PluginError) as refused:
        settings("sinks: {queue: {url: a}}")
    assert golden() in str(refused.value)


@pytest.mark.usefixtures("queue")
def test_a_validator_that_raises_what_it_should_not_is_named_with_its_package(
    golden: Golden,
) -> None:
    with pytest.raises(PluginError) as refused:
        settings("sinks: {queue: {url: bug}}")

    assert golden() in str(refused.value)


@pytest.mark.usefixtures("queue")
def test_a_changed_section_needs_a_restart_and_an_equal_one_does_not() -> None:
    one, same = (settings("sinks: {queue: {url: a}}") for _ in range(2))
    other, none = settings("sinks: {queue: {url: b}}"), settings("")

    assert list(restart_needed(one, same)) == []
    assert [kept["field"] for kept in restart_needed(one, other)] == ["sinks.queue.url"]
    for old, new in ((one, none), (none, one)):
        assert [kept["field"] for kept in restart_needed(old, new)] == ["sinks.queue"]
