//! Where turns stand in their conversation, in SQL.

use serde::{Deserialize, Serialize};

use super::connect::meaning;
use super::row::to_json;
use super::session::{self, rows_max, send};
use super::sql::{self, Connection, OptionalExtension, Row, params};
use super::{episode, recall, revision};
use crate::id::{SessionId, TurnId};
use crate::scope::Scope;
use crate::session::{
    ClientIds, Fingerprint, Held, HistoryMode, Outline, Shift, Tail, Turn, TurnStatus, chained, last_answer,
};
use crate::store::{HistoryMatch, StoreError, Trail};

/// What the client calls things, as stored.
#[derive(Serialize, Deserialize)]
struct Ids {
    #[serde(rename = "q", default, skip_serializing_if = "Option::is_none")]
    question: Option<String>,
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    #[serde(rename = "k", default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    preamble: Option<String>,
}

/// Client ids as a column.
pub(super) fn ids_column(ids: &ClientIds) -> Option<String> {
    let ClientIds { question, answer, key, preamble } = ids.clone();
    let named = *ids != ClientIds::default();
    named.then(|| to_json(&Ids { question, answer, key, preamble }))
}

/// Reads what [`ids_column`] wrote.
pub(super) fn read_ids(column: Option<String>) -> ClientIds {
    let ids = column.and_then(|json| serde_json::from_str::<Ids>(&json).ok());
    ids.map_or_else(ClientIds::default, |Ids { question, answer, key, preamble }| ClientIds {
        question,
        answer,
        key,
        preamble,
    })
}

pub(super) const INSERT: &str = "INSERT INTO place (turn, parent, question, answer, before, chain, ids, open_calls)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";

/// Writes where a new turn stands. `turn_key` is its row's key.
pub(super) fn insert(
    db: &Connection,
    turn_key: i64,
    turn: &Turn,
    parent: u64,
    before: Option<Fingerprint>,
    ids: &ClientIds,
) -> Result<(), StoreError> {
    let prints = Prints::of(turn, before);
    let values = params![
        turn_key,
        parent,
        prints.question.to_bytes(),
        prints.answer.map(Fingerprint::to_bytes),
        before.map(Fingerprint::to_bytes),
        prints.chain.map(Fingerprint::to_bytes),
        ids_column(ids),
        prints.open_calls,
    ];
    send(db, INSERT, values)
}

pub(super) const ANSWERED: &str = "UPDATE place SET answer = ?2, open_calls = ?3, chain = ?4 WHERE turn = ?1";

/// Writes how a turn is recognised now that its answer changed.
pub(super) fn answered(
    db: &Connection,
    turn_key: i64,
    turn: &Turn,
    follows: Option<Fingerprint>,
) -> Result<(), StoreError> {
    let prints = Prints::of(turn, follows);
    let bytes = |print: Option<Fingerprint>| print.map(Fingerprint::to_bytes);
    send(db, ANSWERED, params![turn_key, bytes(prints.answer), prints.open_calls, bytes(prints.chain)])
}

/// How a turn is recognised.
struct Prints {
    question: Fingerprint,
    answer: Option<Fingerprint>,
    chain: Option<Fingerprint>,
    open_calls: Option<String>,
}

impl Prints {
    fn of(turn: &Turn, before: Option<Fingerprint>) -> Self {
        let question = Fingerprint::of(turn.question());
        let answer = last_answer(&turn.messages).map(Fingerprint::of);
        let calls = turn.open_calls();
        let chain = before.map(|before| chained(before, question, answer));
        Self { question, answer, chain, open_calls: (!calls.is_empty()).then(|| to_json(&calls)) }
    }
}

/// The number of the visible branch's last turn, and the chain after it.
pub(super) fn head(db: &Connection, session_key: i64) -> Result<(u64, Option<Fingerprint>), StoreError> {
    let sql = "SELECT turn.number, place.chain FROM turn LEFT JOIN place ON place.turn = turn.key
               WHERE turn.session = ?1 AND turn.superseded = 0 ORDER BY turn.number DESC LIMIT 1";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get::<_, Option<[u8; 16]>>(1)?.map(Fingerprint::from_bytes)));
    let found = statement.query_row([session_key], read).optional().map_err(|error| meaning(&error))?;
    Ok(found.unwrap_or((0, None)))
}

/// Puts the turns with which a session began behind another one.
pub(super) fn follow(db: &Connection, session_key: i64, parent: u64) -> Result<(), StoreError> {
    let sql = "UPDATE place SET parent = ?2 WHERE parent = 0 AND turn IN (SELECT key FROM turn WHERE session = ?1)";
    send(db, sql, params![session_key, parent])
}

