//! What a tenant knows: documents and notes, shared by all its users.

use std::time::Instant;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::forget::ReceiptView;
use super::recall::within;
use super::upload::{Brought, UploadQuery};
use super::{ListQuery, cursor};
use crate::api::App;
use crate::api::access::Visitor;
use crate::api::error::{ApiError, ErrorView};
use crate::api::idempotency::KeyedRequest;
use crate::api::params::Params;
use crate::api::view::{CitationView, DocumentView, millis, part_of, thousandths};
use crate::id::DocumentId;
use crate::knowledge::{Passage, PassageId};
use crate::recall::FoundPassage;
use crate::review::KeptRequest;

/// Passages that may be asked for.
const FOUND_MAX: std::ops::RangeInclusive<usize> = 1..=50;
const FOUND: usize = 10;

/// Documents that were added.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct AddedDocuments {
    documents: Vec<DocumentView>,
}

/// A page of documents.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct DocumentList {
    documents: Vec<DocumentView>,
    /// The cursor of the next page, or null.
    next: Option<String>,
}

/// A passage of a document.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct PassageView {
    chunk_id: String,
    /// Counted from 1 within the document.
    number: u32,
    /// The headings it stands under; empty for none.
    heading: String,
    /// A page, slide or sheet; empty for nowhere in particular.
    place: String,
    text: String,
    tokens: u32,
}

impl PassageView {
    fn of(id: PassageId, passage: Passage) -> Self {
        let Passage { number, heading, place, text, tokens } = passage;
        Self { chunk_id: id.to_string(), number, heading, place, text, tokens }
    }
}

/// A page of passages.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct PassageList {
    passages: Vec<PassageView>,
    /// The cursor of the next page, or null.
    next: Option<String>,
}

/// What is looked for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct KnowledgeSearch {
    query: String,
    /// Most passages to find, 1 to 50; 10 if not given.
    limit: Option<usize>,
}

/// Passages that were found, best first.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct FoundPassages {
    passages: Vec<FoundPassageView>,
    took_ms: f64,
}

/// A passage that was found.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct FoundPassageView {
    #[serde(flatten)]
    citation: CitationView,
    document_id: String,
    heading: String,
    place: String,
    text: String,
    /// Comparable within one answer only.
    score: f64,
    /// Whether a model would be shown it: what is nearest may still have nothing to do with the question.
    related: bool,
    /// What each signal contributed.
    #[schema(value_type = Object)]
    signals: Map<String, Value>,
}

impl From<FoundPassage> for FoundPassageView {
    fn from(found: FoundPassage) -> Self {
        let FoundPassage { passage, citation, score, related, signals } = found;
        Self {
            document_id: citation.passage.document.to_string(),
            citation: CitationView::from(citation),
            heading: passage.heading,
            place: passage.place,
            text: passage.text,
            score: thousandths(score.into()),
            related,
            signals: signals.iter().map(|(name, part)| part_of(name, *part)).collect(),
        }
    }
}

/// What was removed.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct RemovedDocument {
    id: String,
    #[serde(flatten)]
    receipt: ReceiptView,
}

/// A tenant's documents, oldest first.
#[utoipa::path(get, path = "/api/v1/knowledge", params(ListQuery),
    responses((status = 200, body = DocumentList), (status = 400, body = ErrorView)))]
pub(in crate::api) async fn list(
    State(app): State<App>,
    visitor: Visitor,
    Params(query): Params<ListQuery>,
) -> Result<Json<DocumentList>, ApiError> {
    let page = app.memory.documents(&app.shared(&visitor), query.part()?).await?;
    let documents = page.items.into_iter().map(DocumentView::from).collect();
    Ok(Json(DocumentList { documents, next: cursor(page.next) }))
}

/// Adds files (`multipart/form-data`, or one as the body with `?name=`) or a note (`{"title", "text"}`). One whose name is known
/// is a new version.
#[utoipa::path(post, path = "/api/v1/knowledge", params(UploadQuery),
    request_body(content(
        (NoteDraft = "application/json"), (Vec<u8> = "multipart/form-data"), (Vec<u8> = "application/octet-stream"))),
    responses((status = 201, body = AddedDocuments), (status = 400, body = ErrorView), (status = 413, body = ErrorView),
              (status = 415, body = ErrorView), (status = 503, body = ErrorView)))]
pub(in crate::api) async fn add(
    State(app): State<App>,
    visitor: Visitor,
    Params(query): Params<UploadQuery>,
    body: Body,
) -> Result<(StatusCode, Json<AddedDocuments>), ApiError> {
    let tenant = app.shared(&visitor);
    let brought = app.read_upload(&visitor, query, body).await?;
    let request = kept_request(&app, &visitor, &brought)?;
    let documents = match brought {
        Brought::Files(files) => app.memory.add_documents(&tenant, files, request).await?,
        Brought::Note(NoteDraft { title, text }) => vec![app.memory.add_note(&tenant, &title, &text, request).await?],
    };
    let documents = documents.into_iter().map(DocumentView::from).collect();
    Ok((StatusCode::CREATED, Json(AddedDocuments { documents })))
}

