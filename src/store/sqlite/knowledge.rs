//! What tenants know, in SQL.

use std::sync::Arc;

use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

use super::Backend;
use super::connect::meaning;
use super::consolidate::bytes as bytes_of;
use super::episode::floats;
use super::session::{cursor, execute, rows_max, send};
use super::sql::{self, Connection, OptionalExtension, Row, params};
use crate::clock::from_micros;
use crate::id::DocumentId;
use crate::knowledge::{Document, Kind, Passage};
use crate::scope::TenantScope;
use crate::store::erasure::{Erasure, Erasures};
use crate::store::whose::Whose;
use crate::store::{
    AskedPassages, DocumentArrival, DuePassage, HeldDocument, Knowledge, KnowledgeBounds, KnowledgeOutline,
    NewDocument, Page, PageRequest, SeenPassages, StoreError, StoreFuture,
};
use crate::takeout::DocumentRecord;

const DOCUMENT: &str = "key, id, name, title, kind, version, bytes, created_at, updated_at,
    (SELECT count(*) FROM passage WHERE document = key), (SELECT count(embedder) FROM passage WHERE document = key)";

fn read_document(row: &Row<'_>) -> sql::Result<(i64, Document)> {
    let kind: String = row.get(4)?;
    let document = Document {
        id: DocumentId::from_uuid(Uuid::from_bytes(row.get(1)?)),
        name: row.get(2)?,
        title: row.get(3)?,
        // A kind of a newer version is shown as what every file is.
        kind: Kind::from_word(&kind).unwrap_or(Kind::Text),
        version: row.get(5)?,
        bytes: row.get(6)?,
        created_at: from_micros(row.get(7)?),
        updated_at: from_micros(row.get(8)?),
        passages: row.get(9)?,
        embedded: row.get(10)?,
    };
    Ok((row.get(0)?, document))
}

fn read_passage(row: &Row<'_>) -> sql::Result<Passage> {
    let (heading, place, text) = (row.get(1)?, row.get(2)?, row.get(3)?);
    Ok(Passage { number: row.get(0)?, heading, place, text, tokens: row.get(4)? })
}

fn found<T>(result: sql::Result<T>) -> Result<Option<T>, StoreError> {
    result.optional().map_err(|error| meaning(&error))
}

fn version(db: &Connection, tenant: &str) -> Result<u64, StoreError> {
    let sql = "SELECT version FROM knowledge WHERE tenant = ?1";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    Ok(found(statement.query_row([tenant], |row| row.get(0)))?.unwrap_or(0))
}

/// Notes that a tenant's knowledge changes. It is a time, so that a tenant that was erased and came back is never taken for
/// the one it was.
pub(super) fn changes(db: &Connection, tenant: &str, now: i64) -> Result<i64, StoreError> {
    let sql = "INSERT INTO knowledge (tenant, version) VALUES (?1, max(?2, 1))
               ON CONFLICT (tenant) DO UPDATE SET version = max(knowledge.version + 1, ?2) RETURNING version";
    db.query_row(sql, params![tenant, now], |row| row.get(0)).map_err(|error| meaning(&error))
}

fn outline(db: &Connection, tenant: &str) -> Result<KnowledgeOutline, StoreError> {
    let sql = "SELECT id, mark FROM document WHERE tenant = ?1 ORDER BY key";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let read = |row: &Row<'_>| Ok((DocumentId::from_uuid(Uuid::from_bytes(row.get(0)?)), row.get(1)?));
    let rows = statement.query_map([tenant], read).map_err(|error| meaning(&error))?;
    let documents = rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))?;
    Ok(KnowledgeOutline { version: version(db, tenant)?, documents })
}

fn find(db: &Connection, tenant: &str, id: DocumentId) -> Result<Option<(i64, Document)>, StoreError> {
    let sql = format!("SELECT {DOCUMENT} FROM document WHERE tenant = ?1 AND id = ?2");
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    found(statement.query_row(params![tenant, id.as_uuid().as_bytes()], read_document))
}

