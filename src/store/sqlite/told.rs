//! What of episodes is recalled, in SQL, and their vectors when another embedder makes them.

use uuid::Uuid;

use super::connect::meaning;
use super::consolidate::bytes;
use super::episode::{select, without_keys};
use super::session::{cursor, rows_max, send};
use super::sql::{self, Connection, Row, params};
use crate::episode::{Episode, Meaning};
use crate::id::EpisodeId;
use crate::scope::Scope;
use crate::store::{DueEpisode, Page, PageRequest, StoreError};

/// Which episodes may be recalled.
const RECALLABLE: &str = "summary <> '' AND stale = 0";

/// A page of what may be recalled.
pub(super) fn page(db: &Connection, scope: &Scope, page: PageRequest) -> Result<Page<Episode>, StoreError> {
    let rest = format!("WHERE tenant = ?1 AND user = ?2 AND key > ?3 AND {RECALLABLE} ORDER BY key LIMIT ?4");
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let found = select(db, &rest, params![tenant, user, cursor(page), rows_max(page.limit.saturating_add(1))])?;
    Ok(Page::cut(found, page.limit))
}

/// What became of episodes: those that may be recalled, and the others.
pub(super) fn touched(
    db: &Connection,
    scope: &Scope,
    touched: &[(EpisodeId, i64)],
) -> Result<(Vec<Episode>, Vec<EpisodeId>), StoreError> {
    let rest = format!("WHERE key = ?1 AND id = ?2 AND tenant = ?3 AND user = ?4 AND {RECALLABLE}");
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let (mut told, mut gone) = (Vec::with_capacity(touched.len()), Vec::new());
    for (id, key) in touched {
        let found = select(db, &rest, params![key, id.as_uuid().as_bytes(), tenant, user])?;
        match without_keys(found).pop() {
            Some(episode) => told.push(episode),
            None => gone.push(*id),
        }
    }
    Ok((told, gone))
}

/// Summaries whose vector is missing or another embedder's.
pub(super) fn to_embed(
    db: &Connection,
    embedder: &str,
    page: PageRequest,
) -> Result<Vec<(u64, DueEpisode)>, StoreError> {
    let sql = "SELECT key, id, tenant, user, version, summary FROM episode
               WHERE key > ?1 AND summary <> '' AND embedder IS DISTINCT FROM ?2 ORDER BY key LIMIT ?3";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let values = params![cursor(page), embedder, rows_max(page.limit.saturating_add(1))];
    let rows = statement.query_map(values, read_due).map_err(|error| meaning(&error))?;
    rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))
}

fn read_due(row: &Row<'_>) -> sql::Result<(u64, DueEpisode)> {
    let due = DueEpisode {
        scope: Scope::as_stored(row.get_ref(2)?.as_str()?, row.get_ref(3)?.as_str()?),
        id: EpisodeId::from_uuid(Uuid::from_bytes(row.get(1)?)),
        version: row.get(4)?,
        summary: row.get(5)?,
        key: row.get(0)?,
    };
    Ok((row.get(0)?, due))
}

/// Keeps a vector, unless the summary was made anew or went.
pub(super) fn keep_vector(db: &Connection, due: &DueEpisode, vector: &Meaning) -> Result<(), StoreError> {
    let sql = "UPDATE episode SET embedder = ?1, vector = ?2
               WHERE key = ?3 AND id = ?4 AND version = ?5 AND tenant = ?6 AND user = ?7";
    let (tenant, user) = (due.scope.tenant().as_str(), due.scope.user().as_str());
    let id = due.id.as_uuid().as_bytes();
    let values = params![vector.embedder, bytes(&vector.values), due.key, id, due.version, tenant, user];
    send(db, sql, values)
}
