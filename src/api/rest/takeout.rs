//! A memory as a file, and files into a memory.

use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::channel;
use utoipa::{IntoParams, ToSchema};

use crate::api::App;
use crate::api::access::Visitor;
use crate::api::body::{Arriving, shape};
use crate::api::budget::Reservation;
use crate::api::error::{ApiError, ErrorView};
use crate::api::idempotency::KeyedRequest;
use crate::api::params::Params;
use crate::id::SessionId;
use crate::review::{ExportRequest, ImportReport, Importer};
use crate::store::{Made, MadeImport, RequestError};
use crate::takeout::{Cursor, LINE_BYTES_MAX, Line, VERSION, open};

/// Lines of JSON.
const LINES_TYPE: &str = "application/x-ndjson";
/// Pieces that wait for a slow reader.
const PIECES_WAITING: usize = 4;
/// Memory that an export may take while its reader is slow: a page of turns as records and as lines (one long turn is a page),
/// and the pieces that wait.
const EXPORT_BYTES: usize = 4 << 20;

/// What to export.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct ExportQuery {
    /// The user, when no header names one.
    user_id: Option<String>,
    /// `true` for all users of the tenant.
    #[serde(default)]
    everyone: bool,
    /// One conversation, a UUID.
    session: Option<String>,
    /// Only what was said since: RFC 3339.
    since: Option<String>,
    /// `true` for ephemeral conversations, too.
    #[serde(default)]
    live: bool,
    /// The `cursor` of the last line of an export that broke off.
    after: Option<String>,
}

/// A memory as lines of JSON, one record each; see docs/takeout.md.
#[utoipa::path(get, path = "/api/v1/export", params(ExportQuery),
    responses((status = 200, body = String, content_type = "application/x-ndjson"),
              (status = 400, body = ErrorView), (status = 403, body = ErrorView), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn export(
    State(app): State<App>,
    visitor: Visitor,
    Params(query): Params<ExportQuery>,
) -> Result<Response, ApiError> {
    let request = query.request(&app, &visitor)?;
    visitor.reservation.take(EXPORT_BYTES)?;
    let (pieces, mut taken) = channel(PIECES_WAITING);
    let memory = app.memory.clone();
    let task = tokio::spawn(async move { memory.export(request, pieces).await });
    // An export that fails before its first piece gets the status it deserves.
    let Some(first) = taken.recv().await else {
        let ended = task.await.map_err(|error| broke(error.to_string()))?;
        return Err(ended.err().map_or_else(|| broke("it said nothing".into()), ApiError::from));
    };
    let rest = stream::unfold(taken, |mut taken| async { taken.recv().await.map(|piece| (Ok(piece), taken)) });
    let end = stream::once(async {
        match task.await {
            Ok(Ok(_)) => Ok(Bytes::new()),
            Ok(Err(error)) => Err(std::io::Error::other(error)),
            Err(error) => Err(std::io::Error::other(error)),
        }
    });
    let body = Body::from_stream(stream::iter([Ok(first)]).chain(rest).chain(end));
    Ok(([(header::CONTENT_TYPE, LINES_TYPE)], body).into_response())
}

fn broke(detail: String) -> ApiError {
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "export_broke", "The export broke off", detail)
}

impl ExportQuery {
    fn request(&self, app: &App, visitor: &Visitor) -> Result<ExportRequest, ApiError> {
        let session = self.session.as_deref().map(|id| SessionId::parse(id).ok_or_else(ApiError::invalid_session));
        let session = session.transpose()?;
        let whose = app.whose(visitor, self.user_id.as_deref(), session, self.everyone)?;
        let since = self.since.as_deref().filter(|text| !text.is_empty()).map(|text| {
            text.parse::<Timestamp>().map_err(|_| {
                let detail = format!("since is `{text}`, it must be a time such as 2026-05-12T14:03:00Z");
                ApiError::bad_request("invalid_time", "Invalid time", detail)
            })
        });
        let after = self.after.as_deref().filter(|text| !text.is_empty()).map(|text| {
            Cursor::parse(text).ok_or_else(|| {
                let detail = "after must be the `cursor` of a line of an earlier export";
                ApiError::bad_request("invalid_cursor", "Invalid cursor", detail)
            })
        });
        Ok(ExportRequest { whose, session, since: since.transpose()?, live: self.live, after: after.transpose()? })
    }
}

