//! What recall keeps of turns, in SQL.
//!
//! **Invariant:** a row is there only while its turn is shown and says what the row was made from. Whoever writes
//! a turn calls [`added`] or [`rewritten`]; triggers see to those that are hidden or removed.

use std::collections::HashMap;

use uuid::Uuid;

use super::archive::Opened;
use super::changes;
use super::connect::meaning;
use super::row::{COLUMNS, NEXT, TurnRow};
use super::session::{rows_max, send};
use super::sql::{self, Connection, OptionalExtension, Row, ToSql, params};
use super::topic;
use crate::id::{SessionId, TurnId};
use crate::scope::Scope;
use crate::session::{Turn, TurnStatus};
use crate::store::recall::Stamp;
use crate::store::{DerivedRow, DueTurn, RecallCursor, RecallEntry, RecallKept, RecallPage, StoreError, Todo};

/// Most bytes in one answer; what is beyond comes with the next one.
const ANSWER_BYTES_MAX: usize = 32 << 20;

/// Most turns of a list that are read at once.
pub(super) const DUE_AT_ONCE: usize = 256;

/// Which turns may be recalled: as `Turn::enters_context`, and not superseded.
pub(super) const SHOWN: &str = "(turn.status IN ('complete', 'partial')
     OR (turn.status = 'pending' AND turn.answered_at IS NOT NULL)) AND turn.superseded = 0";

/// A new turn, which is never superseded, has no row yet.
pub(super) fn added(db: &Connection, session_key: i64, key: i64, turn: &Turn) -> Result<(), StoreError> {
    if !turn.enters_context() {
        return Ok(());
    }
    put_on_list(db, Todo::Row, key)?;
    changes::note(db, session_key, turn.id)
}

/// What a turn's row was like before it is rewritten.
pub(super) struct Before {
    pub(super) session_key: i64,
    pub(super) shown: bool,
    pub(super) superseded: bool,
    /// Where its text was.
    pub(super) block: Option<i64>,
}

impl Before {
    /// Reads session, superseded, block and whether it is shown.
    pub(super) fn read(row: &Row<'_>) -> sql::Result<Self> {
        Ok(Self { session_key: row.get(0)?, superseded: row.get(1)?, block: row.get(2)?, shown: row.get(3)? })
    }

    /// The same from a row that was read as a whole.
    pub(super) fn of(row: &TurnRow, session_key: i64) -> Self {
        let counts = match TurnStatus::parse(&row.status) {
            Some(TurnStatus::Pending) => row.answered_at.is_some(),
            status => status.is_some_and(TurnStatus::enters_context),
        };
        Self { session_key, shown: counts && !row.superseded, superseded: row.superseded, block: row.block }
    }
}

/// What a turn says has changed: what was derived from it goes, and is to be made anew.
pub(super) fn rewritten(db: &Connection, key: i64, before: &Before, turn: &Turn) -> Result<(), StoreError> {
    let shown = !before.superseded && turn.enters_context();
    if before.shown {
        for table in ["recall_row", "recall_vector", "recall_row_todo", "recall_vector_todo"] {
            send(db, &format!("DELETE FROM {table} WHERE turn = ?1"), [key])?;
        }
    }
    if shown {
        put_on_list(db, Todo::Row, key)?;
    }
    match shown || before.shown {
        true => changes::note(db, before.session_key, turn.id),
        false => Ok(()),
    }
}

/// A turn that waits for its tools was hidden or shown again: triggers see to those that are over.
pub(super) fn shifted_while_pending(db: &Connection, session_key: i64, number: u64) -> Result<(), StoreError> {
    let sql = "SELECT key, id, superseded FROM turn
               WHERE session = ?1 AND number = ?2 AND status = 'pending' AND answered_at IS NOT NULL";
    let read = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, [u8; 16]>(1)?, row.get::<_, bool>(2)?));
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let found = statement.query_row(params![session_key, number], read).optional().map_err(|error| meaning(&error))?;
    let Some((key, id, superseded)) = found else { return Ok(()) };
    if !superseded {
        put_on_list(db, Todo::Row, key)?;
        topic::put_on_list(db, key)?;
    }
    changes::note(db, session_key, TurnId::from_uuid(Uuid::from_bytes(id)))
}

