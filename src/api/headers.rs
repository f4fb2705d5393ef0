//! What every answer of a conversation says about itself in its head.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use super::view::millis;
use crate::turn::Shown;

pub(super) const TURN_HEADER: HeaderName = HeaderName::from_static("x-recalld-turn");
pub(super) const STATUS_HEADER: HeaderName = HeaderName::from_static("x-recalld-status");
const ITEMS_HEADER: HeaderName = HeaderName::from_static("x-recalld-items");
const TOKENS_HEADER: HeaderName = HeaderName::from_static("x-recalld-tokens");
const TIMING_HEADER: HeaderName = HeaderName::from_static("server-timing");

/// How much of what is remembered the model was shown.
pub(super) fn shown_headers(headers: &mut HeaderMap, shown: Shown) {
    headers.insert(ITEMS_HEADER, HeaderValue::from(shown.items));
    headers.insert(TOKENS_HEADER, HeaderValue::from(shown.tokens));
}

/// How long recall and the store took; of a stream only what is known at its beginning.
pub(super) fn timing_header(headers: &mut HeaderMap, recall: Duration, store: Option<Duration>) {
    let part = |name: &str, took: Duration| format!("{name};dur={:.3}", millis(took));
    let parts = [Some(part("recall", recall)), store.map(|took| part("store", took))];
    let timing = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    if let Ok(value) = HeaderValue::try_from(timing) {
        headers.insert(TIMING_HEADER, value);
    }
}
