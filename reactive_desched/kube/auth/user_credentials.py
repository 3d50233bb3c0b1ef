"""The credentials of a kubeconfig's user: its files, its plugin or its auth-provider."""

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from reactive_desched.kube.auth.certificates import certificate_end
from reactive_desched.kube.auth.credential import (
    LOAD_LIMIT_S,
    WRITE_ANEW,
    Credential,
    CredentialSource,
)
from reactive_desched.kube.auth.exec_plugin import ExecCredentials, ExecPlugin
from reactive_desched.kube.auth.kubeconfig_merge import ChosenContext
from reactive_desched.kube.auth.oidc import OidcCredentials
from reactive_desched.kube.auth.token_writing import replace_tokens
from reactive_desched.primitives.shortage import lacking

__all__ = ["FileCredentials", "credential_source", "file_or_data", "read_token"]

_SUCCESSORS: Final = {
    "gcp": "gke-gcloud-auth-plugin, as `gcloud container clusters get-credentials` writes it",
    "azure": "kubelogin, as `kubelogin convert-kubeconfig` writes it",
}


class FileCredentials:
    """The credentials of the kubeconfig and of files that it names, read for each request."""

    limit_s = LOAD_LIMIT_S
    wait_hint = ": see whether the files that it names can be read"
    refused_hint = WRITE_ANEW
    is_kept = False

    def __init__(self, user: Mapping[str, Any], token_file: str | None) -> None:
        self._user = user
        self._token_file = token_file
        self._rejected = b""

    async def load(self, now_s: float, *, is_rejected: bool) -> Credential:
        """Return the credential; a rejected certificate that has ended is named as that."""
        certificate = file_or_data(self._user, "client-certificate")
        if is_rejected:
            self._rejected = certificate
        end_s = certificate_end(certificate) if certificate else None
        if end_s is not None and end_s < now_s and certificate == self._rejected:
            ended = datetime.fromtimestamp(end_s, UTC).isoformat()
            raise ValueError(f"its client certificate ended at {ended}: have it written anew")
        key = file_or_data(self._user, "client-key") if certificate else b""
        return Credential(self._authorization(), certificate, key)

    def _authorization(self) -> str:
        user = self._user
        if self._token_file is not None:
            try:
                return f"Bearer {read_token(self._token_file)}"
            except (OSError, ValueError) as error:
                if lacking(error):
                    raise
                return f"Bearer {user['token']}"
        if "token" in user:
            return f"Bearer {user['token']}".strip()
        if "tokenFile" in user:
            return f"Bearer {read_token(user['tokenFile'])}"
        if "username" in user:
            login = f"{user['username']}:{user['password']}"
            return f"Basic {base64.b64encode(login.encode()).decode()}"
        return ""


def credential_source(context: ChosenContext, environ: Mapping[str, str]) -> CredentialSource:
    """Return the credentials of a context's user; raises ValueError, without secrets."""
    user = context.user
    if (plugin := user.get("exec")) is not None:
        return ExecCredentials(ExecPlugin(plugin, context.cluster))
    if (provider := user.get("auth-provider")) is None:
        return FileCredentials(user, context.token_file)
    name = provider.get("name")
    if name == "oidc":
        write = partial(replace_tokens, context.user_file, context.user_name)
        return OidcCredentials(provider.get("config") or {}, environ, write)
    if name in _SUCCESSORS:
        raise ValueError(
            f"auth-provider {name} was removed from kubectl in 1.26: use the credential plugin"
            f" {_SUCCESSORS[name]}"
        )
    raise ValueError("its auth-provider is not known: use a credential plugin (exec) instead")


def file_or_data(entry: Mapping[str, Any], name: str) -> bytes:
    """Return what NAME-data holds, or the file that NAME names; empty where there is neither."""
    if data := entry.get(f"{name}-data"):
        return base64.b64decode("".join(str(data).split()))
    return Path(entry[name]).read_bytes() if entry.get(name) else b""


def read_token(file: str) -> str:
    """Return the token in a file; raises OSError, and ValueError for a file without one."""
    try:
        token = Path(file).read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        raise ValueError(f"the token file {file} is not text: have it written anew") from None
    if not token:
        raise ValueError(f"the token file {file} is empty: have it written anew")
    return token
