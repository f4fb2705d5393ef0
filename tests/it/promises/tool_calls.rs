//! Tool calls, forced tools and tool results.