/// Hides, shows and swaps what a client's move in its history asks for.
pub(super) fn shift(db: &Connection, session_key: i64, shift: &Shift) -> Result<(), StoreError> {
    let set = "UPDATE turn SET superseded = ?3 WHERE session = ?1 AND number = ?2";
    for (numbers, superseded) in [(&shift.hide, true), (&shift.show, false)] {
        for number in numbers {
            send(db, set, params![session_key, number, superseded])?;
            recall::shifted_while_pending(db, session_key, *number)?;
            episode::turn_changed(db, session_key, *number)?;
        }
    }
    for (number, attempt) in &shift.activate {
        revision::activate(db, session_key, *number, *attempt)?;
    }
    if let Some(mode) = shift.mode {
        send(db, "UPDATE session SET history = ?2 WHERE key = ?1", params![session_key, mode_word(mode)])?;
    }
    Ok(())
}

pub(super) fn mode_word(mode: HistoryMode) -> &'static str {
    match mode {
        HistoryMode::Server => "server",
        HistoryMode::Client => "client",
        HistoryMode::Windowed => "windowed",
    }
}

pub(super) fn read_mode(word: &str) -> HistoryMode {
    [HistoryMode::Client, HistoryMode::Windowed].into_iter().find(|mode| mode_word(*mode) == word).unwrap_or_default()
}

/// The newest turns of a session as outlines, by number, superseded ones included.
pub(super) fn held(db: &Connection, scope: &Scope, id: SessionId, turns_max: usize) -> Result<Held, StoreError> {
    let Some((key, _)) = session::find(db, scope, id)? else { return Ok(Held::default()) };
    let read = || -> sql::Result<Held> {
        let (mode, earlier): (String, u64) = db
            .prepare_cached("SELECT history, earlier FROM session WHERE key = ?1")?
            .query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let sql =
            "SELECT turn.id, turn.number, place.parent, turn.superseded, turn.status, place.question, place.answer,
                          place.ids, place.open_calls, place.revised, place.attempt
                   FROM turn JOIN place ON place.turn = turn.key
                   WHERE turn.session = ?1 ORDER BY turn.number DESC LIMIT ?2";
        let mut statement = db.prepare_cached(sql)?;
        let rows = statement.query_map(params![key, rows_max(turns_max)], outline)?;
        let mut turns: Vec<(bool, Outline)> = rows.collect::<Result<_, _>>()?;
        turns.reverse();
        // Nearly all turns were tried once.
        if turns.iter().any(|(revised, _)| *revised) {
            add_revisions(db, key, &mut turns)?;
        }
        Ok(Held { mode: read_mode(&mode), turns: turns.into_iter().map(|(_, turn)| turn).collect(), earlier })
    };
    read().map_err(|error| meaning(&error))
}

fn outline(row: &Row<'_>) -> sql::Result<(bool, Outline)> {
    let status: String = row.get(4)?;
    let calls: Option<String> = row.get(8)?;
    let outline = Outline {
        id: TurnId::from_uuid(uuid::Uuid::from_bytes(row.get(0)?)),
        number: row.get(1)?,
        parent: row.get(2)?,
        visible: !row.get::<_, bool>(3)?,
        status: TurnStatus::parse(&status).unwrap_or(TurnStatus::Failed),
        question: Fingerprint::from_bytes(row.get(5)?),
        answer: row.get::<_, Option<[u8; 16]>>(6)?.map(Fingerprint::from_bytes),
        revisions: Vec::new(),
        ids: read_ids(row.get(7)?),
        open_calls: calls.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default(),
        attempt: row.get(10)?,
    };
    Ok((row.get(9)?, outline))
}

fn add_revisions(db: &Connection, session_key: i64, turns: &mut [(bool, Outline)]) -> sql::Result<()> {
    let sql =
        "SELECT turn.number, revision.attempt, revision.answer FROM turn JOIN revision ON revision.turn = turn.key
               WHERE turn.session = ?1 AND turn.number >= ?2 ORDER BY turn.number, revision.attempt";
    let first = turns.first().map_or(0, |(_, turn)| turn.number);
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query(params![session_key, first])?;
    while let Some(row) = rows.next()? {
        let number: u64 = row.get(0)?;
        let answer = row.get::<_, Option<[u8; 16]>>(2)?.map(Fingerprint::from_bytes);
        if let Some((_, turn)) = turns.iter_mut().find(|(_, turn)| turn.number == number) {
            turn.revisions.push((row.get(1)?, answer));
        }
    }
    Ok(())
}

/// Finds a conversation by what was said in it: one that ends there, else one whose last turn asks the same
/// thing after it; the newest of several; else the only one in which the end of it was said.
pub(super) fn match_history(db: &Connection, scope: &Scope, trail: &Trail) -> Result<Option<HistoryMatch>, StoreError> {
    if !trail.calls.is_empty() {
        return waiting_for(db, scope, trail);
    }
    let by = |condition: &str| {
        format!(
            "SELECT session.id, turn.number = (SELECT max(number) FROM turn AS last
                                               WHERE last.session = turn.session AND last.superseded = 0)
             FROM place JOIN turn ON turn.key = place.turn JOIN session ON session.key = turn.session
             WHERE {condition} AND turn.superseded = 0 AND session.tenant = ?2 AND session.user = ?3
             ORDER BY 2 DESC, turn.key DESC LIMIT 1"
        )
    };
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let read = |row: &Row<'_>| Ok((SessionId::from_uuid(uuid::Uuid::from_bytes(row.get(0)?)), row.get::<_, bool>(1)?));
    let find = |sql: &str, values: &[&dyn sql::ToSql]| {
        let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
        statement.query_row(values, read).optional().map_err(|error| meaning(&error))
    };
    let (chain, question) = (trail.chain.to_bytes(), trail.question.to_bytes());
    let after = find(&by("place.chain = ?1"), &[&chain, &tenant, &user])?;
    if let Some((session, true)) = after {
        return Ok(Some(HistoryMatch::Continues(session)));
    }
    let again = find(&by("place.before = ?1 AND place.question = ?4"), &[&chain, &tenant, &user, &question])?;
    if let Some((session, true)) = again {
        return Ok(Some(HistoryMatch::Continues(session)));
    }
    match (after.or(again), trail.tail) {
        (Some((session, _)), _) => Ok(Some(HistoryMatch::Forks(session))),
        (None, Some(tail)) => by_the_tail(db, scope, trail, tail),
        (None, None) => Ok(None),
    }
}

