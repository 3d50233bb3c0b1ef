"""Credentials: kubeconfig, in-cluster configuration and exec plugins."""
