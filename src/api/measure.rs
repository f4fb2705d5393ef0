//! How long requests take, by route and status, in the Prometheus text format.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;

use super::App;
use crate::meter::{MemoryMeters, Meters};
use crate::store::StoreState;

/// Upper bounds of the buckets, in seconds.
const BUCKETS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

/// Times of requests by (method, route, status). Routes come from the router, so their number is fixed.
#[derive(Debug, Default)]
pub(super) struct Measures {
    requests: Mutex<BTreeMap<(String, String, u16), Histogram>>,
}

#[derive(Debug, Default, Clone)]
struct Histogram {
    buckets: [u64; BUCKETS.len()],
    count: u64,
    seconds: f64,
}

impl Histogram {
    fn add(&mut self, seconds: f64) {
        self.count += 1;
        self.seconds += seconds;
        for (bucket, bound) in self.buckets.iter_mut().zip(BUCKETS) {
            *bucket += u64::from(seconds <= bound);
        }
    }
}

/// What is true at the moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gauges {
    /// Turns that wait, and whether the database is away.
    pub(super) store: StoreState,
    /// Turns that are under way.
    pub(super) running: usize,
    /// Bytes of what is searched, and the users it is of.
    pub(super) index: (usize, usize),
    /// Jobs that wait, and those that were given up; nothing when the store does not answer.
    pub(super) jobs: Option<(usize, usize)>,
    /// The same of webhooks.
    pub(super) webhooks: Option<(usize, usize)>,
}

impl Gauges {
    fn lines(self) -> Vec<(&'static str, &'static str, usize)> {
        let Self { store, running, index: (bytes, scopes), jobs, webhooks } = self;
        let mut lines = vec![
            ("waiting_turns", "Turns that wait for the store.", store.waiting),
            ("database_away", "Whether the database is away.", usize::from(store.away)),
            ("running_turns", "Turns that are under way.", running),
            ("index_bytes", "Memory of what recall searches.", bytes),
            ("index_scopes", "Users whose messages are in it.", scopes),
        ];
        if let Some((queued, dead)) = jobs {
            lines.push(("jobs_queued", "Jobs that wait for their time.", queued));
            lines.push(("jobs_waiting_for_help", "Jobs that were given up, until somebody tries them again.", dead));
        }
        if let Some((queued, dead)) = webhooks {
            lines.push(("webhooks_queued", "Webhooks that are yet to be delivered.", queued));
            let help = "Webhooks that were given up, until somebody tries them again.";
            lines.push(("webhooks_waiting_for_help", help, dead));
        }
        lines
    }
}

/// Times every request until its head is answered.
pub(super) async fn measure(State(app): State<App>, request: Request, next: Next) -> Response {
    app.memory.meters().requests.one();
    let started = Instant::now();
    let route = request.extensions().get::<MatchedPath>().map_or("unknown", MatchedPath::as_str).to_owned();
    let method = request.method().as_str();
    // A client may invent methods; only those there are get a line of their own.
    let method = if ["GET", "POST", "PATCH", "DELETE", "HEAD"].contains(&method) { method } else { "other" }.to_owned();
    let response = next.run(request).await;
    app.doors.measures.add(method, route, response.status().as_u16(), started.elapsed());
    response
}

impl Measures {
    fn add(&self, method: String, route: String, status: u16, took: Duration) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.entry((method, route, status)).or_default().add(took.as_secs_f64());
    }

    /// Everything, as text.
    pub(super) fn render(&self, meters: &Meters, gauges: Gauges) -> String {
        let mut text = String::new();
        for (name, help, value) in counters(meters) {
            let _ = writeln!(text, "# HELP recalld_{name}_total {help}\n# TYPE recalld_{name}_total counter");
            let _ = writeln!(text, "recalld_{name}_total {value}");
        }
        text.push_str(&memory_lines(&meters.memory));
        for (name, help, value) in gauges.lines() {
            let _ = writeln!(text, "# HELP recalld_{name} {help}\n# TYPE recalld_{name} gauge\nrecalld_{name} {value}");
        }
        let _ = writeln!(text, "# HELP recalld_recall_seconds Time that recall took.");
        let _ = writeln!(text, "# TYPE recalld_recall_seconds summary");
        let _ = writeln!(text, "recalld_recall_seconds_sum {}", meters.recall_micros.get() as f64 / 1e6);
        let _ = writeln!(text, "recalld_recall_seconds_count {}", meters.recalls.get());
        let _ = writeln!(text, "# HELP recalld_request_seconds Time until the head of the answer.");
        let _ = writeln!(text, "# TYPE recalld_request_seconds histogram");
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for ((method, route, status), times) in requests {
            let labels = format!("method=\"{method}\",route=\"{route}\",status=\"{status}\"");
            for (bound, count) in BUCKETS.iter().zip(times.buckets) {
                let _ = writeln!(text, "recalld_request_seconds_bucket{{{labels},le=\"{bound}\"}} {count}");
            }
            let _ = writeln!(text, "recalld_request_seconds_bucket{{{labels},le=\"+Inf\"}} {}", times.count);
            let _ = writeln!(text, "recalld_request_seconds_sum{{{labels}}} {}", times.seconds);
            let _ = writeln!(text, "recalld_request_seconds_count{{{labels}}} {}", times.count);
        }
        text
    }
}

