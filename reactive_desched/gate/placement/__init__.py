"""Is there really somewhere else? The kube-scheduler's filters over thousands of nodes at once."""
