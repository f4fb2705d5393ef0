//! A house to knock at: the real router over a temporary data file, with a model that says what it is
//! told, a clock that moves when told and ids that count.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Request, Response, header};
use http_body_util::BodyExt;
use jiff::{SignedDuration, Timestamp};
use recalld::api::{App, router};
use recalld::clock::{Clock, ManualClock};
use recalld::config::Settings;
use recalld::id::{CountedIds, Ids};
use recalld::lifecycle::ClockWatch;
use recalld::memory::{EndHooks, Memory, Parts};
use recalld::model::ChatModel;
use recalld::model::relay::{InProcess, Upstream};
use recalld::model::scripted::Scripted;
use recalld::model::summarise::{Extractive, Summariser};
use recalld::session::{HookFuture, SessionEnd, SessionEndHook};
use recalld::store::{Sqlite, Store, StoreError, Waiting};
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt;

use crate::flaky::Flaky;

/// A session nobody has used yet.
pub(crate) const SESSION: &str = "550e8400-e29b-41d4-a716-446655440000";
/// And another one.
pub(crate) const OTHER_SESSION: &str = "11111111-2222-4333-8444-555555555555";

/// Ends of sessions that were told.
#[derive(Default)]
pub(crate) struct Ends(Mutex<Vec<SessionEnd>>);

impl Ends {
    pub(crate) fn told(&self) -> Vec<SessionEnd> {
        self.0.lock().expect("a lock").clone()
    }
}

impl SessionEndHook for Ends {
    fn session_ended(&self, end: Arc<SessionEnd>) -> HookFuture {
        self.0.lock().expect("a lock").push((*end).clone());
        Box::pin(std::future::ready(()))
    }
}

/// What a house is built from; what is not said is as usual.
pub(crate) struct Plan {
    settings: Settings,
    model: Option<Arc<dyn ChatModel>>,
    upstream: Option<Arc<dyn Upstream>>,
    ids: Arc<dyn Ids>,
    summariser: Arc<dyn Summariser>,
    ending: EndHooks,
    ends: Arc<Ends>,
}

impl Plan {
    pub(crate) fn setting(mut self, set: impl FnOnce(&mut Settings)) -> Self {
        set(&mut self.settings);
        self
    }

    pub(crate) fn model(mut self, model: Arc<dyn ChatModel>) -> Self {
        self.model = Some(model);
        self
    }

    pub(crate) fn upstream(mut self, upstream: Arc<dyn Upstream>) -> Self {
        self.upstream = Some(upstream);
        self
    }

    pub(crate) fn ids(mut self, ids: impl Ids) -> Self {
        self.ids = Arc::new(ids);
        self
    }

    pub(crate) fn summariser(mut self, summariser: Arc<dyn Summariser>) -> Self {
        self.summariser = summariser;
        self
    }

    pub(crate) fn ending(mut self, ending: EndHooks) -> Self {
        self.ending = ending;
        self
    }

    pub(crate) fn open(self) -> House {
        self.try_open(&[]).expect("a data file")
    }

    /// A house whose data file has these bytes, if it opens.
    pub(crate) fn try_open(self, data: &[u8]) -> Result<House, StoreError> {
        self.try_open_with(data, &[])
    }

    /// The same with these bytes in the log beside it.
    pub(crate) fn try_open_with(self, data: &[u8], log: &[u8]) -> Result<House, StoreError> {
        let start: Timestamp = "2026-01-01T12:00:00Z".parse().expect("a time");
        let scripted = Arc::new(Scripted::default());
        let model = self.model.unwrap_or_else(|| Arc::clone(&scripted) as _);
        let ground = Ground {
            folder: tempfile::tempdir().expect("a folder"),
            upstream: self.upstream.unwrap_or_else(|| Arc::new(InProcess(Arc::clone(&model)))),
            model,
            ids: self.ids,
            summariser: self.summariser,
            ending: self.ending,
            ends: self.ends,
            settings: self.settings,
        };
        if !data.is_empty() {
            std::fs::write(ground.folder.path().join("recalld.db"), data).expect("written");
        }
        if !log.is_empty() {
            std::fs::write(ground.folder.path().join("recalld.db-wal"), log).expect("written");
        }
        House::on(ground, scripted, Arc::new(ManualClock::at(start)))
    }
}

/// What stays when a house is torn down and built again.
struct Ground {
    folder: TempDir,
    settings: Settings,
    model: Arc<dyn ChatModel>,
    upstream: Arc<dyn Upstream>,
    ids: Arc<dyn Ids>,
    summariser: Arc<dyn Summariser>,
    ending: EndHooks,
    ends: Arc<Ends>,
}

