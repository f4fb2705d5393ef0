//! What a client is told when something is wrong. The only place that knows status codes.
//!
//! Nothing is logged here: whoever met the failure has told the log for whom, where and why.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::identity::SESSION_HEADER;
use crate::clarify::ClarificationError;
use crate::id::SessionId;
use crate::knowledge::ParseError;
use crate::memory::ReadError;
use crate::model::ModelError;
use crate::recall::RecallError;
use crate::review::{KnowledgeError, ReviewError, TenantError};
use crate::session::TextError;
use crate::store::live::LiveError;
use crate::store::{RequestError, StoreError};
use crate::tenant::{KeyError, OverLimit};
use crate::turn::TurnError;

/// The header that carries the stable code of an error.
pub(super) const CODE_HEADER: HeaderName = HeaderName::from_static("x-recalld-code");

/// When it is worth asking again for what only the database can do.
const AWAY_WAIT: Duration = Duration::from_secs(5);

/// An error on its way to a client.
#[derive(Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    code: &'static str,
    error: String,
    detail: String,
    session: Option<SessionId>,
    retry_after: Option<String>,
}

/// An error as a client sees it.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct ErrorView {
    /// What happened.
    pub(super) error: String,
    /// To what, and what to do.
    pub(super) detail: String,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, code: &'static str, error: &str, detail: impl Into<String>) -> Self {
        Self { status, code, error: error.to_owned(), detail: detail.into(), session: None, retry_after: None }
    }

    /// The request is wrong in itself.
    pub(super) fn bad_request(code: &'static str, error: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, error, detail)
    }

    /// C2: exactly these two fields.
    pub(super) fn invalid_session() -> Self {
        Self::bad_request("invalid_session_id", "Invalid session_id format", "session_id must be a valid UUID")
    }

    /// A7: exactly these words.
    pub(super) fn no_uploads(detail: &str) -> Self {
        Self::bad_request("uploads_not_allowed", "File uploads not allowed for ephemeral sessions", detail)
    }

    /// A text in the request is not one.
    pub(super) fn text(field: &str, reason: &TextError) -> Self {
        let (status, code) = text_code(reason);
        Self::new(status, code, "Invalid text", format!("{field} {reason}"))
    }

    /// Too many wrong keys came from one address.
    pub(super) fn too_many_keys(wait: Duration) -> Self {
        let seconds = (wait.as_secs() + 1).to_string();
        let detail = format!("too many wrong keys came from your address; try again in {seconds} s");
        let mut error = Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_wrong_keys", "Too many wrong keys", detail);
        error.retry_after = Some(seconds);
        error
    }

    /// When it may be worth trying again.
    pub(super) fn after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait.as_secs().max(1).to_string());
        self
    }

    /// The response carries the session all the same.
    pub(super) fn in_session(mut self, session: SessionId) -> Self {
        self.session = Some(session);
        self
    }

    /// The body, for doors that send errors inside a stream.
    pub(super) fn view(&self) -> ErrorView {
        ErrorView { error: self.error.clone(), detail: self.detail.clone() }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, axum::Json(self.view())).into_response();
        // For doors that put errors differently.
        response.extensions_mut().insert(self.view());
        let headers = response.headers_mut();
        headers.insert(CODE_HEADER, HeaderValue::from_static(self.code));
        let value = |text: String| HeaderValue::try_from(text).ok();
        if let Some(session) = self.session.and_then(|session| value(session.to_string())) {
            headers.insert(SESSION_HEADER, session);
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(after) = self.retry_after.and_then(value) {
            headers.insert(header::RETRY_AFTER, after);
        }
        response
    }
}

fn text_code(error: &TextError) -> (StatusCode, &'static str) {
    match error {
        TextError::Blank => (StatusCode::BAD_REQUEST, "blank_text"),
        TextError::TooLong { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "text_too_long"),
        TextError::Control(_) => (StatusCode::BAD_REQUEST, "control_character"),
    }
}

impl From<OverLimit> for ApiError {
    fn from(over: OverLimit) -> Self {
        let (code, title) = match over.limit.passes() {
            true => ("rate_limit_exceeded", "Too much at once"),
            false => ("insufficient_quota", "Quota used up"),
        };
        let mut error = Self::new(StatusCode::TOO_MANY_REQUESTS, code, title, over.to_string());
        error.retry_after = Some(over.seconds().to_string());
        error
    }
}

