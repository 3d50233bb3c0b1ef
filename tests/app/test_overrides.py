import re

import pytest
from msgspec.structs import replace

from reactive_desched.app.overrides import FlagOverrides
from reactive_desched.errors import ConfigError
from reactive_desched.model.labels import EVERYTHING, Selector, parse_selector
from reactive_desched.plugins.registry import plugin_registry
from reactive_desched.policy.configuration import Configuration
from reactive_desched.policy.documents import SourceText
from reactive_desched.policy.load import load_sources
from reactive_desched.policy.settings.otlp import OtlpSettings
from tests.support.golden import Golden

BLUE = parse_selector("pool=blue")
GREEN = parse_selector("pool=green")


def files(*, selector: str = "", settings: str = "") -> Configuration:
    """Read a policy and settings as from files."""
    policy = "apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n" + (
        f"nodeSelector: {selector}\n" if selector else ""
    )
    ours = f"apiVersion: reactive-desched/v1alpha1\nkind: ReactiveSettings\n{settings}\n"
    return load_sources(
        [SourceText(policy, "policy.yaml"), SourceText(ours, "settings.yaml")], plugin_registry()
    )


def test_nothing_said_changes_nothing() -> None:
    found = files(selector="pool=green", settings="client: {burst: 7}")

    assert FlagOverrides().apply_to(found) == found


@pytest.mark.parametrize(
    ("written", "selects", "warned"),
    [
        pytest.param("", BLUE, False, id="the policy has none"),
        pytest.param("pool=green", GREEN, True, id="the policy has its own"),
    ],
)
def test_the_node_selector_counts_where_the_policy_has_none(
    written: str, selects: Selector, golden: Golden, *, warned: bool
) -> None:
    before = files(selector=written)
    after = FlagOverrides(node_selector=BLUE).apply_to(before)

    assert after.policy == replace(before.policy, node_selector=selects)
    new = after.warnings[len(before.warnings) :]
    assert [str(warning) for warning in new] == warned * [golden()]


def test_the_policy_selects_everything_by_default() -> None:
    assert FlagOverrides().apply_to(files()).policy.node_selector == EVERYTHING


@pytest.mark.parametrize("settings", ["", "client: {requestsPerSecond: 7, burst: 8}"])
def test_rates_of_requests_count_before_the_settings(settings: str) -> None:
    overrides = FlagOverrides(requests_per_second=70.0, burst=80)
    client = overrides.apply_to(files(settings=settings)).settings.client

    assert (client.requests_per_second, client.burst) == (70.0, 80)


def test_one_rate_leaves_the_other_and_all_else() -> None:
    before = files(settings="client: {burst: 8, readTimeout: 9s}\nlogging: {level: debug}")
    after = FlagOverrides(requests_per_second=70.0).apply_to(before).settings

    assert after.client == before.settings.client.model_copy(update={"requests_per_second": 70.0})
    assert after.logging == before.settings.logging


@pytest.mark.parametrize(
    ("settings", "listen"),
    [
        pytest.param("", "0.0.0.0:1", id="nothing said"),
        pytest.param("server: {}", "0.0.0.0:1", id="an empty section"),
        pytest.param('server: {listen: "127.0.0.1:2"}', "127.0.0.1:2", id="an address"),
        pytest.param('server: {listen: "127.0.0.1:10258"}', "127.0.0.1:10258", id="the default"),
    ],
)
def test_the_usual_address_counts_where_the_settings_name_none(settings: str, listen: str) -> None:
    found = FlagOverrides(default_listen="0.0.0.0:1").apply_to(files(settings=settings))

    assert found.settings.server.listen == listen


@pytest.mark.parametrize(
    ("settings", "flag", "served"),
    [
        pytest.param("", False, False, id="a controller"),
        pytest.param("", True, True, id="the SIG descheduler's command line"),
        pytest.param("server: {oldMetricNames: true}", False, True, id="asked for"),
        pytest.param("server: {oldMetricNames: false}", True, False, id="switched off"),
    ],
)
def test_old_names_of_metrics_are_served_where_the_command_line_or_the_settings_ask_for_them(
    settings: str,
    flag: bool,  # noqa: FBT001 -- a case of the test
    served: bool,  # noqa: FBT001 -- as above
) -> None:
    found = FlagOverrides(old_metric_names=flag).apply_to(files(settings=settings))

    assert found.settings.server.old_metric_names is served


