"""The simulated kube-controller-manager: one small class per controller."""
