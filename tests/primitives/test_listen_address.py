import pytest

from reactive_desched.errors import ConfigError
from reactive_desched.primitives.listen_address import ListenAddress, parse_listen_address


@pytest.mark.parametrize(
    ("text", "listen", "url"),
    [
        ("127.0.0.1:10258", ListenAddress("127.0.0.1", 10258), "http://127.0.0.1:10258"),
        (":0", ListenAddress("", 0), "http://127.0.0.1:0"),
        ("[::1]:80", ListenAddress("::1", 80), "http://[::1]:80"),
        ("localhost:65535", ListenAddress("localhost", 65535), "http://localhost:65535"),
    ],
)
def test_an_address_is_understood(text: str, listen: ListenAddress, url: str) -> None:
    assert parse_listen_address(text) == listen
    assert parse_listen_address(text).url() == url


@pytest.mark.parametrize("text", ["", "10258", "host", "host:", "::1:80", "h:65536", "h:-1", "h:x"])
def test_anything_else_is_refused_with_the_form_expected(text: str) -> None:
    with pytest.raises(ConfigError, match=r"write HOST:PORT, \[IPV6\]:PORT or :PORT"):
        parse_listen_address(text)
