"""What the controller saw, kept so that any moment can be looked at again."""
