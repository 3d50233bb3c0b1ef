"""Which replica acts: the election of a leader by a Lease, as client-go's `leaderelection`."""
