//! The upstream's models, asked for at most every half minute.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::{bearer, respond};
use crate::api::App;
use crate::api::access::access;
use crate::api::error::ApiError;
use crate::config::Aliases;
use crate::model::relay::{Passed, Relayed, onward};

/// How long a list is believed.
const FRESH: Duration = Duration::from_secs(30);
/// Largest list.
const LIST_BYTES_MAX: usize = 4 << 20;

/// The last list. Only one that was asked for with our own key is kept: a client's key may see other models.
#[derive(Debug, Default)]
pub(in crate::api) struct ModelCache(Mutex<Option<(Instant, Bytes)>>);

impl ModelCache {
    fn fresh(&self) -> Option<Bytes> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().filter(|(at, _)| at.elapsed() < FRESH).map(|(_, list)| list.clone())
    }

    fn keep(&self, list: Bytes) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), list));
    }
}

impl App {
    pub(super) async fn models(&self, request: Request) -> Result<Response, ApiError> {
        let bearer = bearer(request.headers(), &access(request.extensions().get())?);
        if let Some(list) = self.doors.models.fresh().filter(|_| bearer.is_none()) {
            return Ok(respond(StatusCode::OK, json_headers(), Body::from(list)));
        }
        let headers = onward(request.headers());
        let ours = bearer.is_none();
        let passed =
            Passed { method: request.method().clone(), path: "models".into(), headers, body: Bytes::new(), bearer };
        let relayed = self.memory.pass(passed).await?;
        let (status, headers) = (relayed.status, relayed.headers.clone());
        let list = collect(relayed).await?;
        let list = if status.is_success() { with_aliases(list, &self.doors.aliases) } else { list };
        if status.is_success() && ours {
            self.doors.models.keep(list.clone());
        }
        Ok(respond(status, headers, Body::from(list)))
    }
}

/// The upstream's list and our own names for what is in it.
fn with_aliases(list: Bytes, aliases: &Aliases) -> Bytes {
    let parsed = if aliases.pairs().is_empty() { None } else { serde_json::from_slice::<Value>(&list).ok() };
    let Some(mut all) = parsed else { return list };
    if let Some(models) = all.get_mut("data").and_then(Value::as_array_mut) {
        let entry = |alias: &str| json!({"id": alias, "object": "model", "created": 0, "owned_by": "recalld"});
        models.extend(aliases.pairs().iter().map(|(alias, _)| entry(alias)));
    }
    Bytes::from(all.to_string())
}

async fn collect(mut relayed: Relayed) -> Result<Bytes, ApiError> {
    let mut list = Vec::new();
    while let Some(piece) = relayed.body.next().await {
        list.extend_from_slice(&piece?);
        if list.len() > LIST_BYTES_MAX {
            let detail = format!("the upstream's list of models is over {LIST_BYTES_MAX} bytes");
            return Err(ApiError::new(StatusCode::BAD_GATEWAY, "list_too_long", "List too long", detail));
        }
    }
    Ok(Bytes::from(list))
}

fn json_headers() -> HeaderMap {
    HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))])
}
