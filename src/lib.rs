//! recalld remembers conversations for LLM applications.

pub mod clock;
pub mod id;
pub mod memory;
pub mod message;
pub mod meter;
pub mod model;
pub mod period;
pub mod scope;
pub mod session;
pub mod store;
pub mod tokens;