impl From<KeyError> for ApiError {
    fn from(error: KeyError) -> Self {
        Self::bad_request("invalid_key", "Invalid key", error.to_string())
    }
}

impl From<TenantError> for ApiError {
    fn from(error: TenantError) -> Self {
        let detail = error.to_string();
        match error {
            TenantError::Live(live) => live.into(),
            TenantError::Unknown(_) => Self::new(StatusCode::NOT_FOUND, "unknown_tenant", "Tenant not found", detail),
            TenantError::Exists(_) => Self::new(StatusCode::CONFLICT, "tenant_exists", "Tenant exists", detail),
            TenantError::Unreachable(_) => Self::bad_request("invalid_id", "Invalid tenant", detail),
            TenantError::HasSessions { .. } => Self::new(
                StatusCode::CONFLICT,
                "tenant_in_use",
                "Tenant in use",
                format!("{detail}; say so with ?everything=true"),
            ),
            TenantError::Settings(_) => Self::bad_request("invalid_settings", "Invalid settings", detail),
            TenantError::UnknownKey(_) => Self::new(StatusCode::NOT_FOUND, "unknown_key", "Key not found", detail),
            TenantError::EndedKey(_) => Self::new(StatusCode::CONFLICT, "key_ended", "Key has ended", detail),
            TenantError::Key(key) => key.into(),
            TenantError::Store(store) => store.into(),
        }
    }
}

impl From<KnowledgeError> for ApiError {
    fn from(error: KnowledgeError) -> Self {
        let detail = error.to_string();
        match error {
            KnowledgeError::Unknown(_) => {
                Self::new(StatusCode::NOT_FOUND, "unknown_document", "Document not found", detail)
            }
            KnowledgeError::Name(_) => Self::bad_request("invalid_name", "Invalid name", detail),
            KnowledgeError::Nothing => Self::bad_request("no_file", "No file", detail),
            KnowledgeError::Text { ref reason, .. } => {
                let (status, code) = text_code(reason);
                Self::new(status, code, "Invalid text", detail)
            }
            KnowledgeError::TooLarge { .. } => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "document_too_large", "Document too large", detail)
            }
            KnowledgeError::Unread { ref reason, .. } => unread(reason, detail),
            KnowledgeError::Busy => {
                let mut error = Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "Too many uploads", detail);
                error.retry_after = Some("5".to_owned());
                error
            }
            KnowledgeError::Request(request) => request.into(),
            KnowledgeError::OverLimit(over) => over.into(),
            KnowledgeError::Store(store) => store.into(),
            KnowledgeError::Stopping => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "Server is stopping", "ask again in a moment")
            }
        }
    }
}

/// Why a file was not read, as clients are told.
fn unread(reason: &ReadError, detail: String) -> ApiError {
    let file = match reason {
        ReadError::File(file) => file,
        ReadError::NoParser => {
            return ApiError::new(StatusCode::NOT_IMPLEMENTED, "no_parser", "Files cannot be read", detail);
        }
        ReadError::Parser(_) => {
            return ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "parser_failed", "Files cannot be read", detail);
        }
    };
    let (status, code, title) = match file {
        ParseError::Unsupported { .. } => {
            (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_document", "Document not supported")
        }
        ParseError::Encrypted => (StatusCode::BAD_REQUEST, "document_encrypted", "Document is encrypted"),
        ParseError::Broken { .. } => (StatusCode::BAD_REQUEST, "document_broken", "Document is broken"),
        ParseError::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "document_too_large", "Document too large"),
        ParseError::Empty { .. } => (StatusCode::BAD_REQUEST, "document_empty", "Document is empty"),
        ParseError::TooCostly { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "document_too_costly", "Document too costly"),
    };
    ApiError::new(status, code, title, detail)
}

impl From<RecallError> for ApiError {
    fn from(error: RecallError) -> Self {
        match error {
            RecallError::Store(store) => store.into(),
            RecallError::Interrupted => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "Server is stopping", "ask again in a moment")
            }
        }
    }
}

impl From<TurnError> for ApiError {
    fn from(error: TurnError) -> Self {
        let detail = error.to_string();
        match error {
            TurnError::Query(ref text) | TurnError::Role(ref text) => {
                let (status, code) = text_code(text);
                Self::new(status, code, "Invalid text", detail)
            }
            TurnError::DoesNotFit(_) => Self::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "question_too_long",
                "Question too long",
                format!("{detail}; shorten it, or raise `model_tokens_max` if the model takes more"),
            ),
            TurnError::Model(model) => model.into(),
            TurnError::Endless(_) => Self::new(StatusCode::BAD_GATEWAY, "answer_too_long", "Answer too long", detail),
            TurnError::Store(store) => store.into(),
            TurnError::OverLimit(over) => over.into(),
            TurnError::Live(live) => live.into(),
            TurnError::Request(request) => request.into(),
            TurnError::Stopping => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "Server is stopping", "ask again in a moment")
            }
        }
    }
}

