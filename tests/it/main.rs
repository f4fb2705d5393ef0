//! recalld from outside: its doors in process, its properties, its binary.
//!
//! Reading order: `house` (the harness: a router over a temporary data file), `flaky` (a store that
//! fails when told to), `process` (the real binary), then a file for each theme. A test names the
//! requirement it proves.

#![allow(clippy::print_stdout, reason = "a test that is skipped or measures says so")]

mod any_conversation;
mod backups;
mod bad_input;
mod canary;
mod chat;
mod clarifications;
mod connections;
mod damage;
mod digest;
mod digest_kills;
mod documents;
mod erasure;
mod facts;
mod facts_doors;
mod flaky;
mod forget;
mod guard;
mod history;
mod hostile_files;
mod house;
mod identity;
#[cfg(all(feature = "postgres", feature = "redis"))]
mod instances;
mod jobs;
mod keys;
mod knowledge;
mod layers;
mod lifecycle;
mod live;
mod live_rest;
mod memory_model;
mod memory_server;
mod noted_facts;
mod openai;
mod openai_settings;
mod openapi;
mod openwebui;
#[cfg(target_os = "linux")]
mod outages;
mod poison;
mod process;
mod promises;
mod properties;
mod recall;
mod receiver;
#[cfg(feature = "redis")]
mod redis_away;
mod rest;
mod restart;
mod routes;
mod scopes;
mod stream;
mod takeout;
mod tenants;
mod topics;
#[cfg(feature = "postgres")]
mod two_databases;
mod upstream;
mod webhooks;
