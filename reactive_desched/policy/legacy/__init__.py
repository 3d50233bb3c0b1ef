"""The format v1alpha1 of the SIG descheduler: read as it is, and made one in today's format."""
