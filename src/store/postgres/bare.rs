//! The same statements without a store around them, for measuring what the store costs.

use std::sync::Arc;

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Statement};

use super::connect::{as_runtime, meaning};
use super::dialect::translate;
use super::sql::Error;
use super::{Postgres, place, session, shelf, turn};
use crate::clock::Clock;
use crate::scope::Tenant;
use crate::store::StoreError;
use crate::store::whose::Whose;

/// A connection like those of a store, with the statements of a turn prepared.
pub(crate) struct Bare {
    /// The connection.
    pub(crate) client: Client,
    /// Looks a turn up.
    pub(crate) find: Statement,
    /// Makes a session, or takes its next number.
    pub(crate) reserve: Statement,
    /// Writes a question.
    pub(crate) insert: Statement,
    /// Writes where it stands.
    pub(crate) place: Statement,
    /// Writes the answer.
    pub(crate) rewrite: Statement,
    /// Writes how the turn is recognised.
    pub(crate) answered: Statement,
    /// Notes that the session was used.
    pub(crate) used: Statement,
    /// Looks a session up.
    pub(crate) session: Statement,
    /// Its last turns.
    pub(crate) recent: Statement,
}

impl Postgres {
    /// A bare connection to the tables of this store, for one tenant.
    pub(crate) async fn bare(&self, tenant: &str) -> Result<Bare, StoreError> {
        let settings = self.pool.settings();
        let connected = settings.checked()?.connect(settings.tls()?).await;
        let (client, connection) = connected.map_err(|error| meaning(&Error::from(error)))?;
        tokio::spawn(async move {
            // Whoever waits for an answer is told what went wrong.
            let _ = connection.await;
        });
        let own = format!("SET recalld.tenant = '{tenant}';");
        prepared(client, &(as_runtime(&settings.schema, "bare") + &own)).await.map_err(|error| meaning(&error.into()))
    }
}

impl Postgres {
    /// Another store on the same tables, which searches nothing by itself.
    pub(crate) async fn beside(&self, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let other = Self::open(self.pool.settings().clone(), clock).await?;
        other.pool.found(false);
        Ok(other)
    }

    /// Whether what large tenants know is searched here.
    pub(crate) fn searches(&self) -> bool {
        self.pool.searches()
    }

    /// The passages of the first tenant that are nearest to a vector: by the graph, or by looking at every one.
    pub(crate) async fn nearest(
        &self,
        vector: &[f32],
        best: usize,
        by_graph: bool,
    ) -> Result<Vec<(i64, i64)>, StoreError> {
        let vector = vector.to_vec();
        let whose = Whose::from(&Tenant::default());
        self.pool.read(whose, move |db| shelf::nearest(db, &vector, best, by_graph)).await
    }
}

async fn prepared(client: Client, setup: &str) -> Result<Bare, tokio_postgres::Error> {
    client.batch_execute(setup).await?;
    let prepare =
        async |sql: &str, types: &[Type], nulls: &[bool]| client.prepare_typed(&translate(sql, nulls).sql, types).await;
    let session = format!("SELECT {} FROM session WHERE tenant = ?1 AND user = ?2 AND id = ?3", session::COLUMNS);
    let (text, int, bytes) = (Type::TEXT, Type::INT8, Type::BYTEA);
    let reserve =
        [text.clone(), text.clone(), bytes, text.clone(), int.clone(), int.clone(), int.clone(), text.clone()];
    let no_ttl = [false, false, false, false, true];
    Ok(Bare {
        find: prepare(&turn::find_sql(), &[], &[]).await?,
        reserve: prepare(session::RESERVE, &reserve, &no_ttl).await?,
        insert: prepare(turn::INSERT, &[], &[]).await?,
        place: prepare(place::INSERT, &[], &[]).await?,
        rewrite: prepare(turn::REWRITE, &[], &[]).await?,
        answered: prepare(place::ANSWERED, &[], &[]).await?,
        used: prepare(turn::USED, &[int], &[]).await?,
        session: prepare(&session, &[], &[]).await?,
        recent: prepare(&turn::recent_sql(), &[], &[]).await?,
        client,
    })
}
