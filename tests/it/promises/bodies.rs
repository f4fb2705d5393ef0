//! Limits on request bodies, imports and upstream streams.