fn put_on_list(db: &Connection, what: Todo, key: i64) -> Result<(), StoreError> {
    let sql = match what {
        Todo::Row => "INSERT INTO recall_row_todo (turn) VALUES (?1) ON CONFLICT DO NOTHING",
        Todo::Vector => "INSERT INTO recall_vector_todo (turn) VALUES (?1) ON CONFLICT DO NOTHING",
    };
    send(db, sql, [key])
}

/// What is kept of a turn, in the order of [`Found::read`].
const KEPT: &str =
    "turn.key, turn.session, turn.number, session.id, recall_row.id, recall_row.row, recall_vector.vectors";

/// Where that is found; `?1` is the embedder.
const BESIDE: &str = "
    LEFT JOIN recall_row ON recall_row.turn = turn.key
        AND NOT EXISTS (SELECT 1 FROM recall_row_todo AS due WHERE due.turn = turn.key)
    LEFT JOIN recall_vector ON recall_vector.turn = recall_row.turn
        AND recall_vector.embedder = (SELECT key FROM recall_embedder WHERE id = ?1)";

/// The rest of the session that the last page ended in.
pub(super) fn rest_of_session_sql() -> String {
    format!(
        "SELECT {KEPT} FROM session CROSS JOIN turn ON turn.session = session.key {BESIDE}
         WHERE session.key = ?4 AND tenant = ?2 AND user = ?3 AND turn.number > ?5 ORDER BY turn.number LIMIT ?6"
    )
}

/// The sessions after it.
pub(super) fn later_sessions_sql() -> String {
    format!(
        "SELECT {KEPT} FROM session CROSS JOIN turn ON turn.session = session.key {BESIDE}
         WHERE tenant = ?2 AND user = ?3 AND session.key > ?4 ORDER BY session.key, turn.number LIMIT ?5"
    )
}

/// One turn.
pub(super) fn entry_sql() -> String {
    format!(
        "SELECT {KEPT} FROM turn CROSS JOIN session ON session.key = turn.session {BESIDE}
         WHERE turn.id = ?4 AND tenant = ?2 AND user = ?3 AND {SHOWN} LIMIT 1"
    )
}

/// A turn, and what is derived from it, if it is fresh.
struct Found {
    key: i64,
    cursor: RecallCursor,
    session: SessionId,
    row: Option<(TurnId, RecallKept)>,
}

impl Found {
    fn read(row: &Row<'_>) -> sql::Result<Self> {
        let derived = match row.get::<_, Option<[u8; 16]>>(4)? {
            Some(id) => {
                let kept = RecallKept::Row { row: row.get(5)?, vectors: row.get(6)? };
                Some((TurnId::from_uuid(Uuid::from_bytes(id)), kept))
            }
            None => None,
        };
        Ok(Self {
            key: row.get(0)?,
            cursor: RecallCursor { session: row.get(1)?, number: row.get(2)? },
            session: SessionId::from_uuid(Uuid::from_bytes(row.get(3)?)),
            row: derived,
        })
    }

    /// The entry; `None` when the turn may not be recalled, an error when it is damaged.
    fn entry(self, db: &Connection) -> Result<Option<RecallEntry>, StoreError> {
        let (session, number, order) = (self.session, self.cursor.number, self.key);
        if let Some((turn, kept)) = self.row {
            return Ok(Some(RecallEntry { turn, session, number, order, kept }));
        }
        let turn = shown_turn(db, self.key)?.map(|row| row.said(db, session)).transpose()?;
        Ok(turn.map(|turn| RecallEntry {
            turn: turn.id,
            session,
            number,
            order,
            kept: RecallKept::Turn(Box::new(turn)),
        }))
    }
}

/// A turn that may be recalled, by its key.
fn shown_turn(db: &Connection, key: i64) -> Result<Option<TurnRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM turn WHERE key = ?1 AND {SHOWN}");
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    statement.query_row([key], TurnRow::read).optional().map_err(|error| meaning(&error))
}

