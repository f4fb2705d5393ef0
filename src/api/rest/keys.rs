//! Keys: who may come in, as whom, and what for.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::tenants::{numbered, tenant};
use super::{ListQuery, cursor};
use crate::api::App;
use crate::api::access::Visitor;
use crate::api::error::{ApiError, ErrorView};
use crate::api::idempotency;
use crate::api::params::Params;
use crate::api::view::time;
use crate::period::Period;
use crate::scope::User;
use crate::tenant::{Key, KeyDraft, KeyError, KeyId, NewKey, Right, Rights};

/// How long a key stays good that another one takes the place of, unless somebody says.
const OVERLAP: Period = Period::hours(24);

/// Why making a key takes no `Idempotency-Key`.
const SECRET: &str = "the answer holds a key's secret, which is not kept";

/// A new key.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct KeyRequest {
    /// What it is for, in your words.
    #[serde(default)]
    name: String,
    /// The one tenant it opens; any if not given.
    tenant: Option<String>,
    /// The one user it speaks for, whatever requests say.
    user_id: Option<String>,
    /// Some of `read`, `write`, `erase`, `files`, `admin`.
    rights: Vec<String>,
    /// Whether requests are believed that name a user; if not said, only with the right `admin`.
    trust_identity: Option<bool>,
    /// When it ends: a time (RFC 3339); never if neither is given.
    expires_at: Option<String>,
    /// How long it is good for: `30d`.
    #[schema(value_type = Option<String>)]
    expires_in: Option<Period>,
}

/// A key, without its secret.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct KeyView {
    id: String,
    name: String,
    /// The one tenant it opens; null is any.
    tenant: Option<String>,
    /// The one user it speaks for.
    user_id: Option<String>,
    rights: Vec<&'static str>,
    trust_identity: bool,
    /// `active`, `expired` or `revoked`.
    state: &'static str,
    created_at: String,
    expires_at: Option<String>,
    revoked_at: Option<String>,
    /// The key that took its place.
    replaced_by: Option<String>,
}

impl KeyView {
    fn of(key: Key, now: Timestamp) -> Self {
        Self {
            state: key.state(now).as_str(),
            id: key.id.to_string(),
            name: key.name,
            tenant: key.tenant.map(|tenant| tenant.to_string()),
            user_id: key.user.map(|user| user.to_string()),
            rights: key.rights.words(),
            trust_identity: key.trust_identity,
            created_at: time(key.created_at),
            expires_at: key.expires_at.map(time),
            revoked_at: key.revoked_at.map(time),
            replaced_by: key.replaced_by.map(|id| id.to_string()),
        }
    }
}

/// A key that was just made. Its text is shown this once.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct MadeKey {
    /// `rk_<id>_<secret>`: keep it, nobody can show it again.
    key: String,
    #[serde(flatten)]
    about: KeyView,
}

/// A page of keys.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct KeyList {
    keys: Vec<KeyView>,
    /// The cursor of the next page, or null.
    next: Option<String>,
}

/// Whose keys.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct OfTenant {
    /// Only those that open this tenant alone.
    tenant: Option<String>,
}

/// All keys in the order they were made; those that ended are listed for a month.
#[utoipa::path(get, path = "/api/v1/keys", params(OfTenant, ListQuery), responses((status = 200, body = KeyList)))]
pub(in crate::api) async fn list(
    State(app): State<App>,
    Params(of): Params<OfTenant>,
    Params(query): Params<ListQuery>,
) -> Result<Json<KeyList>, ApiError> {
    let mut keys = app.memory.keys().await?;
    if let Some(name) = &of.tenant {
        keys.retain(|key| key.tenant.as_ref().is_some_and(|tenant| tenant.as_str() == name));
    }
    let (page, now) = (numbered(keys, &query)?, app.clock().now());
    let keys = page.items.into_iter().map(|key| KeyView::of(key, now)).collect();
    Ok(Json(KeyList { keys, next: cursor(page.next) }))
}

/// Makes a key. As soon as there is one, nobody comes in without.
#[utoipa::path(post, path = "/api/v1/keys", request_body = KeyRequest,
    responses((status = 201, body = MadeKey), (status = 400, body = ErrorView), (status = 404, body = ErrorView),
              (status = 409, body = ErrorView)))]
