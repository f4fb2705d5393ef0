//! The way to Redis: one connection that everybody speaks over, made anew when it breaks, with a limit on every wait.
//!
//! While Redis does not answer, one call in half a second finds out and the others are told at once, so that nobody queues for it.
//! Each connection begins by asking what time it is there: leases are by that clock, which all instances share, and this machine's
//! steady clock carries it on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, FromRedisValue, RedisError, Script};
use tokio::time::timeout;
use tracing::{info, warn};
use uuid::Uuid;

use super::scripts;
use super::{LiveError, RedisSettings};
use crate::clock::Clock;
use crate::meter::Meters;

/// How long a connection, or an answer, may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long nobody asks after nobody answered.
const REST: Duration = Duration::from_millis(500);

/// The way to Redis.
pub(super) struct Link {
    client: Client,
    prefix: String,
    place: String,
    clock: Arc<dyn Clock>,
    meters: Arc<Meters>,
    state: Mutex<State>,
    /// One connects, the others wait for what comes of it.
    connecting: tokio::sync::Mutex<()>,
    /// What tests say instead of asking: how far that clock is ahead of the steady one.
    pub(super) ahead: Option<i64>,
}

#[derive(Default)]
struct State {
    line: Option<Line>,
    rests_until: Option<Instant>,
    is_away: bool,
    /// What is lost when Redis loses everything, and how many sessions there were when somebody last looked.
    era: Option<String>,
    sessions: u64,
}

/// A connection.
#[derive(Clone)]
struct Line {
    connection: MultiplexedConnection,
    /// Microseconds by which Redis' clock is ahead of this machine's steady one.
    ahead: i64,
}

impl Link {
    pub(super) fn new(settings: RedisSettings, clock: Arc<dyn Clock>, meters: Arc<Meters>) -> Result<Self, LiveError> {
        let RedisSettings { url, prefix, place } = settings;
        let client = Client::open(url).map_err(|error| LiveError::Unreachable(format!("{place}: {error}")))?;
        let (state, connecting) = (Mutex::default(), tokio::sync::Mutex::default());
        Ok(Self { client, prefix, place, clock, meters, state, connecting, ahead: None })
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    #[cfg(test)]
    pub(super) fn meters(&self) -> &Meters {
        &self.meters
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Microseconds by which the clock there is ahead of the steady one here; connects if need be.
    pub(super) async fn ahead(&self) -> Result<i64, LiveError> {
        let line = self.line().await.map_err(|failure| self.unreachable(&failure))?;
        Ok(self.ahead.unwrap_or(line.ahead))
    }

    /// Runs a script. A connection that broke is made anew once: every script may be run again.
    pub(super) async fn run<T: FromRedisValue>(&self, script: &Script, args: &[&[u8]]) -> Result<T, LiveError> {
        match self.try_run(script, args).await {
            Err(Failure::Broken(_)) => self.try_run(script, args).await.map_err(|failure| self.unreachable(&failure)),
            tried => tried.map_err(|failure| self.unreachable(&failure)),
        }
    }

    async fn try_run<T: FromRedisValue>(&self, script: &Script, args: &[&[u8]]) -> Result<T, Failure> {
        let mut line = self.line().await?;
        let mut invocation = script.key(&self.prefix);
        args.iter().for_each(|arg| {
            invocation.arg(*arg);
        });
        let failure = match timeout(PATIENCE, invocation.invoke_async(&mut line.connection)).await {
            Ok(Ok(answer)) => {
                self.answered();
                return Ok(answer);
            }
            Ok(Err(error)) if !is_broken(&error) => return Err(Failure::Refused(error.to_string())),
            Ok(Err(error)) if error.is_timeout() => Failure::Silent,
            Ok(Err(error)) => Failure::Broken(error.to_string()),
            Err(_) => Failure::Silent,
        };
        let mut state = self.state();
        state.line = None;
        if matches!(failure, Failure::Silent) {
            state.rests_until = Some(Instant::now() + REST);
        }
        Err(failure)
    }

    /// Says once that Redis is back.
    fn answered(&self) {
        if std::mem::take(&mut self.state().is_away) {
            info!("Redis at {} answers again", self.place);
        }
    }

    /// Says once that Redis is away, and what that means.
    fn unreachable(&self, failure: &Failure) -> LiveError {
        self.meters.live_store_failures.one();
        let (place, failure) = (&self.place, failure.to_string());
        if !std::mem::replace(&mut self.state().is_away, true) {
            warn!(error = %failure, "Redis at {place} does not answer: visitors get 503 until it does, nobody else notices: {failure}");
        }
        LiveError::Unreachable(failure)
    }

    async fn line(&self) -> Result<Line, Failure> {
        if let Some(line) = self.ready()? {
            return Ok(line);
        }
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(line) = self.ready()? {
            return Ok(line);
        }
        let failure = match timeout(PATIENCE, self.connect()).await {
            Ok(Ok(line)) => return Ok(line),
            Ok(Err(error)) => Failure::Away(error.to_string()),
            Err(_) => Failure::Silent,
        };
        self.state().rests_until = Some(Instant::now() + REST);
        Err(failure)
    }

    fn ready(&self) -> Result<Option<Line>, Failure> {
        let state = self.state();
        match &state.line {
            Some(line) => Ok(Some(line.clone())),
            None if state.rests_until.is_some_and(|until| Instant::now() < until) => {
                Err(Failure::Away("it did not answer a moment ago".to_owned()))
            }
            None => Ok(None),
        }
    }

    async fn connect(&self) -> Result<Line, RedisError> {
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(Some(PATIENCE)).set_response_timeout(Some(PATIENCE));
        let mut connection = self.client.get_multiplexed_async_connection_with_config(&config).await?;
        let era = Uuid::new_v4().simple().to_string();
        let hello: (i64, i64, String, u64) =
            scripts::HELLO.key(&self.prefix).arg(&era).invoke_async(&mut connection).await?;
        let (seconds, micros, era, sessions) = hello;
        let steady = self.clock.reading().steady.as_micros() as i64;
        let line = Line { connection, ahead: seconds * 1_000_000 + micros - steady };
        self.state().line = Some(line.clone());
        self.note_era(era, Some(sessions));
        Ok(line)
    }

    /// Notices when Redis has lost everything, and says so.
    pub(super) fn note_era(&self, era: String, sessions: Option<u64>) {
        let mut state = self.state();
        let lost = state.era.as_ref().is_some_and(|known| *known != era);
        if lost && era.is_empty() {
            // The next call begins a new era.
            state.line = None;
            return;
        }
        let before = state.sessions;
        state.era = Some(era);
        state.sessions = sessions.unwrap_or(state.sessions);
        drop(state);
        if lost {
            self.meters.live_store_losses.one();
            self.lost(before);
        }
    }

    /// Notes how many sessions there are.
    pub(super) fn note_sessions(&self, sessions: u64) {
        self.state().sessions = sessions;
    }

    /// Says that sessions are gone whose end nobody will be told.
    pub(super) fn lost(&self, sessions: u64) {
        self.meters.live_lost.many(sessions);
        let place = &self.place;
        warn!(
            sessions,
            "Redis at {place} lost {sessions} live sessions: their visitors begin anew, and their end is told to nobody"
        );
    }
}

/// Why a call came to nothing.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Away(String),
    #[error("no answer within 2 s")]
    Silent,
    #[error("the connection broke: {0}")]
    Broken(String),
    #[error("it refused: {0}")]
    Refused(String),
}

fn is_broken(error: &RedisError) -> bool {
    error.is_io_error() || error.is_connection_dropped() || error.is_timeout() || error.is_unrecoverable_error()
}
