//! The HTTP doors from the other side: over a socket when a server runs, in process when none does.
//!
//! Which one: `--server` if it is given; else the data file is opened here; if a server has it, that
//! server is asked instead.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Response};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tower::ServiceExt;

use super::Common;
use super::engine::Engine;
use super::failure::Failure;
use super::logging;
use super::upstream::Choice;
use crate::api::{TOKEN_HEADER, router, sign_user};
use crate::beside::Beside;
use crate::config::Settings;
use crate::memory::Memory;
use crate::model::http::{HttpClient, client, root_cause};
use crate::store::StoreError;

const USER_HEADER: HeaderName = HeaderName::from_static("x-user-id");
const TENANT_HEADER: HeaderName = HeaderName::from_static("x-tenant-id");
const CODE_HEADER: HeaderName = HeaderName::from_static("x-recalld-code");

/// The host of requests in process; a name the guard knows as ours.
const OWN_HOST: &str = "localhost";
/// Largest answer that is read whole: a page of fifty long turns.
const ANSWER_BYTES_MAX: usize = 128 << 20;
/// How long turns that were cut short may take to be written at the end.
const CLOSING_TIME: Duration = Duration::from_secs(5);

/// Batches of turns that a command learns from before it ends.
const LEARNED_MAX: usize = 16;

/// What a command needs of the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// Answers, so a model is looked for.
    Answers,
    /// What is remembered about a question, so vectors are made.
    Recall,
    /// Only what is remembered.
    Memory,
}

/// Where the memory is.
#[derive(Debug, Clone)]
pub(super) enum Place {
    /// A running server.
    Server(String),
    /// A file, open in this process, and which model answers.
    File(PathBuf, Choice),
}

/// The doors.
pub(super) struct Client {
    transport: Transport,
    place: Place,
    headers: HeaderMap,
}

enum Transport {
    Socket(Box<HttpClient>),
    InProcess { router: Router, memory: Memory },
}

/// A request to the doors.
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    pub(super) path: &'a str,
    /// More headers than every request has.
    pub(super) headers: HeaderMap,
    pub(super) body: Option<&'a Value>,
}

/// Opens the doors, does the work, and closes the memory however the work ended.
pub(super) fn with_client(
    common: &Common,
    need: Need,
    work: impl AsyncFnOnce(&Client) -> anyhow::Result<ExitCode>,
) -> anyhow::Result<ExitCode> {
    let loaded = common.load([])?;
    logging::start_quietly(&loaded)?;
    let runtime = super::runtime()?;
    let ended = runtime.block_on(async {
        let client = Client::open(common, &loaded.settings, need).await?;
        let ended = Box::pin(work(&client)).await;
        let closed = client.close().await;
        ended.and_then(|code| closed.map(|()| code))
    });
    // A thread may still wait for a line from the terminal; the process does not wait for it.
    runtime.shutdown_background();
    ended
}

impl Client {
    /// Finds the memory and opens its doors.
    pub(super) async fn open(common: &Common, settings: &Settings, need: Need) -> anyhow::Result<Self> {
        let headers = headers(common, settings)?;
        if let Some(server) = common.server() {
            return Ok(Self::at(base_url(server)?, headers, settings));
        }
        let settings = match need {
            Need::Answers => settings.clone(),
            Need::Recall => Settings { upstream: "builtin".into(), ..settings.clone() },
            Need::Memory => Settings { upstream: "builtin".into(), embedder: "builtin".into(), ..settings.clone() },
        };
        match Engine::open(&settings, Beside::default()).await {
            Ok(engine) => Ok(Self::in_process(engine, headers)),
            Err(error) => match served_at(&error) {
                Some(url) => Ok(Self::at(url, headers, &settings)),
                None => Err(error),
            },
        }
    }

    /// The doors of a server.
    pub(super) fn at(url: String, headers: HeaderMap, settings: &Settings) -> Self {
        let http = client(settings.upstream_connect_timeout.duration());
        Self { transport: Transport::Socket(Box::new(http)), place: Place::Server(url), headers }
    }

    fn in_process(engine: Engine, headers: HeaderMap) -> Self {
        // Whoever has the file open could read it without asking.
        let (memory, router) = (engine.memory, router(engine.app.for_its_owner()));
        let place = Place::File(engine.data, engine.choice);
        Self { transport: Transport::InProcess { router, memory }, place, headers }
    }

