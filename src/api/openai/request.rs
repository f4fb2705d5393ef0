//! A chat completion's body as a request to the memory.

use axum::body::Bytes;
use axum::http::{HeaderMap, Method};
use serde_json::{Map, Value};

use super::bearer;
use super::files::{files_in, last_said};
use super::route::Route;
use crate::api::App;
use crate::api::access::Visitor;
use crate::api::error::ApiError;
use crate::api::identity::caller::{Caller, SessionChoice, mode};
use crate::api::rest::came_by;
use crate::memory::MemorySettings;
use crate::mode::Mode;
use crate::model::relay::{Passed, onward};
use crate::period::Ttl;
use crate::review::Upload;
use crate::scope::Scope;
use crate::session::{ClientIds, PRESET, RequestShape, SessionKind, SessionSeed, recognise_task};
use crate::tenant::Right;
use crate::turn::proxy::ProxyRequest;

/// Fields with which a client could send our upstream's key elsewhere.
const REFUSED_FIELDS: [&str; 4] = ["api_base", "base_url", "api_key", "api_version"];

/// Parts of a message that are files, and fields of a body that bring them.
const FILE_PARTS: [&str; 4] = ["file", "input_file", "file_data", "document"];
const FILE_FIELDS: [&str; 3] = ["files", "file_ids", "attachments"];

/// A request that has been read.
pub(super) struct Asked {
    pub(super) scope: Scope,
    pub(super) request: ProxyRequest,
    /// Whether it is a client's errand, which leaves no trace.
    pub(super) task: bool,
    /// Whether it may go on byte for byte.
    pub(super) as_it_came: bool,
    /// Files that become what the tenant knows.
    pub(super) files: Vec<Upload>,
    /// What was said, where the tenant may learn from it.
    pub(super) said: Option<String>,
}

impl App {
    /// Reads a chat completion. Nothing has happened yet when this fails.
    pub(super) fn read_completion(&self, route: &Route, visitor: &Visitor, body: Value) -> Result<Asked, ApiError> {
        let headers: &HeaderMap = visitor;
        let Value::Object(body) = body else {
            return Err(ApiError::bad_request("invalid_body", "Invalid body", "the body must be a JSON object"));
        };
        check(&body)?;
        if route.scope.ephemeral.is_some() && carries_files(&body) {
            return Err(ApiError::no_uploads(""));
        }
        let own = self.memory.of(&visitor.access.tenant);
        let (body, renamed) = self.with_model(body, own.settings());
        let caller = self.caller(visitor, &route.scope, &body)?;
        let task = is_task(&caller, &body);
        let no_visits = caller.live.is_some() && !own.settings().live.enabled;
        let mode = if task || no_visits { Mode::Off } else { mode_of(&caller, &body, own.settings().mode)? };
        if mode != Mode::Off {
            self.count(&caller);
        }
        let session = match caller.session {
            SessionChoice::Given(session) => Some(session),
            SessionChoice::Temporary | SessionChoice::None => None,
        };
        let may_upload =
            visitor.access.rights.has(Right::Files) && route.scope.ephemeral.is_none() && mode != Mode::Off;
        let files = if may_upload { files_in(&body) } else { Vec::new() };
        let records = matches!(mode, Mode::Active | Mode::Passive);
        let said = if may_upload && records { last_said(&body) } else { None };
        let passed = Passed {
            method: Method::POST,
            path: route.path.clone(),
            headers: onward(headers),
            body: Bytes::new(),
            bearer: bearer(headers, &visitor.access),
        };
        let seed = seed(headers, &body, caller.live.is_some())?;
        let request = ProxyRequest {
            session,
            live: caller.live,
            new_session: caller.new_session,
            alone: caller.alone,
            resends_history: openwebui_chat(headers).is_some(),
            seed,
            body,
            ids: ClientIds {
                question: caller.ids.question,
                answer: caller.ids.answer,
                key: caller.ids.idempotency_key,
                preamble: None,
            },
            marked_as_retry: caller.marked_as_retry,
            mode,
            passed,
        };
        let as_it_came = request.is_plain() && !renamed;
        Ok(Asked { scope: caller.scope, request, task, as_it_came, files, said })
    }
}

impl App {
    /// The body with the model that its alias stands for, or the tenant's own where it asks for none in particular; and
    /// whether that changed it.
    fn with_model(&self, mut body: Map<String, Value>, own: &MemorySettings) -> (Map<String, Value>, bool) {
        let named = body.get("model").and_then(Value::as_str).map_or("", str::trim);
        let model = match named {
            "" | "default" => own.model.as_deref().or_else(|| self.doors.aliases.model(named)),
            alias => self.doors.aliases.model(alias),
        };
        let Some(model) = model.map(str::to_owned) else { return (body, false) };
        body.insert("model".into(), model.into());
        (body, true)
    }

