//! Turns written while the clock was wrong.
