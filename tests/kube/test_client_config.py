import asyncio
import base64
import json
import os
import sys
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any  # kubeconfig files are free-form

import pytest

from reactive_desched.errors import ConfigError
from reactive_desched.kube.auth.client_config import CancellableRunner, ClientConfigLoader
from reactive_desched.kube.auth.kubeconfig import InCluster, KubeconfigFiles
from reactive_desched.primitives.proxies import Proxy
from tests.support.golden import Golden

NOW_S = 1_800_000_000.0
VERSION = "client.authentication.k8s.io/v1"
OIDC = {"idp-issuer-url": "https://idp.example", "client-id": "us"}


def kubeconfig(
    folder: Path,
    user: dict[str, Any] | None = None,
    name: str = "config",
    context: str = "here",
    cluster: dict[str, str] | None = None,
) -> Path:
    path = folder / name
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"} | (cluster or {})}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": context, "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(json.dumps(document))
    return path


def reader(*paths: Path, context: str | None = None, **environ: str) -> ClientConfigLoader:
    return ClientConfigLoader(KubeconfigFiles(tuple(map(str, paths)), context), environ)


def test_a_plain_server_needs_no_tls_and_no_credentials(tmp_path: Path) -> None:
    access = reader(kubeconfig(tmp_path)).load(NOW_S)
    assert (access.server, access.headers, access.tls) == ("http://127.0.0.1:1", {}, None)


def test_a_path_below_the_server_is_kept(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, cluster={"server": "https://rancher.example/k8s/clusters/c-1/"})
    assert reader(path).load(NOW_S).server == "https://rancher.example/k8s/clusters/c-1"


@pytest.mark.parametrize(
    ("user", "authorization"),
    [
        pytest.param({"token": "abc"}, "Bearer abc", id="a bearer token"),
        pytest.param(
            {"username": "me", "password": "pw"},
            "Basic " + base64.b64encode(b"me:pw").decode(),
            id="basic",
        ),
    ],
)
def test_the_users_credentials_become_a_header(
    tmp_path: Path, user: dict[str, str], authorization: str
) -> None:
    assert reader(kubeconfig(tmp_path, user)).load(NOW_S).headers == {
        "Authorization": authorization
    }


