//! Turns in SQL.

use std::cell::Cell;

use jiff::Timestamp;
use serde_json::Map;

use super::connect::meaning;
use super::job::{Follow, after_turn, follow_turn};
use super::look::{self, Around, Ground, Unended};
use super::row::{COLUMNS, NEXT, TurnRow};
use super::session::{self, Place, cursor, execute, reserve, rows_max, send, take_numbers, turn_expiry};
use super::sql::{self, Connection, OptionalExtension, params};
use super::{archive, episode, fact, place, recall, requests, revision, topic, trace};
use crate::clock::from_micros;
use crate::id::{SessionId, TurnId};
use crate::message::{Message, Role};
use crate::scope::Scope;
use crate::session::{
    AddedMessage, ClientIds, ClosedTurn, Fingerprint, OpenTurn, SessionSeed, Shift, Turn, TurnDraft, TurnStatus,
    chained, group, last_answer,
};
use crate::store::check;
use crate::store::{Kept, Made, Opened, Page, PageRequest, Recent, StoreError, UNANSWERED};

/// Where a turn says why it ended as it did.
const REASON: &str = "reason";

pub(super) const INSERT: &str =
    "INSERT INTO turn (session, number, id, status, role, question, answer, extra, metadata, created_at, answered_at,
                       checksum, expires_at)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";

pub(super) const REWRITE: &str =
    "UPDATE turn SET status = ?2, answer = ?3, extra = ?4, metadata = ?5, answered_at = ?6, checksum = ?7
     WHERE key = ?1";

pub(super) const USED: &str =
    "UPDATE session SET updated_at = max(updated_at, ?2), last_accessed = max(last_accessed, ?2) WHERE key = ?1";

pub(super) fn find_sql() -> String {
    format!(
        "SELECT {COLUMNS}, session.key FROM turn JOIN session ON session.key = turn.session
         WHERE turn.id = ?4 AND tenant = ?1 AND user = ?2 AND session.id = ?3"
    )
}

/// Writes a question. The time is taken here, in the order of the numbers, and is never before that of the turn before:
/// a clock that is set back would let the turn expire as soon as it is set right.
pub(super) fn open(db: &Connection, scope: &Scope, open: OpenTurn, now: Timestamp) -> Result<Opened, StoreError> {
    check::opening(&open)?;
    let ground = look::before_question(db, scope, open.session, open.id)?;
    if ground.as_ref().is_some_and(|ground| ground.is_asked) {
        return opened_before(db, scope, &open);
    }
    if let Some(request) = &open.place.request {
        requests::note(db, scope, request, &Made::Turn(open.session, open.id), now)?;
    }
    let said_last = Cell::new(ground.as_ref().map_or(Timestamp::MIN, |ground| ground.said_last));
    let now = next_time(&said_last, open.asked_at.unwrap_or(now));
    let (turns, at) = (1 + open.place.imported.len() as u64, now.as_microsecond());
    let (mut place, head) = match ground {
        Some(Ground { place, head, .. }) => (take_numbers(db, place, turns, at)?, head),
        None => {
            let mut place = reserve(db, scope, open.session, &open.seed, turns, at)?;
            session::keep_free(db, &mut place, open.place.kept_free)?;
            (place, NOTHING_SAID)
        }
    };
    if !open.place.earlier.is_empty() {
        take_in_earlier(db, scope, &place, (open.session, open.place.earlier), now)?;
    }
    place::shift(db, place.key, &open.place.shift)?;
    // What is hidden or shown may be the end of it.
    let head = if open.place.shift == Shift::default() { head } else { place::head(db, place.key)? };
    let mut stand = Stand::new(scope, head, open.place.parent, open.place.before);
    for draft in open.place.imported {
        let turn = placed(draft, open.session, place.number, &|| now);
        stand.insert(db, &mut place, &turn, &ClientIds::default())?;
    }
    let mut messages = vec![open.question];
    messages[0].created_at = now;
    messages.extend(open.place.then);
    let turn = Turn {
        id: open.id,
        session: open.session,
        number: place.number,
        status: TurnStatus::Pending,
        messages,
        metadata: open.metadata,
        created_at: now,
        superseded: false,
    };
    stand.insert(db, &mut place, &turn, &open.place.ids)?;
    Ok(Opened { number: Some(turn.number), created_at: now, kept: Kept::OnDisk })
}

