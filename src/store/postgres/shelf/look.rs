//! Finding the passages that may be about a question.
//!
//! By words: those that have the rarest of its words, the most telling of them first. By meaning: the nearest. What is then known of each is
//! exact; only how passages are on the whole is estimated from a sample, and by words alone from how often each word is there.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::super::connect::meaning;
use super::super::sql::{self, Connection, OptionalExtension, Row, params};
use super::fill::written;
use super::{DIMENSIONS, HERE, centre, lexeme};
use crate::id::DocumentId;
use crate::knowledge::{AskedTerm, Measure, Measures, Seen};
use crate::store::{AskedPassages, SeenPassages, SeenPlace, StoreError};

/// How many passages with a word are counted, and how many with one of the question's words are looked at.
const COUNTED_MAX: i64 = 10_000;
/// Most that are looked at exactly, by words and by meaning.
const BY_WORDS: usize = 1_500;
const BY_MEANING: usize = 400;
/// Most passages that stand for all.
const SAMPLED_MAX: usize = 4_000;
/// How much of the graph is looked at: more finds more, and takes longer.
const EF_SEARCH: usize = 1_000;
/// As in memory (`recall/passages/index`).
const SATURATION: f32 = 1.2;
const LENGTH: f32 = 0.75;

/// What a tenant's passages are like.
struct Shelf {
    passages: f32,
    length: f32,
}

/// A word of the question, and how rare it is.
struct Word {
    asked: AskedTerm,
    /// Its stem or itself, as a query.
    query: String,
    idf: f32,
    share: f32,
    count: i64,
}

/// The passages that may be about a question; `None` when the tenant is not searched here.
pub(super) fn look(db: &Connection, tenant: &str, asked: &AskedPassages) -> Result<Option<SeenPassages>, StoreError> {
    let Some(shelf) = shelf(db)? else { return Ok(None) };
    let vector = asked.vector.as_deref();
    if vector.is_some_and(|vector| !DIMENSIONS.contains(&vector.len())) {
        return Ok(None);
    }
    let vector = vector.map(|vector| Meant::of(db, vector, &asked.embedder)).transpose()?;
    let sampled = vector.as_ref().map(|vector| sample(db, vector)).transpose()?.unwrap_or_default();
    let words = words(db, tenant, &asked.terms, &shelf, &sampled)?;
    let mut found = by_words(db, &words)?;
    if let Some(vector) = &vector {
        found.extend(by_meaning(db, vector)?);
    }
    let mut all = SeenPassages { all: measured(&sampled, &words, &shelf), ..SeenPassages::default() };
    for (seen, place) in exactly(db, &found, vector.as_ref(), &words, &shelf)? {
        all.seen.push(seen);
        all.places.push(place);
    }
    Ok(Some(all))
}

/// What the question means.
struct Meant<'a> {
    dimensions: usize,
    words: String,
    by: &'a str,
    /// What a product with a vector that is kept lacks.
    lost: f32,
}

impl<'a> Meant<'a> {
    fn of(db: &Connection, vector: &[f32], by: &'a str) -> Result<Self, StoreError> {
        let (dimensions, words) = (vector.len(), written(vector));
        let lost = centre::lost(db, by, dimensions, &words)?;
        Ok(Self { dimensions, words, by, lost })
    }
}

fn shelf(db: &Connection) -> Result<Option<Shelf>, StoreError> {
    let sql = format!("SELECT passages, words FROM knowledge_shelf WHERE {HERE}");
    let read = |row: &Row<'_>| {
        let (passages, words) = (row.get::<_, u64>(0)?.max(1) as f32, row.get::<_, u64>(1)? as f32);
        Ok(Shelf { passages, length: (words / passages).max(1.0) })
    };
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    statement.query_row([], read).optional().map_err(|error| meaning(&error))
}

/// The words of the question that anybody used, the rarest first.
fn words(
    db: &Connection,
    tenant: &str,
    asked: &[AskedTerm],
    shelf: &Shelf,
    sampled: &[Sampled],
) -> Result<Vec<Word>, StoreError> {
    let query = |term: &AskedTerm| format!("{}|{}", lexeme(tenant, term.stem), lexeme(tenant, term.word));
    let queries: Vec<String> = asked.iter().map(query).collect();
    let sql = "SELECT counted FROM words_counted(?1::text, ?2) AS counted";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let rows = statement.query_map(params![queries.join(" "), COUNTED_MAX], |row| row.get(0));
    let counts: Vec<i64> = rows.and_then(Iterator::collect).map_err(|error| meaning(&error))?;
    let all: f32 = asked.iter().map(|term| term.weight).sum();
    let word = |((asked, query), counted): ((&AskedTerm, String), i64)| {
        // Nobody counts on to the end; some tell how many it will be.
        let count = if counted < COUNTED_MAX { counted } else { counted.max(foreseen(asked, shelf, sampled)) };
        let idf = (1.0 + (shelf.passages - count as f32 + 0.5) / (count as f32 + 0.5)).ln();
        Word { asked: *asked, query, idf, share: asked.weight / all, count }
    };
    let mut words: Vec<Word> = asked.iter().zip(queries).zip(counts).map(word).collect();
    words.sort_by_key(|word| word.count);
    Ok(words)
}

