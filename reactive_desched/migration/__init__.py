"""Migration jobs: which of them may begin to move their pod, and in which order."""
