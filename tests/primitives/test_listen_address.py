import pytest

from reactive_desched.errors import ConfigError
from reactive_desched.primitives.listen_address import Listen, parse_listen


@pytest.mark.parametrize(
    ("text", "listen", "url"),
    [
        ("127.0.0.1:10258", Listen("127.0.0.1", 10258), "http://127.0.0.1:10258"),
        (":0", Listen("", 0), "http://127.0.0.1:0"),
        ("[::1]:80", Listen("::1", 80), "http://[::1]:80"),
        ("localhost:65535", Listen("localhost", 65535), "http://localhost:65535"),
    ],
)
def test_an_address_is_understood(text: str, listen: Listen, url: str) -> None:
    assert parse_listen(text) == listen
    assert parse_listen(text).url == url


@pytest.mark.parametrize("text", ["", "10258", "host", "host:", "::1:80", "h:65536", "h:-1", "h:x"])
def test_anything_else_is_refused_with_the_form_expected(text: str) -> None:
    with pytest.raises(ConfigError, match=r"write HOST:PORT, \[IPV6\]:PORT or :PORT"):
        parse_listen(text)