/// How many passages have a word, going by those that stand for all.
fn foreseen(term: &AskedTerm, shelf: &Shelf, sampled: &[Sampled]) -> i64 {
    let having = sampled.iter().filter(|one| count_of(term, &one.counts).is_some()).count() as f32;
    (having / sampled.len().max(1) as f32 * shelf.passages) as i64
}

/// Where a passage is kept.
type Place = (i64, i64);

/// Passages with the rarest words, as many words as are not too much to look at.
fn by_words(db: &Connection, words: &[Word]) -> Result<BTreeSet<Place>, StoreError> {
    let mut left = COUNTED_MAX;
    let mut rarest: Vec<&Word> = Vec::new();
    for word in words.iter().filter(|word| word.count > 0) {
        if !rarest.is_empty() && left < word.count {
            break;
        }
        left -= word.count;
        rarest.push(word);
    }
    if rarest.is_empty() {
        return Ok(BTreeSet::new());
    }
    let any = rarest.iter().map(|word| word.query.as_str()).collect::<Vec<_>>().join("|");
    // All words count, the frequent ones among what the rare ones found.
    let list =
        |of: &dyn Fn(&Word) -> String| words.iter().filter(|word| word.count > 0).map(of).collect::<Vec<_>>().join(",");
    let (queries, worth) = (list(&|word| format!("'{}'::tsquery", word.query)), list(&|word| word.idf.to_string()));
    let sql = format!(
        "SELECT found_document, found_number FROM words_found('{any}'::tsquery, ARRAY[{queries}],
             ARRAY[{worth}]::double precision[], {COUNTED_MAX}, {BY_WORDS})"
    );
    places(db.query_once(&sql))
}

fn places(rows: sql::Result<Vec<Row<'static>>>) -> Result<BTreeSet<Place>, StoreError> {
    let rows = rows.map_err(|error| meaning(&error))?;
    rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect::<Result<_, _>>().map_err(|error| meaning(&error))
}

/// The nearest passages of whoever made their vectors, for measuring how well the graph finds them.
pub(in super::super) fn nearest(
    db: &Connection,
    vector: &[f32],
    best: usize,
    by_graph: bool,
) -> Result<Vec<Place>, StoreError> {
    let dimensions = vector.len();
    let scan = if by_graph { "on" } else { "off" };
    let set = format!("SET LOCAL enable_indexscan = {scan}; SET LOCAL hnsw.ef_search = {EF_SEARCH}");
    db.batch(&set).map_err(|error| meaning(&error))?;
    let sql = format!(
        "SELECT document, number FROM passage_meaning WHERE {HERE} AND dimensions = {dimensions}
         ORDER BY vector::halfvec({dimensions}) <#> '{}'::halfvec({dimensions}) LIMIT {best}",
        written(vector)
    );
    places(db.query_once(&sql)).map(|places| places.into_iter().collect())
}

/// The nearest passages, by the graph. Here and below the vector stands in a query of its own, so that its words are read once and
/// not for each passage.
fn by_meaning(db: &Connection, vector: &Meant<'_>) -> Result<BTreeSet<Place>, StoreError> {
    let Meant { dimensions, words, by, .. } = vector;
    // Others lie in the same graph: looking goes on until there are enough of this tenant's.
    let set = format!("SET LOCAL hnsw.iterative_scan = 'relaxed_order'; SET LOCAL hnsw.ef_search = {EF_SEARCH}");
    db.batch(&set).map_err(|error| meaning(&error))?;
    let sql = format!(
        "SELECT document, number FROM passage_meaning WHERE {HERE} AND dimensions = {dimensions} AND embedder = ?2
         ORDER BY vector::halfvec({dimensions}) <#> (SELECT ?1::text::halfvec({dimensions})) LIMIT {BY_MEANING}"
    );
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    let rows = statement.query_map(params![words, by], |row| Ok((row.get(0)?, row.get(1)?)));
    rows.and_then(Iterator::collect).map_err(|error| meaning(&error))
}

/// A passage that stands for others.
struct Sampled {
    length: f32,
    counts: Vec<u8>,
    near: f32,
}

/// Some passages, by chance.
fn sample(db: &Connection, vector: &Meant<'_>) -> Result<Vec<Sampled>, StoreError> {
    let Meant { dimensions, words: meant, by, lost } = vector;
    let sql = format!(
        "SELECT passage_words.length, passage_words.counts,
                -(vector::halfvec({dimensions}) <#> (SELECT ?1::text::halfvec({dimensions})))
         FROM passage_meaning JOIN passage_words ON passage_words.home = passage_meaning.home
             AND passage_words.document = passage_meaning.document AND passage_words.number = passage_meaning.number
         WHERE passage_meaning.home = current_setting('recalld.tenant') AND sampled AND dimensions = {dimensions}
             AND embedder = ?2 LIMIT {SAMPLED_MAX}"
    );
    let read = |row: &Row<'_>| {
        let (length, near) = (row.get::<_, i64>(0)? as f32, row.get::<_, f64>(2)? as f32 + lost);
        Ok(Sampled { length, counts: row.get(1)?, near })
    };
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    let rows = statement.query_map(params![meant, by], read);
    rows.and_then(Iterator::collect).map_err(|error| meaning(&error))
}

