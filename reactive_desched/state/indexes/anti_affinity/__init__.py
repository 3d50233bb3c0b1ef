"""Which pods the required pod affinity and anti-affinity terms of other pods select."""
