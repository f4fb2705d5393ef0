//! What a tenant knows: documents are added, looked at, searched and removed.

use bytes::Bytes;
use tracing::warn;

use crate::id::DocumentId;
use crate::knowledge::{Cut, Document, Kind, Passage, clean_name, note, one_line, said_in_chat};
use crate::language::Tongue;
use crate::memory::{Memory, ReadError};
use crate::recall::{FoundPassage, RecallError};
use crate::scope::{Scope, TenantScope};
use crate::session::{RequestMark, Saying, TextError, check_text, read_intent};
use crate::store::{
    Erasure, Made, NewDocument, OnceWrite, OnceWritten, Page, PageRequest, Receipt, RequestError, StoreError,
};
use crate::tenant::OverLimit;

/// Longest note, in characters.
pub const NOTE_CHARS_MAX: usize = 100_000;
/// Passages that are embedded at once.
const EMBEDDED_AT_ONCE: usize = 64;

/// A file that somebody brings.
#[derive(Debug, Clone)]
pub struct Upload {
    /// What it is called; only the last part of a path counts.
    pub name: String,
    /// What it is to be called in citations; `None` is what it calls itself.
    pub title: Option<String>,
    /// What is in it.
    pub bytes: Bytes,
}

/// A request about what a tenant knows, and under whose name it is kept.
#[derive(Debug, Clone)]
pub struct KeptRequest {
    /// All of the tenant's people together.
    pub keeper: Scope,
    /// The request.
    pub mark: RequestMark,
}

/// Why a tenant does not know more, or less, than before.
#[derive(Debug, Clone, thiserror::Error)]
pub enum KnowledgeError {
    /// No such document, or another tenant's.
    #[error("there is no document `{0}`")]
    Unknown(DocumentId),
    /// A name that is none.
    #[error("`{0}` cannot be the name of a document; give it one such as prices.csv")]
    Name(String),
    /// Nothing to add.
    #[error("there is no file in the request")]
    Nothing,
    /// A text is not acceptable.
    #[error("{field} {reason}")]
    Text {
        /// Which.
        field: &'static str,
        /// Why not.
        reason: TextError,
    },
    /// A file is too large.
    #[error("`{name}` has {bytes} bytes, at most {bytes_max} are allowed (`document_bytes_max`)")]
    TooLarge {
        /// Which.
        name: String,
        /// How large.
        bytes: usize,
        /// The bound.
        bytes_max: usize,
    },
    /// A file could not be read.
    #[error("`{name}` was not added: {reason}")]
    Unread {
        /// Which.
        name: String,
        /// Why not.
        reason: ReadError,
    },
    /// Too many uploads at once.
    #[error("too many files are being read at the moment; try again in a few seconds")]
    Busy,
    /// The same key came with another request, or what it made is gone.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The tenant has had enough.
    #[error(transparent)]
    OverLimit(#[from] OverLimit),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The server is stopping.
    #[error("the server is shutting down")]
    Stopping,
}

impl From<RecallError> for KnowledgeError {
    fn from(error: RecallError) -> Self {
        match error {
            RecallError::Store(error) => Self::Store(error),
            RecallError::Interrupted => Self::Stopping,
        }
    }
}

impl Memory {
    /// Adds files to what a tenant knows, all or none. It is done to its end even if nobody waits for it.
    pub async fn add_documents(
        &self,
        tenant: &TenantScope,
        uploads: Vec<Upload>,
        request: Option<KeptRequest>,
    ) -> Result<Vec<Document>, KnowledgeError> {
        if let Some(before) = self.documents_before(tenant, request.as_ref()).await? {
            return Ok(before);
        }
        let place = self.reader.place().ok_or(KnowledgeError::Busy)?;
        let (memory, tenant) = (self.clone(), tenant.clone());
        let added = tokio::spawn(async move {
            let _place = place;
            memory.take_in(&tenant, uploads, request).await
        });
        added.await.map_err(|_| KnowledgeError::Stopping)?
    }

    /// Adds a file that came along with something else, without anybody waiting for it.
    pub fn add_in_background(&self, tenant: &TenantScope, upload: Upload) {
        let (memory, tenant) = (self.clone(), tenant.clone());
        tokio::spawn(async move {
            // The memory waits for this place before it closes.
            let _place = memory.running.acquire().await;
            if let Err(error) = memory.add_documents(&tenant, vec![upload], None).await {
                let reason = match &error {
                    // A file's name is somebody's words.
                    KnowledgeError::Unread { reason, .. } => reason.to_string(),
                    KnowledgeError::Name(_) | KnowledgeError::TooLarge { .. } => {
                        "its name or size is refused".to_owned()
                    }
                    other => other.to_string(),
                };
                warn!(tenant.id = %tenant.tenant(), error = %reason, "A file of a chat message is not known: {reason}");
            }
        });
    }

