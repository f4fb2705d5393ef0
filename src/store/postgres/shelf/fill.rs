//! Making passages ready to be searched.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::super::connect::meaning;
use super::super::episode::floats;
use super::super::session::{rows_max, send};
use super::super::sql::{Connection, Row, params};
use super::centre::Centre;
use super::{DIMENSIONS, HERE, lexeme};
use crate::knowledge::{Passage, terms_of};
use crate::store::StoreError;

/// How many passages stand for all at least, where there are as many; of a large tenant one in so many does.
const SAMPLED_MIN: u64 = 3_000;
const SAMPLED_ONE_IN: u64 = 1_024;

/// Whether a tenant has passages that are to be made ready, or has so few left that none need be.
pub(super) fn is_due(db: &Connection, held_max: usize) -> Result<bool, StoreError> {
    let sql = format!(
        "SELECT (SELECT version FROM knowledge WHERE tenant = current_setting('recalld.tenant'))
             IS DISTINCT FROM (SELECT version FROM knowledge_shelf WHERE {HERE}),
             EXISTS (SELECT 1 FROM knowledge_shelf WHERE {HERE})"
    );
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    let read = |row: &Row<'_>| Ok((row.get::<_, bool>(0)?, row.get::<_, bool>(1)?));
    let (changed, here) = statement.query_row([], read).map_err(|error| meaning(&error))?;
    Ok(changed && (here || is_large(db, held_max)?))
}

fn is_large(db: &Connection, held_max: usize) -> Result<bool, StoreError> {
    let sql = format!("SELECT count(*) FROM (SELECT 1 FROM passage WHERE {HERE} LIMIT ?1) AS few");
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    let passages: usize =
        statement.query_row([rows_max(held_max + 1)], |row| row.get(0)).map_err(|error| meaning(&error))?;
    Ok(passages > held_max)
}

/// Makes some of a tenant's passages ready, if it knows more than is held in memory. Answers how many.
pub(super) fn fill(db: &Connection, held_max: usize, limit: usize) -> Result<u64, StoreError> {
    if !is_large(db, held_max)? {
        send(db, &format!("DELETE FROM knowledge_shelf WHERE {HERE}"), [])?;
        send(db, &format!("DELETE FROM passage_words WHERE {HERE}"), [])?;
        send(db, &format!("DELETE FROM knowledge_centre WHERE {HERE}"), [])?;
        return Ok(0);
    }
    let due = due(db, limit)?;
    let sampled_one_in = (passages(db)? / SAMPLED_MIN).clamp(1, SAMPLED_ONE_IN);
    let mut centres = HashMap::new();
    for due in &due {
        put(db, due, sampled_one_in, &mut centres)?;
    }
    if due.len() < limit {
        let all = format!(
            "INSERT INTO knowledge_shelf (version, passages, words)
             SELECT (SELECT version FROM knowledge WHERE tenant = current_setting('recalld.tenant')),
                 count(*), coalesce(sum(length), 0) FROM passage_words WHERE {HERE}
             ON CONFLICT (home) DO UPDATE SET version = excluded.version, passages = excluded.passages,
                 words = excluded.words"
        );
        send(db, &all, [])?;
    }
    Ok(due.len() as u64)
}

fn passages(db: &Connection) -> Result<u64, StoreError> {
    let sql = format!("SELECT count(*) FROM passage WHERE {HERE}");
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    statement.query_row([], |row| row.get(0)).map_err(|error| meaning(&error))
}

/// A passage that is not ready.
struct Due {
    document: i64,
    number: u64,
    tenant: String,
    /// Title, headings and text, as it is searched.
    searched: String,
    embedder: Option<String>,
    vector: Option<Vec<u8>>,
}

/// Passages without words here, and those whose vector is another one by now.
fn due(db: &Connection, limit: usize) -> Result<Vec<Due>, StoreError> {
    let sql = "SELECT passage.number, passage.heading, passage.place, passage.text, passage.tokens, passage.document,
                      document.title, document.tenant, passage.embedder, passage.vector
               FROM passage JOIN document ON document.key = passage.document
               LEFT JOIN passage_words ON passage_words.document = passage.document
                   AND passage_words.number = passage.number
               LEFT JOIN passage_meaning ON passage_meaning.document = passage.document
                   AND passage_meaning.number = passage.number
               WHERE passage.home = current_setting('recalld.tenant') AND (passage_words.number IS NULL
                   OR (passage.embedder IS NOT NULL AND passage_meaning.embedder IS DISTINCT FROM passage.embedder))
               LIMIT ?1";
    let read = |row: &Row<'_>| {
        let passage = Passage {
            number: row.get(0)?,
            heading: row.get(1)?,
            place: row.get(2)?,
            text: row.get(3)?,
            tokens: row.get(4)?,
        };
        let (number, title) = (u64::from(passage.number), row.get::<_, String>(6)?);
        Ok(Due {
            document: row.get(5)?,
            number,
            tenant: row.get(7)?,
            searched: passage.searched(&title),
            embedder: row.get(8)?,
            vector: row.get(9)?,
        })
    };
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let rows = statement.query_map([rows_max(limit)], read).map_err(|error| meaning(&error))?;
    rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))
}

/// What the vectors of each embedder have in common.
type Centres<'a> = HashMap<&'a str, Centre>;

fn put<'a>(db: &Connection, due: &'a Due, sampled_one_in: u64, centres: &mut Centres<'a>) -> Result<(), StoreError> {
    let terms = terms_of(&due.searched);
    let words: Vec<String> = terms.counts.iter().map(|(term, _)| lexeme(&due.tenant, *term)).collect();
    let counts: Vec<u8> =
        terms.counts.iter().flat_map(|(term, count)| [&term.to_le_bytes()[..], &[*count]].concat()).collect();
    let sql = "INSERT INTO passage_words (document, number, length, words, counts)
               VALUES (?1, ?2, ?3, array_to_tsvector(string_to_array(?4::text, ' ')), ?5)
               ON CONFLICT (document, number) DO NOTHING";
    send(db, sql, params![due.document, due.number, i64::from(terms.length), words.join(" "), counts])?;
    let vector = due.vector.as_deref().map(floats).filter(|vector| DIMENSIONS.contains(&vector.len()));
    let (Some(embedder), Some(vector)) = (&due.embedder, vector) else { return Ok(()) };
    let sql = "INSERT INTO passage_meaning (document, number, embedder, dimensions, sampled, vector)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6::text::halfvec)
               ON CONFLICT (document, number) DO UPDATE SET embedder = excluded.embedder,
                   dimensions = excluded.dimensions, vector = excluded.vector";
    let chance = due.document.unsigned_abs() ^ due.number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let sampled = chance.is_multiple_of(sampled_one_in);
    let centre = match centres.entry(embedder) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(unknown) => unknown.insert(Centre::of(db, embedder)?),
    };
    let vector = centre.taken_from(vector);
    send(db, sql, params![due.document, due.number, embedder, vector.len(), sampled, written(&vector)])
}

/// A vector as pgvector reads it.
pub(super) fn written(vector: &[f32]) -> String {
    let numbers: Vec<String> = vector.iter().map(f32::to_string).collect();
    format!("[{}]", numbers.join(","))
}