/// Most exchanges of all users that are looked at for one that was said by this one.
const ALIKE_MAX: usize = 10_000;

/// Exchanges of a user in which this was asked and answered, with the end of their conversations.
pub(super) const BY_TAIL: &str =
    "SELECT session.id, turn.number, alike.parent, last.number, last_place.parent, last_place.question
     FROM (SELECT turn, parent, answer FROM place WHERE question = ?1 LIMIT ?5) AS alike
     JOIN turn ON turn.key = alike.turn JOIN session ON session.key = turn.session
     JOIN turn AS last ON last.session = session.key AND last.number =
          (SELECT max(number) FROM turn AS any_turn WHERE any_turn.session = session.key AND any_turn.superseded = 0)
     JOIN place AS last_place ON last_place.turn = last.key
     WHERE alike.answer = ?2 AND turn.superseded = 0 AND session.tenant = ?3 AND session.user = ?4 LIMIT 2";

/// Finds the conversation in which the last answered exchange of a client was said, if it was said once and is not the
/// beginning of a conversation that differs in the client's history.
fn by_the_tail(db: &Connection, scope: &Scope, trail: &Trail, tail: Tail) -> Result<Option<HistoryMatch>, StoreError> {
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let values = params![tail.question.to_bytes(), tail.answer.to_bytes(), tenant, user, rows_max(ALIKE_MAX)];
    let read = |row: &Row<'_>| -> sql::Result<Alike> {
        let session = SessionId::from_uuid(uuid::Uuid::from_bytes(row.get(0)?));
        let (number, parent): (u64, u64) = (row.get(1)?, row.get(2)?);
        let asks_again = row.get::<_, u64>(4)? == number && row.get::<_, [u8; 16]>(5)? == trail.question.to_bytes();
        Ok(Alike { session, is_end: row.get::<_, u64>(3)? == number || asks_again, begins: (number, parent) == (1, 0) })
    };
    let found = || -> sql::Result<Vec<Alike>> {
        let mut statement = db.prepare_cached(BY_TAIL)?;
        let rows = statement.query_map(values, read)?;
        rows.collect()
    };
    Ok(match found().map_err(|error| meaning(&error))?.as_slice() {
        [only] if only.begins && tail.follows_others => None,
        [only] if only.is_end => Some(HistoryMatch::Continues(only.session)),
        [only] => Some(HistoryMatch::Forks(only.session)),
        _ => None,
    })
}

/// An exchange in a client's history.
struct Alike {
    session: SessionId,
    /// Whether the conversation ends with it, or with the client's question after it.
    is_end: bool,
    /// Whether the conversation begins with it.
    begins: bool,
}

/// Most turns that are looked at for one that waits for certain tools.
const WAITING_MAX: usize = 100;

/// Finds the newest conversation that waits for the results of one of these calls.
fn waiting_for(db: &Connection, scope: &Scope, trail: &Trail) -> Result<Option<HistoryMatch>, StoreError> {
    let sql = "SELECT session.id, place.open_calls
               FROM place JOIN turn ON turn.key = place.turn JOIN session ON session.key = turn.session
               WHERE place.before = ?1 AND place.question = ?2 AND place.open_calls IS NOT NULL
                 AND turn.superseded = 0 AND session.tenant = ?3 AND session.user = ?4
               ORDER BY turn.key DESC LIMIT ?5";
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let values = params![trail.chain.to_bytes(), trail.question.to_bytes(), tenant, user, rows_max(WAITING_MAX)];
    let read = || -> sql::Result<Option<SessionId>> {
        let mut statement = db.prepare_cached(sql)?;
        let mut rows = statement.query(values)?;
        while let Some(row) = rows.next()? {
            let calls: Vec<String> = serde_json::from_str(&row.get::<_, String>(1)?).unwrap_or_default();
            if calls.iter().any(|call| trail.calls.contains(call)) {
                return Ok(Some(SessionId::from_uuid(uuid::Uuid::from_bytes(row.get(0)?))));
            }
        }
        Ok(None)
    };
    read().map(|found| found.map(HistoryMatch::Continues)).map_err(|error| meaning(&error))
}
