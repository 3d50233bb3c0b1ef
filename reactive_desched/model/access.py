"""What the API server says of a client of the controller."""

from msgspec import Struct

__all__ = ["AccessReview"]


class AccessReview(Struct, frozen=True, gc=False):
    """Whose token was sent, and whether that user may ask for this; no `user`: no valid token."""

    user: str = ""
    allowed: bool = False
    reason: str = ""