/// How to import.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct ImportQuery {
    /// The user who gets it all, when no header names one.
    user_id: Option<String>,
    /// `true` gives everything to the users that the lines name.
    #[serde(default)]
    everyone: bool,
    /// `true` writes nothing, and counts what would be written.
    #[serde(default)]
    dry_run: bool,
    /// `true` when the first conversation goes on from an import before, and is counted there.
    #[serde(default)]
    again: bool,
}

/// What an import came to.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct ImportView {
    /// Conversations that are new, and those that were here.
    sessions: u64,
    sessions_known: u64,
    /// Turns that are new, those that were here, and those that were here without the answer that came now.
    turns: u64,
    turns_known: u64,
    turns_completed: u64,
    /// Messages in new turns.
    messages: u64,
    topics: u64,
    episodes: u64,
    /// Names under which something about a user is new, and documents that are.
    facts: u64,
    documents: u64,
    /// Whether the lines broke off before the last line of their export.
    truncated: bool,
    /// How many lines were refused, and the first thousand of them.
    refused_count: u64,
    refused: Vec<RefusedLine>,
}

/// A line that was not taken in.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct RefusedLine {
    /// Counted from 1.
    line: u64,
    reason: String,
}

impl ImportView {
    fn of(report: ImportReport, truncated: bool) -> Self {
        let refused = report.refused.into_iter().map(|(line, reason)| RefusedLine { line, reason }).collect();
        Self {
            sessions: report.sessions,
            sessions_known: report.sessions_known,
            turns: report.taken.turns,
            turns_known: report.taken.known,
            turns_completed: report.taken.completed,
            messages: report.taken.messages,
            topics: report.topics,
            episodes: report.taken.episodes,
            facts: report.facts,
            documents: report.documents,
            truncated,
            refused_count: report.refused_count,
            refused,
        }
    }
}

impl ImportView {
    /// What is noted of it for when the same request comes again: no word of what was in the lines.
    fn made(&self) -> MadeImport {
        let counts = [
            self.sessions,
            self.sessions_known,
            self.turns,
            self.turns_known,
            self.turns_completed,
            self.messages,
            self.topics,
            self.episodes,
            self.facts,
            self.documents,
            self.refused_count,
        ];
        let refused = self.refused.iter().map(|refused| refused.line).collect();
        MadeImport { counts: counts.to_vec(), truncated: self.truncated, refused }
    }

    fn again(made: &MadeImport) -> Self {
        let count = |n: usize| made.counts.get(n).copied().unwrap_or_default();
        let reason = || "refused when this import was taken in".to_owned();
        Self {
            sessions: count(0),
            sessions_known: count(1),
            turns: count(2),
            turns_known: count(3),
            turns_completed: count(4),
            messages: count(5),
            topics: count(6),
            episodes: count(7),
            facts: count(8),
            documents: count(9),
            truncated: made.truncated,
            refused_count: count(10),
            refused: made.refused.iter().map(|line| RefusedLine { line: *line, reason: reason() }).collect(),
        }
    }
}

/// Takes in the lines of an export, however many: they are read as they come.
#[utoipa::path(post, path = "/api/v1/import", params(ImportQuery),
    request_body(content = String, content_type = "application/x-ndjson"),
    responses((status = 200, body = ImportView), (status = 400, body = ErrorView), (status = 403, body = ErrorView),
              (status = 413, body = ErrorView), (status = 415, body = ErrorView)))]
