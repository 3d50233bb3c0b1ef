"""Sends the cases of evictions to a collector of OpenTelemetry, as traces."""
