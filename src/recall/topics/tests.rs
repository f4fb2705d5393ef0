//! What is in memory is what the store would answer.
