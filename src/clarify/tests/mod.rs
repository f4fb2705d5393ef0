//! Conversations that ask and answer "which one?".

mod detecting;
mod laws;
mod resolving;
