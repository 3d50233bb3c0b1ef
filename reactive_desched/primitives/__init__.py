"""Small value types without a domain that several rooms share."""