/// A page of a scope's entries.
pub(super) fn entries(
    db: &Connection,
    scope: &Scope,
    embedder: &str,
    after: Option<RecallCursor>,
    limit: usize,
) -> Result<RecallPage, StoreError> {
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let mut answer = Answer::new(limit.max(1));
    if let Some(RecallCursor { session, number }) = after {
        let values = params![embedder, tenant, user, session, number, rows_max(answer.rows_left)];
        answer.gather(db, &rest_of_session_sql(), values)?;
    }
    if !answer.is_full() {
        let session = after.map_or(0, |after| after.session);
        let values = params![embedder, tenant, user, session, rows_max(answer.rows_left)];
        answer.gather(db, &later_sessions_sql(), values)?;
    }
    Ok(answer.page)
}

/// A page that is being filled.
struct Answer {
    page: RecallPage,
    rows_left: usize,
    bytes_left: usize,
}

impl Answer {
    fn new(rows_left: usize) -> Self {
        Self { page: RecallPage::default(), rows_left, bytes_left: ANSWER_BYTES_MAX }
    }

    fn is_full(&self) -> bool {
        self.rows_left == 0 || self.bytes_left == 0
    }

    fn gather(&mut self, db: &Connection, sql: &str, values: impl sql::Params) -> Result<(), StoreError> {
        let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
        let mut rows = statement.query(values).map_err(|error| meaning(&error))?;
        while !self.is_full() {
            let Some(row) = rows.next().map_err(|error| meaning(&error))? else { return Ok(()) };
            let found = Found::read(row).map_err(|error| meaning(&error))?;
            self.rows_left -= 1;
            let cursor = found.cursor;
            match found.entry(db) {
                Ok(entry) => self.page.entries.extend(entry.inspect(|entry| {
                    self.bytes_left = self.bytes_left.saturating_sub(bytes_of(&entry.kept));
                })),
                Err(error) if error.hides_one_turn() => self.page.damaged += 1,
                Err(error) => return Err(error),
            }
            self.page.next = self.is_full().then_some(cursor);
        }
        Ok(())
    }
}

fn bytes_of(kept: &RecallKept) -> usize {
    match kept {
        RecallKept::Row { row, vectors } => row.len() + vectors.as_ref().map_or(0, Vec::len),
        RecallKept::Turn(turn) => bytes_of_turn(turn),
    }
}

fn bytes_of_turn(turn: &Turn) -> usize {
    turn.messages.iter().map(|message| message.text.len()).sum()
}

/// What became of turns: those that may be recalled, and the others.
pub(super) fn touched(
    db: &Connection,
    scope: &Scope,
    embedder: &str,
    ids: &[TurnId],
) -> Result<(Vec<RecallEntry>, Vec<TurnId>), StoreError> {
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let mut statement = db.prepare_cached(&entry_sql()).map_err(|error| meaning(&error))?;
    let (mut entries, mut gone) = (Vec::with_capacity(ids.len()), Vec::new());
    for id in ids {
        let values = params![embedder, tenant, user, id.as_uuid().as_bytes()];
        let found = statement.query_row(values, Found::read).optional().map_err(|error| meaning(&error))?;
        match found.map(|found| found.entry(db)).transpose() {
            Ok(Some(Some(entry))) => entries.push(entry),
            Err(error) if !error.hides_one_turn() => return Err(error),
            Ok(_) | Err(_) => gone.push(*id),
        }
    }
    Ok((entries, gone))
}

/// Turns that are looked up by one statement: a database elsewhere is asked as seldom as can be.
pub(super) const LOOKED_UP_AT_ONCE: usize = 8;

/// What stands for the ids of so many turns, after a tenant and a user.
pub(super) fn ids_looked_up() -> String {
    let ids: Vec<String> = (3..3 + LOOKED_UP_AT_ONCE).map(|at| format!("?{at}")).collect();
    ids.join(", ")
}

/// The values of a statement that looks up some turns of a user. Too few are filled up with the last.
pub(super) fn looked_up<'a>(tenant: &'a &str, user: &'a &str, some: &'a [TurnId]) -> Vec<&'a dyn ToSql> {
    let id = |at: usize| some[at.min(some.len() - 1)].as_uuid().as_bytes() as &dyn ToSql;
    [tenant as &dyn ToSql, user].into_iter().chain((0..LOOKED_UP_AT_ONCE).map(id)).collect()
}

/// Some turns of a user by their ids.
pub(super) fn turns_by_id_sql() -> String {
    format!(
        "SELECT {COLUMNS}, session.id FROM turn CROSS JOIN session ON session.key = turn.session
         WHERE turn.id IN ({}) AND tenant = ?1 AND user = ?2 AND {SHOWN}",
        ids_looked_up()
    )
}

