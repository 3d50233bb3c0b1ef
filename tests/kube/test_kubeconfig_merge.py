"""Every rule of client-go's `clientcmd`: what kubectl 1.32 sent, or refused, for these files."""

import base64
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any  # kubeconfig files are free-form

import pytest

from reactive_desched.errors import ConfigError
from reactive_desched.kube.auth.client_config import ClientConfig, ClientConfigLoader
from reactive_desched.kube.auth.kubeconfig import (
    KubeconfigFiles,
    KubeConfigOptions,
    locate_config,
)
from tests.support.authority import CertificateAuthority

NOW_S = 1_800_000_000.0

SECRET = "c4n4ry"
TLS = {"server": "https://127.0.0.1:1"}
HTTP = {"server": "http://127.0.0.1:1"}
V1 = "client.authentication.k8s.io/v1"

Document = dict[str, Any]


def config(
    cluster: Document | None = None,
    user: Document | None = None,
    *,
    current: str | None = "here",
    context: Document | None = None,
    **more: Any,  # other members
) -> Document:
    """Return a kubeconfig with one entry of each kind."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": current,
        "clusters": [{"name": "c", "cluster": HTTP if cluster is None else cluster}],
        "users": [{"name": "u", "user": {} if user is None else user}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"} | (context or {})}],
    } | more


def load(folder: Path, *documents: Document | str, context: str | None = None) -> ClientConfig:
    """Load these files, merged; a text is a file's content."""
    paths = []
    for number, document in enumerate(documents):
        path = folder / f"file-{number}" / "config"
        path.parent.mkdir()
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        paths.append(str(path))
    return ClientConfigLoader(KubeconfigFiles(tuple(paths), context), os.environ).load(NOW_S)


