//! What is handed out.

use jiff::Timestamp;
use uuid::Uuid;

use super::super::connect::meaning;
use super::super::row::{COLUMNS, NEXT, TurnRow};
use super::super::session::rows_max;
use super::super::sql::{self, Connection, OptionalExtension, Row, params};
use super::super::{episode, place, revision, session};
use crate::clock::from_micros;
use crate::episode::Episode;
use crate::id::{EpisodeId, SessionId, TopicId, TurnId};
use crate::scope::{Scope, Tenant, User};
use crate::session::{ClientIds, Session};
use crate::store::{EpisodesAfter, SessionsAfter, StoreError, TopicsAfter, TurnOrDamage, TurnRecords, TurnsAfter};
use crate::takeout::{EpisodeRecord, RevisionRecord, SessionRecord, TopicLink, TopicRecord, TurnRecord};
use crate::topic::Topic;

/// Every user is found at the front of an index, whichever table knows of them.
const NEXT_USER: &str = "SELECT min(user) FROM (
    SELECT min(user) AS user FROM session WHERE tenant = ?1 AND user > ?2 UNION ALL
    SELECT min(user) FROM topic WHERE tenant = ?1 AND user > ?2 UNION ALL
    SELECT min(user) FROM fact_statement WHERE tenant = ?1 AND user > ?2 UNION ALL
    SELECT min(user) FROM fact_undo WHERE tenant = ?1 AND user > ?2 UNION ALL
    SELECT min(user) FROM fact_erased WHERE tenant = ?1 AND user > ?2 UNION ALL
    SELECT min(user) FROM episode WHERE tenant = ?1 AND user > ?2)";

pub(super) fn next_user(db: &Connection, tenant: &Tenant, after: Option<&User>) -> Result<Option<Scope>, StoreError> {
    let after = after.map_or("", User::as_str);
    let read = |row: &Row<'_>| row.get::<_, Option<String>>(0);
    let user = db.query_row(NEXT_USER, [tenant.as_str(), after], read).map_err(|error| meaning(&error))?;
    Ok(user.map(|user| Scope::as_stored(tenant.as_str(), &user)))
}

pub(super) fn sessions(
    db: &Connection,
    scope: &Scope,
    which: SessionsAfter,
) -> Result<Option<Vec<SessionRecord>>, StoreError> {
    let Some(after) = key_of_session(db, scope, which.after)? else { return Ok(None) };
    let sql = format!(
        "SELECT {}, history, next_number, ttl_of_tenant FROM session WHERE tenant = ?1 AND user = ?2 AND key > ?3
           AND updated_at >= ?4 AND (?5 OR kind = 'durable') AND (?7 IS NULL OR id = ?7) ORDER BY key LIMIT ?6",
        session::COLUMNS
    );
    let read = |row: &Row<'_>| {
        let (_, found) = session::read(row)?;
        let Session { id, kind, metadata, ttl, created_at, updated_at, last_accessed, .. } = found;
        let history = place::read_mode(row.get_ref(10)?.as_str()?);
        let next_number = row.get(11)?;
        // What a tenant gives to all of its conversations stays with the tenant.
        let ttl = ttl.filter(|_| !row.get::<_, bool>(12).unwrap_or_default());
        Ok(SessionRecord { id, kind, created_at, updated_at, last_accessed, ttl, history, next_number, metadata })
    };
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let only = which.only.map(|id| *id.as_uuid().as_bytes());
    let values = params![tenant, user, after, micros(which.since), which.live, rows_max(which.limit), only];
    all(db, &sql, values, read).map(Some)
}

fn key_of_session(db: &Connection, scope: &Scope, id: Option<SessionId>) -> Result<Option<i64>, StoreError> {
    match id {
        Some(id) => Ok(session::find(db, scope, id)?.map(|(key, _)| key)),
        None => Ok(Some(0)),
    }
}

fn micros(since: Option<Timestamp>) -> i64 {
    since.map_or(i64::MIN, |since| since.as_microsecond())
}