pub(in crate::api) async fn import(
    State(app): State<App>,
    visitor: Visitor,
    Params(query): Params<ImportQuery>,
    body: Body,
) -> Result<Json<ImportView>, ApiError> {
    check_type(&visitor)?;
    let whose = app.whose(&visitor, query.user_id.as_deref(), None, query.everyone)?;
    let (keeper, asker) = app.keeper(&visitor);
    let named = query.user_id.as_deref().unwrap_or_default();
    let route = format!("import {} {} {named}", query.everyone, query.again);
    // A dry run makes nothing.
    let keyed = KeyedRequest::of(&visitor, &keeper, &asker, &route)?.filter(|_| !query.dry_run);
    let mut keyed = keyed.map(|request| request.asking(&[]));
    let before = match &keyed {
        Some(request) => app.memory.done_request(&keeper, request.key()).await?,
        None => None,
    };
    let importer = app.memory.import(whose, query.dry_run, query.again);
    let reservation = Arc::clone(&visitor.reservation);
    let mut reading = Reading { importer, reservation, line: Vec::new(), number: 0, begun: false, ended: false };
    let mut arriving = Arriving::new(body, app.doors.body_timeout);
    // What came before an error is taken in.
    while let Some(piece) = arriving.next().await? {
        if let Some(request) = &mut keyed {
            request.more(&piece);
        }
        // What was taken in before is read to see whether it is the same.
        if before.is_none() {
            reading.take(&piece).await?;
        }
    }
    let mark = keyed.map(KeyedRequest::mark);
    if let (Some(before), Some(mark)) = (before, &mark) {
        return match before.answer_to(mark)? {
            Made::Import(came_to) => Ok(Json(ImportView::again(&came_to))),
            _ => Err(RequestError::KeyReused.into()),
        };
    }
    let truncated = reading.last().await?;
    let view = ImportView::of(reading.importer.finish().await?, truncated);
    let Some(mark) = mark else { return Ok(Json(view)) };
    let came_to = app.memory.import_once(&keeper, &mark, view.made()).await?;
    // The same import came at the same time, and was noted first.
    Ok(Json(if came_to == view.made() { view } else { ImportView::again(&came_to) }))
}

/// JSON, or lines of it. A browser's plain form has neither type, so other sites' pages cannot post.
fn check_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let kind = given.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    if [LINES_TYPE, "application/jsonl", "application/json"].contains(&kind.as_str()) {
        return Ok(());
    }
    let detail = format!("the content type is `{given}`, it must be {LINES_TYPE}");
    Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", "Content type must be lines of JSON", detail))
}

/// Lines that come in pieces.
struct Reading {
    importer: Importer,
    /// A line takes memory until it is read.
    reservation: Arc<Reservation>,
    line: Vec<u8>,
    number: u64,
    begun: bool,
    ended: bool,
}

impl Reading {
    async fn take(&mut self, piece: &[u8]) -> Result<(), ApiError> {
        let mut parts = piece.split(|byte| *byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            self.reservation.take(part.len())?;
            self.line.extend_from_slice(part);
            if self.line.len() > LINE_BYTES_MAX {
                let detail = format!("line {} is longer than {LINE_BYTES_MAX} bytes", self.number + 1);
                return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", "Line too long", detail));
            }
            if parts.peek().is_some() {
                self.line().await?;
            }
        }
        Ok(())
    }

    async fn line(&mut self) -> Result<(), ApiError> {
        self.number += 1;
        let line = std::mem::take(&mut self.line);
        let memory = shape(&line).memory();
        self.reservation.take(memory)?;
        let read = self.read(&line).await;
        self.reservation.give_back(line.len() + memory);
        read
    }

    async fn read(&mut self, line: &[u8]) -> Result<(), ApiError> {
        let read = match std::str::from_utf8(line) {
            Ok(text) if text.trim().is_empty() => return Ok(()),
            Ok(text) => open(text).map_err(|error| error.to_string()),
            Err(_) => Err("it is not text".to_owned()),
        };
        match read {
            Ok(Line::Header(header)) if header.version > VERSION => {
                let detail = format!("the lines are of version {}, this server reads up to {VERSION}", header.version);
                Err(ApiError::bad_request("newer_version", "Version not known", detail))
            }
            Ok(line) => {
                self.begun |= matches!(line, Line::Header(_));
                self.ended = matches!(line, Line::End(_));
                Ok(self.importer.take(self.number, line).await?)
            }
            Err(reason) => {
                self.importer.refuse(self.number, reason);
                Ok(())
            }
        }
    }

    /// Takes what came behind the last line end. Answers whether something is missing.
    async fn last(&mut self) -> Result<bool, ApiError> {
        if !self.line.is_empty() {
            self.line().await?;
        }
        Ok(self.begun && !self.ended)
    }
}
