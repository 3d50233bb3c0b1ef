"""`policy convert`: writes a policy in today's format, with the comments of the old text."""
