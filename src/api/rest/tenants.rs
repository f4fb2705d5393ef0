//! Tenants: who shares the server, and what each of them has of its own.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::forget::ReceiptView;
use super::{ListQuery, cursor};
use crate::api::App;
use crate::api::access::Visitor;
use crate::api::error::{ApiError, ErrorView};
use crate::api::params::Params;
use crate::api::view::time;
use crate::scope::Tenant;
use crate::store::Page;
use crate::tenant::{TenantRecord, Usage};

/// A new tenant.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct NewTenant {
    /// Its name, as in `/v1/{tenant}/…`.
    name: String,
    /// What it has of its own; the rest is as the server's settings say.
    #[serde(default)]
    #[schema(value_type = Object)]
    settings: Map<String, Value>,
}

/// What to change about a tenant.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct TenantChange {
    /// Settings to set; `null` takes one away.
    #[schema(value_type = Object)]
    settings: Map<String, Value>,
}

/// A tenant.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct TenantView {
    name: String,
    /// What it has of its own.
    #[schema(value_type = Object)]
    settings: Map<String, Value>,
    created_at: String,
    updated_at: String,
    /// What it has stored; only where one tenant is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<UsageView>,
}

/// What a tenant has stored.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct UsageView {
    sessions: u64,
    turns: u64,
    /// Bytes of what was said, as it is kept.
    bytes: u64,
}

impl From<TenantRecord> for TenantView {
    fn from(record: TenantRecord) -> Self {
        Self {
            name: record.tenant.to_string(),
            settings: record.settings.shown(),
            created_at: time(record.created_at),
            updated_at: time(record.updated_at),
            usage: None,
        }
    }
}

/// A page of tenants.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct TenantList {
    tenants: Vec<TenantView>,
    /// The cursor of the next page, or null.
    next: Option<String>,
}

/// What went with a tenant.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct TenantErased {
    sessions_deleted: u64,
    turns_deleted: u64,
    #[serde(flatten)]
    receipt: ReceiptView,
}

/// The tenants that something is written down about, by name.
#[utoipa::path(get, path = "/api/v1/tenants", params(ListQuery), responses((status = 200, body = TenantList)))]
pub(in crate::api) async fn list(
    State(app): State<App>,
    Params(query): Params<ListQuery>,
) -> Result<Json<TenantList>, ApiError> {
    let page = numbered(app.memory.list_tenants().await?, &query)?;
    let tenants = page.items.into_iter().map(TenantView::from).collect();
    Ok(Json(TenantList { tenants, next: cursor(page.next) }))
}

/// Writes a tenant down.
#[utoipa::path(post, path = "/api/v1/tenants", request_body = NewTenant,
    responses((status = 201, body = TenantView), (status = 400, body = ErrorView), (status = 409, body = ErrorView)))]
pub(in crate::api) async fn create(
    State(app): State<App>,
    visitor: Visitor,
    body: Body,
) -> Result<(StatusCode, Json<TenantView>), ApiError> {
    let new: NewTenant = app.read_json(&visitor, body).await?;
    let record = app.memory.create_tenant(tenant(&new.name)?, &new.settings).await?;
    Ok((StatusCode::CREATED, Json(record.into())))
}

/// A tenant and what it has stored.
#[utoipa::path(get, path = "/api/v1/tenants/{name}", params(("name" = String, Path, description = "The tenant")),
    responses((status = 200, body = TenantView), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn show(
    State(app): State<App>,
    Path(name): Path<String>,
) -> Result<Json<TenantView>, ApiError> {
    let (record, Usage { sessions, turns, bytes }) = app.memory.tenant(&tenant(&name)?).await?;
    Ok(Json(TenantView { usage: Some(UsageView { sessions, turns, bytes }), ..record.into() }))
}

/// Changes some of a tenant's settings. They count from the next request on.
#[utoipa::path(patch, path = "/api/v1/tenants/{name}", request_body = TenantChange,
    params(("name" = String, Path, description = "The tenant")),
    responses((status = 200, body = TenantView), (status = 400, body = ErrorView), (status = 404, body = ErrorView)))]
pub(in crate::api) async fn update(
    State(app): State<App>,
    visitor: Visitor,
    Path(name): Path<String>,
    body: Body,
) -> Result<Json<TenantView>, ApiError> {
    let change: TenantChange = app.read_json(&visitor, body).await?;
    Ok(Json(app.memory.change_tenant(&tenant(&name)?, &change.settings).await?.into()))
}

/// Whether conversations go as well.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::api) struct EraseQuery {
    /// Removes the tenant's conversations, too; without it a tenant that has some stays.
    #[serde(default)]
    everything: bool,
}

/// Forgets a tenant and removes its keys.
#[utoipa::path(delete, path = "/api/v1/tenants/{name}",
    params(("name" = String, Path, description = "The tenant"), EraseQuery),
    responses((status = 200, body = TenantErased), (status = 404, body = ErrorView), (status = 409, body = ErrorView)))]
pub(in crate::api) async fn delete(
    State(app): State<App>,
    Path(name): Path<String>,
    Params(query): Params<EraseQuery>,
) -> Result<Json<TenantErased>, ApiError> {
    let receipt = app.memory.erase_tenant(&tenant(&name)?, query.everything).await?;
    let (sessions_deleted, turns_deleted) = (receipt.counts.sessions, receipt.turns());
    Ok(Json(TenantErased { sessions_deleted, turns_deleted, receipt: receipt.into() }))
}

pub(super) fn tenant(name: &str) -> Result<Tenant, ApiError> {
    Tenant::parse(name)
        .map_err(|error| ApiError::bad_request("invalid_id", "Invalid tenant", format!("the tenant's name {error}")))
}

/// Part of a list that is held as a whole; the cursor counts from its beginning.
pub(super) fn numbered<T>(all: Vec<T>, query: &ListQuery) -> Result<Page<T>, ApiError> {
    let page = query.part()?;
    let after = usize::try_from(page.after.unwrap_or(0)).unwrap_or(usize::MAX);
    let some = (1..).zip(all).skip(after).take(page.limit + 1).collect();
    Ok(Page::cut(some, page.limit))
}
