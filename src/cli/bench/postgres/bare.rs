//! The same statements on bare tokio-postgres: a connection each, one statement after the other, two transactions a turn.

use std::time::{Duration, Instant};

use anyhow::Context;
use jiff::Timestamp;
use tokio::task::JoinSet;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use std::sync::Arc;

use crate::cli::bench::store::{ANSWER, QUESTION};
use crate::id::SessionId;
use crate::scope::{Scope, Tenant};
use crate::store::Postgres;
use crate::store::postgres::Bare;

/// Where the statement that finds a turn has the keys of turn and session.
const TURN_KEY: usize = 11;
const SESSION_KEY: usize = 14;

/// Connections that write turns, each for a user of its own.
pub(super) struct BareWriters(Vec<Arc<Bare>>);

/// A turn that was opened.
struct Opened {
    session: Uuid,
    id: Uuid,
}

impl BareWriters {
    pub(super) async fn open(store: &Postgres, connections: usize) -> anyhow::Result<Self> {
        let mut writers = Vec::new();
        for _ in 0..connections {
            writers.push(Arc::new(store.bare(Tenant::default().as_str()).await?));
        }
        Ok(Self(writers))
    }

    /// Opens and closes turns for a while; answers turns a second.
    pub(super) async fn turns_per_second(&self, lasting: Duration) -> anyhow::Result<f64> {
        let started = Instant::now();
        let mut tasks = JoinSet::new();
        for (n, bare) in self.0.iter().cloned().enumerate() {
            tasks.spawn(async move {
                let (user, session, mut turns) = (format!("writer-{n}"), Uuid::new_v4(), 0_u64);
                while started.elapsed() < lasting {
                    match open_turn(&bare, &user, session).await {
                        Ok(turn) => close_turn(&bare, &user, &turn).await?,
                        // Two rows drew the same key; a store does it again, too.
                        Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
                            bare.client.batch_execute("ROLLBACK").await?;
                            continue;
                        }
                        Err(error) => return Err(error),
                    }
                    turns += 1;
                }
                Ok::<_, Error>(turns)
            });
        }
        let mut turns = 0;
        while let Some(done) = tasks.join_next().await {
            turns += done.context("a writer panicked")??;
        }
        Ok(turns as f64 / started.elapsed().as_secs_f64())
    }
}

const TENANT: &str = "default";

async fn open_turn(bare: &Bare, user: &str, session: Uuid) -> Result<Opened, Error> {
    let db = &bare.client;
    let turn = Opened { session, id: Uuid::now_v7() };
    let (session, id) = (turn.session.as_bytes().as_slice(), turn.id.as_bytes().as_slice());
    db.batch_execute("BEGIN").await?;
    db.query_opt(&bare.find, &[&TENANT, &user, &session, &id]).await?;
    let (now, one, none) = (Timestamp::now().as_microsecond(), 1_i64, None::<i64>);
    let place = db.query_one(&bare.reserve, &[&TENANT, &user, &session, &"{}", &none, &one, &now, &"durable"]).await?;
    let (key, number): (i64, i64) = (place.get(0), place.get(1));
    let (nothing, no_bytes) = (None::<String>, None::<&[u8]>);
    let question = QUESTION.as_bytes();
    let row: [&(dyn tokio_postgres::types::ToSql + Sync); 13] =
        [&key, &number, &id, &"pending", &"user", &question, &no_bytes, &nothing, &"{}", &now, &none, &one, &none];
    let turn_key: i64 = db.query_one(&bare.insert, &row).await?.get(0);
    let (print, parent) = ([1_u8; 16].as_slice(), number - 1);
    db.execute(&bare.place, &[&turn_key, &parent, &print, &no_bytes, &print, &print, &nothing, &nothing]).await?;
    db.batch_execute("COMMIT").await?;
    Ok(turn)
}

async fn close_turn(bare: &Bare, user: &str, turn: &Opened) -> Result<(), Error> {
    let db = &bare.client;
    db.batch_execute("BEGIN").await?;
    let (session, id) = (turn.session.as_bytes().as_slice(), turn.id.as_bytes().as_slice());
    let found = db.query_one(&bare.find, &[&TENANT, &user, &session, &id]).await?;
    let (key, session): (i64, i64) = (found.get(TURN_KEY), found.get(SESSION_KEY));
    let (now, answer, nothing) = (Timestamp::now().as_microsecond(), ANSWER.as_bytes(), None::<String>);
    db.execute(&bare.rewrite, &[&key, &"complete", &answer, &nothing, &"{}", &now, &1_i64]).await?;
    let print = [2_u8; 16].as_slice();
    db.execute(&bare.answered, &[&key, &print, &nothing, &print]).await?;
    db.execute(&bare.used, &[&session, &now]).await?;
    db.batch_execute("COMMIT").await
}

/// The last ten messages of a session.
pub(super) async fn last_messages(bare: &Bare, scope: &Scope, session: SessionId) -> anyhow::Result<usize> {
    let id = session.as_uuid().as_bytes().as_slice();
    let who = (scope.tenant().as_str(), scope.user().as_str());
    let found = bare.client.query_one(&bare.session, &[&who.0, &who.1, &id]).await?;
    let rows = bare.client.query(&bare.recent, &[&found.get::<_, i64>(0), &10_i64]).await?;
    Ok(rows.len())
}
