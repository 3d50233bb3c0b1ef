"""Node fit: the kube-scheduler's filters over all nodes at once, and the SIG descheduler's."""