def refusal(folder: Path, *documents: Document | str, context: str | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load(folder, *documents, context=context)
    words = str(caught.value)
    assert SECRET not in words
    assert "Traceback" not in words
    return words


def token_of(access: ClientConfig) -> str:
    return access.headers.get("Authorization", "").removeprefix("Bearer ")


TWO_OF_ONE_NAME = [
    config(user={"token": "first"}),
    config(user={"token": "second", "as": "bob"}),
]


class TestOfSeveralFiles:
    def test_the_first_current_context_counts(self, tmp_path: Path) -> None:
        blue = config(user={"token": "blue"}, current="here")
        green = config(
            current="there", contexts=[{"name": "there", "context": {"cluster": "c", "user": "g"}}]
        ) | {"users": [{"name": "g", "user": {"token": "green"}}]}
        assert load(tmp_path, blue, green).context == "here"

    @pytest.mark.parametrize("nothing", ["", None], ids=["an empty text", "null"])
    def test_the_first_current_context_that_is_not_empty_counts(
        self, tmp_path: Path, nothing: str | None
    ) -> None:
        access = load(tmp_path, config(user={"token": "first"}, current=nothing), config())
        assert (access.context, token_of(access)) == ("here", "first")

    def test_the_first_file_with_a_name_has_the_whole_entry(self, tmp_path: Path) -> None:
        access = load(tmp_path, *TWO_OF_ONE_NAME)
        assert token_of(access) == "first"
        assert access.impersonation == ()

    def test_the_entries_of_a_context_may_come_from_three_files(self, tmp_path: Path) -> None:
        whole = config(TLS | {"insecure-skip-tls-verify": True}, {"token": "t"})
        parts = [
            {"current-context": "here", "contexts": whole["contexts"]},
            {"users": whole["users"]},
            {"clusters": whole["clusters"]},
        ]
        access = load(tmp_path, *parts)
        assert (access.server, token_of(access)) == ("https://127.0.0.1:1", "t")

    @pytest.mark.parametrize(
        "empty",
        [
            pytest.param("", id="nothing"),
            pytest.param("# nothing\n", id="a comment"),
            pytest.param("null", id="null"),
            pytest.param("---\n", id="a mark"),
            pytest.param("{}", id="an empty object"),
            pytest.param(
                "clusters: null\nusers: null\ncontexts:\ncurrent-context: null\n", id="null lists"
            ),
        ],
    )
    def test_an_empty_one_is_passed_over(self, tmp_path: Path, empty: str) -> None:
        assert token_of(load(tmp_path, empty, config(user={"token": "t"}))) == "t"

    def test_a_missing_one_is_passed_over(self, tmp_path: Path) -> None:
        path = tmp_path / "config"
        path.write_text(json.dumps(config(user={"token": "t"})))
        source = KubeconfigFiles((str(tmp_path / "missing"), str(path)), None)
        assert token_of(ClientConfigLoader(source, {}).load(NOW_S)) == "t"

    @pytest.mark.parametrize(
        ("bad", "words"),
        [
            pytest.param("a: [", "is not valid YAML", id="no YAML"),
            pytest.param("kind: Pod\napiVersion: v1\n", 'it is a "Pod"', id="another kind"),
            pytest.param('{"apiVersion": "v2"}', 'apiVersion is "v2"', id="another version"),
        ],
    )
    def test_one_that_cannot_be_read_is_named_also_where_it_comes_last(
        self, tmp_path: Path, bad: str, words: str
    ) -> None:
        assert words in (told := refusal(tmp_path, config(), bad))
        assert "file-1/config" in told

    def test_relative_paths_begin_at_the_folder_of_their_own_file(
        self, tmp_path: Path, authority: CertificateAuthority
    ) -> None:
        one = config(TLS | {"certificate-authority": "ca.crt"}, users=[])
        two = {"users": [{"name": "u", "user": {"tokenFile": "deep/token"}}]}
        (tmp_path / "file-1" / "deep").mkdir(parents=True)
        (tmp_path / "file-1" / "deep" / "token").write_text("t")
        (tmp_path / "file-0").mkdir()
        authority.write(tmp_path / "file-0" / "ca.crt")
        for number, document in enumerate((one, two)):
            (tmp_path / f"file-{number}" / "config").write_text(json.dumps(document))
        paths = tuple(str(tmp_path / f"file-{number}" / "config") for number in range(2))

        assert token_of(ClientConfigLoader(KubeconfigFiles(paths, None), {}).load(NOW_S)) == "t"

    def test_a_clients_certificate_begins_at_the_folder_of_the_user_not_of_the_cluster(
        self, tmp_path: Path, authority: CertificateAuthority
    ) -> None:
        (tmp_path / "users").mkdir()
        authority.issue(tmp_path / "users", "me", "127.0.0.1")
        user = {"client-certificate": "me.crt", "client-key": "me.key"}
        cluster = tmp_path / "cluster.yaml"
        cluster.write_text(json.dumps(config(TLS, users=[])))
        users = tmp_path / "users" / "config"
        users.write_text(json.dumps({"users": [{"name": "u", "user": user}]}))

        source = KubeconfigFiles((str(cluster), str(users)), None)
        assert ClientConfigLoader(source, {}).load(NOW_S).tls is not None

    def test_the_environment_may_name_one_twice(self, tmp_path: Path) -> None:
        path = tmp_path / "config"
        path.write_text(json.dumps(config()))
        environ = {"KUBECONFIG": f"{path}:{path}::{tmp_path / 'missing'}"}
        assert locate_config(KubeConfigOptions(), environ) == KubeconfigFiles((str(path),), None)

    def test_an_option_names_one_file_also_with_a_colon_in_its_name(self, tmp_path: Path) -> None:
        path = tmp_path / "a:b"
        path.write_text(json.dumps(config(user={"token": "t"})))
        source = locate_config(KubeConfigOptions(str(path)), {"KUBECONFIG": "/no/such"})
        assert token_of(ClientConfigLoader(source, {}).load(NOW_S)) == "t"

    def test_two_entries_of_one_name_in_one_file_are_refused(self, tmp_path: Path) -> None:
        users = [{"name": "u", "user": {"token": SECRET}}, {"name": "u", "user": {}}]
        assert "has two users named 'u'" in refusal(tmp_path, config(users=users))


class TestTheContext:
    def test_that_is_asked_for_counts_before_the_current_one(self, tmp_path: Path) -> None:
        other = {"name": "there", "context": {"cluster": "c", "user": "u"}}
        document = config()
        document["contexts"].append(other)
        assert load(tmp_path, document, context="there").context == "there"

    def test_may_have_an_empty_name_and_so_may_what_it_names(self, tmp_path: Path) -> None:
        document = config(
            current="",
            clusters=[{"cluster": HTTP}],
            users=[{"user": {"token": "t"}}],
            contexts=[{"context": {}}],
        )
        assert token_of(load(tmp_path, document)) == "t"

    @pytest.mark.parametrize(
        ("document", "words"),
        [
            pytest.param(
                config(contexts=[{"name": "here", "context": None}]),
                "'here' names no cluster",
                id="null",
            ),
            pytest.param(
                config(contexts=[{"name": "here", "context": {"user": "u"}}]),
                "'here' names no cluster",
                id="without a cluster",
            ),
            pytest.param(
                config(context={"cluster": "prod"}),
                "'here' names the cluster 'prod'",
                id="with a cluster that is not there",
            ),
            pytest.param(
                config(TLS, contexts=[{"name": "here", "context": {"cluster": "c"}}]),
                "'here' names no user",
                id="without a user",
            ),
            pytest.param(
                config(TLS, context={"user": "eve"}),
                "'here' names the user 'eve'",
                id="with a user that is not there",
            ),
            pytest.param(config(current="gone"), "has no context 'gone'", id="gone"),
        ],
    )
    def test_that_leads_nowhere_is_reported(
        self, tmp_path: Path, document: Document, words: str
    ) -> None:
        assert words in (told := refusal(tmp_path, document))
        assert "--context" in told or "it has" in told

    @pytest.mark.parametrize("user", ["", "eve"], ids=["none", "one that is not there"])
    def test_needs_no_user_for_plain_http(self, tmp_path: Path, user: str) -> None:
        assert load(tmp_path, config(context={"user": user})).headers == {}

    def test_may_have_a_user_without_credentials(self, tmp_path: Path) -> None:
        assert load(tmp_path, config(TLS, users=[{"name": "u", "user": None}])).headers == {}


class TestTheServer:
    @pytest.mark.parametrize(
        ("cluster", "server"),
        [
            pytest.param({"server": "HTTP://Host:1"}, "http://Host:1", id="a scheme in capitals"),
            pytest.param({"server": "Https://h"}, "https://h", id="a scheme in mixed case"),
            pytest.param({"server": "127.0.0.1:8080"}, "http://127.0.0.1:8080", id="no scheme"),
            pytest.param({"server": "localhost"}, "http://localhost", id="a name alone"),
            pytest.param({"server": "[::1]:8080/"}, "http://[::1]:8080", id="IPv6"),
            pytest.param({"server": "http://h/"}, "http://h", id="a slash"),
            pytest.param(
                {"server": "http://h/k8s/c1//"}, "http://h/k8s/c1", id="a path and slashes"
            ),
            pytest.param({"server": "http://h//k8s/./c1"}, "http://h/k8s/c1", id="needless parts"),
            pytest.param({"server": "http://h/k8s/../c1"}, "http://h/c1", id="a step back"),
            pytest.param({"server": "http://h/a%20b%2Bc"}, "http://h/a%20b+c", id="escapes"),
            pytest.param({"server": "http://h/a b/ü"}, "http://h/a%20b/%C3%BC", id="no escapes"),
            pytest.param({"server": "http://h/k8s?a=b#c"}, "http://h/k8s", id="query and fragment"),
            pytest.param({"server": "http://h?a=b"}, "http://h", id="a query alone"),
        ],
    )
    def test_is_completed_as_by_kubectl(
        self, tmp_path: Path, cluster: Document, server: str
    ) -> None:
        assert load(tmp_path, config(cluster)).server == server

    @pytest.mark.parametrize(
        "field", ["certificate-authority", "certificate-authority-data", "insecure-skip-tls-verify"]
    )
    def test_without_a_scheme_is_reached_by_tls_where_its_entry_speaks_of_tls(
        self, tmp_path: Path, ca_file: Path, field: str
    ) -> None:
        values = {
            "certificate-authority": str(ca_file),
            "certificate-authority-data": encoded(ca_file),
            "insecure-skip-tls-verify": True,
        }
        access = load(tmp_path, config({"server": "h:1", field: values[field]}))
        assert access.server == "https://h:1"
        assert access.tls is not None

    @pytest.mark.parametrize(
        "server", ["h/k8s", "ftp://h", "://h", "", "https://", "http://h/a\nb"]
    )
    def test_that_is_no_address_is_reported(self, tmp_path: Path, server: str) -> None:
        assert "is not a http address" in refusal(tmp_path, config({"server": server}))

    @pytest.mark.parametrize(
        ("server", "address"),
        [
            ("https://ann:p%40ss@h:6443/k8s", "https://h:6443/k8s"),
            ("http://ann:p%40ss@[::1]:1", "http://[::1]:1"),
            ("ann:p%40ss@h", "http://h"),
        ],
    )
    def test_may_hold_a_login_that_counts_without_another_one(
        self, tmp_path: Path, server: str, address: str
    ) -> None:
        access = load(tmp_path, config({"server": server}, {}))

        login = base64.b64encode(b"ann:p@ss").decode()
        assert (access.server, access.headers["Authorization"]) == (address, f"Basic {login}")

    @pytest.mark.parametrize(
        "user",
        [
            {"token": "t"},
            {"token": "t", "tokenFile": "no-such-file"},
            {"username": "u", "password": "p"},
            {"exec": {"command": "no-such-plugin", "apiVersion": V1}},
        ],
        ids=["a token", "a token file", "a name and a password", "a plugin"],
    )
    def test_may_hold_a_login_that_goes_before_every_other(
        self, tmp_path: Path, user: Document
    ) -> None:
        access = load(tmp_path, config({"server": "https://ann:pw@h"}, user))

        login = base64.b64encode(b"ann:pw").decode()
        assert (access.server, access.headers["Authorization"]) == ("https://h", f"Basic {login}")

    def test_that_is_not_to_be_verified_has_no_authority(
        self, tmp_path: Path, ca_file: Path
    ) -> None:
        fields = {"certificate-authority": str(ca_file), "insecure-skip-tls-verify": True}
        assert "insecure-skip-tls-verify" in refusal(tmp_path, config(TLS | fields))

    def test_has_the_name_that_its_certificate_must_have(self, tmp_path: Path) -> None:
        access = load(tmp_path, config(TLS | {"tls-server-name": "kubernetes"}))
        assert access.tls_server_name == "kubernetes"

    def test_has_the_proxy_of_its_own_file(self, tmp_path: Path) -> None:
        proxy = load(tmp_path, config(HTTP | {"proxy-url": "http://p:1"})).proxy
        assert proxy is not None
        assert proxy.url == "http://p:1"


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


class TestCertificates:
    @pytest.mark.parametrize("nothing", ["", None], ids=["an empty text", "null"])
    def test_data_that_is_empty_leaves_the_file_its_place(
        self, tmp_path: Path, ca_file: Path, nothing: str | None
    ) -> None:
        fields = {
            "certificate-authority": str(ca_file),
            "certificate-authority-data": nothing,
        }
        tls = load(tmp_path, config(TLS | fields)).tls
        assert tls is not None
        assert len(tls.get_ca_certs()) == 1

    def test_data_may_have_line_breaks(self, tmp_path: Path, ca_file: Path) -> None:
        data = encoded(ca_file)
        data = f"{data[:64]}\r\n{data[64:]}\n"
        assert load(tmp_path, config(TLS | {"certificate-authority-data": data})).tls is not None

    @pytest.mark.parametrize("data", [f"!{SECRET}", "abc", "YWJj YWJj"])
    def test_data_that_is_no_base64_is_reported(self, tmp_path: Path, data: str) -> None:
        told = refusal(tmp_path, config(TLS | {"certificate-authority-data": data}))
        assert "the cluster 'c' is no base64" in told

    def test_data_that_is_no_base64_is_no_matter_where_it_is_not_used(self, tmp_path: Path) -> None:
        unused = {"name": "v", "user": {"client-key-data": "!"}}
        document = config(user={"token": "t"})
        document["users"].append(unused)
        assert token_of(load(tmp_path, document)) == "t"

    def test_a_file_and_its_data_are_refused(self, tmp_path: Path, ca_file: Path) -> None:
        both = {
            "certificate-authority": str(ca_file),
            "certificate-authority-data": encoded(ca_file),
        }
        told = refusal(tmp_path, config(TLS | both))
        assert "has certificate-authority and certificate-authority-data" in told

    def test_a_clients_certificate_needs_its_key(self, tmp_path: Path, ca_file: Path) -> None:
        told = refusal(tmp_path, config(TLS, {"client-certificate": str(ca_file)}))
        assert "no key for it" in told

    def test_a_key_alone_is_no_certificate(self, tmp_path: Path) -> None:
        assert token_of(load(tmp_path, config(HTTP, {"client-key": "x", "token": "t"}))) == "t"


class TestCredentials:
    def test_a_token_file_counts_before_the_token(self, tmp_path: Path) -> None:
        file = tmp_path / "token"
        file.write_text("from-file\n")
        user = {"token": "stale", "tokenFile": str(file)}
        assert token_of(load(tmp_path, config(user=user))) == "from-file"

    @pytest.mark.parametrize("content", [None, "", " \n"], ids=["missing", "empty", "blank"])
    def test_a_token_counts_while_its_file_has_none(
        self, tmp_path: Path, content: str | None
    ) -> None:
        file, path = tmp_path / "token", tmp_path / "config"
        path.write_text(json.dumps(config(user={"token": "given", "tokenFile": "token"})))
        if content is not None:
            file.write_text(content)
        loader = ClientConfigLoader(KubeconfigFiles((str(path),), None), {})
        assert token_of(loader.load(NOW_S)) == "given"
        file.write_text("from-file")
        assert token_of(loader.load(NOW_S)) == "from-file"

    def test_a_token_file_that_is_missing_is_named(self, tmp_path: Path) -> None:
        assert "/no/such/token" in refusal(tmp_path, config(user={"tokenFile": "/no/such/token"}))

    @pytest.mark.parametrize(
        ("user", "pair"),
        [
            ({"username": "me", "password": "pw"}, "me:pw"),
            ({"username": "me"}, "me:"),
        ],
    )
    def test_a_name_and_a_password_are_basic(
        self, tmp_path: Path, user: Document, pair: str
    ) -> None:
        basic = base64.b64encode(pair.encode()).decode()
        assert load(tmp_path, config(user=user)).headers == {"Authorization": f"Basic {basic}"}

    @pytest.mark.parametrize("name", [{}, {"username": ""}], ids=["none", "an empty one"])
    def test_a_password_without_a_name_is_no_login(self, tmp_path: Path, name: Document) -> None:
        assert load(tmp_path, config(user=name | {"password": "pw"})).headers == {}

    def test_a_password_without_a_name_leaves_a_plugin_its_work(self, tmp_path: Path) -> None:
        plugin = {"exec": {"apiVersion": V1, "command": "no-such-plugin"}}
        assert "no-such-plugin" in refusal(tmp_path, config(user=plugin | {"password": "pw"}))

    @pytest.mark.parametrize("token", [{"token": SECRET}, {"tokenFile": "/no/such"}])
    def test_a_token_and_a_password_are_refused(self, tmp_path: Path, token: Document) -> None:
        told = refusal(tmp_path, config(user=token | {"username": "me", "password": SECRET}))
        assert "a token and a username" in told

    @pytest.mark.parametrize(
        "own", [{"token": "t"}, {"username": "me"}], ids=["a token", "a password"]
    )
    def test_that_stand_in_the_file_leave_no_work_for_a_plugin(
        self, tmp_path: Path, own: Document
    ) -> None:
        plugin = {"exec": {"apiVersion": V1, "command": "false"}}
        assert load(tmp_path, config(user=own | plugin)).headers

    def test_of_a_certificate_leave_no_work_for_a_plugin(
        self, tmp_path: Path, authority: CertificateAuthority
    ) -> None:
        certificate, key = authority.issue(tmp_path, "me", "127.0.0.1")
        user = {
            "client-certificate-data": encoded(certificate),
            "client-key-data": encoded(key),
            "exec": {"apiVersion": V1, "command": "false"},
        }
        assert load(tmp_path, config(TLS, user)).headers == {}

    def test_of_a_plugin_and_a_provider_are_refused(self, tmp_path: Path) -> None:
        user = {"exec": {"apiVersion": V1, "command": "x"}, "auth-provider": {"name": "oidc"}}
        assert "has exec and auth-provider" in refusal(tmp_path, config(user=user))

    def test_of_a_plugin_with_a_relative_path_come_from_the_files_folder(
        self, tmp_path: Path
    ) -> None:
        answer = {"apiVersion": V1, "kind": "ExecCredential", "status": {"token": "t"}}
        plugin = tmp_path / "file-0" / "bin" / "plugin"
        plugin.parent.mkdir(parents=True)
        plugin.write_text(f"#!{sys.executable}\nprint({json.dumps(answer)!r})\n")
        plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
        path = tmp_path / "file-0" / "config"
        path.write_text(
            json.dumps(config(user={"exec": {"apiVersion": V1, "command": "./bin/plugin"}}))
        )
        loader = ClientConfigLoader(KubeconfigFiles((str(path),), None), os.environ)
        assert token_of(loader.load(NOW_S)) == "t"


class TestImpersonation:
    def test_becomes_headers_as_client_go_writes_them(self, tmp_path: Path) -> None:
        user = {
            "as": "bob",
            "as-uid": "7",
            "as-groups": ["a", "b"],
            "as-user-extra": {"scopes/x": ["1", "2"], "per%cent": ["z"], "émoji": ["é"], "k": []},
        }
        assert load(tmp_path, config(user=user)).impersonation == (
            ("Impersonate-User", "bob"),
            ("Impersonate-Uid", "7"),
            ("Impersonate-Group", "a"),
            ("Impersonate-Group", "b"),
            ("Impersonate-Extra-scopes%2Fx", "1"),
            ("Impersonate-Extra-scopes%2Fx", "2"),
            ("Impersonate-Extra-per%25cent", "z"),
            ("Impersonate-Extra-%C3%A9moji", "é"),
        )

    @pytest.mark.parametrize("nothing", [None, ""], ids=["null", "an empty text"])
    def test_that_is_empty_is_none(self, tmp_path: Path, nothing: str | None) -> None:
        user = {"token": "t", "as": nothing, "as-groups": None, "as-user-extra": None}
        assert load(tmp_path, config(user=user)).impersonation == ()

    @pytest.mark.parametrize(
        "fields",
        [{"as-groups": ["a"]}, {"as-uid": "7"}, {"as-user-extra": {"k": []}}],
        ids=["groups", "a uid", "extra fields"],
    )
    def test_needs_a_user(self, tmp_path: Path, fields: Document) -> None:
        told = refusal(tmp_path, config(user={"token": SECRET} | fields))
        assert "there is no `as`" in told

    @pytest.mark.parametrize(
        "fields",
        [{"as": "b\nob"}, {"as": "bob", "as-groups": ["a\r"]}, {"as": "bob", "as-uid": "\0"}],
    )
    def test_that_no_header_can_hold_is_refused(self, tmp_path: Path, fields: Document) -> None:
        assert "would hold a line break" in refusal(tmp_path, config(user=fields))
