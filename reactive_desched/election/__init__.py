"""Elects the replica that acts by a Lease, as client-go's `leaderelection` does."""