pub(super) fn topics(
    db: &Connection,
    scope: &Scope,
    which: TopicsAfter,
) -> Result<Option<Vec<TopicRecord>>, StoreError> {
    let Some((merged, after)) = place_of_topic(db, scope, which.after)? else { return Ok(None) };
    let sql = "SELECT topic.id, topic.title, topic.title_turn IS NULL, topic.importance, topic.accesses,
                      topic.tags, topic.created_at, topic.last_used, topic.forgotten_at, other.id
               FROM topic LEFT JOIN topic AS other ON other.key = topic.merged_into
               WHERE topic.tenant = ?1 AND topic.user = ?2 AND (topic.merged_into IS NOT NULL, topic.key) > (?3, ?4)
                 AND topic.last_used >= ?5
                 AND (?6 IS NULL OR EXISTS (SELECT 1 FROM topic_turn JOIN turn ON turn.key = topic_turn.turn
                      WHERE topic_turn.topic = topic.key AND turn.session = ?6))
               ORDER BY topic.merged_into IS NOT NULL, topic.key LIMIT ?7";
    let session = match which.session {
        // A conversation that is not here has no topics.
        Some(id) => Some(session::find(db, scope, id)?.map_or(-1, |(key, _)| key)),
        None => None,
    };
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let values = params![tenant, user, merged, after, micros(which.since), session, rows_max(which.limit)];
    all(db, sql, values, topic).map(Some)
}

/// Where a topic stands among them.
fn place_of_topic(db: &Connection, scope: &Scope, id: Option<TopicId>) -> Result<Option<(bool, i64)>, StoreError> {
    let Some(id) = id else { return Ok(Some((false, 0))) };
    let sql = "SELECT merged_into IS NOT NULL, key FROM topic WHERE tenant = ?1 AND user = ?2 AND id = ?3";
    let values = params![scope.tenant().as_str(), scope.user().as_str(), id.as_uuid().as_bytes()];
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    db.query_row(sql, values, read).optional().map_err(|error| meaning(&error))
}

fn topic(row: &Row<'_>) -> sql::Result<TopicRecord> {
    let tags: String = row.get(5)?;
    let merged_into: Option<[u8; 16]> = row.get(9)?;
    let topic = Topic {
        id: TopicId::from_uuid(Uuid::from_bytes(row.get(0)?)),
        title: row.get(1)?,
        // It is told again from the turns: how far it tells is known by their rows.
        summary: None,
        importance: row.get(3)?,
        accesses: row.get(4)?,
        messages: 0,
        // The database checks that it is JSON.
        tags: serde_json::from_str(&tags).unwrap_or_default(),
        created_at: from_micros(row.get(6)?),
        last_used: from_micros(row.get(7)?),
    };
    Ok(TopicRecord {
        topic,
        named: row.get(2)?,
        forgotten_at: row.get::<_, Option<i64>>(8)?.map(from_micros),
        merged_into: merged_into.map(|id| TopicId::from_uuid(Uuid::from_bytes(id))),
    })
}

pub(super) fn episodes(
    db: &Connection,
    scope: &Scope,
    which: EpisodesAfter,
) -> Result<Option<Vec<EpisodeRecord>>, StoreError> {
    // Of one conversation there are few; the planner would rather go through all of the user's.
    let (from, condition, session) = match which.session {
        Some(id) => match session::find(db, scope, id)? {
            Some((key, _)) => ("episode INDEXED BY episode_by_range", "session_key = ?6", key),
            None => return Ok(Some(Vec::new())),
        },
        None => ("episode", "?6 = 0 AND NOT EXISTS (SELECT 1 FROM session WHERE session.key = session_key)", 0),
    };
    let Some(after) = key_of_episode(db, scope, which.after)? else { return Ok(None) };
    let sql = format!(
        "SELECT {}, stale FROM {from} WHERE tenant = ?1 AND user = ?2 AND key > ?3 AND ended_at >= ?4
           AND {condition} ORDER BY key LIMIT ?5",
        episode::COLUMNS
    );
    let gone = which.session.is_none();
    let read = |row: &Row<'_>| {
        let (_, episode): (u64, Episode) = episode::read(row)?;
        Ok(EpisodeRecord { episode, stale: row.get(14)?, gone })
    };
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let values = params![tenant, user, after, micros(which.since), rows_max(which.limit), session];
    all(db, &sql, values, read).map(Some)
}

fn key_of_episode(db: &Connection, scope: &Scope, id: Option<EpisodeId>) -> Result<Option<i64>, StoreError> {
    let Some(id) = id else { return Ok(Some(0)) };
    let sql = "SELECT max(key) FROM episode WHERE tenant = ?1 AND user = ?2 AND id = ?3";
    let values = params![scope.tenant().as_str(), scope.user().as_str(), id.as_uuid().as_bytes()];
    db.query_row(sql, values, |row| row.get(0)).map_err(|error| meaning(&error))
}

