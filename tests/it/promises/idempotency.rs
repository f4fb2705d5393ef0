//! A repeated request with the same idempotency key changes nothing.