/// Writes what was said before the first turn of a session, with the numbers that were kept free for it.
fn take_in_earlier(
    db: &Connection,
    scope: &Scope,
    place: &Place,
    (session, mut drafts): (SessionId, Vec<TurnDraft>),
    now: Timestamp,
) -> Result<(), StoreError> {
    let (free, first) = session::take_free(db, place, drafts.len() as u64)?;
    drafts.drain(..drafts.len() - free as usize);
    if drafts.is_empty() {
        return Ok(());
    }
    place::follow(db, place.key, free)?;
    let said_at = first.map_or(now, from_micros);
    let mut at = Place { key: place.key, number: 1, ttl: place.ttl };
    let mut stand = Stand::new(scope, NOTHING_SAID, Some(0), None);
    for draft in drafts {
        let turn = placed(draft, session, at.number, &|| said_at);
        stand.insert(db, &mut at, &turn, &ClientIds::default())?;
    }
    Ok(())
}

/// A question that was written before, and not known to be, comes again.
fn opened_before(db: &Connection, scope: &Scope, open: &OpenTurn) -> Result<Opened, StoreError> {
    let Some((_, row)) = find(db, scope, open.session, open.id)? else {
        return Err(StoreError::UnknownTurn(open.id));
    };
    Ok(Opened { number: Some(row.number), created_at: from_micros(row.created_at), kept: Kept::OnDisk })
}

/// The end of a session without turns.
const NOTHING_SAID: (u64, Option<Fingerprint>) = (0, None);

/// Where the next turn of a branch stands.
struct Stand {
    parent: u64,
    before: Option<Fingerprint>,
}

impl Stand {
    /// After `parent`, or at the end of the visible branch. The chain goes on from there, unless the client
    /// told its own.
    fn new(
        scope: &Scope,
        (head, chain): (u64, Option<Fingerprint>),
        parent: Option<u64>,
        before: Option<Fingerprint>,
    ) -> Self {
        let beginning = || Some(Fingerprint::beginning(scope.tenant().as_str(), scope.user().as_str()));
        let before = before.or(chain).or_else(|| if head == 0 { beginning() } else { None });
        Self { parent: parent.unwrap_or(head), before }
    }

    /// Writes a turn here; the next one stands after it.
    fn insert(&mut self, db: &Connection, place: &mut Place, turn: &Turn, ids: &ClientIds) -> Result<(), StoreError> {
        let key = insert(db, place, turn)?;
        place::insert(db, key, turn, self.parent, self.before, ids)?;
        self.parent = turn.number;
        let answer = last_answer(&turn.messages).map(Fingerprint::of);
        self.before = self.before.map(|before| chained(before, Fingerprint::of(turn.question()), answer));
        place.number += 1;
        Ok(())
    }
}

/// Writes how a pending turn ended.
pub(super) fn close(
    db: &Connection,
    scope: &Scope,
    closed: ClosedTurn,
    now: i64,
    follow: Follow<'_>,
) -> Result<Kept, StoreError> {
    check::ending(&closed)?;
    let Some(found) = look::before_ending(db, scope, closed.session, closed.id)? else {
        return Err(StoreError::UnknownTurn(closed.id));
    };
    let Unended { row, mut around, session_key, attempt, session } = found;
    let key = row.key;
    let mut turn = row.turn(db, closed.session)?;
    let overtaken = attempt != closed.attempt;
    let waits_for_tools = turn.status != TurnStatus::Failed && awaits_tools(&turn);
    let believed_lost = is_abandoned(&turn) && closed.status != TurnStatus::Failed;
    if !overtaken && turn.status != TurnStatus::Pending && !waits_for_tools && !believed_lost {
        return Ok(Kept::OnDisk);
    }
    if believed_lost {
        turn.metadata.shift_remove(REASON);
    }
    let has_nothing = turn.status == TurnStatus::Failed;
    if overtaken {
        turn.messages.truncate(1);
    }
    turn.status = closed.status;
    let heard = heard_before(&turn.messages, &closed.messages);
    turn.messages.extend(closed.messages.into_iter().skip(heard));
    turn.metadata.extend(closed.metadata);
    if overtaken {
        revision::put_aside(db, key, closed.attempt, &turn, now)?;
        if has_nothing {
            revision::restore(db, session_key, turn.number, key)?;
        }
    } else {
        let shown = turn.enters_context() && !turn.superseded;
        // Answered again, a turn is in a topic already.
        if let Some(to) = closed.topic.filter(|_| shown && around.member.is_none()) {
            around.member = topic::join(db, scope, key, &turn, &to)?;
        }
        settle(db, session_key, key, &turn, around, now)?;
        trace::keep(db, session_key, key, turn.number, closed.trace.as_deref())?;
    }
    revision::keep_others(db, key, &turn, closed.others, now)?;
    send(db, USED, params![session_key, now])?;
    follow_turn(db, session_key, turn.number, &session, follow)?;
    Ok(Kept::OnDisk)
}

