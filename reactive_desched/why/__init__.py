"""Why a pod was moved, waits, or stays: what every plugin and every gate says of it."""
