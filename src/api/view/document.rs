//! Documents and citations as clients see them.

use serde::Serialize;
use utoipa::ToSchema;

use super::{thousandths, time};
use crate::knowledge::{Citation, Document};

/// A document or note of a tenant.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct DocumentView {
    id: String,
    /// What it is called; another one of this name is its next version.
    name: String,
    title: String,
    /// `note`, `text`, `markdown`, `html`, `csv`, `json`, `pdf`, `docx`, `xlsx` or `pptx`.
    kind: &'static str,
    /// Counted from 1.
    version: u32,
    bytes: u64,
    /// What it was cut into, and how much of that has a vector.
    passages: u64,
    embedded: u64,
    created_at: String,
    updated_at: String,
}

impl From<Document> for DocumentView {
    fn from(document: Document) -> Self {
        Self {
            id: document.id.to_string(),
            name: document.name,
            title: document.title,
            kind: document.kind.as_str(),
            version: document.version,
            bytes: document.bytes,
            passages: document.passages,
            embedded: document.embedded,
            created_at: time(document.created_at),
            updated_at: time(document.updated_at),
        }
    }
}

/// What an answer drew on.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct CitationView {
    /// The document's name.
    source: String,
    /// Document, version and passage.
    chunk_id: String,
    /// From 0 to 1.
    similarity: f64,
    document_title: String,
}

impl From<Citation> for CitationView {
    fn from(citation: Citation) -> Self {
        Self {
            source: citation.source,
            chunk_id: citation.passage.to_string(),
            similarity: thousandths(citation.similarity.into()),
            document_title: citation.title,
        }
    }
}
