//! `/v1`: any OpenAI client gains memory by a base URL.
//!
//! Reading order: `route` (what a path asks for), the doors here, `request` (a body as a request), `files` (what comes with it), `models`,
//! `shape` (errors as OpenAI puts them).

mod files;
mod models;
mod request;
mod route;
mod shape;

pub(super) use models::ModelCache;
pub(super) use route::{lacks_v1, without_v1};
pub(super) use shape::shape;

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use utoipa::ToSchema;

use self::request::Asked;
use self::route::{Endpoint, Route};
use super::App;
use super::access::{Access, Visitor, access, reservation};
use super::error::{ApiError, ErrorView};
use super::headers::{STATUS_HEADER, TURN_HEADER, shown_headers, timing_header};
use super::identity::SESSION_HEADER;
use crate::memory::Memory;
use crate::mode::Mode;
use crate::model::relay::{Passed, onward};
use crate::scope::Tenant;
use crate::turn::proxy::{Head, ProxiedTurn};
use crate::turn::{Health, TurnError};

/// Any chat completion request; fields nobody knows pass through.
#[derive(Debug, ToSchema)]
#[allow(dead_code, reason = "describes what is passed on as it came")]
pub(super) struct ChatCompletion {
    model: String,
    #[schema(value_type = Vec<Object>)]
    messages: Vec<serde_json::Value>,
    stream: Option<bool>,
}

/// Chat completions, remembered. Also under `/v1/{tenant}/…` and `/v1/{tenant}:{session}/…`.
#[utoipa::path(post, path = "/v1/chat/completions", request_body = ChatCompletion,
    responses((status = 200, content_type = "application/json", body = Object), (status = 400, body = ErrorView)))]
pub(super) async fn chat_completions(state: State<App>, request: Request) -> Result<Response, ApiError> {
    any(state, request).await
}

/// The upstream's models. Also under `/v1/{tenant}/…`.
#[utoipa::path(get, path = "/v1/models", responses((status = 200, content_type = "application/json", body = Object)))]
pub(super) async fn list_models(state: State<App>, request: Request) -> Result<Response, ApiError> {
    any(state, request).await
}

/// Everything under `/v1`.
pub(super) async fn any(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    let route = Route::of(request.method(), request.uri(), app.doors.pass_all)?;
    match route.endpoint {
        Endpoint::Chat => app.complete(route, request).await,
        Endpoint::Models => app.models(request).await,
        Endpoint::Other => app.pass_through(route, request).await,
    }
}

impl App {
    /// A chat completion: recognised, aligned, passed on, remembered.
    async fn complete(&self, route: Route, request: Request) -> Result<Response, ApiError> {
        let (parts, body) = request.into_parts();
        let visitor = Visitor::of(&parts)?;
        let (body, bytes) = self.read_json_and_bytes(&visitor, body).await?;
        let asked = self.read_completion(&route, &visitor, body)?;
        if asked.request.mode == Mode::Off {
            return self.leave_no_trace(asked, bytes).await;
        }
        let (shared, mode) = (asked.scope.shared(), asked.request.mode);
        let turn = match self.memory.proxy(&asked.scope, asked.request).await {
            Err(error @ TurnError::Model(_)) => return Ok(self.failed(error, mode)),
            turn => turn?,
        };
        // Nobody waits for files to be read, or for the tenant to learn.
        if let Some(said) = &asked.said {
            self.memory.learn_for_tenant(&shared, said);
        }
        asked.files.into_iter().for_each(|file| self.memory.add_in_background(&shared, file));
        Ok(answer(turn, mode))
    }

    /// The error of a model that gave no answer. The question is stored all the same, as that of a failed turn.
    fn failed(&self, error: TurnError, mode: Mode) -> Response {
        let kept = if (self.doors.store)().is_normal() { Health::Ok } else { Health::Degraded };
        let status = if mode == Mode::Read { "read" } else { kept.as_str() };
        let mut response = ApiError::from(error).into_response();
        response.headers_mut().insert(STATUS_HEADER, HeaderValue::from_static(status));
        response
    }