pub(in crate::api) async fn create(
    State(app): State<App>,
    visitor: Visitor,
    body: Body,
) -> Result<(StatusCode, Json<MadeKey>), ApiError> {
    idempotency::refuse(&visitor, SECRET)?;
    let request: KeyRequest = app.read_json(&visitor, body).await?;
    let draft = draft(&request, app.clock().now())?;
    if !visitor.access.keyed && !draft.rights.has(Right::Admin) {
        let detail = "once there is a key nobody comes in without one, so the first must have the right `admin`; else \
                      nobody could make the next";
        return Err(ApiError::new(StatusCode::CONFLICT, "first_key_is_admin", "First key must be an admin's", detail));
    }
    Ok(made(app.memory.create_key(draft).await?, &app))
}

/// How long the old key stays good.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct RotateQuery {
    /// How long the old key stays good: `24h` if not given, `0s` for not at all.
    overlap: Option<String>,
}

/// Makes a key like another one, which stays good for a while.
#[utoipa::path(post, path = "/api/v1/keys/{id}/rotate",
    params(("id" = String, Path, description = "The old key's id"), RotateQuery),
    responses((status = 201, body = MadeKey), (status = 404, body = ErrorView), (status = 409, body = ErrorView)))]
pub(in crate::api) async fn rotate(
    State(app): State<App>,
    visitor: Visitor,
    Path(id): Path<String>,
    Params(query): Params<RotateQuery>,
) -> Result<(StatusCode, Json<MadeKey>), ApiError> {
    idempotency::refuse(&visitor, SECRET)?;
    let invalid =
        |error: String| ApiError::bad_request("invalid_period", "Invalid period", format!("overlap: {error}"));
    let overlap: Period = match &query.overlap {
        Some(text) => text.parse().map_err(|error| invalid(format!("{error}")))?,
        None => OVERLAP,
    };
    let overlap = SignedDuration::from_micros(overlap.micros());
    Ok(made(app.memory.rotate_key(&key_id(&id)?, overlap).await?, &app))
}

/// Ends a key, here at once and elsewhere within a second.
#[utoipa::path(delete, path = "/api/v1/keys/{id}", params(("id" = String, Path, description = "The key's id")),
    responses((status = 200, body = KeyView), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn revoke(State(app): State<App>, Path(id): Path<String>) -> Result<Json<KeyView>, ApiError> {
    let revoked = app.memory.revoke_key(&key_id(&id)?).await?;
    Ok(Json(KeyView::of(revoked, app.clock().now())))
}

fn made(NewKey { key, text }: NewKey, app: &App) -> (StatusCode, Json<MadeKey>) {
    let about = KeyView::of(key, app.clock().now());
    (StatusCode::CREATED, Json(MadeKey { key: text, about }))
}

/// An id, or a whole key, as people may paste it.
fn key_id(text: &str) -> Result<KeyId, ApiError> {
    let id = KeyId::parse(text).or_else(|| crate::tenant::parse_key(text));
    id.ok_or_else(|| {
        let detail = "a key's id is twelve hexadecimal digits: the part of `rk_<id>_<secret>` in the middle";
        ApiError::bad_request("invalid_key_id", "Invalid key id", detail)
    })
}

fn draft(request: &KeyRequest, now: Timestamp) -> Result<KeyDraft, ApiError> {
    let rights = request.rights.iter().map(|word| word.parse::<Right>()).collect::<Result<Rights, KeyError>>();
    let rights = rights.map_err(ApiError::from)?;
    let user = request.user_id.as_deref().map(User::parse).transpose();
    let user = user
        .map_err(|error| ApiError::bad_request("invalid_id", "Invalid user_id", format!("the user's name {error}")))?;
    Ok(KeyDraft {
        name: request.name.trim().to_owned(),
        tenant: request.tenant.as_deref().map(tenant).transpose()?,
        user,
        rights,
        trust_identity: request.trust_identity.unwrap_or_else(|| rights.has(Right::Admin)),
        expires_at: expiry(request, now)?,
    })
}

fn expiry(request: &KeyRequest, now: Timestamp) -> Result<Option<Timestamp>, ApiError> {
    let invalid = |detail: &str| ApiError::bad_request("invalid_expiry", "Invalid expiry", detail);
    match (&request.expires_at, request.expires_in) {
        (Some(_), Some(_)) => Err(invalid("give `expires_at` or `expires_in`, not both")),
        (Some(at), None) => {
            let at = at.parse().map_err(|_| invalid("expires_at must be a time such as 2026-12-31T00:00:00Z"))?;
            Ok(Some(at))
        }
        (None, Some(period)) => {
            let end = now.saturating_add(SignedDuration::from_micros(period.micros()));
            Ok(Some(end.unwrap_or(Timestamp::MAX)))
        }
        (None, None) => Ok(None),
    }
}
