//! Connecting, and what errors mean.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tokio::sync::watch;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use super::schema::RUNTIME_ROLE;
use super::sql::{Connection, Error};
use super::tls::{Tls, distrusted};
use crate::store::StoreError;

/// How a database is reached.
#[derive(Debug, Clone)]
pub struct PostgresSettings {
    /// `postgres://user:password@host:port/database?sslmode=require`
    pub url: String,
    /// The schema in it that holds our tables: a plain name.
    pub schema: String,
    /// The authority that signed the server's certificate, as a PEM file; without one those that browsers trust.
    pub root_certificate: Option<PathBuf>,
    /// Most connections at one time; whoever needs one more waits.
    pub connections_max: usize,
    /// How long to wait for one that is free.
    pub wait_timeout: Duration,
    /// How long to wait for the server when one is made.
    pub connect_timeout: Duration,
    /// How long a statement may take.
    pub statement_timeout: Duration,
    /// Most passages of a tenant that are held in memory; those who know more are searched by the database, where that can.
    pub passages_held_max: usize,
    /// For tests: which statement forgets to say whose rows it means.
    #[cfg(test)]
    pub(super) blind: Option<std::sync::Arc<super::blind::Blind>>,
    /// For tests: whether whoever serves stays the owner, whom nothing is hidden from where it is a superuser.
    #[cfg(test)]
    pub(super) unguarded: bool,
    /// How long an answer may take before somebody looks whether the database is there.
    pub doubt_after: Duration,
    /// How long it then has to show that it is.
    pub probe_timeout: Duration,
}

impl PostgresSettings {
    /// The usual settings for a database.
    pub fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            schema: "recalld".to_owned(),
            root_certificate: None,
            connections_max: 16,
            wait_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(20),
            passages_held_max: 20_000,
            #[cfg(test)]
            blind: None,
            #[cfg(test)]
            unguarded: false,
            doubt_after: Duration::from_millis(250),
            probe_timeout: Duration::from_millis(1_500),
        }
    }

    /// Where the database is, without a word of who may come in.
    pub fn place(&self) -> String {
        let Ok(config) = Config::from_str(&self.plain_url()) else {
            return "an address that cannot be read".to_owned();
        };
        let host = match config.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            #[cfg(unix)]
            Some(Host::Unix(path)) => path.display().to_string(),
            None => "localhost".to_owned(),
        };
        let port = config.get_ports().first().copied().unwrap_or(5432);
        format!("{host}:{port}/{} ({})", config.get_dbname().unwrap_or_default(), self.schema)
    }

    /// The address in words that the client knows. Whoever speaks TLS is always asked for a certificate that is signed and bears the
    /// right name, so the two that ask for that are the one that asks for TLS.
    fn plain_url(&self) -> String {
        self.url.replace("sslmode=verify-full", "sslmode=require").replace("sslmode=verify-ca", "sslmode=require")
    }

    /// What certificates are believed.
    pub(super) fn tls(&self) -> Result<Tls, StoreError> {
        Tls::new(self.root_certificate.as_deref()).map_err(|reason| self.cannot(reason))
    }

    fn cannot(&self, reason: impl std::fmt::Display) -> StoreError {
        StoreError::CannotOpen { path: self.place().into(), reason: reason.to_string() }
    }

    /// Checks what can be checked without asking the server.
    pub(super) fn checked(&self) -> Result<Config, StoreError> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if self.schema.is_empty()
            || !self.schema.chars().all(plain)
            || self.schema.starts_with(|c: char| !c.is_ascii_lowercase())
        {
            return Err(self.cannot("the schema's name must be lower-case letters, digits and underscores"));
        }
        let mut config = Config::from_str(&self.plain_url()).map_err(|error| self.cannot(error))?;
        let timeout = self.statement_timeout.as_millis();
        let ours = format!("-c statement_timeout={timeout} -c idle_in_transaction_session_timeout={}", 2 * timeout);
        let options = [config.get_options().unwrap_or_default(), &ours].join(" ");
        config.options(options.trim()).application_name("recalld").connect_timeout(self.connect_timeout);
        config.keepalives_idle(Duration::from_secs(30));
        Ok(config)
    }
}

