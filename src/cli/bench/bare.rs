//! The same statements on bare rusqlite: no queue, no async, no encoding, one thread. What is left
//! is what SQLite and the disk cost.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};
use uuid::Uuid;

use crate::store::sqlite::{BareStatements, bare_connection};

/// Where the statement that finds a turn has the keys of turn and session.
const TURN_KEY: usize = 11;
const SESSION_KEY: usize = 14;

/// A connection set up as the store's writer is.
pub(super) struct Bare {
    db: Connection,
    sql: BareStatements,
    sessions: Vec<Uuid>,
}

/// A turn that was opened.
struct Opened {
    session: Uuid,
    id: Uuid,
}

impl Bare {
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        Ok(Self { db: bare_connection(path)?, sql: BareStatements::default(), sessions: Vec::new() })
    }

    /// Opens and closes turns for a while, `batch` in one transaction; answers turns a second.
    pub(super) fn turns_per_second(
        &mut self,
        batch: usize,
        question: &str,
        answer: &str,
        lasting: Duration,
    ) -> anyhow::Result<f64> {
        self.sessions = (0..batch).map(|_| Uuid::new_v4()).collect();
        let (started, mut turns) = (Instant::now(), 0);
        while started.elapsed() < lasting {
            let opened: Vec<Opened> =
                self.transaction(|bare| (0..batch).map(|n| bare.open_turn(n, question)).collect())?;
            self.transaction(|bare| {
                opened.iter().map(|turn| bare.close_turn(turn, answer)).collect::<Result<Vec<_>, _>>()
            })?;
            turns += batch;
        }
        Ok(turns as f64 / started.elapsed().as_secs_f64())
    }

    fn transaction<T>(&self, work: impl FnOnce(&Self) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        self.db.execute_batch("BEGIN IMMEDIATE")?;
        let done = work(self)?;
        self.db.execute_batch("COMMIT")?;
        Ok(done)
    }

    fn savepoint(&self, name: &str) -> rusqlite::Result<()> {
        self.db.prepare_cached(name)?.execute([]).map(drop)
    }

    fn open_turn(&self, n: usize, question: &str) -> rusqlite::Result<Opened> {
        self.savepoint("SAVEPOINT write")?;
        let turn = Opened { session: self.sessions[n], id: Uuid::now_v7() };
        let (session, id) = (turn.session.as_bytes(), turn.id.as_bytes());
        let known = params!["default", "bench", session, id];
        self.db.prepare_cached(&self.sql.find)?.exists(known)?;
        let now = jiff::Timestamp::now().as_microsecond();
        let mut reserve = self.db.prepare_cached(self.sql.reserve)?;
        let place = params!["default", "bench", session, "{}", None::<i64>, 1, now, "durable"];
        let (key, number): (i64, i64) = reserve.query_row(place, |row| Ok((row.get(0)?, row.get(1)?)))?;
        let none = None::<String>;
        let row =
            params![key, number, id, "pending", "user", question, none, none, "{}", now, None::<i64>, 1, None::<i64>];
        self.db.prepare_cached(self.sql.insert)?.execute(row)?;
        let turn_key = self.db.last_insert_rowid();
        let print = [1_u8; 16];
        let place = params![turn_key, number - 1, print, None::<Vec<u8>>, print, print, None::<String>, None::<String>];
        self.db.prepare_cached(self.sql.place)?.execute(place)?;
        self.savepoint("RELEASE write")?;
        Ok(turn)
    }

    fn close_turn(&self, turn: &Opened, answer: &str) -> rusqlite::Result<()> {
        self.savepoint("SAVEPOINT write")?;
        let mut find = self.db.prepare_cached(&self.sql.find)?;
        let known = params!["default", "bench", turn.session.as_bytes(), turn.id.as_bytes()];
        let (key, session): (i64, i64) =
            find.query_row(known, |row| Ok((row.get(TURN_KEY)?, row.get(SESSION_KEY)?)))?;
        let now = jiff::Timestamp::now().as_microsecond();
        let row = params![key, "complete", answer, None::<String>, "{}", now, 1];
        self.db.prepare_cached(self.sql.rewrite)?.execute(row)?;
        let print = [2_u8; 16];
        self.db.prepare_cached(self.sql.answered)?.execute(params![key, print, None::<String>, print])?;
        self.db.prepare_cached(self.sql.used)?.execute(params![session, now])?;
        self.savepoint("RELEASE write")
    }
}