/// The key and checksum of the document of a name, and its version.
fn named(db: &Connection, tenant: &str, name: &str) -> Result<Option<(i64, i64, DocumentId)>, StoreError> {
    let sql = "SELECT key, checksum, id FROM document WHERE tenant = ?1 AND name = ?2";
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, DocumentId::from_uuid(Uuid::from_bytes(row.get(2)?))));
    found(db.query_row(sql, [tenant, name], read))
}

pub(super) fn keep(
    db: &Connection,
    tenant: &str,
    documents: &[NewDocument],
    most: KnowledgeBounds,
    now: i64,
) -> Result<Vec<Document>, StoreError> {
    let mut kept = Vec::new();
    let mark = changes(db, tenant, now)?;
    for document in documents {
        let id = keep_one(db, tenant, document, mark, now)?;
        let (_, document) =
            find(db, tenant, id)?.ok_or_else(|| StoreError::Refused("the document is not there".into()))?;
        kept.push(document);
    }
    within(db, tenant, most).map(|()| kept)
}

/// Whether a tenant knows no more than it may.
fn within(db: &Connection, tenant: &str, most: KnowledgeBounds) -> Result<(), StoreError> {
    let count = |sql: &str| db.query_row(sql, [tenant], |row| row.get::<_, usize>(0)).map_err(|error| meaning(&error));
    let documents = count("SELECT count(*) FROM document WHERE tenant = ?1")?;
    let passages = count("SELECT count(*) FROM document CROSS JOIN passage ON document = key WHERE tenant = ?1")?;
    let over =
        |what: &str, most: usize| StoreError::Refused(format!("a tenant may have {most} {what}; remove some first"));
    match () {
        () if documents > most.documents => Err(over("documents", most.documents)),
        () if passages > most.passages => Err(over("passages of documents", most.passages)),
        () => Ok(()),
    }
}

fn keep_one(db: &Connection, tenant: &str, new: &NewDocument, mark: i64, now: i64) -> Result<DocumentId, StoreError> {
    let checksum = xxh3_64(&new.original) as i64;
    let (key, id) = match named(db, tenant, &new.name)? {
        Some((key, same, id)) if same == checksum => {
            let sql = "UPDATE document SET title = ?2, mark = ?3 WHERE key = ?1 AND title <> ?2";
            send(db, sql, params![key, new.title, mark])?;
            return Ok(id);
        }
        Some((key, _, id)) => {
            let sql = "UPDATE document SET title = ?2, kind = ?3, version = version + 1, mark = ?4, bytes = ?5, checksum = ?6,
                         updated_at = ?7 WHERE key = ?1";
            let bytes = new.original.len();
            send(db, sql, params![key, new.title, new.kind.as_str(), mark, bytes, checksum, now])?;
            send(db, "DELETE FROM passage WHERE document = ?1", [key])?;
            (key, id)
        }
        None => (insert(db, tenant, new, checksum, mark, now)?, new.id),
    };
    let original =
        "INSERT INTO original (document, bytes) VALUES (?1, ?2) ON CONFLICT (document) DO UPDATE SET bytes = ?2";
    send(db, original, params![key, new.original])?;
    insert_passages(db, key, new)?;
    Ok(id)
}

/// Whether nothing here has the name of a document that arrives.
pub(super) fn is_new(db: &Connection, tenant: &str, arrival: &DocumentArrival) -> Result<bool, StoreError> {
    let document = &arrival.record.document;
    Ok(named(db, tenant, &document.name)?.is_none() && find(db, tenant, document.id)?.is_none())
}

