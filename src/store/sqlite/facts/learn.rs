//! Statements come and go.

use std::collections::{BTreeSet, HashMap};

use jiff::Timestamp;
use uuid::Uuid;

use super::super::connect::meaning;
use super::super::recall::SHOWN;
use super::super::session::{execute, send};
use super::super::sql::{Connection, OptionalExtension, Row, params};
use super::erase::is_kept_out;
use super::row::{Family, all, bytes};
use super::settle::{Because, settle};
use crate::fact::{Act, Change, Maker, Statement};
use crate::id::{FactId, MessageId, SessionId, TurnId};
use crate::scope::Scope;
use crate::store::{Cause, FACTS_MAX, Learned, Noted, StoreError, Understood};

/// Why something is not learned when a user has too many facts.
const TOO_MANY: &str = "too_many";

/// Takes what was understood of turns. Facts follow when all of it is there: what is only said elsewhere from now on
/// has not been gone in between.
pub(super) fn learn(db: &Connection, understood: &[Understood], now: Timestamp) -> Result<Learned, StoreError> {
    let mut learned = Learned::default();
    let mut about: HashMap<&Scope, BTreeSet<Family>> = HashMap::new();
    let mut read = Vec::new();
    for one in understood {
        let Some(turn) = found(db, one)? else { continue };
        let (families, full) = replace(db, one, turn.shown)?;
        about.entry(&one.scope).or_default().extend(families);
        note_refused(db, one, turn.key, full)?;
        read.push((one, turn.key));
    }
    for (scope, families) in about {
        let changes = settle(db, scope, &families, Because::of(Cause::Conversation, now))?;
        learned.changes.extend(changes.into_iter().map(|change| (scope.clone(), change)));
    }
    for (one, turn) in read {
        done(db, one, turn, &mut learned)?;
    }
    Ok(learned)
}

/// A turn leaves the list, unless there is something to forget first: whoever fails to finds it there again.
fn done(db: &Connection, one: &Understood, turn: i64, learned: &mut Learned) -> Result<(), StoreError> {
    let mut forgets = Vec::new();
    for message in &one.forgets {
        forgets.extend(ended_by(db, &one.scope, *message)?);
    }
    if !forgets.is_empty() {
        learned.forgets.extend(forgets.into_iter().map(|fact| (one.scope.clone(), fact)));
        return Ok(());
    }
    if one.maker == Maker::Builtin {
        send(db, "DELETE FROM fact_todo WHERE turn = ?1", [turn])?;
    }
    learned.turns.push(one.scope.clone());
    Ok(())
}

/// Facts that a message took back.
fn ended_by(db: &Connection, scope: &Scope, message: MessageId) -> Result<Vec<FactId>, StoreError> {
    let sql = "SELECT id FROM fact WHERE tenant = ?1 AND user = ?2 AND status = 'retracted' AND ended_by = ?3";
    let values = params![scope.tenant().as_str(), scope.user().as_str(), message.as_uuid().as_bytes()];
    all(db, sql, values, |row| Ok(FactId::from_uuid(Uuid::from_bytes(row.get(0)?))))
}

/// Takes what a memory model noted in a session, if the session is as far as it was. Answers whether it is.
pub(in super::super) fn note(
    db: &Connection,
    session_key: i64,
    noted: &Noted,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let sql = "UPDATE session SET understood = ?3 WHERE key = ?1 AND understood = ?2";
    if execute(db, sql, params![session_key, noted.from, noted.to])? == 0 {
        return Ok(false);
    }
    learn(db, &noted.understood, now).map(|_| true)
}

struct Found {
    key: i64,
    shown: bool,
}

/// The turn, if it still says what was understood.
fn found(db: &Connection, one: &Understood) -> Result<Option<Found>, StoreError> {
    let sql = format!(
        "SELECT turn.key, {SHOWN} FROM turn CROSS JOIN session ON session.key = turn.session
         WHERE turn.id = ?1 AND tenant = ?2 AND user = ?3 AND turn.checksum = ?4 LIMIT 1"
    );
    let (tenant, user) = (one.scope.tenant().as_str(), one.scope.user().as_str());
    let values = params![one.turn.as_uuid().as_bytes(), tenant, user, one.stamp.0];
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    let read = |row: &Row<'_>| Ok(Found { key: row.get(0)?, shown: row.get(1)? });
    statement.query_row(values, read).optional().map_err(|error| meaning(&error))
}

/// What is kept of a turn's statements.
struct Known {
    key: i64,
    family: Family,
    maker: String,
    shown: bool,
}

