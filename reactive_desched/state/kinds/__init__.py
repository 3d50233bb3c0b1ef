"""One file for each kind of object that the controller watches.

A file holds what is kept of an object, the JSON members it is read from, the change that the
state announces when an object differs, and a `WatchedKind` that says how the API server serves the
kind and what is lost without it. `state.resources` finds every `WatchedKind` of this folder;
informers, readiness, health checks, RBAC checks, `plan`, the bench and the documentation read
that table. To watch another kind, add one file here.
"""
