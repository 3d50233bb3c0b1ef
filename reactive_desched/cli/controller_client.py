"""Asks a running controller, and sends it orders, over HTTP."""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlencode, urlsplit

from reactive_desched.cli.commands import print_warning
from reactive_desched.errors import ConfigError, ControllerUnavailable, NotRecorded
from reactive_desched.primitives.hints import quote
from reactive_desched.primitives.proxies import Proxy, ProxyError, environment_proxy

if TYPE_CHECKING:
    from http.client import HTTPConnection
    from ssl import SSLContext

    from reactive_desched.cli.kubeconfig_cluster import CurrentCluster

DEFAULT_SERVER: Final = "http://127.0.0.1:10258"
TIMEOUT_S: Final = 10.0

WHERE: Final = (
    "The controller answers on its own machine or pod: use kubectl exec or kubectl port-forward. "
    "With server.requireToken it answers any client with a token."
)
"""What each help says of where a running controller may be asked."""

CLUSTER_PAGE: Final = "cluster"
"""The debug page with the uid of a controller's cluster, and the address of its API server."""

_CLUSTER_HEADER: Final = "Reactive-Desched-Cluster"

_IN_A_CLUSTER: Final = (
    "is a controller running there? One that starts answers after some seconds; one in a cluster is"
    " asked through `kubectl port-forward -n reactive-desched deploy/reactive-desched 10258`"
)
"""What is said where no program listens; the names are those in deploy/."""

UNAUTHORIZED: Final = (
    "it wants a valid token: write one into a file, for example with kubectl create token, and "
    "name it with --token-file"
)
"""What to do about an answer of 401."""

STATUS: Final = "exit status: 0 an answer came, 1 no controller answers, 2 a wrong argument"
"""The exit status of a command that only asks."""


class Answer(NamedTuple):
    """The answer of a controller, and its cluster; empty where the answer does not name it."""

    value: Any  # JSON
    cluster: str

    def heading(self, server: str) -> str:
        """Return a line that says who was asked."""
        return f"cluster {self.cluster or 'not known yet'}, by the controller at {server}"