/// Who a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// Whoever the address names, to make tables.
    Owner,
    /// Whoever serves: bound by row-level security, where the role could be made.
    Runtime,
}

/// Opens a connection. Blocks until that is done.
pub(super) fn connect(settings: &PostgresSettings, who: Who, instance: &str) -> Result<Connection, StoreError> {
    connect_until(settings, who, instance, None)
}

/// The same for a connection that is cut off when the database goes away.
pub(super) fn connect_until(
    settings: &PostgresSettings,
    who: Who,
    instance: &str,
    cut: Option<watch::Receiver<bool>>,
) -> Result<Connection, StoreError> {
    let config = settings.checked()?;
    let tls = settings.tls()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| StoreError::Disk(error.to_string()))?;
    let mut until = cut.clone();
    let connected = runtime.block_on(async {
        tokio::select! {
            connected = config.connect(tls) => Some(connected),
            () = tokio::time::sleep(settings.connect_timeout) => None,
            () = cut_off(&mut until) => None,
        }
    });
    let (client, connection) = connected
        .ok_or_else(|| StoreError::Away(format!("{} did not answer in time", settings.place())))?
        .map_err(not_connected)?;
    runtime.spawn(async move {
        // Whoever waits for an answer is told what went wrong.
        let _ = connection.await;
    });
    // The server gives up first: its word says more.
    let db = Connection::new(runtime, client, settings.statement_timeout + Duration::from_secs(5), cut);
    #[cfg(test)]
    let db = db.with_blind(settings.blind.clone());
    #[cfg(test)]
    let who = if settings.unguarded { Who::Owner } else { who };
    let setup = match who {
        Who::Owner => at_home(&settings.schema, instance),
        Who::Runtime => as_runtime(&settings.schema, instance),
    };
    db.batch(&setup).map_err(|error| meaning(&error))?;
    Ok(db)
}

/// Makes a connection look at our tables.
fn at_home(schema: &str, instance: &str) -> String {
    format!("SET search_path = {schema}, public; SET recalld.instance = '{instance}';")
}

/// The same for whoever serves.
pub(super) fn as_runtime(schema: &str, instance: &str) -> String {
    let become_runtime = format!(
        "DO $$ BEGIN IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{RUNTIME_ROLE}')
             AND pg_has_role(current_user, '{RUNTIME_ROLE}', 'SET') THEN
             SET ROLE {RUNTIME_ROLE}; END IF; END $$;"
    );
    at_home(schema, instance) + &become_runtime
}

/// Ends when the database goes away, if that is to be heard of.
pub(super) async fn cut_off(cut: &mut Option<watch::Receiver<bool>>) {
    let away = match cut {
        Some(cut) => cut.wait_for(|away| *away).await.is_ok(),
        None => false,
    };
    if !away {
        std::future::pending::<()>().await;
    }
}

/// Says why there is no connection.
fn not_connected(error: tokio_postgres::Error) -> StoreError {
    match distrusted(&error) {
        Some(reason) => StoreError::Away(reason),
        None => meaning(&Error::from(error)),
    }
}

/// Says what an error means while data is read or written.
pub(super) fn meaning(error: &Error) -> StoreError {
    let Error::Postgres(cause) = error else {
        return match error {
            Error::Late(_) | Error::CutOff => StoreError::Away(error.to_string()),
            _ => StoreError::Refused(error.to_string()),
        };
    };
    let Some(said) = cause.as_db_error() else { return StoreError::Away(error.to_string()) };
    match said.code().code() {
        "53100" => StoreError::Full(error.to_string()),
        // Wrong data, broken rules, a statement that cannot be: the same would be refused for ever.
        code if ["22", "23", "42", "0A"].contains(&&code[..2]) => StoreError::Refused(error.to_string()),
        _ => StoreError::Away(error.to_string()),
    }
}
