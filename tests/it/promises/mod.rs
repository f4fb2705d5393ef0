//! Promises that were once broken, as black-box tests: through HTTP, the command line or the running binary,
//! so that they survive a change of the code inside. `scripts/promises` runs them alone.

mod bodies;
mod clock;
mod connections;
mod cross_origin;
mod documents;
mod fact_expiry;
mod gateway;
mod history;
mod idempotency;
mod import_bounds;
mod log_damage;
mod pass_through;
mod preambles;
mod settings;
mod source_documents;
mod tool_calls;
mod unnamed_users;
mod window;
mod wrappers;