/// A turn, where it stands, and which topic it belongs to.
fn turns_sql() -> String {
    format!(
        "SELECT {COLUMNS}, (SELECT id FROM turn AS before WHERE before.session = turn.session AND before.number = parent),
                attempt, ids, revised, topic.id, topic.title_turn IS NOT DISTINCT FROM turn.key, turn.key <= topic.title_knows
         FROM turn LEFT JOIN place ON place.turn = turn.key LEFT JOIN topic_turn ON topic_turn.turn = turn.key
              LEFT JOIN topic ON topic.key = topic_turn.topic
         WHERE turn.session = ?1 AND turn.number > ?2 AND turn.created_at >= ?3 ORDER BY turn.number LIMIT ?4"
    )
}

pub(super) fn turns(
    db: &Connection,
    scope: &Scope,
    id: SessionId,
    which: TurnsAfter,
) -> Result<TurnRecords, StoreError> {
    let Some((key, _)) = session::find(db, scope, id)? else { return Ok(TurnRecords::default()) };
    let mut statement = db.prepare_cached(&turns_sql()).map_err(|error| meaning(&error))?;
    let after = i64::try_from(which.after).unwrap_or(i64::MAX);
    let values = params![key, after, micros(which.since), rows_max(which.limit.saturating_add(1))];
    let mut rows = statement.query(values).map_err(|error| meaning(&error))?;
    let (mut records, mut bytes, mut last) = (TurnRecords::default(), 0, 0);
    while let Some(row) = rows.next().map_err(|error| meaning(&error))? {
        if records.turns.len() >= which.limit || bytes >= which.bytes {
            records.next = Some(last);
            break;
        }
        let standing = Standing::read(row).map_err(|error| meaning(&error))?;
        last = standing.row.number;
        bytes += standing.row.text_bytes();
        records.turns.extend(standing.records(db, id)?);
    }
    Ok(records)
}

/// A turn's row and what stands beside it.
struct Standing {
    row: TurnRow,
    parent: Option<TurnId>,
    attempt: u32,
    ids: ClientIds,
    revised: bool,
    topic: Option<TopicLink>,
}

impl Standing {
    fn read(row: &Row<'_>) -> sql::Result<Self> {
        let id = |column: usize| Ok::<_, sql::Error>(row.get::<_, Option<[u8; 16]>>(column)?.map(Uuid::from_bytes));
        let flag = |column: usize| Ok::<_, sql::Error>(row.get::<_, Option<bool>>(column)?.unwrap_or_default());
        let (gives_title, in_title) = (flag(NEXT + 5)?, flag(NEXT + 6)?);
        Ok(Self {
            row: TurnRow::read(row)?,
            parent: id(NEXT)?.map(TurnId::from_uuid),
            attempt: row.get::<_, Option<u32>>(NEXT + 1)?.unwrap_or_default(),
            ids: place::read_ids(row.get(NEXT + 2)?),
            revised: flag(NEXT + 3)?,
            topic: id(NEXT + 4)?.map(|id| TopicLink { id: TopicId::from_uuid(id), gives_title, in_title }),
        })
    }

    /// The turn, and word of whatever of it is damaged.
    fn records(self, db: &Connection, session: SessionId) -> Result<Vec<TurnOrDamage>, StoreError> {
        let Self { row, parent, attempt, ids, revised, topic } = self;
        let (number, key) = (row.number, row.key);
        let turn = match row.turn(db, session) {
            Ok(turn) => turn,
            Err(StoreError::Damaged { number, what, .. } | StoreError::Unreadable { number, what, .. }) => {
                return Ok(vec![Err((number, what))]);
            }
            Err(error) => return Err(error),
        };
        let (mut revisions, mut damaged) = (Vec::new(), Vec::new());
        if revised {
            for revision in revision::with_ids(db, key, turn.id)? {
                match revision {
                    Ok((revision, client)) => revisions.push(RevisionRecord {
                        attempt: revision.attempt,
                        status: revision.status,
                        created_at: revision.created_at,
                        messages: revision.messages,
                        client,
                    }),
                    Err(damage) => damaged.push(Err((number, damage.to_string()))),
                }
            }
        }
        let record = TurnRecord {
            id: turn.id,
            number: Some(number),
            parent,
            status: turn.status,
            superseded: turn.superseded,
            created_at: turn.created_at,
            messages: turn.messages,
            metadata: turn.metadata,
            attempt,
            revisions,
            client: ids,
            topic,
        };
        Ok(std::iter::once(Ok(record)).chain(damaged).collect())
    }
}

/// All rows of a statement from the cache.
fn all<T>(
    db: &Connection,
    sql: &str,
    values: impl sql::Params,
    read: impl FnMut(&Row<'_>) -> sql::Result<T>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let rows = statement.query_map(values, read).map_err(|error| meaning(&error))?;
    rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))
}
