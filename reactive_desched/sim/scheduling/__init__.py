"""The simulated kube-scheduler: the filters of the real one, and most of its scores."""