/// Takes in a document as it was. Answers whether it is new.
pub(super) fn take_in(db: &Connection, tenant: &str, arrival: &DocumentArrival, now: i64) -> Result<bool, StoreError> {
    if !is_new(db, tenant, arrival)? {
        return Ok(false);
    }
    let DocumentRecord { document, original, passages } = arrival.record.clone();
    let taken = "SELECT EXISTS (SELECT 1 FROM document WHERE id = ?1)";
    let is_taken: bool =
        db.query_row(taken, [document.id.as_uuid().as_bytes()], |row| row.get(0)).map_err(|error| meaning(&error))?;
    let id = if is_taken { arrival.else_id } else { document.id };
    let Document { name, title, kind, version, created_at, updated_at, .. } = document;
    let new = NewDocument { id, name, title, kind, original, passages, vectors: None };
    let checksum = xxh3_64(&new.original) as i64;
    let key = insert(db, tenant, &new, checksum, changes(db, tenant, now)?, created_at.as_microsecond())?;
    let sql = "UPDATE document SET version = ?2, updated_at = ?3 WHERE key = ?1";
    send(db, sql, params![key, version, updated_at.as_microsecond()])?;
    send(db, "INSERT INTO original (document, bytes) VALUES (?1, ?2)", params![key, new.original])?;
    insert_passages(db, key, &new)?;
    within(db, tenant, arrival.most).map(|()| true)
}

fn insert(
    db: &Connection,
    tenant: &str,
    new: &NewDocument,
    checksum: i64,
    mark: i64,
    now: i64,
) -> Result<i64, StoreError> {
    let sql =
        "INSERT INTO document (tenant, id, name, title, kind, version, mark, bytes, checksum, created_at, updated_at)
               VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?7, ?8, ?9, ?9)";
    let (id, bytes) = (new.id.as_uuid().as_bytes(), new.original.len());
    send(db, sql, params![tenant, id, new.name, new.title, new.kind.as_str(), mark, bytes, checksum, now])?;
    Ok(db.last_insert_rowid())
}

fn insert_passages(db: &Connection, key: i64, new: &NewDocument) -> Result<(), StoreError> {
    let sql = "INSERT INTO passage (document, number, heading, place, text, tokens, embedder, vector)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    for (at, passage) in new.passages.iter().enumerate() {
        let Passage { number, heading, place, text, tokens } = passage;
        let vector = new.vectors.as_ref().and_then(|(embedder, vectors)| Some((embedder, bytes_of(vectors.get(at)?))));
        let (embedder, vector) = vector.unzip();
        send(db, sql, params![key, number, heading, place, text, tokens, embedder, vector])?;
    }
    Ok(())
}

fn documents(db: &Connection, tenant: &str, page: PageRequest) -> Result<Page<Document>, StoreError> {
    let sql = format!("SELECT {DOCUMENT} FROM document WHERE tenant = ?1 AND key > ?2 ORDER BY key LIMIT ?3");
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    let values = params![tenant, cursor(page), rows_max(page.limit.saturating_add(1))];
    let rows = statement.query_map(values, read_document).map_err(|error| meaning(&error))?;
    let found = rows.map(|row| row.map(|(key, document)| (key as u64, document)).map_err(|error| meaning(&error)));
    Ok(Page::cut(found.collect::<Result<_, _>>()?, page.limit))
}

fn original(db: &Connection, tenant: &str, id: DocumentId) -> Result<Option<(Document, Vec<u8>)>, StoreError> {
    let Some((key, document)) = find(db, tenant, id)? else { return Ok(None) };
    let bytes = db.query_row("SELECT bytes FROM original WHERE document = ?1", [key], |row| row.get(0));
    Ok(Some((document, bytes.map_err(|error| meaning(&error))?)))
}

fn passages(
    db: &Connection,
    tenant: &str,
    id: DocumentId,
    page: PageRequest,
) -> Result<Option<Page<Passage>>, StoreError> {
    let Some((key, _)) = find(db, tenant, id)? else { return Ok(None) };
    let sql = "SELECT number, heading, place, text, tokens FROM passage
               WHERE document = ?1 AND number > ?2 ORDER BY number LIMIT ?3";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let values = params![key, cursor(page), rows_max(page.limit.saturating_add(1))];
    let rows = statement.query_map(values, read_passage).map_err(|error| meaning(&error))?;
    let found =
        rows.map(|row| row.map(|passage| (u64::from(passage.number), passage)).map_err(|error| meaning(&error)));
    Ok(Some(Page::cut(found.collect::<Result<_, _>>()?, page.limit)))
}