@pytest.mark.parametrize(
    ("settings", "folder"),
    [
        pytest.param("", "/spare", id="nothing said"),
        pytest.param("journal: {directory: /mine}", "/mine", id="a folder"),
    ],
)
def test_the_usual_journal_counts_where_the_settings_name_none(settings: str, folder: str) -> None:
    found = FlagOverrides(default_journal_dir="/spare").apply_to(files(settings=settings))

    assert found.settings.journal.directory == folder


ELECTION = "leaderElection: {leaderElect: true, leaseDuration: 30s, resourceName: mine}"


def test_flags_of_leader_election_count_before_the_settings_and_leave_the_others() -> None:
    overrides = FlagOverrides(leader_election={"lease_duration_s": "20s", "resource_name": "x"})
    found = overrides.apply_to(files(settings=ELECTION)).settings.leader_election

    assert (found.leader_elect, found.lease_duration_s, found.resource_name) == (True, 20.0, "x")
    assert (found.renew_deadline_s, found.retry_period_s) == (10.0, 2.0)
    assert (found.resource_lock, found.resource_namespace) == ("leases", "kube-system")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"lease_duration_s": "10s"}, "leaseDuration: must be greater than renewDeadline"),
        ({"renew_deadline_s": "2.4s"}, "renewDeadline: must be greater than 1.2 times retryPeriod"),
        ({"retry_period_s": "0s"}, "retryPeriod: must be longer than 0s"),
        ({"resource_name": ""}, "resourceName: must not be empty"),
        ({"resource_namespace": ""}, "resourceNamespace: must not be empty"),
        ({"resource_lock": "configmaps"}, "resourceLock: Input should be 'leases'"),
        ({"retry_period_s": "2"}, 'retryPeriod: "2" is not a duration'),
        (
            {"lease_duration_s": "0.5s", "renew_deadline_s": "0.4s", "retry_period_s": "0.1s"},
            "leaseDuration: must be at least 1s",
        ),
    ],
)
def test_an_election_in_which_two_could_act_is_refused(given: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"leaderElection.{problem}")):
        FlagOverrides(leader_election=given).apply_to(files(settings=ELECTION))


def test_the_settings_of_an_election_that_is_off_are_not_weighed_against_each_other() -> None:
    overrides = FlagOverrides(leader_election={"lease_duration_s": "1s"})

    assert overrides.apply_to(files()).settings.leader_election.lease_duration_s == 1.0


def test_settings_in_which_two_could_act_are_refused_with_their_place() -> None:
    with pytest.raises(ConfigError, match=r"leaderElection\.leaseDuration"):
        files(settings="leaderElection: {leaderElect: true, leaseDuration: 5s}")


TRACES = {"url": "http://collector:4317", "protocol": "grpc", "insecure": True}


def test_a_collector_of_flags_counts_where_the_settings_have_none(golden: Golden) -> None:
    found = FlagOverrides(traces=TRACES).apply_to(files())
    assert found.settings.sinks.otlp == OtlpSettings.model_validate(TRACES)
    assert found.warnings == files().warnings

    written = files(settings="sinks: {otlp: {url: 'https://ours/v1/traces'}}")
    found = FlagOverrides(traces=TRACES).apply_to(written)
    assert found.settings.sinks == written.settings.sinks
    [warning] = found.warnings[len(written.warnings) :]
    assert str(warning) == golden()


def test_a_collector_of_flags_that_has_no_address_is_refused(golden: Golden) -> None:
    overrides = FlagOverrides(traces={**TRACES, "url": "http://http://collector:4317"})
    with pytest.raises(ConfigError) as caught:
        overrides.apply_to(files())
    assert str(caught.value) == golden()