    /// Counts who names what: a client that names nothing should be told how to.
    fn count(&self, caller: &Caller) {
        let meters = self.memory.meters();
        meters.chat_requests.one();
        meters.without_session.many(u64::from(caller.session == SessionChoice::None));
        meters.without_user.many(u64::from(!caller.identified));
    }
}

fn check(body: &Map<String, Value>) -> Result<(), ApiError> {
    if let Some(field) = REFUSED_FIELDS.iter().find(|field| body.contains_key(**field)) {
        let detail = format!("`{field}` is not taken from requests; the upstream is a setting of the server");
        return Err(ApiError::bad_request("refused_field", "Field not allowed", detail));
    }
    if !body.get("messages").is_some_and(Value::is_array) {
        return Err(ApiError::bad_request("invalid_messages", "Invalid messages", "`messages` must be a list"));
    }
    Ok(())
}

fn is_task(caller: &Caller, body: &Map<String, Value>) -> bool {
    let messages = body.get("messages").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let shape = RequestShape {
        stream: body.get("stream").and_then(Value::as_bool).unwrap_or(false),
        has_tools: body.get("tools").and_then(Value::as_array).is_some_and(|tools| !tools.is_empty()),
    };
    recognise_task(caller.task.as_deref(), messages, shape).is_some()
}

/// A temporary chat leaves no trace; else the header, the body's `memory.mode`, `store: false`, the usual.
fn mode_of(caller: &Caller, body: &Map<String, Value>, usual: Mode) -> Result<Mode, ApiError> {
    if caller.session == SessionChoice::Temporary {
        return Ok(Mode::Off);
    }
    if let Some(mode) = caller.mode {
        return Ok(mode);
    }
    if let Some(word) = body.get("memory").and_then(|memory| memory.get("mode")).and_then(Value::as_str) {
        return mode(word);
    }
    Ok(if body.get("store") == Some(&Value::Bool(false)) { usual.without_recording() } else { usual })
}

/// The client that a session came by, as far as its headers tell.
fn door(headers: &HeaderMap) -> &'static str {
    let is_openwebui = headers.keys().any(|name| name.as_str().starts_with("x-openwebui-"));
    if is_openwebui { "openwebui" } else { "openai" }
}

/// How a conversation came. A visitor's may say how long it lives, by which channel they came, and what it begins with.
fn seed(headers: &HeaderMap, body: &Map<String, Value>, visit: bool) -> Result<SessionSeed, ApiError> {
    let mut seed = SessionSeed { metadata: came_by(door(headers), headers), ..SessionSeed::default() };
    if let Some(memory) = body.get("memory").filter(|_| visit) {
        seed.kind = SessionKind::Ephemeral;
        seed.ttl = memory.get("ttl").and_then(Value::as_str).map(ttl).transpose()?;
        for name in ["channel", PRESET] {
            if let Some(text) = memory.get(name).and_then(Value::as_str) {
                seed.metadata.insert(name.into(), text.chars().take(64).collect::<String>().into());
            }
        }
    }
    if let Some(chat) = openwebui_chat(headers) {
        seed.metadata.insert("openwebui_conversation_id".into(), chat.chars().take(256).collect::<String>().into());
    }
    Ok(seed)
}

fn ttl(text: &str) -> Result<Ttl, ApiError> {
    text.parse().map_err(|error| ApiError::bad_request("invalid_ttl", "Invalid ttl", format!("`memory.ttl`: {error}")))
}

/// Whether a list of messages brings files along. Pictures and sounds are part of what is said.
fn carries_files(body: &Map<String, Value>) -> bool {
    let messages = body.get("messages").and_then(Value::as_array).into_iter().flatten();
    let mut parts = messages.filter_map(|message| message["content"].as_array()).flatten();
    let is_file = |part: &Value| {
        FILE_PARTS.contains(&part["type"].as_str().unwrap_or(""))
            || !part["file"].is_null()
            || !part["file_data"].is_null()
    };
    parts.any(is_file) || FILE_FIELDS.iter().any(|field| body.get(*field).is_some_and(|files| !is_empty(files)))
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

/// What Open WebUI calls the chat.
fn openwebui_chat(headers: &HeaderMap) -> Option<&str> {
    headers.get("x-openwebui-chat-id")?.to_str().ok().filter(|chat| !chat.trim().is_empty())
}
