//! Clean-up of many expired turns.