impl From<RequestError> for ApiError {
    fn from(error: RequestError) -> Self {
        let detail = error.to_string();
        match error {
            RequestError::KeyReused => Self::new(StatusCode::CONFLICT, "key_reused", "Idempotency-Key reused", detail),
            RequestError::Gone => Self::new(StatusCode::GONE, "request_gone", "What it made is gone", detail),
        }
    }
}

impl From<LiveError> for ApiError {
    fn from(error: LiveError) -> Self {
        let detail = error.to_string();
        match error {
            LiveError::TooManySessions { retry_after, .. } => {
                let detail = format!("{detail}; end one, or try again later");
                Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_sessions", "Too many sessions", detail)
                    .after(retry_after)
            }
            LiveError::Full { retry_after, .. } => {
                let detail = format!("{detail}; try again later");
                Self::new(StatusCode::TOO_MANY_REQUESTS, "sessions_full", "No room for a session", detail)
                    .after(retry_after)
            }
            LiveError::TooLarge { .. } => Self::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "session_memory_exceeded",
                "Too large for a session",
                format!("{detail}; send less at once"),
            ),
            LiveError::Gone(_) => Self::new(StatusCode::NOT_FOUND, "unknown_session", "Session not found", detail),
            LiveError::NoSuchTurn(_) => Self::new(StatusCode::NOT_FOUND, "unknown_turn", "Turn not found", detail),
            LiveError::Taken(_) => Self::new(StatusCode::CONFLICT, "session_exists", "Session exists", detail),
            LiveError::Unreachable(_) => {
                let detail = format!("{detail}; nothing was asked. Try again in a moment");
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "sessions_unreachable", "Sessions unreachable", detail)
                    .after(std::time::Duration::from_secs(2))
            }
        }
    }
}

impl From<ModelError> for ApiError {
    fn from(error: ModelError) -> Self {
        let detail = error.to_string();
        let bad = |code, title: &str, detail| Self::new(StatusCode::BAD_GATEWAY, code, title, detail);
        match error {
            ModelError::Unreachable { .. } => bad(
                "model_unreachable",
                "Model unreachable",
                format!("{detail}; check that it runs and that `upstream` is its base URL"),
            ),
            ModelError::Silent(_) => Self::new(StatusCode::GATEWAY_TIMEOUT, "model_timeout", "Model timed out", detail),
            ModelError::Refused { retry_after, .. } => {
                let mut error = bad("model_refused", "Model refused", detail);
                error.retry_after = retry_after;
                error
            }
            ModelError::Unreadable(_) => bad("model_unreadable", "Model answer unreadable", detail),
            ModelError::BrokeOff(_) => bad("model_broke_off", "Model answer broke off", detail),
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let detail = error.to_string();
        let server = |code, title: &str, detail| Self::new(StatusCode::INTERNAL_SERVER_ERROR, code, title, detail);
        match error {
            StoreError::Refused(_) => Self::bad_request("refused", "Data refused", detail),
            StoreError::Full(_) | StoreError::Disk(_) => Self::new(
                StatusCode::INSUFFICIENT_STORAGE,
                "storage_full",
                "Storage unavailable",
                format!("{detail}; nothing was stored. Free some space; recalld goes on by itself"),
            ),
            StoreError::Away(_) => {
                let detail = format!("{detail}; nothing was stored. Ask again in a moment; chat goes on meanwhile");
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "database_away", "Database unavailable", detail)
                    .after(AWAY_WAIT)
            }
            StoreError::Damaged { number, .. } => server(
                "damaged",
                "Stored data is damaged",
                format!("{detail}; it is not shown. Read on behind it with ?after={number}"),
            ),
            StoreError::Unreadable { number, .. } => server(
                "unreadable",
                "Stored data is of a newer recalld",
                format!("{detail}. It was left as it is; read on behind it with ?after={number}"),
            ),
            StoreError::Repeated => {
                let detail = format!("{detail}, or is being answered; send it again in a moment");
                Self::new(StatusCode::CONFLICT, "request_running", "Request came twice", detail)
            }
            StoreError::DamagedRevision { .. } | StoreError::DamagedFile(_) => {
                server("damaged", "Stored data is damaged", detail)
            }
            StoreError::Closed => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "Server is stopping", "ask again in a moment")
            }
            _ => server("storage_error", "Storage error", detail),
        }
    }
}

