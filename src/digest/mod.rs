//! Digest: what happens after a turn, in the background. Nothing here blocks or slows an answer.
//!
//! Today that is `rows` (what recall keeps of turns) and `topics` (which topic turns belong to, what is kept of topics, what
//! fades and what grows together), made when nobody waits for it.

mod rows;
mod topics;

pub use rows::Derived;
pub use topics::Tended;
