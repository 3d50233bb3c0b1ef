"""Asks a running controller, and sends it orders, over HTTP from the same machine or pod."""

import argparse
import json
import os
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Any, Final
from urllib.parse import SplitResult, urlencode, urlsplit

from reactive_desched.errors import ConfigError, ControllerUnavailable
from reactive_desched.primitives.hints import quote

DEFAULT_SERVER: Final = "http://127.0.0.1:10258"
TIMEOUT_S: Final = 10.0

WHERE: Final = (
    "The controller answers on its own machine or pod only: use kubectl exec or kubectl "
    "port-forward."
)
"""What each help says of where a running controller may be asked."""

STATUS: Final = "exit status: 0 an answer came, 1 no controller answers, 2 a wrong argument"
"""The exit status of a command that only asks."""


def add_server(command: argparse.ArgumentParser) -> None:
    """Add `--server` to a command that speaks with a running controller."""
    command.add_argument(
        "--server",
        metavar="URL",
        default=DEFAULT_SERVER,
        help="the controller, on this machine or through kubectl port-forward (default: "
        f"{DEFAULT_SERVER})",
    )


def read_page(server: str, page: str, query: Mapping[str, str] | None = None) -> Any:
    """Return what a debug page of the controller holds.

    Raises ControllerUnavailable when no controller answers, and ConfigError for a wrong address
    or a query that it does not take.
    """
    return _request(server, "GET", f"/debug/{page}" + (f"?{urlencode(query)}" if query else ""))


def send_order(server: str, order: str, body: Mapping[str, Any]) -> Any:
    """Have the controller carry out an order, and return its answer; raises as `read_page`."""
    return _request(server, "POST", f"/operator/{order}", json.dumps(body))


def _request(server: str, method: str, path: str, body: str | None = None) -> Any:
    address = _address(server)
    assert address.hostname is not None, "it was checked"
    connection = HTTPConnection(address.hostname, address.port or 80, timeout=TIMEOUT_S)
    headers = {} if body is None else {"Content-Type": "application/json"}
    try:
        connection.request(method, address.path.rstrip("/") + path, body, headers)
        response = connection.getresponse()
        text = response.read().decode()
        if response.status == HTTPStatus.OK:
            return json.loads(text)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ControllerUnavailable(
            f"{server} answers with something else than JSON; is that the address of a controller?"
        ) from error
    except (HTTPException, OSError, ValueError) as error:
        reason = _os_error_text(error)
        raise ControllerUnavailable(
            f"no answer at {server}: {reason}; is a controller running there?"
        ) from error
    finally:
        connection.close()
    if response.status == HTTPStatus.BAD_REQUEST:
        raise ConfigError(text.strip())
    if response.status == HTTPStatus.NOT_FOUND:
        text = "it has no such page: is that a controller of this version?"
    raise ControllerUnavailable(f"{server} answers {response.status} to {path}: {text.strip()}")


def _address(server: str) -> SplitResult:
    """Split the address of a controller; raises ConfigError for what is none."""
    hint = f"write for example {DEFAULT_SERVER}"
    try:
        address = urlsplit(server if "://" in server else f"http://{server}")
        is_valid = address.scheme == "http" and address.hostname and address.port != 0
    except ValueError:  # the port is no number
        is_valid = False
    if not is_valid or address.query:
        raise ConfigError(f"--server {quote(server)} is not the address of a controller: {hint}")
    return address


def _os_error_text(error: Exception) -> str:
    """Return the operating system's words, if there are any."""
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