    /// Where the memory is.
    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// Looks something up.
    pub(super) async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.whole(Ask { method: Method::GET, path, headers: HeaderMap::new(), body: None }).await
    }

    /// What there is and who answers; also the proof that recalld is who answers here.
    pub(super) async fn stats(&self) -> Result<Value, Failure> {
        let stats = self.get("/api/v1/stats").await?;
        match stats.get("waiting_turns") {
            Some(_) => Ok(stats),
            None => Err(Failure::Stranger { url: self.url(), reason: "it does not count turns".into() }),
        }
    }

    /// Asks for something to be done.
    pub(super) async fn post(&self, path: &str) -> Result<Value, Failure> {
        self.whole(Ask { method: Method::POST, path, headers: HeaderMap::new(), body: None }).await
    }

    /// Asks for something that takes more than a path to say.
    pub(super) async fn post_json(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.whole(Ask { method: Method::POST, path, headers: HeaderMap::new(), body: Some(body) }).await
    }

    /// Changes something.
    pub(super) async fn patch(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.whole(Ask { method: Method::PATCH, path, headers: HeaderMap::new(), body: Some(body) }).await
    }

    /// Removes something.
    pub(super) async fn delete(&self, path: &str) -> Result<Value, Failure> {
        self.whole(Ask { method: Method::DELETE, path, headers: HeaderMap::new(), body: None }).await
    }

    /// Reads a list to its end, page by page.
    pub(super) async fn pages(&self, path: &str, noun: &str, mut page: impl FnMut(Vec<Value>)) -> Result<(), Failure> {
        let mut after = String::new();
        loop {
            let more = if path.contains('?') { '&' } else { '?' };
            let mut found = self.get(&format!("{path}{more}limit=50{after}")).await?;
            if let Some(Value::Array(items)) = found.get_mut(noun).map(Value::take) {
                page(items);
            }
            match found.get("next").and_then(Value::as_str) {
                Some(next) => after = format!("&after={next}"),
                None => return Ok(()),
            }
        }
    }

    /// Sends a request and reads the answer to its end.
    pub(super) async fn whole(&self, ask: Ask<'_>) -> Result<Value, Failure> {
        let bytes = ask.body.map_or_else(Bytes::new, |body| body.to_string().into());
        self.whole_of(ask, bytes).await
    }

    /// The same, with a body that is given as bytes.
    pub(super) async fn whole_of(&self, ask: Ask<'_>, bytes: Bytes) -> Result<Value, Failure> {
        let body = Limited::new(self.send_bytes(ask, bytes).await?.into_body(), ANSWER_BYTES_MAX).collect().await;
        let bytes = body.map_err(|error| Failure::BrokeOff(error.to_string()))?.to_bytes();
        serde_json::from_slice(&bytes)
            .map_err(|error| Failure::Stranger { url: self.url(), reason: format!("this is not JSON: {error}") })
    }

    /// Sends a request. An answer that is an error is a [`Failure`].
    pub(super) async fn send(&self, ask: Ask<'_>) -> Result<Response<Body>, Failure> {
        let bytes = ask.body.map_or_else(Bytes::new, |body| body.to_string().into());
        self.send_bytes(ask, bytes).await
    }

    async fn send_bytes(&self, ask: Ask<'_>, bytes: Bytes) -> Result<Response<Body>, Failure> {
        let response = match &self.transport {
            Transport::Socket(http) => {
                let sent = http.request(self.request(ask, bytes)?.map(Full::new)).await;
                let lost = |error| Failure::Unreachable { url: self.url(), reason: root_cause(&error) };
                sent.map_err(lost)?.map(Body::new)
            }
            Transport::InProcess { router, .. } => {
                let mut request = self.request(ask, bytes)?.map(Body::from);
                request.headers_mut().insert(HOST, HeaderValue::from_static(OWN_HOST));
                router.clone().oneshot(request).await.unwrap_or_else(|never| match never {})
            }
        };
        if response.status().is_success() { Ok(response) } else { Err(self.refusal(response).await) }
    }

    fn request(&self, ask: Ask<'_>, body: Bytes) -> Result<Request<Bytes>, Failure> {
        let request = Request::builder().method(ask.method).uri(format!("{}{}", self.url(), ask.path)).body(body);
        let mut request = request
            .map_err(|error| Failure::Usage(format!("`{}` cannot be asked for `{}`: {error}", self.url(), ask.path)))?;
        request.headers_mut().extend(self.headers.clone());
        request.headers_mut().extend(ask.headers);
        Ok(request)
    }

    fn url(&self) -> String {
        match &self.place {
            Place::Server(url) => url.clone(),
            Place::File(..) => format!("http://{OWN_HOST}"),
        }
    }

    async fn refusal(&self, response: Response<Body>) -> Failure {
        let status = response.status();
        let code = response.headers().get(CODE_HEADER).and_then(|code| code.to_str().ok()).unwrap_or("").to_owned();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let bytes = body.map(|body| body.to_bytes()).unwrap_or_default();
        match serde_json::from_slice::<Refusal>(&bytes) {
            Ok(Refusal { error, detail }) => Failure::Refused { status: status.as_u16(), code, error, detail },
            Err(_) => Failure::Stranger { url: self.url(), reason: format!("it says {status}") },
        }
    }

    /// Writes what is still in memory, if the memory is ours.
    pub(super) async fn close(self) -> anyhow::Result<()> {
        match self.transport {
            Transport::Socket(_) => Ok(()),
            Transport::InProcess { memory, .. } => {
                learn(&memory).await;
                memory.close(CLOSING_TIME).await.context("the data file did not close well")
            }
        }
    }
}

