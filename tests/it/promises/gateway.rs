//! What may pass to the upstream and back.
