"""Reads keys of ConfigMaps that settings name."""

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote

from msgspec import Struct
from msgspec.json import Decoder

from reactive_desched.errors import ClusterError, ConfigError, Malformed
from reactive_desched.kube.client.responses import accepted_body
from reactive_desched.kube.client.session import Transport
from reactive_desched.policy.settings.scheduler import ConfigMapKey
from reactive_desched.primitives.decode_errors import DECODE_ERRORS


class _ReadConfigMap(Struct):
    """The part of a ConfigMap that is read."""

    data: dict[str, str] | None = None


_decode: Final = Decoder(_ReadConfigMap).decode


async def read_key(session: Transport, key: ConfigMapKey) -> str:
    """Return what a ConfigMap says below a key; raises ClusterError where it cannot be read."""
    namespace, name = quote(key.namespace, safe=""), quote(key.name, safe="")
    path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
    about = f"ConfigMap {key.namespace}/{key.name}"
    body = accepted_body(await session.request("GET", path), about)
    try:
        found = _decode(body)
    except DECODE_ERRORS as error:
        raise Malformed("ConfigMap", f"{key.namespace}/{key.name}", str(error)) from error
    text = (found.data or {}).get(key.key)
    if text is None:
        raise ClusterError(f"{about} has no key {key.key}")
    return text


async def read_keys(session: Transport, keys: Iterable[ConfigMapKey]) -> Mapping[ConfigMapKey, str]:
    """Read these, once; raises ConfigError where one cannot be read."""
    try:
        return {key: await read_key(session, key) for key in keys}
    except ClusterError as error:
        raise ConfigError(f"scheduler.config: {error}") from error
