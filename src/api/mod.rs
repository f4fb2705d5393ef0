//! The HTTP doors. They translate, and call [`Memory`]; all routes are on this page.
//!
//! Reading order: the routes here, `cross_origin` (pages of other sites), `guard` (who may come in), `rights` (what each route takes), `access` (what whoever came in
//! may do), `identity` (who is who), then the doors:
//! `chat`, `openai`, `rest`, `system`. `error` alone knows status codes, `body` how a body is read, `headers` what an
//! answer says about itself, `idempotency` what a request is known by that comes again, `server` how connections are served,
//! `budget` how much memory bodies may take.

mod access;
mod activity;
mod body;
mod budget;
mod chat;
mod connections;
mod cross_origin;
mod error;
mod exchange;
mod guard;
mod headers;
mod idempotency;
mod identity;
mod measure;
mod openai;
mod pace;
mod params;
mod rest;
mod rights;
pub mod server;
mod stream;
mod system;
mod view;

pub(crate) use self::identity::{TOKEN_HEADER, sign_user};

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::HeaderName;
use axum::middleware::from_fn_with_state;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::budget::BodyBudget;
use self::identity::Rules;
use self::measure::Measures;
use crate::config::{Aliases, Networks, Origins, Passthrough, Settings};
use crate::lifecycle::ClockWatch;
use crate::memory::Memory;
use crate::store::StoreState;
use crate::tenant::Buckets;

/// Most addresses whose wrong keys are counted.
const ADDRESSES_MAX: usize = 4_096;

/// What the doors need.
#[derive(Clone)]
pub struct App {
    memory: Memory,
    doors: Arc<Doors>,
    /// Whether whoever asks owns the data file, and needs no key.
    owner: bool,
}

/// The doors' own parts and settings.
struct Doors {
    clock: Arc<ClockWatch>,
    /// How the store is.
    store: Box<dyn Fn() -> StoreState + Send + Sync>,
    measures: Measures,
    models: openai::ModelCache,
    aliases: Aliases,
    pass_all: bool,
    started: Instant,
    listen: std::net::SocketAddr,
    api_key: Option<String>,
    /// Addresses from which wrong keys came.
    wrong_keys: Buckets<IpAddr>,
    client_address_header: Option<HeaderName>,
    cors_origins: Origins,
    trusted_proxies: Networks,
    require_session_header: bool,
    rules: Rules,
    body_bytes_max: usize,
    document_bytes_max: usize,
    body_timeout: Duration,
    budget: Arc<BodyBudget>,
}

impl App {
    /// Opens the doors of a memory. `store` tells how the store is.
    pub fn new(
        memory: Memory,
        clock: Arc<ClockWatch>,
        store: impl Fn() -> StoreState + Send + Sync + 'static,
        settings: &Settings,
    ) -> Self {
        let doors = Doors {
            clock,
            store: Box::new(store),
            measures: Measures::default(),
            models: openai::ModelCache::default(),
            aliases: settings.model_aliases.clone(),
            pass_all: settings.passthrough == Passthrough::All,
            started: Instant::now(),
            listen: settings.listen,
            api_key: settings.api_key().map(str::to_owned),
            wrong_keys: Buckets::new(ADDRESSES_MAX),
            client_address_header: HeaderName::try_from(settings.client_address_header.as_str()).ok(),
            cors_origins: settings.cors_origins.clone(),
            trusted_proxies: settings.trusted_proxies.clone(),
            require_session_header: settings.require_session_header,
            rules: Rules::of(settings),
            body_bytes_max: settings.body_bytes_max,
            document_bytes_max: settings.document_bytes_max,
            body_timeout: settings.body_timeout.duration(),
            budget: BodyBudget::new(settings.bodies_bytes_max),
        };
        Self { memory, doors: Arc::new(doors), owner: false }
    }

    /// The same doors for a program that has the data file open itself, as the command line does: nobody could keep
    /// it from anything.
    pub fn for_its_owner(self) -> Self {
        Self { owner: true, ..self }
    }
}

#[derive(OpenApi)]
#[openapi(info(
    title = "recalld",
    description = "The memory of LLM applications. Errors are `{\"error\", \"detail\"}`; the stable code is in the \
                   header `x-recalld-code`."
))]
struct Description;