/// Several turns, in the order asked for; what may not be shown is left out.
pub(super) fn turns_by_id(db: &Connection, scope: &Scope, ids: &[TurnId]) -> Result<Vec<Turn>, StoreError> {
    let mut found: HashMap<TurnId, Turn> = HashMap::with_capacity(ids.len());
    let mut statement = db.prepare_cached(&turns_by_id_sql()).map_err(|error| meaning(&error))?;
    for some in ids.chunks(LOOKED_UP_AT_ONCE) {
        let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
        let mut rows = statement.query(looked_up(&tenant, &user, some).as_slice()).map_err(|error| meaning(&error))?;
        // A block may have changed when the next are looked up.
        let mut opened = Opened::default();
        while let Some(row) = rows.next().map_err(|error| meaning(&error))? {
            let read =
                |row: &Row<'_>| Ok((SessionId::from_uuid(Uuid::from_bytes(row.get(NEXT)?)), TurnRow::read(row)?));
            let (session, mut row) = read(row).map_err(|error: sql::Error| meaning(&error))?;
            let fetched = opened.fetch(db, &mut row);
            found.extend(fetched.ok().and_then(|()| row.said(db, session).ok()).map(|turn| (turn.id, turn)));
        }
    }
    Ok(ids.iter().filter_map(|id| found.get(id).cloned()).collect())
}

/// Where turns wait for this.
pub(super) fn list(what: Todo) -> &'static str {
    match what {
        Todo::Row => "recall_row_todo",
        Todo::Vector => "recall_vector_todo",
    }
}

pub(super) fn todo_sql(what: Todo) -> String {
    due_sql(list(what))
}

/// The turns on a list, in the order of [`read_due`].
pub(super) fn due_sql(list: &str) -> String {
    format!(
        "SELECT {COLUMNS}, session.id, tenant, user FROM {list} AS due
         CROSS JOIN turn ON turn.key = due.turn CROSS JOIN session ON session.key = turn.session
         WHERE due.turn > ?1 AND {SHOWN} ORDER BY due.turn LIMIT ?2"
    )
}

/// The oldest turns on a list. Damaged ones are passed over, and stay on it.
pub(super) fn todo(db: &Connection, what: Todo, limit: usize) -> Result<Vec<DueTurn>, StoreError> {
    due(db, &todo_sql(what), limit)
}

/// The first turns of a list.
pub(super) fn due(db: &Connection, sql: &str, limit: usize) -> Result<Vec<DueTurn>, StoreError> {
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let (mut due, mut bytes, mut after) = (Vec::new(), 0, 0_i64);
    // Nearly always one round: only damaged turns take a place without being due.
    while due.len() < limit && bytes < ANSWER_BYTES_MAX {
        let rounds = rows_max(limit.min(DUE_AT_ONCE));
        let mut rows = statement.query(params![after, rounds]).map_err(|error| meaning(&error))?;
        let mut seen = 0;
        while due.len() < limit && bytes < ANSWER_BYTES_MAX {
            let Some(row) = rows.next().map_err(|error| meaning(&error))? else { break };
            seen += 1;
            let (key, turn) = read_due(db, row).map_err(|error| meaning(&error))?;
            after = key;
            if let Ok(turn) = turn {
                bytes += bytes_of_turn(&turn.turn);
                due.push(turn);
            }
        }
        if seen < rounds {
            break;
        }
    }
    Ok(due)
}

fn read_due(db: &Connection, row: &Row<'_>) -> sql::Result<(i64, Result<DueTurn, StoreError>)> {
    let session = SessionId::from_uuid(Uuid::from_bytes(row.get(NEXT)?));
    let scope = Scope::as_stored(row.get_ref(NEXT + 1)?.as_str()?, row.get_ref(NEXT + 2)?.as_str()?);
    let turn = TurnRow::read(row)?;
    let (key, stamp) = (turn.key, Stamp(turn.checksum));
    Ok((key, turn.turn(db, session).map(|turn| DueTurn { scope, turn, stamp })))
}