def test_a_token_file_is_read_anew_each_time_and_without_its_newline(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    reading = reader(kubeconfig(tmp_path, {"tokenFile": str(token)}))
    assert reading.load(NOW_S).headers == {"Authorization": "Bearer first"}
    token.write_text("second\n")
    assert reading.load(NOW_S).headers == {"Authorization": "Bearer second"}


def test_a_rewritten_kubeconfig_is_noticed(tmp_path: Path) -> None:
    reading = reader(kubeconfig(tmp_path, {"token": "first"}))
    reading.load(NOW_S)
    kubeconfig(tmp_path, {"token": "second, longer"})
    assert reading.load(NOW_S).headers == {"Authorization": "Bearer second, longer"}


def test_a_service_account_is_read_anew_each_time(tmp_path: Path, ca_file: Path) -> None:
    (tmp_path / "token").write_text("first")
    (tmp_path / "ca.crt").write_bytes(ca_file.read_bytes())
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    reading = ClientConfigLoader(InCluster(tmp_path), environ)
    first = reading.load(NOW_S)
    assert first.server == "https://[fd00::1]:443"
    assert first.headers == {"Authorization": "Bearer first"}
    (tmp_path / "token").write_text("second\n")
    second = reading.load(NOW_S)
    assert second.headers == {"Authorization": "Bearer second"}
    assert second.tls is first.tls


def test_a_new_authority_makes_a_new_tls_context(
    tmp_path: Path, ca_file: Path, other_ca_file: Path
) -> None:
    mine = tmp_path / "ca.crt"
    mine.write_bytes(ca_file.read_bytes())
    fields = {"server": "https://127.0.0.1:1", "certificate-authority": str(mine)}
    reading = reader(kubeconfig(tmp_path, cluster=fields))
    first = reading.load(NOW_S).tls
    mine.write_bytes(other_ca_file.read_bytes())
    assert reading.load(NOW_S).tls is not first


TAKEN_AWAY = [
    pytest.param(lambda file: file.unlink(), "is gone", id="gone"),
    pytest.param(lambda file: file.write_bytes(b""), "cannot be used", id="empty"),
    pytest.param(lambda file: file.write_bytes(b"half a"), "cannot be used", id="torn"),
]


@pytest.mark.parametrize(("take_away", "cause"), TAKEN_AWAY)
def test_credentials_are_renewed_though_the_authority_was_taken_away(
    tmp_path: Path, ca_file: Path, take_away: Callable[[Path], object], cause: str
) -> None:
    token, authority = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("first")
    authority.write_bytes(ca_file.read_bytes())
    fields = {"server": "https://127.0.0.1:1", "certificate-authority": str(authority)}
    reading = reader(kubeconfig(tmp_path, {"tokenFile": str(token)}, cluster=fields))
    first = reading.load(NOW_S)

    take_away(authority)
    token.write_text("second")
    second = reading.load(NOW_S)

    assert second.headers == {"Authorization": "Bearer second"}
    assert second.tls is first.tls
    assert cause in reading.rejection
    authority.write_bytes(ca_file.read_bytes())
    assert (reading.load(NOW_S).tls is first.tls, reading.rejection) == (True, "")


@pytest.mark.parametrize(("take_away", "cause"), TAKEN_AWAY)
def test_a_service_accounts_token_is_renewed_though_the_authority_was_taken_away(
    tmp_path: Path, ca_file: Path, take_away: Callable[[Path], object], cause: str
) -> None:
    (tmp_path / "token").write_text("first")
    (tmp_path / "ca.crt").write_bytes(ca_file.read_bytes())
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    reading = ClientConfigLoader(InCluster(tmp_path), environ)
    first = reading.load(NOW_S)

    take_away(tmp_path / "ca.crt")
    (tmp_path / "token").write_text("second")
    second = reading.load(NOW_S)

    assert second.headers == {"Authorization": "Bearer second"}
    assert second.tls is first.tls
    assert cause in reading.rejection


def plugin(folder: Path, **status: str) -> dict[str, Any]:
    """Make a credential plugin that counts its runs in a file beside it."""
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": status,
    }
    runs = folder / "runs"
    script = folder / "plugin.py"
    script.write_text(f"open({str(runs)!r}, 'a').write('x')\nprint({json.dumps(answer)!r})\n")
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": sys.executable, "args": [str(script)]}}


def test_a_plugin_that_names_an_end_is_not_run_again_before_it(tmp_path: Path) -> None:
    user = plugin(tmp_path, token="abc", expirationTimestamp="2999-01-01T00:00:00Z")
    reading = reader(kubeconfig(tmp_path, user), **os.environ)
    for _ in range(3):
        assert reading.load(NOW_S).headers == {"Authorization": "Bearer abc"}
    assert (tmp_path / "runs").read_text() == "x"


def test_a_plugin_that_names_no_end_is_run_again_only_after_a_rejection(tmp_path: Path) -> None:
    reading = reader(kubeconfig(tmp_path, plugin(tmp_path, token="abc")), **os.environ)
    for _ in range(3):
        assert reading.load(NOW_S).renew_at_s is None
    assert (tmp_path / "runs").read_text() == "x"
    reading.load(NOW_S, is_rejected=True)
    assert (tmp_path / "runs").read_text() == "xx"


def test_a_plugin_that_fails_is_named_without_its_words(tmp_path: Path) -> None:
    script = tmp_path / "plugin.py"
    script.write_text("import sys; sys.exit('--token c4n4ry')")
    version = "client.authentication.k8s.io/v1"
    user = {"exec": {"apiVersion": version, "command": sys.executable, "args": [str(script)]}}
    with pytest.raises(ConfigError, match=f"plugin '{sys.executable}' ended with") as caught:
        reader(kubeconfig(tmp_path, user), **os.environ).load(NOW_S)
    assert "c4n4ry" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "user",
    [
        pytest.param(
            {"exec": {"apiVersion": VERSION, "command": "get-token"}},
            id="a plugin",
        ),
        pytest.param(
            {"auth-provider": {"name": "oidc", "config": OIDC}},
            id="none",
        ),
    ],
)
def test_a_plugin_is_blamed_for_a_missing_answer_only_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: dict[str, Any], golden: Golden
) -> None:
    def too_long(
        _waits: CancellableRunner, work: Coroutine[None, None, None], _limit_s: float
    ) -> None:
        work.close()
        raise TimeoutError

    monkeypatch.setattr(CancellableRunner, "run", too_long)
    path = kubeconfig(tmp_path, user)
    with pytest.raises(ConfigError) as caught:
        reader(path).load(NOW_S)
    assert str(caught.value).startswith(f"kubeconfig {path}: {golden()}")


