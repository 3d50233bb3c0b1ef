"""Loads only the credential half of kubernetes_asyncio.

The library's packages import every API model: over a second and about 70 MB, of which the
configuration loaders use one class. This module puts empty parent packages into `sys.modules`,
imports the loaders under them, and takes them out again, so that `import kubernetes_asyncio`
elsewhere still loads the whole library. Credential plugins run through `ExecPlugin`. The library
logs nothing: it raises what it would log of a failure.
"""

import importlib.util
import logging
import sys
from functools import cache
from threading import Lock
from types import ModuleType
from typing import Any

from reactive_desched.errors import ConfigError
from reactive_desched.kube.auth.exec_plugin import ExecPlugin
from reactive_desched.primitives.stand_ins import install_stand_in

__all__ = ["LibraryLoaders", "library_loaders"]

_LIBRARY = "kubernetes_asyncio"
_UNUSED = "urllib3"
"""The library has it for one function that no login calls; importing it is 3 % of a start."""
_IMPORT_LOCK = Lock()


class LibraryLoaders:
    """The library's `Configuration`, and the modules that fill one."""

    def __init__(self) -> None:
        with _IMPORT_LOCK:
            before = _remove_modules(_LIBRARY, _UNUSED)
            try:
                self._load()
            finally:
                _remove_modules(_LIBRARY, _UNUSED)
                sys.modules.update(before)

    def _load(self) -> None:
        client = _install_empty_packages()
        install_stand_in(_UNUSED)
        from kubernetes_asyncio.client import configuration

        self.configuration: Any = configuration.Configuration  # the library ships no types
        vars(client).update(Configuration=self.configuration, ApiClient=object)
        from kubernetes_asyncio.config import (
            config_exception,
            incluster_config,
            kube_config,
        )

        self.in_cluster: Any = incluster_config
        self.kubeconfig: Any = kube_config
        silent = logging.Logger(_LIBRARY, logging.CRITICAL)  # noqa: LOG001 -- the library's own
        vars(kube_config).update(ExecProvider=ExecPlugin, logger=silent)
        self.error: type[Exception] = config_exception.ConfigException


@cache
def library_loaders() -> LibraryLoaders:
    """Load the library once for the process, as an import does."""
    return LibraryLoaders()


def _install_empty_packages() -> ModuleType:
    """Install empty packages in place of those whose `__init__` imports all models."""
    spec = importlib.util.find_spec(_LIBRARY)
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(f"{_LIBRARY} is not installed; it reads kubeconfig files: install it")
    root = spec.submodule_search_locations[0]
    for name, path in (("", root), (".client", f"{root}/client"), (".config", f"{root}/config")):
        package = ModuleType(_LIBRARY + name)
        package.__path__ = [path]
        sys.modules[package.__name__] = package
    return sys.modules[f"{_LIBRARY}.client"]


def _remove_modules(*packages: str) -> dict[str, ModuleType]:
    """Remove packages from the loaded modules and return the removed modules."""
    names = [name for name in sys.modules if name.partition(".")[0] in packages]
    return {name: sys.modules.pop(name) for name in names}