/// The time of what is said now: after what was said last, also when the clock was set back in between.
fn next_time(said_last: &Cell<Timestamp>, now: Timestamp) -> Timestamp {
    let next = now.max(from_micros(said_last.get().as_microsecond().saturating_add(1)));
    said_last.set(next);
    next
}

/// How many of the messages that are to follow are there already: what was written once, and not known to be, comes again.
fn heard_before(there: &[Message], following: &[Message]) -> usize {
    let same = |one: &Message, other: &Message| {
        (one.role, &one.text, &one.raw) == (other.role, &other.text, &other.raw)
            && one.created_at.as_microsecond() == other.created_at.as_microsecond()
    };
    let longest = following.len().min(there.len().saturating_sub(1));
    let ends_with = |n: &usize| there[there.len() - n..].iter().zip(following).all(|(one, other)| same(one, other));
    (1..=longest).rev().find(ends_with).unwrap_or(0)
}

/// Writes an ending in its place; a try that came to nothing gives way to an earlier whole answer.
fn settle(
    db: &Connection,
    session_key: i64,
    key: i64,
    turn: &Turn,
    around: Around,
    now: i64,
) -> Result<(), StoreError> {
    rewrite_within(db, key, turn, around)?;
    if turn.status == TurnStatus::Failed && revision::restore(db, session_key, turn.number, key)? {
        tracing::debug!(turn.id = %turn.id, at = now, "An earlier answer is shown again");
    }
    Ok(())
}

/// Whether it was given up because whoever was to answer it seemed to be gone. Its answer may have waited elsewhere.
fn is_abandoned(turn: &Turn) -> bool {
    turn.status != TurnStatus::Complete && turn.metadata.get(REASON).is_some_and(|reason| reason == UNANSWERED)
}

/// Whether the model asked for tools and has not heard from them.
fn awaits_tools(turn: &Turn) -> bool {
    turn.messages.last().is_some_and(|message| message.calls_tools() || message.role == Role::Tool)
}

/// Adds turns that others completed.
pub(super) fn add(
    db: &Connection,
    scope: &Scope,
    session: SessionId,
    seed: Option<&SessionSeed>,
    drafts: Vec<TurnDraft>,
    now: impl Fn() -> Timestamp,
    follow: Follow<'_>,
) -> Result<Vec<Turn>, StoreError> {
    let seed = place_for(db, scope, session, seed)?;
    drafts.iter().try_for_each(check::draft)?;
    let mut place = reserve(db, scope, session, &seed, drafts.len() as u64, now().as_microsecond())?;
    let mut stand = Stand::new(scope, place::head(db, place.key)?, None, None);
    let mut turns = Vec::with_capacity(drafts.len());
    let said_last = Cell::new(last_time(db, place.key)?);
    for draft in drafts {
        let turn = placed(draft, session, place.number, &|| next_time(&said_last, now()));
        said_last.set(said_last.get().max(turn.created_at));
        stand.insert(db, &mut place, &turn, &ClientIds::default())?;
        turns.push(turn);
    }
    if let Some(last) = turns.last() {
        after_turn(db, place.key, last.number, follow)?;
    }
    Ok(turns)
}

