//! Whether what is kept fits together: checksums of turns, revisions, blocks and files, and rows against the rows they belong to.
//!
//! Everything is read in pages, so that it takes the same memory whatever there is. A part that cannot be read is a problem like any
//! other, and the next part is looked at.

use xxhash_rust::xxh3::xxh3_64;

use super::archive::{NoText, Opened};
use super::connect::meaning;
use super::recall::SHOWN;
use super::revision;
use super::row::{COLUMNS, NEXT, TurnRow};
use super::sql::{Connection, OptionalExtension, Row, params};
use crate::id::{SessionId, TurnId};
use crate::store::archive::unpack;
use crate::store::{Findings, StoreError};

/// Rows that are read at once.
const PAGE: i64 = 500;

/// Rows that belong to others which are not there, or do not say what those do: a sentence about each, and how they are counted.
const STRAYS: [(&str, &str); 17] = [
    (
        "turns of a conversation that is gone",
        "FROM turn WHERE NOT EXISTS (SELECT 1 FROM session WHERE session.key = turn.session)",
    ),
    (
        "turns without a place in their conversation",
        "FROM turn WHERE NOT EXISTS (SELECT 1 FROM place WHERE place.turn = turn.key)",
    ),
    ("places of turns that are gone", "FROM place WHERE NOT EXISTS (SELECT 1 FROM turn WHERE turn.key = place.turn)"),
    (
        "revisions of turns that are gone",
        "FROM revision WHERE NOT EXISTS (SELECT 1 FROM turn WHERE turn.key = revision.turn)",
    ),
    (
        "blocks that do not have the turns they should",
        "FROM block WHERE block.turns <> (SELECT count(*) FROM turn WHERE turn.session = block.session AND turn.block = block.key)",
    ),
    (
        "conversations that count their turns wrongly",
        "FROM session WHERE session.turns <> (SELECT count(*) FROM turn WHERE turn.session = session.key)",
    ),
    (
        "conversations whose next number is taken",
        "FROM session WHERE EXISTS (SELECT 1 FROM turn WHERE turn.session = session.key AND turn.number >= session.next_number)",
    ),
    (
        "rows for recall of turns that are gone",
        "FROM recall_row WHERE NOT EXISTS (SELECT 1 FROM turn WHERE turn.key = recall_row.turn)",
    ),
    (
        "rows for recall that are another turn's",
        "FROM recall_row JOIN turn ON turn.key = recall_row.turn WHERE turn.id <> recall_row.id",
    ),
    (
        "vectors of turns that are gone",
        "FROM recall_vector WHERE NOT EXISTS (SELECT 1 FROM turn WHERE turn.key = recall_vector.turn)",
    ),
    (
        "turns in topics that are gone",
        "FROM topic_turn WHERE NOT EXISTS (SELECT 1 FROM topic WHERE topic.key = topic_turn.topic)",
    ),
    (
        "turns in topics that are gone themselves",
        "FROM topic_turn WHERE NOT EXISTS (SELECT 1 FROM turn WHERE turn.key = topic_turn.turn)",
    ),
    (
        "events of facts that are gone",
        "FROM fact_event WHERE NOT EXISTS (SELECT 1 FROM fact WHERE fact.key = fact_event.fact)",
    ),
    // A turn that is answered again stays in its topic meanwhile.
    (
        "turns in topics that are not shown",
        "FROM topic_turn JOIN turn ON turn.key = topic_turn.turn WHERE turn.superseded = 1 OR turn.status = 'failed'",
    ),
    (
        "statements for facts that are gone",
        "FROM fact_statement WHERE fact_statement.fact IS NOT NULL
         AND NOT EXISTS (SELECT 1 FROM fact WHERE fact.key = fact_statement.fact)",
    ),
    (
        "passages of documents that are gone",
        "FROM passage WHERE NOT EXISTS (SELECT 1 FROM document WHERE document.key = passage.document)",
    ),
    (
        "documents without their file",
        "FROM document WHERE NOT EXISTS (SELECT 1 FROM original WHERE original.document = document.key)",
    ),
];

/// Lists of what there is to do, each of turns.
const LISTS: [&str; 4] = ["recall_row_todo", "recall_vector_todo", "topic_todo", "fact_todo"];

/// A look at one kind of thing.
type Look = fn(&Connection, &mut Findings) -> Result<(), StoreError>;

/// Looks through everything in sight.
pub(super) fn examine(db: &Connection, found: &mut Findings) {
    let looks: [(&str, Look); 5] = [
        ("turns", turns),
        ("revisions", revisions),
        ("blocks", blocks),
        ("documents", documents),
        ("what belongs together", strays),
    ];
    for (what, look) in looks {
        if let Err(error) = look(db, found) {
            found.problem(format!("{what} cannot be read: {error}"));
        }
    }
}

/// Every turn's text and dates against its checksum, through its block if that is where the text is.
fn turns(db: &Connection, found: &mut Findings) -> Result<(), StoreError> {
    let sql = format!(
        "SELECT {COLUMNS}, session.id FROM turn JOIN session ON session.key = turn.session
         WHERE turn.key > ?1 ORDER BY turn.key LIMIT ?2"
    );
    let mut opened = Opened::default();
    let mut after = i64::MIN;
    loop {
        let page = read_page(db, &sql, after, |row| {
            let session: [u8; 16] = row.get(NEXT)?;
            Ok((TurnRow::read(row)?, SessionId::from_uuid(uuid::Uuid::from_bytes(session))))
        })?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = last.key;
        found.looked("turns", page.len() as u64);
        for (row, session) in page {
            if let Err(what) = is_whole(db, row, session, &mut opened) {
                found.problem(what);
            }
        }
    }
}