/// Learns from what was just said, as a server does beside its requests. What is left waits for the next command.
async fn learn(memory: &Memory) {
    for _ in 0..LEARNED_MAX {
        // What cannot be learned now stays on its list.
        if !matches!(memory.learn_facts().await, Ok(1..)) {
            return;
        }
    }
}

/// An error as every door but OpenAI's tells it.
#[derive(serde::Deserialize)]
struct Refusal {
    error: String,
    detail: String,
}

/// How long a command may go on speaking for its user.
const TOKEN_TIME: SignedDuration = SignedDuration::from_hours(24);

/// What every request carries.
pub(super) fn headers(common: &Common, settings: &Settings) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("recalld-cli/", env!("CARGO_PKG_VERSION"))));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(tenant) = said(common.tenant.as_deref()) {
        headers.insert(TENANT_HEADER, plain("--tenant", tenant)?);
    }
    let user = said(common.user.as_deref());
    if let Some(user) = user {
        let name = settings.user_headers.as_slice().first().cloned().unwrap_or(USER_HEADER);
        headers.insert(name, plain("--user", user)?);
    }
    if let (Some(user), Some(secret)) = (user, &settings.openwebui_jwt_secret) {
        let token = sign_user(user, secret, Timestamp::now() + TOKEN_TIME);
        headers.insert(TOKEN_HEADER, HeaderValue::try_from(token).context("a user token cannot be sent")?);
    }
    if let Some(key) = said(common.key.as_deref()).or_else(|| settings.api_key()) {
        let mut bearer = HeaderValue::try_from(format!("Bearer {key}")).context("the key cannot be sent")?;
        bearer.set_sensitive(true);
        headers.insert(AUTHORIZATION, bearer);
    }
    Ok(headers)
}

/// An empty flag or variable says nothing.
fn said(text: Option<&str>) -> Option<&str> {
    text.map(str::trim).filter(|text| !text.is_empty())
}

/// A name as a header can carry it.
fn plain(flag: &str, text: &str) -> Result<HeaderValue, Failure> {
    let value = HeaderValue::try_from(text).ok().filter(|_| text.is_ascii());
    value.ok_or_else(|| Failure::Usage(format!("{flag} `{text}` is not plain ASCII text, which a header must be")))
}

/// A server as people write it: the scheme may be left out, a slash may be at the end.
pub(super) fn base_url(server: &str) -> Result<String, Failure> {
    let server = server.trim();
    let url = if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
    let known = url.starts_with("http://") || url.starts_with("https://");
    match url.parse::<hyper::Uri>() {
        Ok(uri) if known && uri.host().is_some_and(|host| !host.is_empty()) && uri.query().is_none() => {
            Ok(url.trim_end_matches('/').to_owned())
        }
        _ => Err(Failure::Usage(format!("--server `{server}` is not a URL such as http://127.0.0.1:7077"))),
    }
}