/// How passages are on the whole, by words and in meaning; without any that have a meaning by words alone.
fn measured(sampled: &[Sampled], words: &[Word], shelf: &Shelf) -> Measures {
    if sampled.is_empty() {
        return Measures { words: spread(words, shelf), meaning: Measure::default() };
    }
    let by_words: Vec<f32> = sampled.iter().map(|one| score(words, &one.counts, one.length, shelf).bm25).collect();
    let meaning = Measure::of(sampled.iter().map(|one| one.near));
    Measures { words: Measure::of(by_words.into_iter()), meaning }
}

/// How passages score by words on the whole: a word that is in so many of them, once in each, in a passage of usual length.
fn spread(words: &[Word], shelf: &Shelf) -> Measure {
    let (mut mean, mut variance) = (0.0, 0.0);
    for word in words {
        let having = word.count as f32 / shelf.passages;
        mean += word.idf * having;
        variance += word.idf * word.idf * having * (1.0 - having);
    }
    Measure { mean, spread: variance.sqrt() }
}

/// All there is to know of some passages.
fn exactly(
    db: &Connection,
    found: &BTreeSet<Place>,
    vector: Option<&Meant<'_>>,
    words: &[Word],
    shelf: &Shelf,
) -> Result<Vec<(Seen, SeenPlace)>, StoreError> {
    let list = |of: fn(&Place) -> i64| found.iter().map(|place| of(place).to_string()).collect::<Vec<_>>().join(" ");
    let near = match vector {
        Some(Meant { dimensions, .. }) => format!(
            "CASE WHEN passage_meaning.dimensions = {dimensions} AND passage_meaning.embedder = ?4
                 THEN -(passage_meaning.vector::halfvec({dimensions}) <#> (SELECT ?3::text::halfvec({dimensions}))) END"
        ),
        None => "CASE WHEN ?3::text = ?4::text THEN NULL END::float8".to_owned(),
    };
    let sql = format!(
        "SELECT document.id, document.version, document.name, document.title, passage_words.number,
                passage_words.length, passage_words.counts, {near}
         FROM unnest(string_to_array(?1::text, ' ')::bigint[], string_to_array(?2::text, ' ')::bigint[])
             AS found (document, number)
         JOIN passage_words ON passage_words.document = found.document AND passage_words.number = found.number
         JOIN document ON document.key = found.document
         LEFT JOIN passage_meaning ON passage_meaning.document = found.document AND passage_meaning.number = found.number
         WHERE document.tenant = current_setting('recalld.tenant')
         ORDER BY found.document, found.number"
    );
    let (meant, by, lost) = vector.map_or(("", "", 0.0), |vector| (vector.words.as_str(), vector.by, vector.lost));
    let read = |row: &Row<'_>| {
        let place = SeenPlace {
            document: DocumentId::from_uuid(Uuid::from_bytes(row.get(0)?)),
            version: row.get(1)?,
            name: row.get(2)?,
            title: row.get(3)?,
            number: row.get(4)?,
        };
        let (length, counts) = (row.get::<_, i64>(5)? as f32, row.get::<_, Vec<u8>>(6)?);
        let near = row.get::<_, Option<f64>>(7)?.map(|near| near as f32 + lost);
        Ok((Seen { similarity: near, ..score(words, &counts, length, shelf) }, place))
    };
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    let rows = statement.query_map(params![list(|place| place.0), list(|place| place.1), meant, by], read);
    rows.and_then(Iterator::collect).map_err(|error| meaning(&error))
}

/// A passage by its words, as in memory.
fn score(words: &[Word], counts: &[u8], length: f32, shelf: &Shelf) -> Seen {
    let long = 1.0 - LENGTH + LENGTH * length / shelf.length;
    let mut seen = Seen::default();
    for word in words {
        let Some(count) = count_of(&word.asked, counts) else { continue };
        seen.bm25 += word.idf * count * (SATURATION + 1.0) / (count + SATURATION * long);
        seen.share += word.share;
    }
    seen
}

/// How often a passage has a word, by its stem or as it is.
fn count_of(term: &AskedTerm, counts: &[u8]) -> Option<f32> {
    let (entries, _) = counts.as_chunks::<5>();
    let hash = |entry: &[u8; 5]| u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
    let found = |term: u32| entries.binary_search_by_key(&term, hash).ok().map(|at| f32::from(entries[at][4]));
    found(term.stem).or_else(|| found(term.word))
}
