"""Connection limits and the request rate of the API client, from the settings."""

from reactive_desched.kube.client.rate_limiter import Rate
from reactive_desched.kube.client.session import Limits
from reactive_desched.policy.settings import Client


def limits_of(client: Client) -> Limits:
    """Return the timeouts that the settings ask for."""
    return Limits(
        connect_s=client.connect_timeout_s,
        read_s=client.read_timeout_s,
        total_s=client.total_timeout_s,
    )


def rate_of(client: Client) -> Rate:
    """Return the pace of requests that the settings ask for."""
    return Rate(client.requests_per_second, client.burst, client.burst // 5)