class ControllerClient(NamedTuple):
    """A running controller: where it is, and what makes it and us known to each other.

    `token_file` holds our bearer token, `certificate_authority` who signed the controller's
    certificate (None: the system's), `tls_server_name` the name that is in it (None: the host's).
    `wanted` is whose controller it should be; None for whichever is at the address.
    """

    server: str
    token_file: str | None = None
    certificate_authority: str | None = None
    tls_server_name: str | None = None
    timeout_s: float = TIMEOUT_S
    wanted: "WantedCluster | None" = None

    def read_page(self, page: str, query: Mapping[str, str] | None = None) -> Any:
        """Return what a debug page of the controller holds.

        Raises ControllerUnavailable when no controller answers, or not this client, ConfigError
        for a wrong address or a query that it does not take, and NotRecorded for a moment of which
        it has nothing.
        """
        return self.ask(page, query).value

    def ask(self, page: str, query: Mapping[str, str] | None = None) -> Answer:
        """Return what a debug page holds, and of which cluster; raises as `read_page`.

        A warning says where that is another cluster than the wanted one.
        """
        if self.wanted is not None:
            self.wanted.warn_of_another(self)
        return self._read(page, query)

    def send_order(self, order: str, body: Mapping[str, Any]) -> Answer:
        """Post an order to the controller and return its answer; raises as `read_page`.

        The controller of another cluster than the wanted one is sent nothing.
        """
        if self.wanted is not None:
            self.wanted.refuse_another(self)
        return self._request("POST", f"/operator/{order}", json.dumps(body))

    def identity(self) -> Answer:
        """Return what identifies the controller's cluster; raises as `read_page`."""
        return self._read(CLUSTER_PAGE)

    def _read(self, page: str, query: Mapping[str, str] | None = None) -> Answer:
        return self._request("GET", f"/debug/{page}" + (f"?{urlencode(query)}" if query else ""))

    def headers(self) -> dict[str, str]:
        """Return the headers with our bearer token; raises ConfigError for a file without one."""
        if self.token_file is None:
            return {}
        try:
            token = Path(self.token_file).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = "it is not text" if isinstance(error, UnicodeDecodeError) else error.strerror
            raise ConfigError(f"--token-file {self.token_file}: {reason}") from error
        if not token or not token.isprintable() or " " in token:
            raise ConfigError(f"--token-file {self.token_file}: there is no token in it")
        return {"Authorization": f"Bearer {token}"}

    def tls_context(self) -> "SSLContext":
        """Return the TLS context; raises ConfigError for a file that holds no certificate."""
        from reactive_desched.primitives.client_tls import client_tls_context

        try:
            return client_tls_context(self.certificate_authority)
        except OSError as error:  # ssl.SSLError is an OSError
            reason = os_error_text(error)
            raise ConfigError(
                f"--certificate-authority {self.certificate_authority}: {reason}"
            ) from error

    def _connection(self) -> "HTTPConnection":
        address = split_address(self.server)
        assert address.hostname is not None, "it was checked"
        if address.scheme == "http":
            from http.client import HTTPConnection

            return HTTPConnection(address.hostname, address.port or 80, timeout=self.timeout_s)
        from reactive_desched.cli.tls_connection import TlsConnection

        name = self.tls_server_name or address.hostname
        return TlsConnection(
            address.hostname, address.port or 443, self.timeout_s, self.tls_context(), name
        )

    def _remedy(self, error: Exception) -> str:
        """Return what to check where the controller does not answer."""
        if getattr(error, "reason", "") in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
            return "does it serve plain HTTP? Then write http://"
        if isinstance(error, ConnectionResetError) and split_address(self.server).scheme == "http":
            return "does it serve TLS? Then write https://"
        return _IN_A_CLUSTER

    def _request(self, method: str, path: str, body: str | None = None) -> Answer:
        from http.client import HTTPException

        headers = self.headers() | ({} if body is None else {"Content-Type": "application/json"})
        proxy = self.proxy()
        where = self.server if proxy is None else f"{self.server}, through {proxy}"
        try:
            status, cluster, raw = (
                self._exchange(method, path, body, headers)
                if proxy is None
                else self._exchange_through(proxy, method, path, body, headers)
            )
            text = raw.decode()
            if status == HTTPStatus.OK:
                return Answer(json.loads(text), cluster)
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ControllerUnavailable(
                f"{where} answers with something else than JSON; is that the address of a "
                "controller?"
            ) from error
        except (HTTPException, OSError, ValueError) as error:
            raise ControllerUnavailable(
                f"no answer at {where}: {os_error_text(error)}; {self._remedy(error)}"
            ) from error
        if status == HTTPStatus.BAD_REQUEST:
            of_cluster = f" of cluster {cluster}" if cluster else ""
            raise ConfigError(
                f"{text.strip()}\nthat is the answer of the controller{of_cluster} at {self.server}"
            )
        if status == HTTPStatus.UNPROCESSABLE_ENTITY:
            raise NotRecorded(text.strip())
        if status == HTTPStatus.NOT_FOUND:
            text = "it has no such page: is that a controller of this version?"
        elif status == HTTPStatus.UNAUTHORIZED:
            text = UNAUTHORIZED
        raise ControllerUnavailable(f"{where} answers {status} to {path}: {text.strip()}")

    def _exchange(
        self, method: str, path: str, body: str | None, headers: Mapping[str, str]
    ) -> tuple[int, str, bytes]:
        """Return the status of the answer, the cluster that it names, and its body."""
        connection = self._connection()
        try:
            connection.request(
                method, split_address(self.server).path.rstrip("/") + path, body, headers
            )
            response = connection.getresponse()
            cluster = unquote(response.getheader(_CLUSTER_HEADER, ""))
            return response.status, cluster, response.read()
        finally:
            connection.close()

    def _exchange_through(
        self, proxy: Proxy, method: str, path: str, body: str | None, headers: Mapping[str, str]
    ) -> tuple[int, str, bytes]:
        """Do the same through a proxy."""
        from aiohttp import ClientError

        from reactive_desched.cli.proxied_request import request_through

        address = split_address(self.server)
        tls = self.tls_context() if address.scheme == "https" else None
        url = address.geturl().rstrip("/") + path
        try:
            answer = request_through(
                proxy, method, url, body, headers, tls, self.tls_server_name, self.timeout_s
            )
        except ClientError as error:
            names = ("certificate_error", "os_error")
            causes = (getattr(error, name, None) for name in names)
            cause = next((each for each in causes if isinstance(each, Exception)), error)
            raise OSError(os_error_text(cause)) from None
        cluster = unquote(answer.headers.get(_CLUSTER_HEADER.lower(), ""))
        return answer.status, cluster, answer.body

    def proxy(self) -> Proxy | None:
        """Return the environment's proxy to the controller; raises ConfigError for a wrong one."""
        try:
            return environment_proxy(split_address(self.server).geturl(), os.environ)
        except ProxyError as error:
            raise ConfigError(str(error)) from error