/// The running house.
pub(crate) struct House {
    pub(crate) memory: Memory,
    pub(crate) store: Arc<Waiting<Flaky>>,
    pub(crate) flaky: Arc<Flaky>,
    pub(crate) model: Arc<Scripted>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) watch: Arc<ClockWatch>,
    router: Router,
    ground: Ground,
}

impl House {
    pub(crate) fn plan() -> Plan {
        let ends = Arc::new(Ends::default());
        Plan {
            settings: Settings::default(),
            model: None,
            upstream: None,
            ids: Arc::new(CountedIds::default()),
            summariser: Arc::new(Extractive),
            ending: EndHooks { hook: Some(Arc::clone(&ends) as _), ..EndHooks::default() },
            ends,
        }
    }

    pub(crate) fn open() -> Self {
        Self::plan().open()
    }

    /// Whoever is told of ends, unless the plan named somebody else.
    pub(crate) fn ends(&self) -> Arc<Ends> {
        Arc::clone(&self.ground.ends)
    }

    fn on(ground: Ground, model: Arc<Scripted>, clock: Arc<ManualClock>) -> Result<Self, StoreError> {
        let file = ground.folder.path().join("recalld.db");
        let sqlite = Sqlite::open(&file, Arc::clone(&clock) as _)?;
        let sqlite = sqlite.with_windows(&ground.settings.episodes());
        let flaky = Arc::new(Flaky::new(sqlite));
        let store = Arc::new(Waiting::new(Arc::clone(&flaky), Arc::clone(&clock) as _, ground.settings.waiting()));
        let parts = Parts {
            model: Arc::clone(&ground.model),
            upstream: Arc::clone(&ground.upstream),
            ids: Arc::clone(&ground.ids),
            summariser: Arc::clone(&ground.summariser),
            ending: ground.ending.clone(),
            ..Parts::builtin(Arc::clone(&store) as Arc<dyn Store>, Arc::clone(&clock) as _)
        };
        let memory = Memory::new(parts, ground.settings.memory());
        let watch = Arc::new(ClockWatch::starting(clock.reading()));
        let queue = Arc::clone(&store);
        let app = App::new(memory.clone(), Arc::clone(&watch), move || queue.state(), &ground.settings);
        Ok(Self { memory, store, flaky, model, clock, watch, router: router(app), ground })
    }

    /// Stops as a server does, and starts again on the same data file.
    pub(crate) async fn reopen(self) -> Self {
        let clock = Arc::clone(&self.clock);
        self.reopen_by(clock).await
    }

    /// The same on a machine whose clock shows another time by then.
    pub(crate) async fn reopen_after(self, by: SignedDuration) -> Self {
        let clock = Arc::new(ManualClock::at(self.clock.reading().wall + by));
        self.reopen_by(clock).await
    }

    async fn reopen_by(self, clock: Arc<ManualClock>) -> Self {
        self.memory.close(Duration::from_secs(5)).await.expect("a store that closes");
        let Self { memory, store, flaky, model, router, ground, .. } = self;
        drop((memory, store, flaky, router));
        let house = Self::on(ground, model, clock).expect("a data file");
        house.store.fail_abandoned().await.expect("a store that answers");
        house.store.outbox().release_parcels().await.expect("a store that answers");
        house
    }

    /// The data file.
    pub(crate) fn data(&self) -> std::path::PathBuf {
        self.ground.folder.path().join("recalld.db")
    }