/// What the session is to be made from. Without a seed it must be there already.
fn place_for(
    db: &Connection,
    scope: &Scope,
    session: SessionId,
    seed: Option<&SessionSeed>,
) -> Result<SessionSeed, StoreError> {
    match seed {
        Some(seed) => check::seed(seed).map(|()| seed.clone()),
        None if session::find(db, scope, session)?.is_some() => Ok(SessionSeed::default()),
        None => Err(StoreError::UnknownSession(session)),
    }
}

/// Gives a draft its number, and times to messages that came without.
fn placed(draft: TurnDraft, session: SessionId, number: u64, now: &impl Fn() -> Timestamp) -> Turn {
    let status = draft.status();
    let mut messages = draft.messages;
    let created_at = as_stored(draft.created_at.unwrap_or_else(now));
    for (n, message) in messages.iter_mut().enumerate() {
        message.created_at = match draft.created_at {
            _ if n == 0 => created_at,
            Some(_) => as_stored(message.created_at),
            None => now(),
        };
    }
    Turn { id: draft.id, session, number, status, messages, metadata: draft.metadata, created_at, superseded: false }
}

/// What is answered now is what will be read later: microseconds.
fn as_stored(time: Timestamp) -> Timestamp {
    from_micros(time.as_microsecond())
}

/// Adds loose messages: they answer the last turn, or become turns.
pub(super) fn add_messages(
    db: &Connection,
    scope: &Scope,
    session: SessionId,
    seed: Option<&SessionSeed>,
    (messages, ids): (Vec<AddedMessage>, Vec<TurnId>),
    now: impl Fn() -> Timestamp,
    follow: Follow<'_>,
) -> Result<Vec<Turn>, StoreError> {
    let last = last_row(db, scope, session)?;
    let said_last = Cell::new(last.as_ref().map_or(Timestamp::MIN, |row| from_micros(row.created_at)));
    let now = || next_time(&said_last, now());
    let open = last.filter(|row| row.status == TurnStatus::Partial.as_str() && row.answer.is_none());
    let grouped = group(open.is_some(), messages.into_iter().map(|added| added.stamped(now)).collect());
    let mut touched = Vec::new();
    if let (Some(row), false) = (open, grouped.joins_last.is_empty()) {
        let key = row.key;
        let mut turn = row.turn(db, session)?;
        turn.messages.extend(grouped.joins_last);
        check::messages(&turn.messages)?;
        let draft = TurnDraft { id: turn.id, messages: turn.messages, metadata: turn.metadata, created_at: None };
        turn.status = draft.status();
        (turn.messages, turn.metadata) = (draft.messages, draft.metadata);
        rewrite(db, key, &turn)?;
        touched.push(turn);
    }
    let draft = |(messages, id): (Vec<Message>, TurnId)| TurnDraft {
        id,
        created_at: messages.first().map(|message| message.created_at),
        messages,
        metadata: Map::new(),
    };
    if ids.len() < grouped.turns.len() {
        return Err(StoreError::Refused("there are more turns than ids for them".into()));
    }
    let drafts = grouped.turns.into_iter().zip(ids).map(draft).collect();
    touched.extend(add(db, scope, session, seed, drafts, now, follow)?);
    Ok(touched)
}

/// Writes a new turn and answers its key.
pub(super) fn insert(db: &Connection, place: &Place, turn: &Turn) -> Result<i64, StoreError> {
    let row = TurnRow::of(turn);
    let expires_at = turn_expiry(place.ttl, row.created_at);
    let id = row.id.as_uuid().as_bytes();
    let values = params![
        place.key,
        row.number,
        id,
        row.status,
        row.role,
        row.question,
        row.answer,
        row.extra,
        row.metadata,
        row.created_at,
        row.answered_at,
        row.checksum,
        expires_at,
    ];
    send(db, INSERT, values)?;
    let key = db.last_insert_rowid();
    recall::added(db, place.key, key, turn)?;
    topic::added(db, key, turn)?;
    fact::added(db, key, turn)?;
    Ok(key)
}