def test_a_plugin_that_fails_is_not_logged_as_well(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, golden: Golden
) -> None:
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "false"}}
    with pytest.raises(ConfigError) as caught:
        reader(kubeconfig(tmp_path, user), **os.environ).load(NOW_S)

    assert golden() in str(caught.value)
    assert caplog.messages == []


def test_a_reading_that_was_stopped_runs_no_plugin(tmp_path: Path) -> None:
    reading = reader(kubeconfig(tmp_path, plugin(tmp_path, token="abc")), **os.environ)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        reading.load(NOW_S)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("mark", ["\n", "\r", "\0", "\x1b", "\x7f", "\ud800"], ids=ascii)
def test_a_token_with_a_control_character_is_refused_and_not_quoted(
    tmp_path: Path, mark: str
) -> None:
    path = kubeconfig(tmp_path, plugin(tmp_path, token=f"c4n4ry{mark}c4n4ry"))
    with pytest.raises(ConfigError, match=f"kubeconfig {path}") as caught:
        reader(path, **os.environ).load(NOW_S)
    assert "c4n4ry" not in str(caught.value)


def test_a_service_accounts_token_with_a_line_break_is_refused(
    tmp_path: Path, ca_file: Path, golden: Golden
) -> None:
    (tmp_path / "token").write_text("first\nsecond\n")
    (tmp_path / "ca.crt").write_bytes(ca_file.read_bytes())
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(ConfigError) as caught:
        ClientConfigLoader(InCluster(tmp_path), environ).load(NOW_S)

    assert golden(tmp_path=tmp_path) in str(caught.value)


NO_ADDRESSES = [
    "ftp://127.0.0.1:1",
    "api.example/path",
    "https://",
    "https://:6443",
    "https://api.example:port",
    "https://api.example:99999",
    "https://[::1",
    "https://api example/a",
    "https://api.exam\nple",
]


@pytest.mark.parametrize("server", NO_ADDRESSES)
def test_a_server_that_is_no_http_address_is_refused_and_quoted(
    tmp_path: Path, server: str, golden: Golden
) -> None:
    path = kubeconfig(tmp_path, cluster={"server": server})
    with pytest.raises(ConfigError) as caught:
        reader(path).load(NOW_S)
    server = server.rstrip("/")
    told = golden(path=path, server=f"{server!r}")
    assert str(caught.value) == told


def test_a_cluster_without_a_server_is_refused(tmp_path: Path, golden: Golden) -> None:
    path = kubeconfig(tmp_path)
    path.write_text(path.read_text().replace('"server"', '"elsewhere"'))
    with pytest.raises(ConfigError) as caught:
        reader(path).load(NOW_S)

    assert golden() in str(caught.value)


@pytest.mark.parametrize("own", ["p:1", "socks5://me:c4n4ry@p:1"])
def test_a_proxy_of_the_kubeconfig_that_is_no_http_address_is_refused(
    tmp_path: Path, own: str, golden: Golden
) -> None:
    cluster = {"server": "https://api.example", "proxy-url": own}
    path = kubeconfig(tmp_path, cluster=cluster)
    with pytest.raises(ConfigError) as caught:
        reader(path).load(NOW_S)

    assert str(caught.value) == golden(path=path)


def test_a_proxy_of_the_environment_that_is_no_http_address_is_refused(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, cluster={"server": "https://api.example"})
    with pytest.raises(ConfigError, match=r"the proxy socks5://p:1 of \$HTTPS_PROXY speaks SOCKS"):
        reader(path, HTTPS_PROXY="socks5://p:1").load(NOW_S)


