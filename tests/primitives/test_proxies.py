"""Proxies of the environment, by the rules of golang.org/x/net/http/httpproxy."""

import pytest

from reactive_desched.primitives.proxies import ProxyError, environment_proxy, make_proxy
from tests.support.golden import Golden

OPENSHIFT = (
    ".cluster.local,.svc,10.0.0.0/16,10.128.0.0/14,127.0.0.1,169.254.169.254,172.30.0.0/16,"
    "api-int.ocp.example.com,localhost, *.apps.ocp.example.com ,fd02::/112"
)
"""As the Cluster Network Operator writes it into the Pods of an OpenShift cluster."""


def is_direct(url: str, no_proxy: str) -> bool:
    environ = {"http_proxy": "http://p:1", "https_proxy": "http://p:1", "no_proxy": no_proxy}
    return environment_proxy(url, environ) is None


@pytest.mark.parametrize(
    ("url", "direct"),
    [
        ("https://172.30.0.1:443", True),
        ("https://172.31.0.1:443", False),
        ("https://10.129.4.5", True),
        ("https://api-int.ocp.example.com:6443", True),
        ("https://api.ocp.example.com:6443", False),
        ("https://thanos-querier.openshift-monitoring.svc:9091", True),
        ("http://prometheus.monitoring.svc.cluster.local", True),
        ("https://hooks.apps.ocp.example.com/in", True),
        ("https://apps.ocp.example.com", False),
        ("https://[fd02::1]", True),
        ("https://[fd03::1]", False),
    ],
)
def test_the_list_of_openshift_means_what_it_means_there(url: str, *, direct: bool) -> None:
    assert is_direct(url, OPENSHIFT) is direct


@pytest.mark.parametrize(
    ("url", "no_proxy", "direct"),
    [
        ("https://api.example", "example", True),
        ("https://api.example", ".example", True),
        ("https://example", ".example", False),
        ("https://example", "*.example", False),
        ("https://api.example", "ample", False),
        ("https://api.example", "API.Example", True),
        ("https://API.Example", "api.example", True),
        ("https://api.example", "a, api.example ,b", True),
        ("https://api.example", "*", True),
        ("https://10.0.0.1", "x,*", True),
        ("https://api.example", "api.*", False),
        ("https://api.example:6443", "api.example:6443", True),
        ("https://api.example:6443", "api.example:443", False),
        ("https://api.example", "api.example:443", True),
        ("http://api.example", "api.example:80", True),
        ("https://a.example:8443", ".example:8443", True),
        ("https://10.1.2.3", "10.0.0.0/8", True),
        ("https://11.1.2.3", "10.0.0.0/8", False),
        ("https://10.1.2.3", "10.9.9.9/8", True),
        ("https://10.1.2.3", "10.0.0.0/255.0.0.0", False),
        ("https://10.1.2.3", "10.1.2.3", True),
        ("https://10.1.2.3:6443", "10.1.2.3:6443", True),
        ("https://10.1.2.3:6443", "10.1.2.3:443", False),
        ("https://10.1.2.3", "10.1", False),
        ("https://[fd00::1]", "fd00::1", True),
        ("https://[fd00::1]", "fd00:0::1", True),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", True),
        ("https://[fd00::1]:6443", "[fd00::1]:443", False),
        ("https://[fd00::1]", "fd00::/8", True),
        ("https://[::ffff:10.0.0.1]", "10.0.0.0/8", True),
        ("https://10.1.2.3", "::ffff:10.0.0.0/104", True),
        ("https://[::ffff:10.1.2.3]", "::ffff:10.0.0.0/104", True),
        ("https://11.1.2.3", "::ffff:10.0.0.0/104", False),
        ("https://10.1.2.3", "::/0", False),
        ("https://[1000::%25.example.com]", "example.com", False),
        ("http://www.示例.com", "xn--fsq092h.com", True),
        ("http://www.xn--fsq092h.com", ".示例.com", True),
        ("https://127.0.0.9", "", True),
        ("https://[::1]", "", True),
        ("https://localhost:6443", "", True),
        ("https://localhost.example", "", False),
        ("ftp://api.example", "", True),
    ],
)
def test_no_proxy_names_hosts_as_for_programs_in_go(
    url: str, no_proxy: str, *, direct: bool
) -> None:
    assert is_direct(url, no_proxy) is direct


@pytest.mark.parametrize(
    ("environ", "proxy", "source"),
    [
        ({"HTTPS_PROXY": "http://p:1"}, "http://p:1", "$HTTPS_PROXY"),
        ({"https_proxy": "http://p:1"}, "http://p:1", "$https_proxy"),
        ({"HTTPS_PROXY": "http://a", "https_proxy": "http://b"}, "http://a", "$HTTPS_PROXY"),
        ({"HTTPS_PROXY": "", "https_proxy": "http://b"}, "http://b", "$https_proxy"),
        ({"HTTPS_PROXY": "p:1"}, "http://p:1", "$HTTPS_PROXY"),
        ({"HTTPS_PROXY": "p"}, "http://p", "$HTTPS_PROXY"),
        ({"HTTPS_PROXY": "me:pw@p:1"}, "http://me:pw@p:1", "$HTTPS_PROXY"),
        ({"HTTPS_PROXY": "https://p:1"}, "https://p:1", "$HTTPS_PROXY"),
    ],
)
def test_a_name_in_capitals_counts_first_as_in_go_and_http_is_what_a_proxy_speaks(
    environ: dict[str, str], proxy: str, source: str
) -> None:
    assert environment_proxy("https://api.example", environ) == (proxy, source)


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"HTTP_PROXY": "http://p:1", "ALL_PROXY": "http://p:1"},
        {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "api.example", "no_proxy": "x"},
        {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "", "no_proxy": "api.example"},
    ],
)
def test_without_a_proxy_for_https_there_is_none(environ: dict[str, str]) -> None:
    assert environment_proxy("https://api.example", environ) is None


@pytest.mark.parametrize(
    "url",
    [
        "socks5://me:c4n4ry@p:1",
        "socks5h://p:1",
        "ftp://me:c4n4ry@p",
        "http://me:c4n4ry@",
        "http://p:0",
        "http://p:port",
        "http://me:c4n4ry@p q:1",
    ],
)
def test_a_proxy_that_cannot_be_used_is_refused_without_its_password(
    url: str, golden: Golden
) -> None:
    with pytest.raises(ProxyError) as caught:
        make_proxy(url, "$HTTPS_PROXY")
    assert str(caught.value) == golden()
    assert "c4n4ry" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "offered"),
    [(407, ()), (407, ("NTLM", "Negotiate")), (407, ("NTLM", "Basic realm=x")), (403, ())]
    + [(status, ()) for status in (400, 502, 503, 504)],
)
def test_what_a_proxy_answers_has_its_remedy(
    status: int, offered: tuple[str, ...], golden: Golden
) -> None:
    headers = [("Proxy-authenticate", each) for each in offered]
    assert make_proxy("http://p:1", "$HTTPS_PROXY").refusal(status, headers) == golden()


def test_a_proxy_of_the_kubeconfig_is_left_out_where_no_proxy_has_no_say(golden: Golden) -> None:
    assert make_proxy("http://p:1", "the kubeconfig's proxy-url").refusal(502, []) == golden()


def test_a_password_that_is_not_accepted_is_not_shown(golden: Golden) -> None:
    told = make_proxy("http://me:c4n4ry@p:1", "$HTTPS_PROXY").refusal(407, [])
    assert told == golden()
    assert "c4n4ry" not in told