fn known(db: &Connection, scope: &Scope, turn: TurnId) -> Result<HashMap<FactId, Known>, StoreError> {
    let sql = "SELECT id, key, category, name, maker, shown FROM fact_statement
               WHERE tenant = ?1 AND user = ?2 AND message BETWEEN ?3 AND ?4";
    let (first, last) = (turn.message(0), turn.message(u16::MAX - 1));
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let values = params![tenant, user, first.as_uuid().as_bytes(), last.as_uuid().as_bytes()];
    let found = all(db, sql, values, |row| {
        let id = FactId::from_uuid(Uuid::from_bytes(row.get(0)?));
        Ok((id, Known { key: row.get(1)?, family: Family::read(row, 2)?, maker: row.get(4)?, shown: row.get(5)? }))
    })?;
    Ok(found.into_iter().collect())
}

/// Puts what was understood in the place of what was understood before. Answers the names that it is about, and how
/// much was too much.
fn replace(db: &Connection, one: &Understood, shown: bool) -> Result<(BTreeSet<Family>, u64), StoreError> {
    let known = known(db, &one.scope, one.turn)?;
    let mut families = BTreeSet::new();
    for (id, kept) in &known {
        let unsaid = kept.maker == one.maker.as_str() && one.statements.iter().all(|said| said.id != *id);
        let changed = match () {
            () if shown && unsaid => execute(db, "DELETE FROM fact_statement WHERE key = ?1", [kept.key])?,
            () if shown != kept.shown => {
                execute(db, "UPDATE fact_statement SET shown = ?2 WHERE key = ?1", params![kept.key, shown])?
            }
            () => 0,
        };
        if changed > 0 {
            families.insert(kept.family.clone());
        }
    }
    let mut full = 0;
    for said in one.statements.iter().filter(|_| shown) {
        if is_kept_out(db, &one.scope, said)? {
            continue;
        }
        if !known.contains_key(&said.id) && !has_room(db, &one.scope, said)? {
            full += 1;
        } else if keep(db, &one.scope, said)? {
            families.insert(Family::of(&said.key));
        }
    }
    Ok((families, full))
}

/// Whether a user may have a fact about this: what is known already may always be said again or ended.
pub(super) fn has_room(db: &Connection, scope: &Scope, said: &Statement) -> Result<bool, StoreError> {
    let (tenant, user) = (scope.tenant().as_str(), scope.user().as_str());
    let sql = "SELECT EXISTS (SELECT 1 FROM fact_statement
                       WHERE tenant = ?1 AND user = ?2 AND category = ?3 AND name = ?4 AND path = ?6)
               OR (SELECT count(*) FROM fact WHERE tenant = ?1 AND user = ?2
                   AND status IN ('active', 'provisional', 'quarantined')) < ?5";
    if said.act == Act::End {
        return Ok(true);
    }
    let values = params![tenant, user, said.key.category.as_str(), said.key.name, FACTS_MAX as i64, said.key.path()];
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    statement.query_row(values, |row| row.get(0)).map_err(|error| meaning(&error))
}

/// When it was learned stays as it was first.
const KEEP: &str = "
    INSERT INTO fact_statement (tenant, user, id, category, name, path, act, value, confidence, importance, from_at, until_at,
                                message, session, said_at, quote, maker, standing, learned_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)
    ON CONFLICT (tenant, user, id) DO UPDATE SET
        value = excluded.value, confidence = excluded.confidence, importance = excluded.importance,
        from_at = excluded.from_at, until_at = excluded.until_at, standing = excluded.standing
    WHERE fact_statement.value <> excluded.value OR fact_statement.confidence <> excluded.confidence
       OR fact_statement.importance <> excluded.importance OR fact_statement.standing <> excluded.standing
       OR fact_statement.from_at IS DISTINCT FROM excluded.from_at
       OR fact_statement.until_at IS DISTINCT FROM excluded.until_at";

/// Writes a statement. Answers whether it is new, or other than before.
pub(super) fn keep(db: &Connection, scope: &Scope, said: &Statement) -> Result<bool, StoreError> {
    let micros = |time: Option<Timestamp>| time.map(Timestamp::as_microsecond);
    let values = params![
        scope.tenant().as_str(),
        scope.user().as_str(),
        said.id.as_uuid().as_bytes(),
        said.key.category.as_str(),
        said.key.name,
        said.key.path(),
        said.act.as_str(),
        said.value,
        said.confidence,
        said.importance,
        micros(said.from),
        micros(said.until),
        bytes(said.evidence.message.as_ref().map(MessageId::as_uuid)),
        bytes(said.evidence.session.as_ref().map(SessionId::as_uuid)),
        said.evidence.said_at.as_microsecond(),
        said.evidence.quote,
        said.maker.as_str(),
        said.standing.as_str(),
        said.learned_at.as_microsecond(),
    ];
    Ok(execute(db, KEEP, values)? > 0)
}