    pub(crate) fn get(&self, path: &str) -> Ask<'_> {
        self.ask("GET", path)
    }

    pub(crate) fn post(&self, path: &str) -> Ask<'_> {
        self.ask("POST", path)
    }

    pub(crate) fn ask(&self, method: &str, path: &str) -> Ask<'_> {
        let request = Request::builder().method(method).uri(path).header(header::HOST, "localhost");
        Ask { house: self, request }
    }

    /// Asks a question in a session; it must go well.
    #[track_caller]
    pub(crate) fn chat(&self, session: &str, query: &str) -> impl Future<Output = Value> {
        let asked = self.post("/chat").session(session).json(json!({ "query": query }));
        async { asked.await.expect(200) }
    }

    /// All turns of a session of the usual user, page by page.
    pub(crate) async fn turns(&self, session: &str) -> Vec<Value> {
        self.pages(&format!("/api/v1/sessions/{session}/turns?limit=50"), "turns").await
    }

    /// The first turns of somebody's session.
    pub(crate) async fn turns_of(&self, user: &str, session: &str) -> Vec<Value> {
        let page = self.get(&format!("/api/v1/sessions/{session}/turns")).user(user).send().await.expect(200);
        page["turns"].as_array().expect("a list").clone()
    }

    /// All items of a list, page by page.
    pub(crate) async fn pages(&self, path: &str, noun: &str) -> Vec<Value> {
        self.pages_of("", path, noun).await
    }

    /// The same, for somebody.
    pub(crate) async fn pages_of(&self, user: &str, path: &str, noun: &str) -> Vec<Value> {
        let mut items = Vec::new();
        let mut next = String::new();
        loop {
            let page = self.get(&format!("{path}&after={next}")).user(user).send().await.expect(200);
            items.extend(page[noun].as_array().expect("a list").iter().cloned());
            match page["next"].as_str() {
                Some(cursor) => next = cursor.to_owned(),
                None => return items,
            }
        }
    }

    /// The value of a counter or gauge in `/metrics`.
    pub(crate) async fn metric(&self, name: &str) -> u64 {
        let page = self.get("/metrics").send().await;
        let line = page.text().lines().find(|line| line.starts_with(&format!("{name} "))).map(str::to_owned);
        let line = line.unwrap_or_else(|| panic!("no metric {name}"));
        line.rsplit(' ').next().and_then(|number| number.parse().ok()).expect("a number")
    }
}

/// A request on its way.
pub(crate) struct Ask<'a> {
    house: &'a House,
    request: axum::http::request::Builder,
}

impl Ask<'_> {
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        if name.eq_ignore_ascii_case("host") {
            self.request.headers_mut().expect("valid so far").remove("host");
        }
        self.request = self.request.header(name, value);
        self
    }

    pub(crate) fn session(self, id: &str) -> Self {
        self.header("x-session-id", id)
    }

    pub(crate) fn user(self, id: &str) -> Self {
        self.header("x-user-id", id)
    }

    pub(crate) async fn send(self) -> Answer {
        self.body(Body::empty()).await
    }

    pub(crate) fn json(self, value: Value) -> impl Future<Output = Answer> {
        let opened = self.stream(value);
        async { Answer::read(opened.await).await }
    }

    pub(crate) async fn body(self, body: Body) -> Answer {
        Answer::read(self.open(body).await).await
    }

    /// The response as it comes, its body unread.
    pub(crate) fn stream(self, value: Value) -> impl Future<Output = Response<Body>> {
        self.header("content-type", "application/json").open(Body::from(value.to_string()))
    }

    fn open(self, body: Body) -> impl Future<Output = Response<Body>> {
        let request = self.request.body(body).expect("a valid request");
        let answered = self.house.router.clone().oneshot(request);
        async { answered.await.expect("the router never fails") }
    }
}

/// A response, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    body: Bytes,
    /// Whether it did not break off.
    pub(crate) whole: bool,
}

impl Answer {
    async fn read(response: Response<Body>) -> Self {
        let (head, body) = response.into_parts();
        let (mut body, mut read, mut whole) = (body, Vec::new(), true);
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => read.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data)),
                Err(_) => whole = false,
            }
        }
        Self { status: head.status.as_u16(), headers: head.headers, body: read.into(), whole }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        assert!(self.whole, "the body broke off");
        &self.body
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(self.bytes()).expect("text")
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(self.text()).unwrap_or_else(|_| panic!("not JSON: {}", self.text()))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }

    /// The stable code of an error.
    pub(crate) fn code(&self) -> &str {
        self.header("x-recalld-code")
    }

    /// The body, if the status is as it should be.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()
    }

    /// Status and code of an error, whose body must be exactly `error` and `detail`, both saying something.
    #[track_caller]
    pub(crate) fn refusal(&self) -> (u16, &str) {
        let body = self.json();
        assert_eq!(keys(&body), ["error", "detail"], "{body}");
        assert!(body["error"].as_str().is_some_and(|text| !text.is_empty()), "{body}");
        assert!(body["detail"].as_str().is_some_and(|text| !text.is_empty()), "{body}");
        (self.status, self.code())
    }
}

/// The keys of an object, in order.
#[track_caller]
pub(crate) fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap_or_else(|| panic!("not an object: {value}")).keys().map(String::as_str).collect()
}

/// One field of every item of a list.
pub(crate) fn field<'a>(items: &'a [Value], name: &str) -> Vec<&'a Value> {
    items.iter().map(|item| &item[name]).collect()
}

/// Text as it may stand in a query string.
pub(crate) fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Waits until something is so, for a few seconds at most.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> impl Future<Output = T> {
    let caller = std::panic::Location::caller();
    let what = what.to_owned();
    async move {
        for _ in 0..1_000 {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{caller}: not after ten seconds: {what}");
    }
}