impl From<ReviewError> for ApiError {
    fn from(error: ReviewError) -> Self {
        let detail = error.to_string();
        match error {
            ReviewError::UnknownSession(_) => {
                Self::new(StatusCode::NOT_FOUND, "unknown_session", "Session not found", detail)
            }
            ReviewError::UnknownTurn(_) => Self::new(StatusCode::NOT_FOUND, "unknown_turn", "Turn not found", detail),
            ReviewError::UnknownMessage(_) => {
                Self::new(StatusCode::NOT_FOUND, "unknown_message", "Message not found", detail)
            }
            ReviewError::UnknownUser(_) => Self::new(StatusCode::NOT_FOUND, "unknown_user", "User not found", detail),
            ReviewError::UnknownDocument(_) => {
                Self::new(StatusCode::NOT_FOUND, "unknown_document", "Document not found", detail)
            }
            ReviewError::UnknownTenant(_) => {
                Self::new(StatusCode::NOT_FOUND, "unknown_tenant", "Tenant not found", detail)
            }
            ReviewError::UnknownTopic(_) => {
                Self::new(StatusCode::NOT_FOUND, "unknown_topic", "Topic not found", detail)
            }
            ReviewError::NoTopic(_) => Self::new(StatusCode::NOT_FOUND, "no_topic", "Topic not found", detail),
            ReviewError::UnknownFact(_) => Self::new(StatusCode::NOT_FOUND, "unknown_fact", "Fact not found", detail),
            ReviewError::NothingLearned(_) => {
                Self::new(StatusCode::NOT_FOUND, "unknown_message", "Message not found", detail)
            }
            ReviewError::UnknownUndo(_) => Self::new(StatusCode::NOT_FOUND, "unknown_undo", "Undo not found", detail),
            ReviewError::NotHeld { .. } => Self::new(StatusCode::CONFLICT, "fact_not_held", "Fact not held", detail),
            ReviewError::NothingToUndo => Self::new(StatusCode::CONFLICT, "nothing_to_undo", "Nothing to undo", detail),
            ReviewError::NothingToChange => Self::bad_request("nothing_to_change", "Nothing to change", detail),
            ReviewError::Importance(_) => Self::bad_request("invalid_importance", "Invalid importance", detail),
            ReviewError::UnknownClarification(_) => {
                Self::new(StatusCode::NOT_FOUND, "unknown_clarification", "Clarification not found", detail)
            }
            ReviewError::Clarification(ClarificationError::Text { ref reason, .. }) => {
                let (status, code) = text_code(reason);
                Self::new(status, code, "Invalid text", detail)
            }
            ReviewError::Clarification(_) => {
                Self::bad_request("invalid_clarification", "Invalid clarification", detail)
            }
            ReviewError::TooManyTags { .. } => Self::bad_request("too_many_tags", "Too many tags", detail),
            ReviewError::Text { reason, .. } => {
                let (status, code) = text_code(&reason);
                Self::new(status, code, "Invalid text", detail)
            }
            ReviewError::Metadata { .. } => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "metadata_too_large", "Metadata too large", detail)
            }
            ReviewError::Request(request) => request.into(),
            ReviewError::Nothing => Self::bad_request("nothing_to_add", "Nothing to add", detail),
            ReviewError::TooMany { .. } => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_many_messages", "Too many messages", detail)
            }
            ReviewError::DoesNotFit(_) => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "question_too_long", "Question too long", detail)
            }
            ReviewError::CursorGone => Self::new(StatusCode::GONE, "cursor_gone", "Nothing to go on behind", detail),
            ReviewError::NobodyReads => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "Server is stopping", "ask again in a moment")
            }
            ReviewError::Live(live) => live.into(),
            ReviewError::Busy(_) => Self::new(StatusCode::CONFLICT, "session_busy", "Session busy", detail),
            ReviewError::NoVisits(_) => {
                Self::new(StatusCode::NOT_FOUND, "session_memory_off", "No ephemeral sessions", detail)
            }
            ReviewError::OverLimit(over) => over.into(),
            ReviewError::Store(store) => store.into(),
        }
    }
}