fn note_refused(db: &Connection, one: &Understood, turn: i64, full: u64) -> Result<(), StoreError> {
    let maker = one.maker.as_str();
    send(db, "DELETE FROM fact_refused WHERE turn = ?1 AND maker = ?2", params![turn, maker])?;
    let sql = "INSERT INTO fact_refused (turn, maker, reason, tenant, user, count) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
               ON CONFLICT (turn, maker, reason) DO UPDATE SET count = fact_refused.count + excluded.count";
    let (tenant, user) = (one.scope.tenant().as_str(), one.scope.user().as_str());
    let full = (TOO_MANY, full);
    for (reason, count) in one.refused.iter().chain([&full]).filter(|(_, count)| *count > 0) {
        send(db, sql, params![turn, maker, reason, tenant, user, *count])?;
    }
    Ok(())
}

/// Adds what a person writes down by hand.
pub(in super::super) fn say(
    db: &Connection,
    scope: &Scope,
    statements: &[Statement],
    now: Timestamp,
) -> Result<Vec<Change>, StoreError> {
    for said in statements {
        if !has_room(db, scope, said)? {
            let refused = format!("the user has {FACTS_MAX} facts already; retract some first");
            return Err(StoreError::Refused(refused));
        }
        keep(db, scope, said)?;
    }
    let families = statements.iter().map(|said| Family::of(&said.key)).collect();
    settle(db, scope, &families, Because::of(Cause::Person, now))
}

/// Where something was said.
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum SaidIn {
    /// In a session, in all its lives.
    Session(SessionId),
    /// In the messages of a turn.
    Turn(TurnId),
}

/// What went with what was said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in super::super) struct Unsaid {
    pub(in super::super) statements: u64,
    pub(in super::super) facts: u64,
}

/// Removes what was said somewhere, and the facts that nothing else says.
pub(in super::super) fn forget(
    db: &Connection,
    scope: &Scope,
    said_in: SaidIn,
    now: Timestamp,
) -> Result<Unsaid, StoreError> {
    let (column, first, last) = match said_in {
        SaidIn::Session(id) => ("session", *id.as_uuid(), *id.as_uuid()),
        SaidIn::Turn(id) => ("message", *id.message(0).as_uuid(), *id.message(u16::MAX - 1).as_uuid()),
    };
    let place = format!("tenant = ?1 AND user = ?2 AND {column} BETWEEN ?3 AND ?4");
    let who = params![scope.tenant().as_str(), scope.user().as_str(), first.as_bytes(), last.as_bytes()];
    let sql = format!("SELECT DISTINCT category, name FROM fact_statement WHERE {place}");
    let families: BTreeSet<Family> = all(db, &sql, who, |row| Family::read(row, 0))?.into_iter().collect();
    let statements = execute(db, &format!("DELETE FROM fact_statement WHERE {place}"), who)? as u64;
    settle(db, scope, &families, Because::of(Cause::Removal, now))?;
    let facts = execute(db, &format!("DELETE FROM fact WHERE {place} AND confirmations = 0"), who)? as u64;
    Ok(Unsaid { statements, facts })
}

/// Puts turns on the list again.
pub(super) fn again(db: &Connection, scope: Option<&Scope>) -> Result<u64, StoreError> {
    let (tenant, user) = scope.map(|scope| (scope.tenant().as_str(), scope.user().as_str())).unzip();
    let sql = format!(
        "INSERT OR IGNORE INTO fact_todo (turn)
         SELECT turn.key FROM session CROSS JOIN turn ON turn.session = session.key
         WHERE (?1 IS NULL OR (tenant = ?1 AND user = ?2)) AND turn.role = 'user' AND {SHOWN} ORDER BY turn.key"
    );
    send(db, &sql, params![tenant, user])?;
    let sql = "UPDATE session SET understood = 0 WHERE ?1 IS NULL OR (tenant = ?1 AND user = ?2)";
    send(db, sql, params![tenant, user])?;
    let count = "SELECT count(*) FROM fact_todo AS due CROSS JOIN turn ON turn.key = due.turn";
    db.query_row(count, [], |row| row.get(0)).map_err(|error| meaning(&error))
}
