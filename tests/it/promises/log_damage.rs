//! Damage in the write-ahead log is reported.
