"""Refresh tokens that count once: a new one goes into the kubeconfig, where others find it."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from textwrap import dedent

import anyio.to_thread
import pytest

from reactive_desched.errors import ConfigError
from reactive_desched.kube.auth.client_config import ClientConfigLoader
from reactive_desched.kube.auth.kubeconfig import KubeconfigFiles
from reactive_desched.kube.auth.token_writing import replace_tokens
from tests.support.identity_provider import ENDED, NOW_S, Provider, jwt

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@pytest.fixture
async def provider(tmp_path: Path) -> AsyncIterator[Provider]:
    async with Provider().serving(tmp_path) as serving:
        serving.rotates = True
        yield serving


class Linked:
    """A kubeconfig, and the link to it that a person names."""

    def __init__(self, path: Path, link: Path) -> None:
        self.path, self.link = path, link
        link.symlink_to(path)

    @property
    def text(self) -> str:
        return self.link.read_text()

    def write(self, text: str) -> None:
        self.link.write_text(text)

    def lock(self) -> None:
        self.path.with_name(f"{self.path.name}.lock").touch()

    def facts(self) -> tuple[bool, int, list[str]]:
        """Return whether the link is one, the rights of the file, and what lies beside it."""
        beside = [each.name for each in self.path.parent.iterdir()]
        return self.link.is_symlink(), self.path.stat().st_mode & 0o777, beside

    def inode(self) -> int:
        return self.path.stat().st_ino


@pytest.fixture
def file(provider: Provider, tmp_path: Path) -> Linked:
    """Have a kubeconfig with comments."""
    folder = tmp_path / "home"
    folder.mkdir()
    text = f"""\
        # written by hand
        current-context: here
        clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:1"}}}}]
        contexts: [{{name: here, context: {{cluster: c, user: u}}}}]  # the only one
        users:
        - name: other
          user: {{token: t}}
        - name: u
          user:
            auth-provider:
              name: oidc
              config:
                client-id: us
                id-token: {ENDED}
                idp-certificate-authority: {provider.ca_file}
                idp-issuer-url: {provider.url}
                refresh-token: refresh-0
        """
    (folder / "config").write_text(dedent(text))
    (folder / "config").chmod(0o640)
    return Linked(folder / "config", tmp_path / "link")


def loader(file: Linked) -> ClientConfigLoader:
    return ClientConfigLoader(KubeconfigFiles((str(file.link),), None), {})


async def token(loader: ClientConfigLoader, hours: float = 0.0) -> str:
    """Load, after so many hours, as a thread of its own does."""
    access = await anyio.to_thread.run_sync(loader.load, NOW_S + 3600 * hours)
    return access.headers["Authorization"].removeprefix("Bearer ")


async def test_the_next_command_has_the_refresh_token_that_the_last_one_got(
    provider: Provider, file: Linked
) -> None:
    assert await token(loader(file)) == jwt(NOW_S + 3600)
    assert await token(loader(file), hours=1) == jwt(NOW_S + 7200)
    assert [each["refresh_token"] for each in provider.forms] == ["refresh-0", "refresh-1"]


async def test_nothing_else_of_the_file_changes_and_a_link_stays_one(file: Linked) -> None:
    before = file.text
    await token(loader(file))

    written = before.replace("refresh-0", "refresh-1").replace(ENDED, jwt(NOW_S + 3600))
    assert file.text == written
    assert file.facts() == (True, 0o640, ["config"])


async def test_a_process_goes_on_with_what_it_wrote(provider: Provider, file: Linked) -> None:
    running = loader(file)
    got = [await token(running, hours) for hours in range(3)]
    assert got == [jwt(NOW_S + 3600 * hours) for hours in (1, 2, 3)]


async def test_a_token_that_counts_on_is_not_written(provider: Provider, file: Linked) -> None:
    provider.rotates = False
    provider.answer = {"id_token": jwt(NOW_S + 3600)}
    before = file.text, file.inode()
    await token(loader(file))
    assert (file.text, file.inode()) == before


async def test_where_it_cannot_be_written_the_process_goes_on_and_says_so(
    provider: Provider, file: Linked, caplog: pytest.LogCaptureFixture
) -> None:
    file.lock()
    before, running = file.text, loader(file)
    with caplog.at_level(logging.WARNING):
        assert await token(running) == jwt(NOW_S + 3600)
    assert file.text == before
    assert "File exists" in caplog.text
    assert "refresh-" not in caplog.text

    # It is touched, as by `kubectl config use-context`: its token has been used.
    file.write(f"{before}# later\n")
    assert await token(running, hours=1) == jwt(NOW_S + 7200)


async def test_a_person_who_logs_in_again_is_followed(provider: Provider, file: Linked) -> None:
    running = loader(file)
    await token(running)
    file.write(file.text.replace("refresh-1", "of-a-login"))
    await token(running, hours=1)
    assert provider.forms[-1]["refresh_token"] == "of-a-login"


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ("refresh-token: refresh-0, twice: refresh-0", "refresh-1"),
        ("refresh-token: refresh-0", "a: {b"),
        ("refresh-token: refresh-0", "12345"),
    ],
    ids=["it stands there twice", "it would break the file", "it would be a number"],
)
def test_a_file_that_would_not_read_the_same_is_left_as_it_is(
    tmp_path: Path, text: str, new: str
) -> None:
    file = tmp_path / "config"
    provider = f"{{name: oidc, config: {{{text}}}}}"
    file.write_text(f"users: [{{name: u, user: {{auth-provider: {provider}}}}}]\n")
    before = file.read_text()

    with pytest.raises((ValueError, ConfigError)):
        replace_tokens(str(file), "u", {"refresh-token": new})
    assert file.read_text() == before
    assert list(tmp_path.iterdir()) == [file]
