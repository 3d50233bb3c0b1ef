"""What stops evictions when the cluster, or what is found there, looks wrong, or a person asks."""
