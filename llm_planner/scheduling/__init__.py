"""What runs next, and how much: scheduler, KV ledger, execution tracker, policies."""
