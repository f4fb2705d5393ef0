//! Digest: what happens after a turn, in the background. Nothing here blocks or slows an answer.
//!
//! Reading order: `rows` (what recall keeps of turns), `topics` (which topic turns belong to, what fades and what grows
//! together), `jobs` (claiming work and seeing it through), `consolidate` (turns that left the window become episodes),
//! `tell` (hours and the session from those), `summarise` (topics are told), `propose` (a memory model is asked, or the
//! built-in does it), `embed` (vectors of summaries, when another embedder has come), `archive` (text moves into blocks),
//! `knowledge` (vectors of passages), `facts` (what users said about themselves), `note` (the same, read by a memory model).

mod archive;
mod consolidate;
mod embed;
mod facts;
mod jobs;
mod knowledge;
mod note;
mod propose;
mod rows;
mod summarise;
mod tell;
mod topics;

pub use embed::Embedded;
pub use jobs::{DigestError, JobEnd, JobsRun};
pub use rows::Derived;
pub use topics::Tended;