/// Writes what was derived from turns that have not changed since.
pub(super) fn keep(db: &Connection, rows: &[DerivedRow]) -> Result<(), StoreError> {
    for derived in rows {
        if let Some(found) = unchanged(db, derived)? {
            let is_new = !found.had_row && derived.row.is_some();
            let has_vectors = keep_one(db, derived, found)?;
            // Whoever holds a new turn has derived both from the turn itself.
            if has_vectors && !is_new {
                changes::note_of(db, &derived.scope, derived.turn)?;
            }
        }
    }
    Ok(())
}

/// A turn that something was derived from, and what there was of that before.
struct Derivable {
    key: i64,
    had_row: bool,
    had_vectors: bool,
}

/// What there is of the turn, if it is still as it was and may be recalled.
fn unchanged(db: &Connection, derived: &DerivedRow) -> Result<Option<Derivable>, StoreError> {
    let sql = format!(
        "SELECT turn.key, EXISTS (SELECT 1 FROM recall_row WHERE recall_row.turn = turn.key),
             EXISTS (SELECT 1 FROM recall_vector WHERE recall_vector.turn = turn.key)
         FROM turn CROSS JOIN session ON session.key = turn.session
         WHERE turn.id = ?1 AND tenant = ?2 AND user = ?3 AND turn.checksum = ?4 AND {SHOWN} LIMIT 1"
    );
    let (tenant, user) = (derived.scope.tenant().as_str(), derived.scope.user().as_str());
    let values = params![derived.turn.as_uuid().as_bytes(), tenant, user, derived.stamp.0];
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    let read = |row: &Row<'_>| Ok(Derivable { key: row.get(0)?, had_row: row.get(1)?, had_vectors: row.get(2)? });
    statement.query_row(values, read).optional().map_err(|error| meaning(&error))
}

/// Answers whether there are vectors to be seen that may not have been before.
fn keep_one(db: &Connection, derived: &DerivedRow, before: Derivable) -> Result<bool, StoreError> {
    let Derivable { key, had_vectors, .. } = before;
    if let Some(row) = &derived.row {
        let sql = "INSERT INTO recall_row (turn, id, row) VALUES (?1, ?2, ?3)
                   ON CONFLICT (turn) DO UPDATE SET row = excluded.row";
        send(db, sql, params![key, derived.turn.as_uuid().as_bytes(), row])?;
        send(db, "DELETE FROM recall_row_todo WHERE turn = ?1", [key])?;
    }
    if let Some((embedder, vectors)) = &derived.vectors {
        let sql = "INSERT INTO recall_vector (turn, embedder, vectors) VALUES (?1, ?2, ?3)
                   ON CONFLICT (turn) DO UPDATE SET embedder = excluded.embedder, vectors = excluded.vectors";
        send(db, sql, params![key, embedder_key(db, embedder)?, vectors])?;
    }
    if derived.vectors.is_some() || derived.row.is_none() {
        send(db, "DELETE FROM recall_vector_todo WHERE turn = ?1", [key])?;
    }
    let has_vectors = had_vectors || derived.vectors.is_some();
    match derived.then {
        // Made once, they stay good for as long as the turn says the same.
        Some(Todo::Vector) if has_vectors => {}
        Some(what) => put_on_list(db, what, key)?,
        None => {}
    }
    Ok(has_vectors)
}

fn embedder_key(db: &Connection, id: &str) -> Result<i64, StoreError> {
    send(db, "INSERT INTO recall_embedder (id) VALUES (?1) ON CONFLICT DO NOTHING", [id])?;
    let sql = "SELECT key FROM recall_embedder WHERE id = ?1";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    statement.query_row([id], |row| row.get(0)).map_err(|error| meaning(&error))
}

/// Puts every turn that has a row on a list; the others are on the first one anyway.
pub(super) fn again(db: &Connection, what: Todo) -> Result<u64, StoreError> {
    let list = list(what);
    let all = format!(
        "INSERT INTO {list} (turn) SELECT turn FROM recall_row WHERE true ORDER BY turn ON CONFLICT DO NOTHING"
    );
    send(db, &all, [])?;
    if what == Todo::Row {
        // Their rows count as missing now, everywhere.
        changes::note_everything(db)?;
    }
    let count = format!("SELECT count(*) FROM {list} AS due CROSS JOIN turn ON turn.key = due.turn");
    db.query_row(&count, [], |row| row.get(0)).map_err(|error| meaning(&error))
}
