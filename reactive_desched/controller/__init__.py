"""Changes to decisions: subscriptions, the work queue, evaluation and blocked findings."""
