"""The timeouts and the request rate of the API client, from the settings."""

from reactive_desched.kube.client.rate_limiter import RateLimit
from reactive_desched.kube.client.session import RequestLimits
from reactive_desched.policy.settings.reactive_settings import ClientSettings


def limits_of(client: ClientSettings) -> RequestLimits:
    """Return the timeouts of the settings."""
    return RequestLimits(
        connect_s=client.connect_timeout_s,
        read_s=client.read_timeout_s,
        total_s=client.total_timeout_s,
    )


def rate_of(client: ClientSettings) -> RateLimit:
    """Return the request rate of the settings."""
    return RateLimit(client.requests_per_second, client.burst, client.burst // 5)
