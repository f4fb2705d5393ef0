//! What a path under `/v1` asks for.

use axum::http::{Method, StatusCode, Uri};

use crate::api::error::ApiError;
use crate::api::identity::path::{PathScope, path_scope};
use crate::model::relay::leads_upwards;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// A chat completion.
    Chat,
    /// The list of models.
    Models,
    /// Something that is passed on as it came.
    Other,
}

/// A path, read.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Route {
    pub(super) endpoint: Endpoint,
    /// Whose memory, as far as the path says.
    pub(super) scope: PathScope,
    /// Where it goes at the upstream, with its query.
    pub(super) path: String,
}

/// What is passed on untouched. Provider-side files and batches are not: they would mix tenants.
const PASSED_ON: [&str; 5] = ["embeddings", "completions", "audio", "images", "moderations"];

/// Steps of a path by which a model generates something, at the providers there are.
const GENERATING: [&str; 9] =
    ["completions", "responses", "messages", "generations", "edits", "variations", "speech", "generate", "runs"];

/// Where files go, at providers and here.
const UPLOADS: [&str; 4] = ["files", "uploads", "vector_stores", "knowledge"];

impl Route {
    /// Reads a path. A scope is recognised only before a known endpoint. What is not known goes on all the same
    /// when `pass_all` is set.
    pub(super) fn of(method: &Method, uri: &Uri, pass_all: bool) -> Result<Self, ApiError> {
        let below = uri.path().strip_prefix("/v1/").unwrap_or("");
        let plain = endpoint(method, below).map(|endpoint| (endpoint, below, Ok(PathScope::default())));
        let scoped = || {
            let (scope, rest) = below.split_once('/')?;
            endpoint(method, rest).map(|endpoint| (endpoint, rest, path_scope(scope)))
        };
        let other = || pass_all.then(|| (Endpoint::Other, below, Ok(PathScope::default())));
        let found = plain.or_else(scoped).or_else(other);
        let found = found.filter(|(_, rest, _)| !leads_upwards(rest));
        let Some((endpoint, rest, scope)) = found else {
            return Err(if uploads_in_a_visit(below) { ApiError::no_uploads("") } else { unknown(below) });
        };
        let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        Ok(Self { endpoint, scope: scope?, path: format!("{rest}{query}") })
    }
}

impl Route {
    /// Whether a model generates something on such a request.
    pub(super) fn generates(&self, method: &Method) -> bool {
        let path = self.path.split('?').next().unwrap_or_default();
        *method == Method::POST && path.split('/').any(|step| GENERATING.contains(&step))
    }
}

/// Whether a path asks for models, whosever they are.
pub(super) fn asks_for_models(path: &str) -> bool {
    let below = path.strip_prefix("/v1/").unwrap_or("");
    below.split('/').take(2).any(|step| step == "models")
}

/// Whether a path is one of OpenAI's, at another place than below `/v1`.
pub(in crate::api) fn lacks_v1(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next().unwrap_or("");
    let known = PASSED_ON.contains(&first) || ["models", "responses"].contains(&first);
    !path.starts_with("/v1/") && (known || path.ends_with("/chat/completions"))
}

/// The error of such a path.
pub(in crate::api) fn without_v1() -> ApiError {
    let detail = "recalld answers OpenAI's clients below /v1: end the client's base URL in /v1, for example \
                  http://127.0.0.1:7077/v1 (a tenant stands behind it: /v1/acme)";
    ApiError::new(StatusCode::NOT_FOUND, "base_url_without_v1", "Wrong base URL", detail)
}

fn endpoint(method: &Method, path: &str) -> Option<Endpoint> {
    let first = path.split('/').next().unwrap_or("");
    match (method, path) {
        (&Method::POST, "chat/completions") => Some(Endpoint::Chat),
        (&Method::GET, "models") => Some(Endpoint::Models),
        (&Method::GET, _) if first == "models" => Some(Endpoint::Other),
        (&Method::POST, _) if PASSED_ON.contains(&first) => Some(Endpoint::Other),
        _ => None,
    }
}

/// Whether a path would put a file into a visitor's session, which takes none.
fn uploads_in_a_visit(path: &str) -> bool {
    let Some((scope, rest)) = path.split_once('/') else { return false };
    let to = rest.split('/').next().unwrap_or("");
    UPLOADS.contains(&to) && path_scope(scope).is_ok_and(|scope| scope.ephemeral.is_some())
}