/// Writes a turn again in its place.
pub(super) fn rewrite(db: &Connection, key: i64, turn: &Turn) -> Result<(), StoreError> {
    rewrite_within(db, key, turn, look::around(db, key)?)
}

/// The same where it is known what stands around it.
fn rewrite_within(db: &Connection, key: i64, turn: &Turn, around: Around) -> Result<(), StoreError> {
    let Around { before, follows, member } = around;
    let row = TurnRow::of(turn);
    let values = params![key, row.status, row.answer, row.extra, row.metadata, row.answered_at, row.checksum];
    if let Some(block) = before.block {
        archive::bring_back(db, key, block)?;
    }
    send(db, REWRITE, values)?;
    recall::rewritten(db, key, &before, turn)?;
    if before.shown {
        episode::turn_changed(db, before.session_key, turn.number)?;
    }
    topic::rewritten(db, key, &before, member, turn)?;
    fact::rewritten(db, key, turn)?;
    place::answered(db, key, turn, follows)
}

/// Looks a turn up within its scope and session. Answers the session's key too.
pub(super) fn find(
    db: &Connection,
    scope: &Scope,
    session: SessionId,
    id: TurnId,
) -> Result<Option<(i64, TurnRow)>, StoreError> {
    let mut statement = db.prepare_cached(&find_sql()).map_err(|error| meaning(&error))?;
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let values = params![tenant, user, session.as_uuid().as_bytes(), id.as_uuid().as_bytes()];
    let found = statement.query_row(values, |row| Ok((row.get(NEXT)?, TurnRow::read(row)?))).optional();
    found.map_err(|error| meaning(&error))
}

/// When the last turn of a session was said.
fn last_time(db: &Connection, session_key: i64) -> Result<Timestamp, StoreError> {
    let sql = "SELECT created_at FROM turn WHERE session = ?1 ORDER BY number DESC LIMIT 1";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let found: Option<i64> =
        statement.query_row([session_key], |row| row.get(0)).optional().map_err(|error| meaning(&error))?;
    Ok(found.map_or(Timestamp::MIN, from_micros))
}

fn last_row(db: &Connection, scope: &Scope, session: SessionId) -> Result<Option<TurnRow>, StoreError> {
    let Some((key, _)) = session::find(db, scope, session)? else { return Ok(None) };
    let sql = format!("SELECT {COLUMNS} FROM turn WHERE session = ?1 ORDER BY number DESC LIMIT 1");
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    statement.query_row([key], TurnRow::read).optional().map_err(|error| meaning(&error))
}

/// The last turns that enter context, oldest first, with the session's key. A damaged turn is named
/// instead of shown.
pub(super) fn recent(
    db: &Connection,
    scope: &Scope,
    session: SessionId,
    messages_max: usize,
) -> Result<(Option<i64>, Recent), StoreError> {
    let Some((key, found)) = session::find(db, scope, session)? else {
        return Ok((None, Recent::default()));
    };
    let mut recent = Recent { session: Some(found), ..Recent::default() };
    let mut statement = db.prepare_cached(&recent_sql()).map_err(|error| meaning(&error))?;
    // A turn holds one message at least, so that many rows are enough, and most need half of them.
    let mut rows = statement.query(params![key, rows_max(messages_max)]).map_err(|error| meaning(&error))?;
    let mut spoken = 0;
    while spoken < messages_max {
        let Some(row) = rows.next().map_err(|error| meaning(&error))? else { break };
        match TurnRow::read(row).map_err(|error| meaning(&error))?.turn(db, session) {
            Ok(turn) => {
                spoken += turn.spoken();
                recent.turns.push(turn);
            }
            Err(damage) => recent.damaged.push(damage),
        }
    }
    recent.turns.reverse();
    Ok((Some(key), recent))
}

pub(super) fn recent_sql() -> String {
    format!("SELECT {COLUMNS} FROM turn WHERE session = ?1 AND {} ORDER BY number DESC LIMIT ?2", recall::SHOWN)
}