/// Where the process serves that has the data file, if that is why it could not be opened.
fn served_at(error: &anyhow::Error) -> Option<String> {
    let in_use = error.chain().find_map(|cause| match cause.downcast_ref() {
        Some(StoreError::InUse { holder, .. }) => Some(holder),
        _ => None,
    });
    in_use?.url.clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::failure::Advised;
    use crate::config::Secret;
    use crate::store::Holder;

    #[test]
    fn a_server_is_understood_as_people_write_it() {
        for (written, url) in [
            ("http://127.0.0.1:7077", "http://127.0.0.1:7077"),
            ("https://memory.example/", "https://memory.example"),
            ("localhost:7077", "http://localhost:7077"),
            ("[::1]:7077", "http://[::1]:7077"),
            ("https://example.org/recalld/", "https://example.org/recalld"),
        ] {
            assert_eq!(base_url(written).expect(written), url);
        }
        for wrong in ["", "ftp://example.org", "http://", "http://a b", "http://x?y=1"] {
            assert!(matches!(base_url(wrong), Err(Failure::Usage(_))), "{wrong}");
        }
    }

    #[test]
    fn a_file_that_a_server_holds_is_reached_through_it() {
        let held = |url: Option<&str>| {
            let holder = Holder { pid: Some(7), url: url.map(str::to_owned) };
            Advised::new("cannot open", "stop it", StoreError::InUse { path: "/x".into(), holder }).into()
        };
        assert_eq!(served_at(&held(Some("http://127.0.0.1:7077"))).as_deref(), Some("http://127.0.0.1:7077"));
        assert_eq!(served_at(&held(None)), None, "a process that does not serve");
        assert_eq!(served_at(&anyhow::anyhow!("another error")), None);
    }

    #[test]
    fn the_key_and_the_user_are_sent() {
        let of = |user: &str| Common { user: Some(user.into()), ..Common::default() };
        let keyed = Settings { api_key: "0123456789abcdef".into(), ..Settings::default() };
        let sent = headers(&of("ann"), &keyed).expect("plain values");
        assert_eq!(
            (&sent[USER_HEADER], &sent[AUTHORIZATION]),
            (&"ann".parse().expect("plain"), &"Bearer 0123456789abcdef".parse().expect("plain"))
        );
        let named = Common { tenant: Some("acme".into()), key: Some("rk_1_2".into()), ..Common::default() };
        let sent = headers(&named, &keyed).expect("plain values");
        assert_eq!(
            (&sent[TENANT_HEADER], &sent[AUTHORIZATION]),
            (&"acme".parse().expect("plain"), &"Bearer rk_1_2".parse().expect("plain"))
        );
        let open = Settings { openwebui_jwt_secret: Secret::new("hush"), ..Settings::default() };
        assert!(headers(&of("ann"), &open).expect("plain values").contains_key(TOKEN_HEADER));
        let bare = headers(&of(" "), &open).expect("nothing to send");
        assert!([USER_HEADER, TOKEN_HEADER, AUTHORIZATION].iter().all(|name| !bare.contains_key(name)));
        assert!(headers(&of("a\nb"), &open).is_err() && headers(&of("Zoë"), &open).is_err());
    }

    async fn client_on(folder: &std::path::Path) -> anyhow::Result<Client> {
        let settings = Settings { data: folder.join("r.db"), upstream: "builtin".into(), ..Settings::default() };
        Client::open(&Common::default(), &settings, Need::Memory).await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn without_a_server_the_doors_are_in_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let client = client_on(folder.path()).await.expect("opens");
        assert!(matches!(client.place(), Place::File(..)));
        assert_eq!(client.stats().await.expect("counts")["sessions"], 0);
        let unknown = client.get("/api/v1/sessions/00000000-0000-4000-8000-000000000000").await;
        assert!(matches!(unknown, Err(Failure::Refused { status: 404, .. })));

        let second =
            client_on(folder.path()).await.err().expect("the file is in use").chain().last().map(ToString::to_string);
        assert!(second.is_some_and(|reason| reason.contains("in use by process")));
        client.close().await.expect("closes");
        client_on(folder.path()).await.expect("opens again").close().await.expect("closes");
    }
}