def test_the_password_of_an_address_that_is_refused_is_not_shown(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, cluster={"server": "ftp://me:c4n4ry@api.example"})
    with pytest.raises(ConfigError, match=r"the server 'ftp://api.example' is no") as caught:
        reader(path).load(NOW_S)
    assert "c4n4ry" not in str(caught.value)


def test_a_field_that_a_provider_lacks_is_reported_without_the_others(tmp_path: Path) -> None:
    settings = {"refresh-token": "c4n4ry", "idp-issuer-url": "https://idp.example"}
    user = {"auth-provider": {"name": "oidc", "config": settings}}
    with pytest.raises(ConfigError, match="auth-provider oidc lacks client-id") as caught:
        reader(kubeconfig(tmp_path, user)).load(NOW_S)
    assert "c4n4ry" not in str(caught.value)


def test_an_empty_context_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("current-context: x\ncontexts: [{name: x}]")
    with pytest.raises(ConfigError, match="'x' names no cluster"):
        reader(path).load(NOW_S)


def test_the_first_of_several_files_that_has_a_name_wins(tmp_path: Path) -> None:
    one = kubeconfig(tmp_path, {"token": "one"}, "one", context="blue")
    two = kubeconfig(tmp_path, {"token": "two"}, "two", context="green")
    access = reader(one, two, context="green").load(NOW_S)
    assert access.headers == {"Authorization": "Bearer one"}


def test_an_unknown_context_lists_the_known_ones(tmp_path: Path, golden: Golden) -> None:
    path = kubeconfig(tmp_path, context="blue")
    with pytest.raises(ConfigError) as caught:
        reader(path, context="red").load(NOW_S)

    assert golden(path=path) in str(caught.value)


def test_no_context_at_all_says_how_to_name_one(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, context="blue")
    path.write_text(path.read_text().replace('"current-context": "blue", ', ""))
    with pytest.raises(ConfigError, match=r"pass --context NAME \(it has: blue\)"):
        reader(path).load(NOW_S)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("[1, 2]", id="a list"),
        pytest.param("a: [", id="no YAML"),
        pytest.param("current-context: x\ncontexts: [{name: x}]", id="half a context"),
        pytest.param("current-context: x\ncontexts: 7", id="not a list"),
        pytest.param("\x00", id="binary"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ConfigError, match=str(path)):
        reader(path).load(NOW_S)


def test_a_missing_certificate_file_is_named(tmp_path: Path) -> None:
    fields = {"server": "https://127.0.0.1:1", "certificate-authority": "/no/such/ca.crt"}
    with pytest.raises(ConfigError, match="/no/such/ca"):
        reader(kubeconfig(tmp_path, cluster=fields)).load(NOW_S)


@pytest.mark.parametrize(
    ("server", "environ", "proxy"),
    [
        ("https://api.example:6443", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("https://api.example:6443", {"https_proxy": "http://p:1"}, "http://p:1"),
        ("http://api.example", {"HTTPS_PROXY": "http://p:1"}, None),
        ("https://api.example:6443", {"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".example"}, None),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": "http://p:1"}, None),
        ("https://[::1]:6443", {"HTTPS_PROXY": "http://p:1"}, None),
        ("https://localhost", {"HTTPS_PROXY": "http://p:1"}, None),
        ("https://api.example:6443", {}, None),
    ],
)
def test_the_proxy_is_the_environments_but_never_for_this_machine(
    tmp_path: Path, server: str, environ: dict[str, str], proxy: str | None
) -> None:
    found = reader(kubeconfig(tmp_path, cluster={"server": server}), **environ).load(NOW_S).proxy
    assert (found and found.url) == proxy


def test_the_kubeconfigs_own_proxy_wins(tmp_path: Path) -> None:
    path = kubeconfig(
        tmp_path, cluster={"server": "https://api.example", "proxy-url": "http://own:1"}
    )
    assert reader(path, HTTPS_PROXY="http://p:1").load(NOW_S).proxy == Proxy(
        "http://own:1", "the kubeconfig's proxy-url"
    )