/// The setting of each client that switches it to chat completions.
const CHAT_SWITCHES: &str = "OpenAI SDK: client.chat.completions.create(…); Agents SDK: \
    set_default_openai_api(\"chat_completions\"); LangChain: ChatOpenAI(use_responses_api=False); Pydantic AI: \
    OpenAIChatModel; Vercel AI SDK: openai.chat(…); Open WebUI: API type `Chat Completions`";

fn unknown(path: &str) -> ApiError {
    if path.split('/').take(2).any(|step| step == "responses") {
        let detail = format!(
            "recalld remembers chat completions, and /v1/{path} is not answered here; switch the client to chat completions \
             ({CHAT_SWITCHES})"
        );
        return ApiError::new(StatusCode::NOT_FOUND, "unknown_route", "No such route", detail);
    }
    let detail = format!("there is no /v1/{path} here; chat/completions, models, {} are", PASSED_ON.join(", "));
    ApiError::new(StatusCode::NOT_FOUND, "unknown_route", "No such route", detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::LiveName;
    use crate::scope::Tenant;

    #[track_caller]
    fn check(method: Method, uri: &str, expected: Option<(Endpoint, &str, Option<&str>, &str)>) {
        let found = Route::of(&method, &uri.parse().expect("a URI"), false).ok();
        let shown = found.as_ref().map(|route| {
            (
                route.endpoint,
                route.scope.tenant.as_ref().map_or("default", Tenant::as_str),
                route.scope.ephemeral.as_ref().map(LiveName::as_str),
                route.path.as_str(),
            )
        });
        assert_eq!(shown, expected, "{uri}");
    }

    #[test]
    fn scopes_stand_before_known_endpoints() {
        let chat = "chat/completions";
        check(Method::POST, "/v1/chat/completions", Some((Endpoint::Chat, "default", None, chat)));
        check(Method::POST, "/v1/acme/chat/completions", Some((Endpoint::Chat, "acme", None, chat)));
        check(
            Method::POST,
            "/v1/acme:visitor-1/chat/completions",
            Some((Endpoint::Chat, "acme", Some("visitor-1"), chat)),
        );
        check(Method::POST, "/v1/a%20b:x/chat/completions", Some((Endpoint::Chat, "a b", Some("x"), chat)));
        check(Method::POST, "/v1/v1/chat/completions", Some((Endpoint::Chat, "v1", None, chat)));
        check(Method::POST, "/v1/v1x/chat/completions", Some((Endpoint::Chat, "v1x", None, chat)));
        check(Method::GET, "/v1/acme/models?x=1", Some((Endpoint::Models, "acme", None, "models?x=1")));
        check(Method::POST, "/v1/audio/speech", Some((Endpoint::Other, "default", None, "audio/speech")));
    }

    #[test]
    fn requests_that_generate_are_told() {
        let generates = |path: &str| {
            let uri = format!("/v1/{path}").parse().expect("a URI");
            Route::of(&Method::POST, &uri, true).expect("all is passed on").generates(&Method::POST)
        };
        for path in
            ["completions", "responses", "images/edits", "audio/speech?x=1", "acme/completions", "threads/t/runs"]
        {
            assert!(generates(path), "{path}");
        }
        for path in ["embeddings", "moderations", "audio/transcriptions", "files", "models/completions-1"] {
            assert!(!generates(path), "{path}");
        }
    }

    #[test]
    fn paths_beside_v1_are_told() {
        for path in ["/chat/completions", "/models/m", "/api/v1/chat/completions", "/v2/chat/completions", "/responses"]
        {
            assert!(lacks_v1(path), "{path}");
        }
        for path in ["/chat", "/v1/chat/completions", "/v1/x/models", "/api/v1/topics", "/", "/modelsx"] {
            assert!(!lacks_v1(path), "{path}");
        }
    }

    #[test]
    fn what_is_not_known_is_not_found() {
        check(Method::POST, "/v1/files", None);
        let all = Route::of(&Method::POST, &"/v1/files".parse().expect("a URI"), true).expect("all is passed on");
        assert_eq!((all.endpoint, all.path.as_str()), (Endpoint::Other, "files"));
        check(Method::POST, "/v1/acme/files", None);
        check(Method::GET, "/v1/chat/completions", None);
        check(Method::POST, "/v1/acme:bad!/chat/completions", None);
        check(Method::POST, "/v1//chat/completions", None);
        check(Method::POST, "/v1/images/..%2fadmin", None);
        check(Method::POST, "/v1/acme/audio/..;/admin", None);
    }
}
