"""Small programs that a client runs on the real control plane and on the simulator alike."""
