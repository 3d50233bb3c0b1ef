"""Could this pod run on another node? The kube-scheduler's filters over all nodes at once."""
