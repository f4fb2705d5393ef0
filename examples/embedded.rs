//! recalld as a library, without HTTP: a memory in a file of your choice, and a model of your own.
//!
//! ```sh
//! cargo run --example embedded            # talks, remembers in embedded.db
//! cargo run --example embedded            # again: it still knows
//! ```

#![allow(clippy::print_stdout, reason = "an example talks to the terminal")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream;
use recalld::clock::SystemClock;
use recalld::id::SessionId;
use recalld::memory::{Memory, MemorySettings, Parts};
use recalld::model::relay::InProcess;
use recalld::model::{ChatModel, Ending, ModelFuture, Piece, Pieces, Prompt};
use recalld::scope::{Scope, Tenant, User};
use recalld::store::{PageRequest, Sqlite};
use recalld::turn::TurnRequest;

/// A model of your own: anything that turns messages into text. This one counts what it was shown.
struct Counting;

impl ChatModel for Counting {
    fn name(&self) -> &str {
        "counting"
    }

    fn ask(&self, prompt: Prompt) -> ModelFuture<'_> {
        let text = format!("I was shown {} messages, yours included.", prompt.messages.len() - 1);
        let pieces = [Ok(Piece::Text(text)), Ok(Piece::End(Ending::default()))];
        Box::pin(async move { Ok(Box::pin(stream::iter(pieces)) as Pieces) })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let clock = Arc::new(SystemClock::default());
    let store = Arc::new(Sqlite::open(Path::new("embedded.db"), clock.clone())?);
    let (model, upstream) = (Arc::new(Counting), Arc::new(InProcess(Arc::new(Counting))));
    let parts = Parts { model, upstream, ..Parts::builtin(store, clock) };
    let memory = Memory::new(parts, MemorySettings::default());
    let ann = Scope::new(Tenant::default(), User::parse("ann")?);

    // One conversation over all runs: the id is ours to choose.
    let session = SessionId::parse("550e8400-e29b-41d4-a716-446655440000");
    for query in ["My name is Ann.", "What do you know about me?"] {
        let request = TurnRequest { session, query: query.into(), ..TurnRequest::default() };
        let answer = memory.take_turn(&ann, request)?.answer().await?;
        println!("> {query}\n{}\n", answer.text);
    }

    let session = session.ok_or("a valid id")?;
    let page = memory.turns(&ann, session, PageRequest::first(50)).await?;
    println!("{} turns are remembered in embedded.db", page.items.len());
    memory.close(Duration::from_secs(1)).await?;
    Ok(())
}
