//! What a store keeps of a tenant's knowledge: documents, their originals, and the passages they were cut into.
//!
//! Nothing here knows what a file is or how passages are found: whoever searches reads them with [`Knowledge::held_document`] and follows
//! by [`Knowledge::version`]. So every backend ranks alike, and none needs a search engine of its own. One that has one may search what is
//! too much for memory ([`Knowledge::search`]): it hands out what it saw, and the same ranking follows.

use super::{Page, PageRequest, StoreFuture};
use crate::id::DocumentId;
use crate::knowledge::{AskedTerm, Document, Kind, Measures, Passage, Seen};
use crate::scope::TenantScope;

/// The part of a store that keeps knowledge.
pub trait Knowledge: Send + Sync {
    /// Grows with every change of a tenant's knowledge; 0 while it has never had any. Costs next to nothing.
    fn version(&self, tenant: &TenantScope) -> StoreFuture<'_, u64>;

    /// Which documents there are, each with a mark that grows with every change of it, at one version.
    fn outline(&self, tenant: &TenantScope) -> StoreFuture<'_, KnowledgeOutline>;

    /// Keeps documents, all or none. One whose name is known is a new version of that document, and the version before is
    /// gone; the very same file again changes nothing. Refused when there would be more than `most`.
    fn keep(
        &self,
        tenant: &TenantScope,
        documents: Vec<NewDocument>,
        most: KnowledgeBounds,
    ) -> StoreFuture<'_, Vec<Document>>;

    /// A tenant's documents, in the order in which their first versions came.
    fn documents(&self, tenant: &TenantScope, page: PageRequest) -> StoreFuture<'_, Page<Document>>;

    /// One of them. `None` when there is no such document, or it is another tenant's; likewise below.
    fn document(&self, tenant: &TenantScope, id: DocumentId) -> StoreFuture<'_, Option<Document>>;

    /// The file as it came, with its document.
    fn original(&self, tenant: &TenantScope, id: DocumentId) -> StoreFuture<'_, Option<(Document, Vec<u8>)>>;

    /// The passages of a document, in order.
    fn passages(
        &self,
        tenant: &TenantScope,
        id: DocumentId,
        page: PageRequest,
    ) -> StoreFuture<'_, Option<Page<Passage>>>;

    /// A document with all its passages, and those of their vectors that this embedder made.
    fn held_document(
        &self,
        tenant: &TenantScope,
        id: DocumentId,
        embedder: &str,
    ) -> StoreFuture<'_, Option<HeldDocument>>;

    /// Several passages by document and number, each with its document's version. What is gone is left out.
    fn passages_by_number(
        &self,
        tenant: &TenantScope,
        wanted: &[(DocumentId, u32)],
    ) -> StoreFuture<'_, Vec<(DocumentId, u32, Passage)>>;

    /// Removes a document with everything that was made of it. `false` when there is no such document.
    fn remove(&self, tenant: &TenantScope, id: DocumentId) -> StoreFuture<'_, bool>;

    /// Passages of any tenant without a vector of this embedder.
    fn to_embed(&self, embedder: &str, limit: usize) -> StoreFuture<'_, Vec<DuePassage>>;

    /// Keeps vectors. A passage whose document changed meanwhile, or went, is passed over.
    fn keep_vectors(&self, embedder: &str, vectors: Vec<(DuePassage, Vec<f32>)>) -> StoreFuture<'_, ()>;

    /// Makes passages of large tenants ready to be searched here, some at a time; answers how many. A store that does not search has
    /// nothing to do.
    fn shelve(&self, _limit: usize) -> StoreFuture<'_, u64> {
        Box::pin(std::future::ready(Ok(0)))
    }

    /// The passages that may be about a question, if this store searches what the tenant knows; `None` where whoever asks holds it in
    /// memory.
    fn search(&self, _tenant: &TenantScope, _asked: AskedPassages) -> StoreFuture<'_, Option<SeenPassages>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// A question, as passages are searched for it.
#[derive(Debug, Clone, PartialEq)]
pub struct AskedPassages {
    /// Its words.
    pub terms: Vec<AskedTerm>,
    /// What it means.
    pub vector: Option<Vec<f32>>,
    /// To whom.
    pub embedder: String,
}

/// Passages that may be about a question, and what all of the tenant's are like.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SeenPassages {
    /// What was seen of each.
    pub seen: Vec<Seen>,
    /// Where each is, in the same order.
    pub places: Vec<SeenPlace>,
    /// What all are like.
    pub all: Measures,
}

/// Where a passage is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenPlace {
    /// In which document.
    pub document: DocumentId,
    /// In which version of it.
    pub version: u32,
    /// Which.
    pub number: u32,
    /// What the document is called.
    pub name: String,
    /// What it calls itself.
    pub title: String,
}

/// A document that is to be kept.
#[derive(Debug, Clone, PartialEq)]
pub struct NewDocument {
    /// Its id, if its name is new.
    pub id: DocumentId,
    /// What it is called.
    pub name: String,
    /// What it calls itself.
    pub title: String,
    /// What it is.
    pub kind: Kind,
    /// The file.
    pub original: Vec<u8>,
    /// What it was cut into.
    pub passages: Vec<Passage>,
    /// What they mean, in the same order, and to whom; `None` when that is found out later.
    pub vectors: Option<(String, Vec<Vec<f32>>)>,
}

/// How much a tenant may know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnowledgeBounds {
    /// Most documents.
    pub documents: usize,
    /// Most passages, all documents together.
    pub passages: usize,
}

impl Default for KnowledgeBounds {
    fn default() -> Self {
        Self { documents: 10_000, passages: 50_000 }
    }
}

/// Which documents there are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KnowledgeOutline {
    /// The version this is of.
    pub version: u64,
    /// Documents with their marks, in the order in which they came.
    pub documents: Vec<(DocumentId, u64)>,
}

/// A document as whoever searches it holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldDocument {
    /// The document.
    pub document: Document,
    /// Its passages, and what they mean.
    pub passages: Vec<(Passage, Option<Vec<f32>>)>,
    /// Its mark.
    pub mark: u64,
}

/// A passage that lacks its vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DuePassage {
    /// Whose.
    pub tenant: TenantScope,
    /// In which document.
    pub document: DocumentId,
    /// In which version of it.
    pub version: u32,
    /// Which.
    pub number: u32,
    /// What is to be embedded.
    pub text: String,
}