    /// Makes what was said what the tenant knows, where the tenant learns; nobody waits for it. Questions and wishes teach nothing.
    pub fn learn_for_tenant(&self, tenant: &TenantScope, said: &str) {
        let own = self.of(tenant.tenant());
        if !own.settings.tenant_learns || !teaches(said) || said.chars().count() > NOTE_CHARS_MAX {
            return;
        }
        let (memory, tenant, said) = (self.clone(), tenant.clone(), said.to_owned());
        tokio::spawn(async move {
            let _place = memory.running.acquire().await;
            if let Err(error) = memory.note_said(&tenant, said).await {
                warn!(tenant.id = %tenant.tenant(), error = %error, "What was said is not known to the tenant: {error}");
            }
        });
    }

    async fn note_said(&self, tenant: &TenantScope, said: String) -> Result<(), KnowledgeError> {
        self.tenants.admit_bytes(tenant.tenant(), said.len() as u64).await?;
        let name = said_in_chat(&said);
        let (passages, title) = (note(&said), "Said in a chat".to_owned());
        let document = self.document_of(name, title, Kind::Note, said.into_bytes(), passages).await;
        self.keep_documents(tenant, vec![document], None).await.map(drop)
    }

    async fn take_in(
        &self,
        tenant: &TenantScope,
        uploads: Vec<Upload>,
        request: Option<KeptRequest>,
    ) -> Result<Vec<Document>, KnowledgeError> {
        if uploads.is_empty() {
            return Err(KnowledgeError::Nothing);
        }
        self.check_uploads(tenant, &uploads).await?;
        let mut documents = Vec::new();
        for upload in uploads {
            documents.push(self.read_upload(upload).await?);
        }
        self.keep_documents(tenant, documents, request).await
    }

    async fn check_uploads(&self, tenant: &TenantScope, uploads: &[Upload]) -> Result<(), KnowledgeError> {
        let bytes_max = self.settings.knowledge.bytes_max;
        for Upload { name, bytes, .. } in uploads {
            clean_name(name).ok_or_else(|| KnowledgeError::Name(one_line(name)))?;
            if bytes.len() > bytes_max {
                return Err(KnowledgeError::TooLarge { name: one_line(name), bytes: bytes.len(), bytes_max });
            }
        }
        let bytes: usize = uploads.iter().map(|upload| upload.bytes.len()).sum();
        Ok(self.tenants.admit_bytes(tenant.tenant(), bytes as u64).await?)
    }

    async fn read_upload(&self, upload: Upload) -> Result<NewDocument, KnowledgeError> {
        let Upload { name, title, bytes } = upload;
        let name = clean_name(&name).ok_or_else(|| KnowledgeError::Name(one_line(&name)))?;
        let read = self.reader.read(&name, bytes.clone()).await;
        let Cut { kind, title: own, passages } = read.map_err(|reason| {
            self.parts.meters.documents_refused.one();
            KnowledgeError::Unread { name: name.clone(), reason }
        })?;
        let title = [title, own].into_iter().flatten().map(|title| one_line(&title)).find(|title| !title.is_empty());
        let stem = name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem).to_owned();
        let original = bytes.to_vec();
        Ok(self.document_of(name, title.unwrap_or(stem), kind, original, passages).await)
    }

    /// Adds a note to what a tenant knows.
    pub async fn add_note(
        &self,
        tenant: &TenantScope,
        title: &str,
        text: &str,
        request: Option<KeptRequest>,
    ) -> Result<Document, KnowledgeError> {
        if let Some(mut before) = self.documents_before(tenant, request.as_ref()).await? {
            return before.pop().ok_or(KnowledgeError::Nothing);
        }
        let fault = |field| move |reason| KnowledgeError::Text { field, reason };
        check_text(title, crate::knowledge::NAME_CHARS_MAX).map_err(fault("title"))?;
        check_text(text, NOTE_CHARS_MAX).map_err(fault("text"))?;
        let (name, text) = (one_line(title), text.to_owned());
        self.tenants.admit_bytes(tenant.tenant(), text.len() as u64).await?;
        let (memory, tenant) = (self.clone(), tenant.clone());
        let added = tokio::spawn(async move {
            let (passages, original) = (note(&text), text.into_bytes());
            let document = memory.document_of(name.clone(), name, Kind::Note, original, passages).await;
            memory.keep_documents(&tenant, vec![document], request).await
        });
        let mut kept = added.await.map_err(|_| KnowledgeError::Stopping)??;
        kept.pop().ok_or(KnowledgeError::Nothing)
    }

    async fn document_of(
        &self,
        name: String,
        title: String,
        kind: Kind,
        original: Vec<u8>,
        passages: Vec<Passage>,
    ) -> NewDocument {
        let texts: Vec<String> = passages.iter().map(|passage| passage.searched(&title)).collect();
        let vectors = self.embed_passages(&texts).await;
        NewDocument { id: self.parts.ids.document(), name, title, kind, original, passages, vectors }
    }