/// The request, if it has a key. A form is the files in it: what parts them is new with each try.
fn kept_request(app: &App, visitor: &Visitor, brought: &Brought) -> Result<Option<KeptRequest>, ApiError> {
    let (keeper, asker) = app.keeper(visitor);
    let Some(request) = KeyedRequest::of(visitor, &keeper, &asker, "knowledge")? else { return Ok(None) };
    let request = match brought {
        Brought::Files(files) => files.iter().fold(request, |request, file| {
            let title = file.title.as_deref().unwrap_or_default();
            request.asking(file.name.as_bytes()).asking(title.as_bytes()).asking(&file.bytes)
        }),
        Brought::Note(note) => request.asking(note.title.as_bytes()).asking(note.text.as_bytes()),
    };
    Ok(Some(KeptRequest { keeper, mark: request.mark() }))
}

/// A note to be kept.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct NoteDraft {
    /// What it is about; a note of the same title is replaced.
    title: String,
    text: String,
}

/// The passages that are nearest to a question.
#[utoipa::path(post, path = "/api/v1/knowledge/search", request_body = KnowledgeSearch,
    responses((status = 200, body = FoundPassages), (status = 400, body = ErrorView)))]
pub(in crate::api) async fn search(
    State(app): State<App>,
    visitor: Visitor,
    body: Body,
) -> Result<Json<FoundPassages>, ApiError> {
    let KnowledgeSearch { query, limit } = app.read_json(&visitor, body).await?;
    let limit = within("limit", limit, FOUND_MAX)?.unwrap_or(FOUND);
    let started = Instant::now();
    let found = app.memory.search_knowledge(&app.shared(&visitor), &query, limit).await?;
    let took_ms = millis(started.elapsed());
    Ok(Json(FoundPassages { passages: found.into_iter().map(FoundPassageView::from).collect(), took_ms }))
}

/// One document.
#[utoipa::path(get, path = "/api/v1/knowledge/{id}", params(("id" = String, Path, description = "A UUID")),
    responses((status = 200, body = DocumentView), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn show(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Json<DocumentView>, ApiError> {
    Ok(Json(app.memory.document(&app.shared(&visitor), document_id(&id)?).await?.into()))
}

/// Removes a document with everything that was made of it.
#[utoipa::path(delete, path = "/api/v1/knowledge/{id}", params(("id" = String, Path, description = "A UUID")),
    responses((status = 200, body = RemovedDocument), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn remove(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Json<RemovedDocument>, ApiError> {
    let id = document_id(&id)?;
    let receipt = app.memory.remove_document(&app.shared(&visitor), id).await?.into();
    Ok(Json(RemovedDocument { id: id.to_string(), receipt }))
}

/// The file as it came. It is handed out to be saved, never to be shown: it may be a page with scripts in it.
#[utoipa::path(get, path = "/api/v1/knowledge/{id}/original", params(("id" = String, Path, description = "A UUID")),
    responses((status = 200, body = Vec<u8>, content_type = "application/octet-stream"), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn original(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let (document, bytes) = app.memory.original(&app.shared(&visitor), document_id(&id)?).await?;
    let name = percent_encoding::utf8_percent_encode(&document.name, percent_encoding::NON_ALPHANUMERIC);
    let mut response = bytes.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(disposition) = HeaderValue::try_from(format!("attachment; filename*=UTF-8''{name}")) {
        headers.insert(header::CONTENT_DISPOSITION, disposition);
    }
    Ok(response)
}

/// What a document was cut into, in order.
#[utoipa::path(get, path = "/api/v1/knowledge/{id}/passages",
    params(("id" = String, Path, description = "A UUID"), ListQuery),
    responses((status = 200, body = PassageList), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn passages(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
    Params(query): Params<ListQuery>,
) -> Result<Json<PassageList>, ApiError> {
    let (tenant, id) = (app.shared(&visitor), document_id(&id)?);
    let document = app.memory.document(&tenant, id).await?;
    let page = app.memory.passages(&tenant, id, query.part()?).await?;
    let view = |passage: Passage| {
        let id = PassageId { document: document.id, version: document.version, number: passage.number };
        PassageView::of(id, passage)
    };
    Ok(Json(PassageList { passages: page.items.into_iter().map(view).collect(), next: cursor(page.next) }))
}

fn document_id(text: &str) -> Result<DocumentId, ApiError> {
    DocumentId::parse(text).ok_or_else(|| {
        ApiError::bad_request("invalid_id", "Invalid document id", format!("`{text}` is no document's id, a UUID"))
    })
}
