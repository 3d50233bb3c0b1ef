"""Decode the API server's JSON into the model's objects and intern what objects share."""