    /// Vectors of passages; `None` when the embedder does not answer, and they are made later.
    async fn embed_passages(&self, texts: &[String]) -> Option<(String, Vec<Vec<f32>>)> {
        let embedder = &self.parts.embedder;
        let mut vectors = Vec::with_capacity(texts.len());
        for some in texts.chunks(EMBEDDED_AT_ONCE) {
            match embedder.embed(some).await {
                Ok(made) => vectors.extend(made),
                Err(error) => {
                    self.parts.meters.embedder_failures.one();
                    warn!(embedder.id = %embedder.id(), error = %error, "Passages wait for their vectors: {error}");
                    return None;
                }
            }
        }
        Some((embedder.id().as_str().to_owned(), vectors))
    }

    async fn keep_documents(
        &self,
        tenant: &TenantScope,
        documents: Vec<NewDocument>,
        request: Option<KeptRequest>,
    ) -> Result<Vec<Document>, KnowledgeError> {
        let bounds = self.settings.knowledge.bounds;
        let kept = match &request {
            None => self.parts.store.knowledge().keep(tenant, documents, bounds).await?,
            Some(KeptRequest { keeper, mark }) => {
                let write = OnceWrite::Documents(documents, bounds);
                match self.parts.store.requests().write_once(keeper, *mark, write).await {
                    Ok(OnceWritten::Documents(kept)) => kept,
                    // The same request came at the same time and was first.
                    Err(StoreError::Repeated) | Ok(_) => {
                        let before = self.documents_before(tenant, request.as_ref()).await?;
                        return before.ok_or(RequestError::Gone.into());
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        };
        self.recall.follow_knowledge(tenant);
        self.parts.meters.documents.many(kept.len() as u64);
        Ok(kept)
    }

    /// The documents that the same request made before, as they are now.
    async fn documents_before(
        &self,
        tenant: &TenantScope,
        request: Option<&KeptRequest>,
    ) -> Result<Option<Vec<Document>>, KnowledgeError> {
        let Some(KeptRequest { keeper, mark }) = request else { return Ok(None) };
        let Some(done) = self.parts.store.requests().done_request(keeper, mark.key).await? else { return Ok(None) };
        let Made::Documents(ids) = done.answer_to(mark)? else { return Err(RequestError::KeyReused.into()) };
        let mut documents = Vec::with_capacity(ids.len());
        for id in ids {
            documents.push(self.parts.store.knowledge().document(tenant, id).await?.ok_or(RequestError::Gone)?);
        }
        Ok(Some(documents))
    }

    /// A tenant's documents, oldest first.
    pub async fn documents(&self, tenant: &TenantScope, page: PageRequest) -> Result<Page<Document>, KnowledgeError> {
        Ok(self.parts.store.knowledge().documents(tenant, page).await?)
    }

    /// One of them.
    pub async fn document(&self, tenant: &TenantScope, id: DocumentId) -> Result<Document, KnowledgeError> {
        self.parts.store.knowledge().document(tenant, id).await?.ok_or(KnowledgeError::Unknown(id))
    }

    /// A file as it came.
    pub async fn original(&self, tenant: &TenantScope, id: DocumentId) -> Result<(Document, Vec<u8>), KnowledgeError> {
        self.parts.store.knowledge().original(tenant, id).await?.ok_or(KnowledgeError::Unknown(id))
    }

    /// What a document was cut into.
    pub async fn passages(
        &self,
        tenant: &TenantScope,
        id: DocumentId,
        page: PageRequest,
    ) -> Result<Page<Passage>, KnowledgeError> {
        self.parts.store.knowledge().passages(tenant, id, page).await?.ok_or(KnowledgeError::Unknown(id))
    }

    /// Removes a document and everything that was made of it, for good.
    pub async fn remove_document(&self, tenant: &TenantScope, id: DocumentId) -> Result<Receipt, KnowledgeError> {
        self.erase(Erasure::Document(tenant.clone(), id)).await?.ok_or(KnowledgeError::Unknown(id))
    }

    /// The passages that are nearest to a question, best first.
    pub async fn search_knowledge(
        &self,
        tenant: &TenantScope,
        question: &str,
        limit: usize,
    ) -> Result<Vec<FoundPassage>, KnowledgeError> {
        check_text(question, self.of(tenant.tenant()).settings.query_chars_max)
            .map_err(|reason| KnowledgeError::Text { field: "query", reason })?;
        Ok(self.recall.search_knowledge(tenant, question, limit).await?)
    }
}

/// Whether words tell something, rather than ask or demand it.
fn teaches(said: &str) -> bool {
    let saying = Saying { text: said, tongue: Tongue::English, has_history: false, answers: None };
    matches!(read_intent(&saying).name, "statement" | "correction")
}