class WantedCluster:
    """The cluster of the kubeconfig, for a command that was not given the address of a controller.

    At the usual address another one's may listen. A controller with the kubeconfig's address of the
    API server is the one; of others the uid of the cluster is compared.
    """

    def __init__(self, named: "CurrentCluster") -> None:
        self._named = named
        self._warned = ""

    def warn_of_another(self, client: ControllerClient) -> None:
        """Warn, once of each, where the controller is that of another cluster."""
        if (other := self._other(client)) and other != self._warned:
            self._warned = other
            print_warning(f"{other}; name the controller that is meant with --server")

    def refuse_another(self, client: ControllerClient) -> None:
        """Raise ControllerUnavailable where the controller is that of another cluster."""
        if other := self._other(client):
            raise ControllerUnavailable(
                f"{other}; nothing was sent: name the controller that is meant with --server, also"
                f" where it is this one: --server {client.server}"
            )

    def _other(self, client: ControllerClient) -> str:
        """Say whose controller answers where it is not the wanted one; else return nothing."""
        place = self._named.place
        if place is None or place.fault:
            return ""
        said = client.identity()
        uid, api_server = said.value["uid"], said.value["apiServer"]
        if not uid or api_server == place.server or self._named.uid in ("", uid):
            return ""
        return (
            f"the controller at {client.server} is that of cluster {said.cluster}, and the"
            f" kubeconfig names another one, {place}"
        )


def client_of(arguments: argparse.Namespace) -> ControllerClient:
    """Return the controller that the flags of `add_server` name.

    Without --server it should be that of the kubeconfig's cluster.
    """
    return ControllerClient(
        arguments.server or DEFAULT_SERVER,
        arguments.token_file,
        arguments.certificate_authority,
        arguments.tls_server_name,
        wanted=None if arguments.server else _wanted(arguments),
    )


def _wanted(arguments: argparse.Namespace) -> WantedCluster:
    from reactive_desched.cli.kubeconfig_cluster import CurrentCluster
    from reactive_desched.kube.auth.kubeconfig import KubeConfigOptions

    options = KubeConfigOptions(
        getattr(arguments, "kubeconfig", None),  # few of these commands have such flags
        getattr(arguments, "context", None),
    )
    return WantedCluster(CurrentCluster(options))


def add_server(command: argparse.ArgumentParser) -> None:
    """Add the flags of a command that asks a running controller."""
    command.add_argument(
        "--server",
        metavar="URL",
        help="the controller, on this machine or through kubectl port-forward (default: "
        f"{DEFAULT_SERVER}, if it is that of the kubeconfig's cluster)",
    )
    add_trust(command)


def add_output(command: argparse.ArgumentParser) -> None:
    """Add the flag of a command that writes what a controller answers."""
    command.add_argument("-o", "--output", choices=["table", "json"], default="table")


def write_answer(output: str, answer: Any, lines: Iterable[str]) -> None:
    """Write an answer as JSON, or as the lines of its table, which are made for that alone."""
    if output == "json":
        sys.stdout.write(json.dumps(answer, indent=1) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in lines)


def add_trust(command: argparse.ArgumentParser) -> None:
    """Add the flags by which a command and a controller with TLS and tokens know each other."""
    command.add_argument(
        "--token-file",
        metavar="FILE",
        help="a file with a bearer token, for a controller with server.requireToken",
    )
    command.add_argument(
        "--certificate-authority",
        metavar="FILE",
        help="PEM file of the authority that signed the controller's certificate (default: the "
        "system's)",
    )
    command.add_argument(
        "--tls-server-name",
        metavar="NAME",
        help="the name in the controller's certificate, where it is not the host of --server",
    )


def split_address(server: str) -> SplitResult:
    """Split the address of a controller; raises ConfigError for what is none."""
    hint = f"write for example {DEFAULT_SERVER}"
    try:
        address = urlsplit(server if "://" in server else f"http://{server}")
        is_valid = address.scheme in ("http", "https") and address.hostname and address.port != 0
        (address.hostname or "").encode("idna")
    except ValueError:  # the port is no number, or the host can be none
        is_valid = False
    if not is_valid or address.query:
        raise ConfigError(f"--server {quote(server)} is not the address of a controller: {hint}")
    return address


def os_error_text(error: Exception) -> str:
    """Return the operating system's words, if there are any; TLS has words of its own."""
    if problem := getattr(error, "verify_message", ""):
        return (
            f"its certificate is not trusted ({problem}): name its authority with"
            " --certificate-authority"
        )
    is_tls = hasattr(error, "library")  # ssl.SSLError; its errno is no error of the system
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0 and not is_tls:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
