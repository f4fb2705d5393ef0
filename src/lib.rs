//! recalld remembers conversations for LLM applications.

pub mod api;
pub mod cli;
pub mod clock;
pub mod config;
pub mod id;
pub mod lifecycle;
pub mod memory;
pub mod message;
pub mod meter;
pub mod model;
pub mod period;
pub mod review;
pub mod scope;
pub mod session;
pub mod store;
pub mod tokens;
pub mod turn;
pub mod worker;
