"""Finds out which cluster the kubeconfig names: commands must not take another one for it."""

import os
from functools import cached_property
from typing import Final

from reactive_desched.errors import ClusterError, ConfigError
from reactive_desched.journal.choice import KubeconfigCluster
from reactive_desched.kube.auth.kubeconfig import InCluster, KubeConfigOptions, locate_config
from reactive_desched.kube.auth.kubeconfig_merge import choose_context

ASK_S: Final = 3.0
"""So long the API server may take to say which cluster it is, a credential plugin included."""


class CurrentCluster:
    """The cluster that the kubeconfig names; its API server is asked for the uid once."""

    def __init__(self, options: KubeConfigOptions) -> None:
        self._options = options

    @cached_property
    def place(self) -> KubeconfigCluster | None:
        """Its context and address; None without a kubeconfig, and in a pod.

        Raises ConfigError for a kubeconfig or context that a flag names and that cannot be used.
        """
        is_named = bool(self._options.kubeconfig or self._options.context)
        try:
            source = locate_config(self._options, os.environ)
        except ConfigError:
            if is_named:
                raise
            return None
        if isinstance(source, InCluster):
            return None
        try:
            context = choose_context(source)
        except ConfigError as error:
            if is_named:
                raise
            return KubeconfigCluster(fault=str(error))
        return KubeconfigCluster(context=context.name, server=context.server)

    @cached_property
    def uid(self) -> str:
        """The uid of its namespace kube-system; empty where the API server does not say."""
        import anyio

        from reactive_desched.app.cluster import identify_cluster
        from reactive_desched.kube.client.session import open_session

        async def ask() -> str:
            with anyio.move_on_after(ASK_S):
                async with open_session(self._options) as session:
                    return (await identify_cluster(session, "")).uid
            return ""

        uid = ""
        try:
            uid = anyio.run(ask)
        except* (ClusterError, ConfigError):
            pass  # it does not answer, or not this account
        return uid
