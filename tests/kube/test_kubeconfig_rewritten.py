"""A kubeconfig that is rewritten while the process runs: new credentials, never another cluster."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any  # kubeconfig files are free-form

import anyio
import pytest

from reactive_desched.kube.auth.client_config import ClientConfig, ClientConfigLoader
from reactive_desched.kube.auth.credentials import Credentials
from reactive_desched.kube.auth.kubeconfig import KubeconfigFiles
from tests.support.golden import Golden
from tests.support.manual_clock import ManualClock, wait_until

NOW_S = 1_800_000_000.0

STAGING, PROD = "http://staging.example:1", "http://prod.example:2"

Document = dict[str, Any]


def kubeconfig(token: str = "t", current: str = "staging") -> Document:
    """Return a kubeconfig of two clusters."""
    return {
        "current-context": current,
        "clusters": [
            {"name": "staging", "cluster": {"server": STAGING}},
            {"name": "prod", "cluster": {"server": PROD}},
        ],
        "users": [{"name": "me", "user": {"token": token}}, {"name": "you", "user": {}}],
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": "me"}}
            for name in ("staging", "prod")
        ],
    }


class Rewritten:
    """A file, and a loader that has read it once."""

    def __init__(self, path: Path, context: str | None = None) -> None:
        self.path = path
        self.write(kubeconfig())
        self.loader = ClientConfigLoader(KubeconfigFiles((str(path),), context), {})
        self.loader.load(NOW_S)

    def write(self, document: Document | str) -> None:
        """Replace the file, as editors and kubectl do."""
        new = self.path.with_name("new")
        new.write_text(document if isinstance(document, str) else json.dumps(document))
        new.rename(self.path)

    def load(self, document: Document | str) -> ClientConfig:
        self.write(document)
        return self.loader.load(NOW_S)


@pytest.fixture
def file(tmp_path: Path) -> Rewritten:
    return Rewritten(tmp_path / "config")


def is_as_before(access: ClientConfig, token: str = "t") -> bool:
    return (access.server, access.context, access.headers) == (
        STAGING,
        "staging",
        {"Authorization": f"Bearer {token}"},
    )


@pytest.mark.parametrize("context", [None, "staging"], ids=["the current context", "an option"])
def test_another_current_context_leads_nowhere_else_and_its_credentials_are_renewed(
    tmp_path: Path, context: str | None
) -> None:
    file = Rewritten(tmp_path / "config", context)
    assert is_as_before(file.load(kubeconfig("renewed", current="prod")), "renewed")
    assert file.loader.rejection == ""


def moved(document: Document) -> None:
    document["clusters"][0]["cluster"]["server"] = "http://me:c4n4ry@moved.example"


def repointed(document: Document) -> None:
    document["contexts"][0]["context"]["cluster"] = "prod"


def secured(document: Document) -> None:
    document["clusters"][0]["cluster"]["server"] = STAGING.replace("http:", "https:")


def renamed(document: Document) -> None:
    document["contexts"][0]["name"] = "stage"


def without_context(document: Document) -> None:
    del document["contexts"][0]


def without_cluster(document: Document) -> None:
    del document["clusters"][0]


@pytest.mark.parametrize(
    "change",
    [moved, repointed, secured, renamed, without_context, without_cluster],
    ids=lambda change: change.__name__,
)
def test_what_leads_to_another_server_or_to_none_is_left_aside_and_reported(
    file: Rewritten, change: Callable[[Document], None], golden: Golden
) -> None:
    document = kubeconfig("of another cluster", current="prod")
    change(document)
    assert is_as_before(file.load(document))
    assert file.loader.rejection == golden(path=file.path)
    assert "c4n4ry" not in file.loader.rejection
    assert is_as_before(file.loader.load(NOW_S))
    assert file.loader.rejection == golden(path=file.path)


@pytest.mark.parametrize(
    "text",
    ["", "a: [", "null", '{"current-context": "staging"}'],
    ids=["empty", "torn", "null", "half"],
)
def test_a_file_that_is_being_written_is_left_aside_and_read_when_it_is_whole(
    file: Rewritten, text: str
) -> None:
    assert is_as_before(file.load(text))
    assert file.loader.rejection
    assert is_as_before(file.load(kubeconfig("renewed")), "renewed")
    assert file.loader.rejection == ""


LIMITED = {"as": "limited", "as-groups": ["viewers", "drainers"], "as-user-extra": {"team": ["a"]}}


@pytest.mark.parametrize(
    "user",
    [
        None,
        {},
        LIMITED,
        {"token": "renewed"},
        {"token": "renewed", **LIMITED, "as": "admin"},
        {"token": "renewed", **LIMITED, "as-groups": ["viewers"]},
        {"token": "renewed", "as": "limited", "as-groups": ["viewers", "drainers"]},
    ],
    ids=[
        "nothing",
        "no field",
        "no credentials",
        "no impersonation",
        "another user",
        "a group less",
        "no extra",
    ],
)
def test_a_user_that_lost_its_credentials_or_acts_as_another_one_is_left_aside(
    file: Rewritten, user: dict[str, object] | None, golden: Golden
) -> None:
    began = kubeconfig()
    began["users"][0]["user"] |= LIMITED
    file.write(began)
    loader = ClientConfigLoader(KubeconfigFiles((str(file.path),), None), {})
    first = loader.load(NOW_S)
    file.write(kubeconfig() | {"users": [{"name": "me", "user": user}]})
    assert loader.load(NOW_S) == first
    assert loader.rejection == golden(path=file.path)
    began["users"][0]["user"] |= {"token": "renewed", "as-groups": ["drainers", "viewers"]}
    file.write(began)
    assert is_as_before(loader.load(NOW_S), "renewed")
    assert loader.rejection == ""


def test_a_user_that_had_no_credentials_may_get_some(file: Rewritten) -> None:
    file.write(kubeconfig() | {"users": [{"name": "me", "user": {}}]})
    loader = ClientConfigLoader(KubeconfigFiles((str(file.path),), None), {})
    assert loader.load(NOW_S).headers == {}
    file.write(kubeconfig("new"))
    assert is_as_before(loader.load(NOW_S), "new")


def test_a_file_that_is_away_for_a_moment_changes_nothing(file: Rewritten) -> None:
    aside = file.path.with_name("aside")
    file.path.rename(aside)
    assert is_as_before(file.loader.load(NOW_S))
    assert "does not exist" in file.loader.rejection
    aside.rename(file.path)
    assert is_as_before(file.loader.load(NOW_S))
    assert file.loader.rejection == ""


def test_a_token_file_is_read_on_while_the_kubeconfig_leads_elsewhere(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    document = kubeconfig()
    document["users"][0]["user"] = {"tokenFile": str(token)}
    file = Rewritten(tmp_path / "config")
    file.load(document)
    moved(document)
    token.write_text("second")
    assert is_as_before(file.load(document), "second")
    assert file.loader.rejection


def test_a_context_may_change_its_user_and_the_name_of_its_cluster(file: Rewritten) -> None:
    document = kubeconfig()
    document["users"].append({"name": "robot", "user": {"token": "of the robot"}})
    document["clusters"][0]["name"] = "stage"
    document["contexts"][0]["context"] = {"cluster": "stage", "user": "robot"}
    assert is_as_before(file.load(document), "of the robot")
    assert file.loader.rejection == ""


@pytest.mark.parametrize("server", [f"{STAGING}/", STAGING.replace("http", "HTTP")])
def test_the_same_server_in_another_writing_is_no_other(file: Rewritten, server: str) -> None:
    document = kubeconfig("renewed")
    document["clusters"][0]["cluster"]["server"] = server
    assert is_as_before(file.load(document), "renewed")
    assert file.loader.rejection == ""


def test_the_first_of_two_files_may_not_take_the_context_over(tmp_path: Path) -> None:
    mine, others = tmp_path / "mine", tmp_path / "others"
    mine.write_text("")
    others.write_text(json.dumps(kubeconfig()))
    loader = ClientConfigLoader(KubeconfigFiles((str(mine), str(others)), None), {})
    loader.load(NOW_S)
    document = kubeconfig()
    moved(document)
    mine.write_text(json.dumps(document))
    assert is_as_before(loader.load(NOW_S))
    assert "leads to another server" in loader.rejection


@pytest.mark.anyio
async def test_the_credentials_report_a_kubeconfig_that_leads_elsewhere_until_it_is_restored(
    file: Rewritten, clock: ManualClock
) -> None:
    credentials = Credentials(KubeconfigFiles((str(file.path),), None), clock, {})
    await credentials.load()

    async def next_load() -> None:
        await wait_until(lambda: clock.pending_waits_s == [60.0])
        clock.advance(60)

    async with anyio.create_task_group() as group:
        group.start_soon(credentials.refresh_forever)
        document = kubeconfig()
        repointed(document)
        file.write(document)
        await next_load()
        await wait_until(lambda: credentials.last_error is not None)
        assert PROD in str(credentials.last_error)
        assert credentials.config.server == STAGING
        file.write(kubeconfig("renewed"))
        await next_load()
        await wait_until(lambda: credentials.last_error is None)
        group.cancel_scope.cancel()

    assert is_as_before(credentials.config, "renewed")
