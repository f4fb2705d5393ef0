//! Text that clients wrap around the user's words is not stored as theirs.