fn read_page<T>(
    db: &Connection,
    sql: &str,
    after: i64,
    read: impl FnMut(&Row<'_>) -> super::sql::Result<T>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let rows = statement.query_map(params![after, PAGE], read).map_err(|error| meaning(&error))?;
    rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))
}

fn is_whole(db: &Connection, mut row: TurnRow, session: SessionId, opened: &mut Opened) -> Result<(), String> {
    let number = row.number;
    let wrong = |why: NoText| match why {
        NoText::Damaged(what) => format!("turn {number} of conversation `{session}` is damaged: {what}"),
        NoText::Unreadable(what) => format!("turn {number} of conversation `{session}` cannot be examined: {what}"),
    };
    opened.fetch(db, &mut row).map_err(wrong)?;
    // Decoding finds what a checksum cannot: that what was written is no turn.
    row.turn(db, session).map(drop).map_err(|error| error.to_string())
}

fn revisions(db: &Connection, found: &mut Findings) -> Result<(), StoreError> {
    let sql = "SELECT turn.key, turn.id FROM turn WHERE turn.key > ?1
               AND EXISTS (SELECT 1 FROM revision WHERE revision.turn = turn.key) ORDER BY turn.key LIMIT ?2";
    let mut after = i64::MIN;
    loop {
        let page = read_page(db, sql, after, |row| Ok((row.get::<_, i64>(0)?, row.get::<_, [u8; 16]>(1)?)))?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = *last;
        for (key, id) in page {
            let revisions = revision::with_ids(db, key, TurnId::from_uuid(uuid::Uuid::from_bytes(id)))?;
            found.looked("revisions", revisions.len() as u64);
            for error in revisions.into_iter().filter_map(Result::err) {
                found.problem(error.to_string());
            }
        }
    }
}

/// Blocks by themselves: one that no turn points to is damage as well.
fn blocks(db: &Connection, found: &mut Findings) -> Result<(), StoreError> {
    let sql = "SELECT key, bytes FROM block WHERE key > ?1 ORDER BY key LIMIT ?2";
    let mut after = i64::MIN;
    loop {
        let page = read_page(db, sql, after, |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?)))?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = *last;
        found.looked("blocks", page.len() as u64);
        for (key, bytes) in page {
            if let Err(error) = unpack(&bytes) {
                found.problem(format!("block {key} is damaged: {error}"));
            }
        }
    }
}

/// Files against their checksums, one at a time: they may be large.
fn documents(db: &Connection, found: &mut Findings) -> Result<(), StoreError> {
    let sql = "SELECT key, name, checksum FROM document WHERE key > ?1 ORDER BY key LIMIT ?2";
    let mut after = i64::MIN;
    loop {
        let read = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, i64>(2)?));
        let page = read_page(db, sql, after, read)?;
        let Some((last, ..)) = page.last() else { return Ok(()) };
        after = *last;
        found.looked("documents", page.len() as u64);
        for (key, name, checksum) in page {
            let sql = "SELECT bytes FROM original WHERE document = ?1";
            let bytes: Option<Vec<u8>> =
                db.query_row(sql, [key], |row| row.get(0)).optional().map_err(|error| meaning(&error))?;
            if bytes.is_some_and(|bytes| xxh3_64(&bytes) as i64 != checksum) {
                found.problem(format!("document `{name}` is damaged: its file does not match its checksum"));
            }
        }
    }
}

fn strays(db: &Connection, found: &mut Findings) -> Result<(), StoreError> {
    for (what, rest) in STRAYS {
        stray(db, found, what, rest)?;
    }
    // What recall derives of a turn is there while the turn is shown, or is to be made.
    let hidden = format!("FROM recall_row JOIN turn ON turn.key = recall_row.turn WHERE NOT ({SHOWN})");
    stray(db, found, "rows for recall of turns that are not shown", &hidden)?;
    let missing = format!(
        "FROM turn WHERE {SHOWN} AND NOT EXISTS (SELECT 1 FROM recall_row WHERE recall_row.turn = turn.key)
         AND NOT EXISTS (SELECT 1 FROM recall_row_todo AS due WHERE due.turn = turn.key)"
    );
    stray(db, found, "turns that recall neither knows nor is to learn", &missing)?;
    for list in LISTS {
        let gone = format!("FROM {list} WHERE NOT EXISTS (SELECT 1 FROM turn WHERE turn.key = {list}.turn)");
        stray(db, found, &format!("entries in `{list}` of turns that are gone"), &gone)?;
    }
    Ok(())
}

fn stray(db: &Connection, found: &mut Findings, what: &str, rest: &str) -> Result<(), StoreError> {
    let count: i64 =
        db.query_row(&format!("SELECT count(*) {rest}"), [], |row| row.get(0)).map_err(|error| meaning(&error))?;
    if count > 0 {
        found.problem(format!("{count} {what}"));
    }
    Ok(())
}