/// What became of asking the memory model.
fn memory_lines(meters: &MemoryMeters) -> String {
    let mut text = String::new();
    for (name, help, value) in [
        ("calls", "Requests to the memory model.", meters.calls.get()),
        ("tokens", "Tokens of questions to it and its answers.", meters.tokens.get()),
        ("fallbacks", "Tasks that the built-in did in its place.", meters.fallbacks.get()),
        ("capped", "Of those, because a tenant's day was spent.", meters.capped.get()),
    ] {
        let _ = writeln!(text, "# HELP recalld_memory_{name}_total {help}\n# TYPE recalld_memory_{name}_total counter");
        let _ = writeln!(text, "recalld_memory_{name}_total {value}");
    }
    let _ = writeln!(text, "# HELP recalld_memory_failures_total Tasks for the memory model that came to nothing.");
    let _ = writeln!(text, "# TYPE recalld_memory_failures_total counter");
    for (kind, value) in meters.failures() {
        let _ = writeln!(text, "recalld_memory_failures_total{{kind=\"{kind}\"}} {value}");
    }
    text
}

fn counters(meters: &Meters) -> [(&'static str, &'static str, u64); 45] {
    [
        ("requests", "Requests of every kind.", meters.requests.get()),
        ("turns_stored", "Turns whose ending reached the disk.", meters.turns_stored.get()),
        ("store_failures", "Store calls that failed.", meters.store_failures.get()),
        ("turns_waited", "Turns that had to wait for the store.", meters.turns_waited.get()),
        ("fallback_activations", "Times that turns began to wait.", meters.fallback_activations.get()),
        ("turns_spooled", "Writes of waiting turns into the spool.", meters.turns_spooled.get()),
        ("turns_replayed", "Turns that waited and reached the store at last.", meters.turns_replayed.get()),
        ("turns_failed", "Turns that closed without an answer.", meters.turns_failed.get()),
        ("rows_damaged", "Rows that did not match their checksum.", meters.rows_damaged.get()),
        ("recalls", "Recalls, however they ended.", meters.recalls.get()),
        ("recall_failures", "Recalls that were late or failed, and cost the reminders.", meters.recall_failures.get()),
        ("topics_forgotten", "Topics that faded and were forgotten; their turns stay.", meters.topics_forgotten.get()),
        ("topics_merged", "Topics that became part of another.", meters.topics_merged.get()),
        ("turns_understood", "Turns whose words were looked at for facts.", meters.turns_understood.get()),
        ("facts_learned", "Facts that were learned.", meters.facts_learned.get()),
        ("facts_superseded", "Facts that gave way to newer ones.", meters.facts_superseded.get()),
        ("facts_refused", "What looked like a fact and was none.", meters.facts_refused.get()),
        ("documents", "Documents and notes added to what tenants know.", meters.documents.get()),
        ("documents_refused", "Files that could not be read.", meters.documents_refused.get()),
        ("embedder_failures", "Texts or batches that an embedder made no vectors of.", meters.embedder_failures.get()),
        ("jobs_done", "Jobs that were done.", meters.jobs_done.get()),
        ("jobs_failed", "Tries at jobs that failed.", meters.jobs_failed.get()),
        ("jobs_dead", "Jobs that were given up.", meters.jobs_dead.get()),
        ("cleanups", "Cleanups that ran to their end.", meters.cleanups.get()),
        ("cleanup_failures", "Cleanups that failed.", meters.cleanup_failures.get()),
        ("sessions_expired", "Sessions removed by age.", meters.sessions_expired.get()),
        ("turns_expired", "Turns removed by age.", meters.turns_expired.get()),
        ("sessions_ended", "Sessions whose end was told.", meters.sessions_ended.get()),
        ("webhooks_delivered", "Webhooks that their receivers have.", meters.webhooks_delivered.get()),
        ("webhooks_failed", "Tries at webhooks that failed.", meters.webhooks_failed.get()),
        ("webhooks_dead", "Webhooks that were given up.", meters.webhooks_dead.get()),
        ("live_sessions_ended", "Live sessions that ended.", meters.live_ended.get()),
        ("live_sessions_refused", "Visitors turned away because there were too many.", meters.live_refused.get()),
        ("live_store_failures", "Calls to the Redis of live sessions that failed.", meters.live_store_failures.get()),
        ("live_store_losses", "How often that Redis lost everything.", meters.live_store_losses.get()),
        ("live_sessions_lost", "Live sessions that were lost with it.", meters.live_lost.get()),
        ("clock_leaps", "Cleanups put off because the wall clock leapt.", meters.clock_leaps.get()),
        ("chat_requests", "Requests of conversations under /v1.", meters.chat_requests.get()),
        ("without_session", "Those that named no session.", meters.without_session.get()),
        ("without_user", "Those that named no user.", meters.without_user.get()),
        ("tasks", "Clients' errands that were passed on and left no trace.", meters.tasks.get()),
        (
            "chats_without_memory",
            "Requests of conversations that were to leave no trace.",
            meters.chats_without_memory.get(),
        ),
        (
            "generated_without_memory",
            "Requests under /v1 that generate and are no chat.",
            meters.generated_without_memory.get(),
        ),
        ("model_questions", "Questions put to the model.", meters.model_questions.get()),
        ("model_failures", "Questions the model did not answer.", meters.model_failures.get()),
    ]
}
