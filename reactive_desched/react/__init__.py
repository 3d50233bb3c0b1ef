"""Changes to findings: who cares about what, when to look, and what a blocked pod waits for."""