/// The turns of a session by number; the cursor is the number.
pub(super) fn list(
    db: &Connection,
    scope: &Scope,
    session: SessionId,
    page: PageRequest,
) -> Result<Option<(i64, Page<Turn>)>, StoreError> {
    let Some((key, _)) = session::find(db, scope, session)? else { return Ok(None) };
    let mut statement = db.prepare_cached(&list_sql()).map_err(|error| meaning(&error))?;
    let values = params![key, cursor(page), rows_max(page.limit.saturating_add(1)), page.superseded];
    let rows = statement.query_map(values, TurnRow::read).map_err(|error| meaning(&error))?;
    let decode = |row: sql::Result<TurnRow>| {
        let row = row.map_err(|error| meaning(&error))?;
        Ok((row.number, row.turn(db, session)?))
    };
    let found = rows.map(decode).collect::<Result<Vec<_>, StoreError>>()?;
    Ok(Some((key, Page::cut(found, page.limit))))
}

pub(super) fn list_sql() -> String {
    format!(
        "SELECT {COLUMNS} FROM turn WHERE session = ?1 AND number > ?2 AND superseded <= ?4 ORDER BY number LIMIT ?3"
    )
}

/// Ends a turn that nobody will end: partial if the model has spoken, else an earlier answer, else failed.
fn abandon(db: &Connection, key: i64, mut turn: Turn, reason: &str) -> Result<(), StoreError> {
    turn.status = if turn.messages.len() > 1 { TurnStatus::Partial } else { TurnStatus::Failed };
    turn.metadata.insert(REASON.into(), reason.into());
    let around = look::around(db, key)?;
    settle(db, around.before.session_key, key, &turn, around, 0)
}

/// Ends turns that have waited for the results of tools for too long.
pub(super) fn give_up_on_tools(db: &Connection, before: i64, turns_max: usize) -> Result<u64, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS}, session.id FROM turn JOIN session ON session.key = turn.session
         JOIN place ON place.turn = turn.key
         WHERE turn.status = 'pending' AND place.open_calls IS NOT NULL AND turn.answered_at < ?1 LIMIT ?2"
    );
    let waiting = with_sessions(db, &sql, params![before, rows_max(turns_max)])?;
    let count = waiting.len() as u64;
    for (session, row) in waiting {
        let key = row.key;
        if let Ok(turn) = row.turn(db, session) {
            abandon(db, key, turn, "the results of the tools never came")?;
        }
    }
    Ok(count)
}

/// Turns with the ids of their sessions.
fn with_sessions(
    db: &Connection,
    sql: &str,
    values: impl sql::Params,
) -> Result<Vec<(SessionId, TurnRow)>, StoreError> {
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let read =
        |row: &sql::Row<'_>| Ok((SessionId::from_uuid(uuid::Uuid::from_bytes(row.get(NEXT)?)), TurnRow::read(row)?));
    let rows = statement.query_map(values, read).map_err(|error| meaning(&error))?;
    rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))
}

/// Looks a turn up by its id alone, within its scope.
pub(super) fn by_id(db: &Connection, scope: &Scope, id: TurnId) -> Result<Option<(SessionId, TurnRow)>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS}, session.id FROM turn JOIN session ON session.key = turn.session
         WHERE turn.id = ?1 AND tenant = ?2 AND user = ?3 LIMIT 1"
    );
    let values = params![id.as_uuid().as_bytes(), scope.tenant().as_str(), scope.user().as_str()];
    Ok(with_sessions(db, &sql, values)?.pop())
}

/// Marks pending turns as failed that nobody will answer, with the reason.
pub(super) fn fail_pending(db: &Connection, which: &str, turns_max: usize) -> Result<u64, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS}, session.id FROM turn JOIN session ON session.key = turn.session
         WHERE {which} LIMIT ?1"
    );
    let rows = with_sessions(db, &sql, [rows_max(turns_max)])?;
    let count = rows.len() as u64;
    for (session, row) in rows {
        let key = row.key;
        match row.turn(db, session) {
            Ok(turn) => abandon(db, key, turn, UNANSWERED)?,
            // A damaged row is left as it is, so that its damage stays visible; only its state moves on.
            Err(_) => drop(execute(db, "UPDATE turn SET status = 'failed' WHERE key = ?1", [key])?),
        }
    }
    Ok(count)
}