fn held(db: &Connection, tenant: &str, id: DocumentId, embedder: &str) -> Result<Option<HeldDocument>, StoreError> {
    let Some((key, document)) = find(db, tenant, id)? else { return Ok(None) };
    let mark = db.query_row("SELECT mark FROM document WHERE key = ?1", [key], |row| row.get(0));
    let sql = "SELECT number, heading, place, text, tokens, iif(embedder = ?2, vector, NULL) FROM passage
               WHERE document = ?1 ORDER BY number";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let read = |row: &Row<'_>| {
        let vector: Option<Vec<u8>> = row.get(5)?;
        Ok((read_passage(row)?, vector.map(|bytes| floats(&bytes))))
    };
    let rows = statement.query_map(params![key, embedder], read).map_err(|error| meaning(&error))?;
    let passages = rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))?;
    Ok(Some(HeldDocument { document, passages, mark: mark.map_err(|error| meaning(&error))? }))
}

fn by_number(
    db: &Connection,
    tenant: &str,
    wanted: &[(DocumentId, u32)],
) -> Result<Vec<(DocumentId, u32, Passage)>, StoreError> {
    let sql = "SELECT number, heading, place, text, tokens, version FROM document CROSS JOIN passage ON document = key
               WHERE tenant = ?1 AND id = ?2 AND number = ?3";
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let mut passages = Vec::new();
    for (id, number) in wanted {
        let read = |row: &Row<'_>| Ok((*id, row.get(5)?, read_passage(row)?));
        passages.extend(found(statement.query_row(params![tenant, id.as_uuid().as_bytes(), number], read))?);
    }
    Ok(passages)
}

fn to_embed(db: &Connection, embedder: &str, limit: usize) -> Result<Vec<DuePassage>, StoreError> {
    // Each part is a range of an index; `IS NOT` would look at every passage there is.
    let part = |which: &str| {
        format!(
            "SELECT number, heading, place, text, tokens, tenant, id, version, title
                 FROM passage CROSS JOIN document ON key = document WHERE embedder {which}"
        )
    };
    let sql = format!("{} UNION ALL {} UNION ALL {} LIMIT ?2", part("IS NULL"), part("< ?1"), part("> ?1"));
    let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
    let read = |row: &Row<'_>| {
        let (passage, tenant, title) = (read_passage(row)?, row.get::<_, String>(5)?, row.get::<_, String>(8)?);
        Ok(DuePassage {
            tenant: TenantScope::as_stored(&tenant),
            document: DocumentId::from_uuid(Uuid::from_bytes(row.get(6)?)),
            version: row.get(7)?,
            number: passage.number,
            text: passage.searched(&title),
        })
    };
    let rows = statement.query_map(params![embedder, rows_max(limit)], read).map_err(|error| meaning(&error))?;
    rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))
}

fn keep_vector(db: &Connection, embedder: &str, due: &DuePassage, vector: &[f32], now: i64) -> Result<(), StoreError> {
    let tenant = due.tenant.tenant().as_str();
    let sql = "UPDATE passage SET embedder = ?4, vector = ?5 WHERE number = ?3 AND document =
                 (SELECT key FROM document WHERE tenant = ?1 AND id = ?2 AND version = ?6)";
    let id = due.document.as_uuid().as_bytes();
    if execute(db, sql, params![tenant, id, due.number, embedder, bytes_of(vector), due.version])? > 0 {
        let mark = changes(db, tenant, now)?;
        send(db, "UPDATE document SET mark = ?2 WHERE id = ?1", params![id, mark])?;
    }
    Ok(())
}

