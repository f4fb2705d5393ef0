//! Digest: what happens after a turn, in the background. Nothing here blocks or slows an answer.
//!
//! Today that is `rows`: what recall keeps of turns, made when nobody waits for it.

mod rows;

pub use rows::Derived;