/// Every route there is, with its description.
fn doors() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(chat::chat))
        .routes(routes!(rest::sessions::list, rest::sessions::create))
        .routes(routes!(rest::sessions::show, rest::sessions::update, rest::sessions::delete))
        .routes(routes!(rest::sessions::end))
        .routes(routes!(rest::turns::list, rest::turns::add))
        .routes(routes!(rest::turns::show, rest::forget::turn))
        .routes(routes!(rest::forget::message))
        .routes(routes!(rest::forget::user))
        .routes(routes!(rest::forget::privacy))
        .routes(routes!(rest::turns::revisions))
        .routes(routes!(rest::recall::turn_context))
        .routes(routes!(rest::recall::recall))
        .routes(routes!(rest::messages::list, rest::messages::add))
        .routes(routes!(rest::context::show))
        .routes(routes!(rest::live::transfer))
        .routes(routes!(rest::live::analytics))
        .routes(routes!(rest::episodes::list))
        .routes(routes!(rest::episodes::digest))
        .routes(routes!(rest::jobs::list))
        .routes(routes!(rest::jobs::retry))
        .routes(routes!(rest::jobs::answers))
        .routes(routes!(rest::webhooks::list))
        .routes(routes!(rest::webhooks::retry))
        .routes(routes!(rest::webhooks::show, rest::webhooks::delete))
        .routes(routes!(rest::topics::list))
        .routes(routes!(rest::topics::search))
        .routes(routes!(rest::topics::show, rest::topics::update))
        .routes(routes!(rest::topics::messages))
        .routes(routes!(rest::topics::context))
        .routes(routes!(rest::topics::feedback))
        .routes(routes!(rest::topics::of_session))
        .routes(routes!(rest::takeout::export))
        .routes(routes!(rest::takeout::import))
        .routes(routes!(rest::backup::make))
        .routes(routes!(rest::facts::list, rest::facts::add))
        .routes(routes!(rest::facts::undo))
        .routes(routes!(rest::facts::show, rest::facts::correct, rest::facts::retract))
        .routes(routes!(rest::facts::history, rest::forget::fact))
        .routes(routes!(rest::clarifications::list, rest::clarifications::ask))
        .routes(routes!(rest::clarifications::show, rest::clarifications::drop))
        .routes(routes!(rest::knowledge::list, rest::knowledge::add))
        .routes(routes!(rest::knowledge::search))
        .routes(routes!(rest::knowledge::show, rest::knowledge::remove))
        .routes(routes!(rest::knowledge::original))
        .routes(routes!(rest::knowledge::passages))
        .routes(routes!(rest::cleanup::run))
        .routes(routes!(rest::tenants::list, rest::tenants::create))
        .routes(routes!(rest::tenants::show, rest::tenants::update, rest::tenants::delete))
        .routes(routes!(rest::keys::list, rest::keys::create))
        .routes(routes!(rest::keys::revoke))
        .routes(routes!(rest::keys::rotate))
        .routes(routes!(rest::stats::show))
        .routes(routes!(openai::chat_completions))
        .routes(routes!(openai::list_models))
        .routes(routes!(system::healthz))
        .routes(routes!(system::readyz))
        .routes(routes!(system::metrics))
        .routes(routes!(system::openapi))
}

/// The router, guarded and measured.
pub fn router(app: App) -> Router {
    let (router, _) = doors().split_for_parts();
    router
        .route("/v1/{*path}", axum::routing::any(openai::any))
        .fallback(system::unknown_route)
        .method_not_allowed_fallback(system::unknown_method)
        .layer(from_fn_with_state(app.clone(), budget::reserve))
        .layer(from_fn_with_state(app.clone(), guard::guard))
        .layer(from_fn_with_state(app.clone(), cross_origin::cross_origin))
        .layer(axum::middleware::from_fn(openai::shape))
        .layer(from_fn_with_state(app.clone(), measure::measure))
        .with_state(app)
}

/// The OpenAPI description, as checked in under `docs/openapi.json`.
pub fn openapi_json() -> String {
    let mut api = doors().to_openapi();
    api.info.version = env!("CARGO_PKG_VERSION").to_owned();
    rights::describe(&mut api);
    let mut json = api.to_pretty_json().expect("a description of plain values always serialises");
    json.push('\n');
    json
}