impl Knowledge for Backend {
    fn version(&self, tenant: &TenantScope) -> StoreFuture<'_, u64> {
        let tenant = tenant.clone();
        self.read_here_for(Whose::from(tenant.tenant()), move |db| version(db, tenant.tenant().as_str()))
    }

    fn outline(&self, tenant: &TenantScope) -> StoreFuture<'_, KnowledgeOutline> {
        let tenant = tenant.clone();
        self.read_for(Whose::from(tenant.tenant()), move |db| outline(db, tenant.tenant().as_str()))
    }

    fn keep(
        &self,
        tenant: &TenantScope,
        documents: Vec<NewDocument>,
        most: KnowledgeBounds,
    ) -> StoreFuture<'_, Vec<Document>> {
        let (tenant, clock, notes) = (tenant.clone(), Arc::clone(&self.clock), self.notes());
        self.write_for(Whose::from(tenant.tenant()), move |db| {
            let kept = keep(db, tenant.tenant().as_str(), &documents, most, clock.now().as_microsecond())?;
            // A version that was replaced is gone from the log, too.
            notes.erased(kept.iter().any(|document| document.version > 1));
            Ok(kept)
        })
    }

    fn documents(&self, tenant: &TenantScope, page: PageRequest) -> StoreFuture<'_, Page<Document>> {
        let tenant = tenant.clone();
        self.read_for(Whose::from(tenant.tenant()), move |db| documents(db, tenant.tenant().as_str(), page))
    }

    fn document(&self, tenant: &TenantScope, id: DocumentId) -> StoreFuture<'_, Option<Document>> {
        let tenant = tenant.clone();
        self.read_for(Whose::from(tenant.tenant()), move |db| {
            Ok(find(db, tenant.tenant().as_str(), id)?.map(|(_, document)| document))
        })
    }

    fn original(&self, tenant: &TenantScope, id: DocumentId) -> StoreFuture<'_, Option<(Document, Vec<u8>)>> {
        let tenant = tenant.clone();
        self.read_for(Whose::from(tenant.tenant()), move |db| original(db, tenant.tenant().as_str(), id))
    }

    fn passages(
        &self,
        tenant: &TenantScope,
        id: DocumentId,
        page: PageRequest,
    ) -> StoreFuture<'_, Option<Page<Passage>>> {
        let tenant = tenant.clone();
        self.read_for(Whose::from(tenant.tenant()), move |db| passages(db, tenant.tenant().as_str(), id, page))
    }

    fn held_document(
        &self,
        tenant: &TenantScope,
        id: DocumentId,
        embedder: &str,
    ) -> StoreFuture<'_, Option<HeldDocument>> {
        let (tenant, embedder) = (tenant.clone(), embedder.to_owned());
        self.read_for(Whose::from(tenant.tenant()), move |db| held(db, tenant.tenant().as_str(), id, &embedder))
    }

    fn passages_by_number(
        &self,
        tenant: &TenantScope,
        wanted: &[(DocumentId, u32)],
    ) -> StoreFuture<'_, Vec<(DocumentId, u32, Passage)>> {
        let (tenant, wanted) = (tenant.clone(), wanted.to_vec());
        self.read_here_for(Whose::from(tenant.tenant()), move |db| by_number(db, tenant.tenant().as_str(), &wanted))
    }

    fn remove(&self, tenant: &TenantScope, id: DocumentId) -> StoreFuture<'_, bool> {
        let erased = self.erase(Erasure::Document(tenant.clone(), id));
        Box::pin(async move { Ok(erased.await?.is_some()) })
    }

    fn to_embed(&self, embedder: &str, limit: usize) -> StoreFuture<'_, Vec<DuePassage>> {
        let embedder = embedder.to_owned();
        self.read_each("document", limit, move |db, limit| to_embed(db, &embedder, limit))
    }

    fn keep_vectors(&self, embedder: &str, vectors: Vec<(DuePassage, Vec<f32>)>) -> StoreFuture<'_, ()> {
        let (embedder, clock) = (embedder.to_owned(), Arc::clone(&self.clock));
        let keep = move |db: &Connection, vectors: &[(DuePassage, Vec<f32>)]| {
            let now = clock.now().as_microsecond();
            vectors.iter().try_for_each(|(due, vector)| keep_vector(db, &embedder, due, vector, now))
        };
        let kept = self.write_groups(vectors, |(due, _)| Whose::from(due.tenant.tenant()), keep);
        Box::pin(async move { kept.await.map(drop) })
    }

    fn shelve(&self, limit: usize) -> StoreFuture<'_, u64> {
        self.shelve_some(limit)
    }

    fn search(&self, tenant: &TenantScope, asked: AskedPassages) -> StoreFuture<'_, Option<SeenPassages>> {
        self.search_here(tenant, asked)
    }
}
