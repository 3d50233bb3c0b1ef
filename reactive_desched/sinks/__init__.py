"""The way out: each sink follows the journal at its own pace, and none can slow another."""
