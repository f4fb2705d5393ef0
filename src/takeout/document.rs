//! A document as records: what it is, the file in parts, and the passages it was cut into.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::line::{LineError, check_number};
use crate::id::DocumentId;
use crate::knowledge::{Document, Kind, Passage};

/// Bytes of a file in one line.
pub const PART_BYTES: usize = 1 << 20;

/// A document with everything that is kept of it.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentRecord {
    /// What it is.
    pub document: Document,
    /// The file.
    pub original: Vec<u8>,
    /// What it was cut into.
    pub passages: Vec<Passage>,
}

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartRecord {
    /// Whose file.
    pub document: DocumentId,
    /// How many bytes come before it.
    pub at: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// A document, as written. How many of its passages have vectors is nobody else's matter.
#[derive(Serialize, Deserialize)]
pub(super) struct DocumentWire {
    id: DocumentId,
    name: String,
    title: String,
    kind: Kind,
    version: u32,
    bytes: u64,
    passages: u64,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<&Document> for DocumentWire {
    fn from(document: &Document) -> Self {
        let Document { id, name, title, kind, version, bytes, passages, created_at, updated_at, .. } = document.clone();
        Self { id, name, title, kind, version, bytes, passages, created_at, updated_at }
    }
}

impl TryFrom<DocumentWire> for Document {
    type Error = LineError;

    fn try_from(wire: DocumentWire) -> Result<Self, LineError> {
        let DocumentWire { id, name, title, kind, version, bytes, passages, created_at, updated_at } = wire;
        if name.trim().is_empty() || version == 0 {
            return Err(LineError::Shape("its name or version is none".into()));
        }
        check_number(bytes, "bytes")?;
        check_number(passages, "passages")?;
        Ok(Self { id, name, title, kind, version, bytes, passages, embedded: 0, created_at, updated_at })
    }
}

/// A part, as written.
#[derive(Serialize, Deserialize)]
pub(super) struct PartWire {
    at: u64,
    /// In base64.
    bytes: String,
}

impl From<&PartRecord> for PartWire {
    fn from(part: &PartRecord) -> Self {
        Self { at: part.at, bytes: STANDARD.encode(&part.bytes) }
    }
}

impl PartWire {
    pub(super) fn part(self, document: DocumentId) -> Result<PartRecord, LineError> {
        let bytes = STANDARD.decode(self.bytes).map_err(|_| LineError::Shape("its bytes are not base64".into()))?;
        Ok(PartRecord { document, at: self.at, bytes })
    }
}
