//! recalld is the memory of LLM applications: it remembers every conversation durably and hands the
//! model the right part of it back.
//!
//! The same engine is a server, a command line and this library. The library reads no environment and
//! calls nobody it was not given: you hand [`Memory`](memory::Memory) a store, a model, a clock and an id
//! source, and it answers.
//!
//! ```
//! use std::sync::Arc;
//! use recalld::{clock::SystemClock, memory::{Memory, MemorySettings, Parts}, scope::{Scope, Tenant, User}};
//! use recalld::{store::Sqlite, turn::TurnRequest};
//!
//! # #[tokio::main(flavor = "multi_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let clock = Arc::new(SystemClock::default());
//! let store = Arc::new(Sqlite::temporary(clock.clone())?);
//! let memory = Memory::new(Parts::builtin(store, clock), MemorySettings::default());
//! let ann = Scope::new(Tenant::default(), User::parse("ann")?);
//!
//! let first = TurnRequest { query: "I live in Lisbon.".into(), ..TurnRequest::default() };
//! let mut first = memory.take_turn(&ann, first)?;
//! let session = first.session;
//! first.answer().await?;
//!
//! let second = TurnRequest { session: Some(session), query: "Where do I live?".into(), ..TurnRequest::default() };
//! let answer = memory.take_turn(&ann, second)?.answer().await?;
//! assert!(answer.text.contains("Lisbon"));
//! # Ok(())
//! # }
//! ```
//!
//! # The house
//!
//! Modules stand on floors; each uses what lies below it.
//!
//! | floor | modules |
//! | --- | --- |
//! | doors | [`cli`], [`config`], [`api`] |
//! | spine | [`worker`], [`turn`], [`digest`], [`lifecycle`], [`review`] |
//! | desk | [`memory`], [`recall`], [`courier`] |
//! | store | [`store`] |
//! | rooms | [`takeout`], [`knowledge`], [`fact`], [`live`], [`episode`], [`topic`], [`session`], [`tenant`], [`webhook`] |
//! | model | [`model`] |
//! | ground | [`message`], [`scope`], [`job`], [`clock`], [`id`], [`tokens`], [`language`], [`period`], [`meter`], [`mode`], [`spelling`], [`quick`] |

pub mod api;
pub mod beside;
pub mod clarify;
pub mod cli;
pub mod clock;
pub mod config;
pub mod courier;
pub mod digest;
pub mod episode;
pub mod fact;
pub mod id;
pub mod job;
mod kernel;
pub mod knowledge;
pub mod language;
pub mod lifecycle;
pub mod live;
pub mod memory;
pub mod message;
pub mod meter;
pub mod mode;
pub mod model;
pub mod period;
pub mod quick;
pub mod recall;
pub mod review;
pub mod scope;
mod seldom;
pub mod session;
pub mod spelling;
pub mod store;
pub mod takeout;
pub mod tenant;
pub mod tokens;
pub mod topic;
pub mod turn;
pub mod webhook;
pub mod worker;