    /// Nothing is remembered of it, so it goes on byte for byte, unless there is something in it for us alone.
    async fn leave_no_trace(&self, asked: Asked, bytes: Bytes) -> Result<Response, ApiError> {
        let Asked { scope, request, task, as_it_came, .. } = asked;
        let body = if as_it_came { bytes } else { request.onward() };
        let mut response = self.pass_on(scope.tenant(), Passed { body, ..request.passed }).await?;
        let status = if task { "task" } else { "off" };
        response.headers_mut().insert(STATUS_HEADER, HeaderValue::from_static(status));
        let meters = self.memory.meters();
        let counter = if task { &meters.tasks } else { &meters.chats_without_memory };
        counter.one();
        Ok(response)
    }

    /// A request that is no conversation goes on as it came.
    async fn pass_through(&self, route: Route, request: Request) -> Result<Response, ApiError> {
        let (parts, body) = request.into_parts();
        let access = access(parts.extensions.get())?;
        let body = self.read_bytes(&reservation(&parts.extensions)?, body).await?;
        if route.generates(&parts.method) {
            self.memory.meters().generated_without_memory.one();
        }
        let bearer = bearer(&parts.headers, &access);
        let passed = Passed { method: parts.method, path: route.path, headers: onward(&parts.headers), body, bearer };
        self.pass_on(&access.tenant, passed).await
    }

    /// Passes a request on whose answer nobody reads here; its tokens are told by its length.
    async fn pass_on(&self, tenant: &Tenant, passed: Passed) -> Result<Response, ApiError> {
        let mut bill = Bill { memory: self.memory.clone(), tenant: tenant.clone(), bytes: passed.body.len() };
        let relayed = self.memory.pass(passed).await?;
        let pieces = relayed.body.map(move |piece| {
            bill.add(piece.as_ref().map_or(0, Bytes::len));
            piece.map_err(|error| std::io::Error::other(error.to_string()))
        });
        Ok(respond(relayed.status, relayed.headers, Body::from_stream(pieces)))
    }
}

/// What a tenant is charged for something that is passed on unread, once it is over.
struct Bill {
    memory: Memory,
    tenant: Tenant,
    bytes: usize,
}

impl Bill {
    fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
    }
}

impl Drop for Bill {
    fn drop(&mut self) {
        self.memory.tenants().charge(&self.tenant, None, self.bytes);
    }
}

/// The client's own key, for an upstream that has none configured. Where we take keys it is one of ours.
fn bearer(headers: &HeaderMap, access: &Access) -> Option<String> {
    if access.keyed {
        return None;
    }
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let foreign = scheme.eq_ignore_ascii_case("bearer") && !token.trim().starts_with("rk_");
    foreign.then(|| token.trim().to_owned())
}

/// The tenant that a path under `/v1` names.
pub(super) fn tenant_in(method: &Method, uri: &Uri) -> Option<Tenant> {
    Route::of(method, uri, false).ok().and_then(|route| route.scope.tenant)
}

/// The answer as it comes.
fn answer(turn: ProxiedTurn, mode: Mode) -> Response {
    let ProxiedTurn { head, body } = turn;
    let pieces = stream::unfold(body, |mut body| async move { body.recv().await.map(|piece: Bytes| (piece, body)) });
    let body = Body::from_stream(pieces.map(Ok::<_, Infallible>));
    let mut response = respond(head.status, head.headers.clone(), body);
    mark(response.headers_mut(), &head, mode);
    response
}

fn respond(status: StatusCode, headers: HeaderMap, body: Body) -> Response {
    let mut response = body.into_response();
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

fn mark(headers: &mut HeaderMap, head: &Head, mode: Mode) {
    let mut set = |name: HeaderName, text: String| {
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.insert(name, value);
        }
    };
    let status = match (head.health, mode) {
        (Some(health), _) => health.as_str(),
        // Nothing was to be stored.
        (None, Mode::Read) => "read",
        (None, _) => Health::Degraded.as_str(),
    };
    set(STATUS_HEADER, status.to_owned());
    if let (Some(session), Some(turn)) = (head.session, head.turn) {
        set(SESSION_HEADER, session.to_string());
        set(TURN_HEADER, turn.to_string());
    }
    shown_headers(headers, head.shown);
    timing_header(headers, head.shown.recall_time, Some(head.store_time));
}
