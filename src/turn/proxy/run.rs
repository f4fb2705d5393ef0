//! The path of a proxied request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, StatusCode};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tracing::warn;

use super::ending::{Outcome, Which, ending};
use super::keep::Book;
use super::plan::{Noted, Plan, Planned, Write};
use super::prompt::Laid;
use super::replay::{DONE, replay};
use super::{Head, ProxyRequest, prompt};
use crate::live::LiveKey;
use crate::memory::Memory;
use crate::model::ModelError;
use crate::model::relay::{Passed, RelayBody, Relayed, Said, Tee, TeeBounds, TeeKind};
use crate::scope::Scope;
use crate::session::{ClosedTurn, Fingerprint, InTopic, Turn, TurnStatus};
use crate::store::{Kept, StoreError};
use crate::turn::clarify::Answered;
use crate::turn::trace::{SearchNotes, SearchResults};
use crate::turn::{Health, Shown, TurnError};

/// One request on its way.
pub(super) struct Run {
    pub(super) memory: Memory,
    pub(super) scope: Scope,
    pub(super) beginning: Fingerprint,
    pub(super) book: Book,
    out: mpsc::Sender<Bytes>,
}

/// Where the head of the answer goes, once it is known.
type HeadSender = oneshot::Sender<Result<Head, TurnError>>;

/// The reply to the client: its head leaves with the first byte, so that an answer that breaks before it still
/// gets a status.
struct Reply<'a> {
    run: &'a Run,
    head: Option<(HeadSender, Head)>,
}

impl Reply<'_> {
    /// Sends bytes; `false` when the client has left.
    async fn send(&mut self, bytes: Bytes) -> bool {
        if bytes.is_empty() {
            return true;
        }
        self.begin();
        self.run.out.send(bytes).await.is_ok()
    }

    fn begin(&mut self) {
        if let Some((sender, head)) = self.head.take() {
            let _ = sender.send(Ok(head));
        }
    }

    /// Whether nothing has left yet.
    fn is_unsent(&self) -> bool {
        self.head.is_some()
    }

    fn degrade(&mut self) {
        if let Some((_, head)) = &mut self.head {
            head.health = Some(Health::Degraded);
        }
    }

    fn fail(&mut self, error: TurnError) {
        if let Some((sender, _)) = self.head.take() {
            let _ = sender.send(Err(error));
        }
    }
}

impl Run {
    pub(super) fn new(memory: Memory, scope: Scope, live: Option<LiveKey>, out: mpsc::Sender<Bytes>) -> Self {
        let beginning = Fingerprint::beginning(scope.tenant().as_str(), scope.user().as_str());
        Self { memory, scope, beginning, book: Book::of(live), out }
    }

    /// Takes the request through; whether anybody still listens changes nothing about what is kept.
    pub(super) async fn go(mut self, request: ProxyRequest, head: HeadSender) {
        // The memory waits for this place before it closes, so that the turn can end properly.
        let running = Arc::clone(&self.memory.running);
        let _place = running.acquire().await;
        match self.plan(&request).await {
            Ok(Planned::Ask(plan)) => self.ask(request, *plan, head).await,
            Ok(Planned::Repeat(turn)) => self.repeat(&request, &turn, head).await,
            Err(error) => drop(head.send(Err(error))),
        }
    }

    /// Whether nobody waits for the answer any more.
    pub(super) fn client_left(&self) -> bool {
        self.out.is_closed()
    }

    /// Gives an answer again.
    async fn repeat(&self, request: &ProxyRequest, turn: &Turn, head: HeadSender) {
        let stream = wants_stream(request);
        let mut headers = HeaderMap::new();
        let kind = if stream { "text/event-stream" } else { "application/json" };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        let known = self.head(StatusCode::OK, headers, Some((turn.session, turn.id)), Health::Ok);
        let mut reply = Reply { run: self, head: Some((head, known)) };
        if let Some(answer) = turn.messages.iter().rev().find(|message| message.role == crate::message::Role::Assistant)
        {
            reply.send(replay(turn, answer, stream)).await;
        }
        if stream {
            reply.send(Bytes::from_static(DONE)).await;
        }
    }

    fn head(
        &self,
        status: StatusCode,
        headers: HeaderMap,
        kept: Option<(crate::id::SessionId, crate::id::TurnId)>,
        health: Health,
    ) -> Head {
        Head {
            status,
            headers,
            session: kept.map(|(session, _)| session),
            turn: kept.map(|(_, turn)| turn),
            health: kept.map(|_| health),
            shown: Shown::default(),
            store_time: Duration::ZERO,
        }
    }

    /// Writes the question and asks the upstream at the same time; then hears it out.
    async fn ask(&self, request: ProxyRequest, plan: Plan, head: HeadSender) {
        let Plan { write, late, laid, noted, mut health, recall_time, read_time } = plan;
        let stream = wants_stream(&request);
        let body = prompt::onward(request.body, &laid, self.memory.settings.inject);
        let asked_bytes = body.len();
        let passed = Passed { body, ..request.passed };
        let started = Instant::now();
        let Noted { reminded, topic, answered, forced } = noted;
        // The trace is written while the disk and the upstream are at work: nobody waits for it.
        let ((written, late, write_time), relayed, (trace, search)) = tokio::join!(
            async {
                let late = self.add_results(late).await;
                (self.write(write, &laid, topic, answered).await, late, started.elapsed())
            },
            self.pass(passed),
            async {
                let search = reminded.as_ref().map(|(question, reminded)| {
                    SearchNotes::of(SearchResults::of(question, reminded).as_ref(), &reminded.recalled)
                });
                let trace = reminded.and_then(|(question, reminded)| self.memory.trace(&question, &reminded));
                (trace, search.unwrap_or_default())
            },
        );
        health = health.and(late);
        let which = match written {
            Ok(Some((mut which, kept))) => {
                which.notes.extend(search.turn);
                if kept == Kept::Waiting {
                    health = Health::Degraded;
                }
                Some(Which { trace, answer_notes: search.answer, forced, ..which })
            }
            Ok(None) => None,
            Err(TurnError::Store(error)) if error.may_pass() || matches!(error, StoreError::UnknownTurn(_)) => {
                // Another answer to a question that is held already, perhaps not yet on disk: it is given, and not kept.
                self.report(None, "revise_turn", &error);
                health = Health::Degraded;
                None
            }
            Err(error) => {
                if let TurnError::Store(error) = &error {
                    self.report(None, "open_turn", error);
                }
                return drop(head.send(Err(error)));
            }
        };
        let relayed = match relayed {
            Ok(relayed) => relayed,
            Err(error) => {
                self.close_failed(which.as_ref(), &error.to_string()).await;
                return drop(head.send(Err(TurnError::Model(error))));
            }
        };
        let mut known = self.head(
            relayed.status,
            relayed.headers.clone(),
            which.as_ref().map(|which| (which.session, which.id)),
            health,
        );
        known.shown = Shown { items: laid.items, tokens: laid.tokens, recall_time };
        known.store_time = read_time + write_time;
        let reply = Reply { run: self, head: Some((head, known)) };
        match relayed.status.is_success() {
            true => self.hear_out(relayed, which, reply, (stream, asked_bytes)).await,
            false => self.pass_error_on(relayed, which, reply).await,
        }
    }

    /// Asks the upstream; gives up when the client does.
    async fn pass(&self, passed: Passed) -> Result<Relayed, ModelError> {
        self.memory.meters().model_questions.one();
        tokio::select! {
            relayed = self.memory.parts.upstream.pass(passed) => relayed,
            () = self.out.closed() => Err(ModelError::BrokeOff("the client left before the answer began".into())),
        }
    }

    /// Adds the results of tools that came with the question to the turns that waited for them.
    async fn add_results(&self, late: Vec<ClosedTurn>) -> Health {
        let mut health = Health::Ok;
        for results in late {
            match self.close_turn(results).await {
                Ok(Kept::OnDisk) => {}
                Ok(Kept::Waiting) => health = Health::Degraded,
                Err(error) => {
                    self.report(None, "add_results", &error);
                    health = Health::Degraded;
                }
            }
        }
        health
    }

    /// Writes what the plan says. Answers the turn that is to be closed later.
    async fn write(
        &self,
        write: Write,
        laid: &Laid,
        topic: Option<InTopic>,
        answered: Option<Answered>,
    ) -> Result<Option<(Which, Kept)>, TurnError> {
        match write {
            Write::Nothing => Ok(None),
            Write::Open(open, _lock) => {
                let which = Which::of((open.id, open.session), 0, topic, answered);
                // An edit of the first question has no turn before it either, but hides the others.
                let is_new = open.place.parent.is_none_or(|parent| parent == 0) && open.place.shift.hide.is_empty();
                let kept = self.open_turn(*open).await?;
                if is_new {
                    self.memory.log_created(&self.scope, which.session);
                }
                Ok(Some((which, kept)))
            }
            Write::Revise(revise, _lock) => {
                let (id, session) = (revise.id, revise.session);
                let attempt = self.revise_turn(revise).await?;
                // The tool rounds of this try go with what was laid out for it, not for the last one.
                let notes = laid.noted();
                let which = Which { notes, ..Which::of((id, session), attempt, topic, answered) };
                Ok(Some((which, Kept::OnDisk)))
            }
            Write::Continue(so_far, _lock) => {
                let which = Which::of((so_far.id, so_far.session), so_far.attempt, topic, answered);
                Ok(Some((which, self.close_turn(so_far).await?)))
            }
        }
    }

    /// Passes an answer on, piece by piece or whole, and keeps what was said.
    async fn hear_out(
        &self,
        relayed: Relayed,
        which: Option<Which>,
        mut reply: Reply<'_>,
        (stream, asked_bytes): (bool, usize),
    ) {
        let kind = TeeKind::of(&relayed.headers, stream);
        let bounds = TeeBounds::new(self.memory.settings.answer_chars_max * 4);
        let mut tee = Tee::new(kind, false, bounds);
        let outcome = self.listen(relayed.body, &mut tee, &mut reply).await;
        let rest = tee.end();
        let said = tee.finish();
        let said_bytes =
            said.choices.iter().filter_map(|choice| choice.message["content"].as_str()).map(str::len).sum::<usize>();
        self.memory.tenants.charge(self.scope.tenant(), said.tokens_used, asked_bytes + said_bytes);
        let outcome = match outcome {
            Outcome::Ended if !said.ended => {
                Outcome::Broke(said.error.clone().unwrap_or_else(|| "the model's answer broke off".into()))
            }
            outcome => outcome,
        };
        let on_disk = self.close(which.as_ref(), &said, &outcome).await;
        if !on_disk {
            reply.degrade();
        }
        match kind {
            TeeKind::Whole => self.end_whole(rest, &outcome, reply).await,
            TeeKind::Events => self.end_events(rest, &outcome, on_disk, reply).await,
        }
    }

    async fn listen(&self, mut body: RelayBody, tee: &mut Tee, reply: &mut Reply<'_>) -> Outcome {
        loop {
            let piece = tokio::select! {
                piece = body.next() => piece,
                () = self.out.closed() => return Outcome::ClientGone,
            };
            let forward = match piece {
                Some(Ok(bytes)) => tee.feed(&bytes),
                Some(Err(_)) | None if tee.is_complete() => return Outcome::Ended,
                Some(Err(ModelError::Silent(patience))) => return Outcome::Silent(patience),
                Some(Err(error)) => return Outcome::Broke(error.to_string()),
                None => return Outcome::Ended,
            };
            match forward {
                Ok(bytes) => {
                    if !reply.send(bytes).await {
                        return Outcome::ClientGone;
                    }
                }
                Err(error) => {
                    reply.send(error.before.clone()).await;
                    return Outcome::Broke(error.fault.to_string());
                }
            }
            if tee.is_over() {
                return Outcome::Ended;
            }
        }
    }

    async fn end_whole(&self, body: Bytes, outcome: &Outcome, mut reply: Reply<'_>) {
        match outcome.error(true) {
            Some(error) => reply.fail(TurnError::Model(error)),
            None => drop(reply.send(body).await),
        }
    }

    /// Ends a stream properly, whatever happened: the last event, a word about what went wrong, `[DONE]`.
    async fn end_events(&self, rest: Bytes, outcome: &Outcome, on_disk: bool, mut reply: Reply<'_>) {
        if let Some(broke) = outcome.error(false) {
            if reply.is_unsent() && rest.is_empty() {
                return reply.fail(TurnError::Model(broke));
            }
            reply.send(rest).await;
            let reason = match outcome {
                Outcome::Broke(reason) => reason.clone(),
                _ => broke.to_string(),
            };
            let error = json!({"error": {"message": reason, "type": "upstream_error", "param": null, "code": "model_broke_off"}});
            reply.send(Bytes::from(format!("data: {error}\n\n"))).await;
        } else {
            reply.send(rest).await;
        }
        if !on_disk {
            reply.send(Bytes::from_static(b": recalld degraded\n\n")).await;
        }
        reply.send(Bytes::from_static(DONE)).await;
    }

    /// An error of the upstream goes back as it is; the turn has no answer.
    async fn pass_error_on(&self, mut relayed: Relayed, which: Option<Which>, mut reply: Reply<'_>) {
        let mut body = Vec::new();
        while let Some(Ok(bytes)) = relayed.body.next().await {
            body.extend_from_slice(&bytes);
        }
        self.close_failed(which.as_ref(), &format!("the model answered with status {}", relayed.status.as_u16())).await;
        if body.is_empty() {
            reply.begin();
        }
        reply.send(Bytes::from(body)).await;
    }

    async fn close_failed(&self, which: Option<&Which>, reason: &str) {
        self.memory.meters().model_failures.one();
        warn!(user.id = %self.scope.user(), operation = "ask_model", error = %reason, "A question has no answer: {reason}");
        self.close(which, &Said::default(), &Outcome::Broke(reason.to_owned())).await;
    }

    /// Writes how the turn ended; answers whether that is on disk, or need not be.
    async fn close(&self, which: Option<&Which>, said: &Said, outcome: &Outcome) -> bool {
        let Some(which) = which else { return true };
        let now = self.memory.parts.clock.now();
        let closed: ClosedTurn = ending(which, said, outcome, self.memory.parts.upstream.name(), now);
        let failed = closed.status == TurnStatus::Failed;
        self.settle(which, &closed);
        let kept = self.close_turn(closed).await;
        let meters = self.memory.meters();
        if failed {
            meters.turns_failed.one();
        }
        match kept {
            Ok(Kept::OnDisk) => {
                meters.turns_stored.one();
                true
            }
            Ok(Kept::Waiting) => {
                meters.turns_waited.one();
                false
            }
            Err(error) => {
                self.report(Some(which), "close_turn", &error);
                false
            }
        }
    }

    /// What a whole answer asks, and what it settles.
    fn settle(&self, which: &Which, closed: &ClosedTurn) {
        let answer = closed.messages.last().filter(|_| closed.status == TurnStatus::Complete);
        if let Some(answer) = answer {
            let heard = self.memory.hear(&answer.text);
            self.memory.settle(&self.scope, which.session, which.id, heard, which.answered.as_ref());
        }
    }

    pub(super) fn report(&self, which: Option<&Which>, operation: &str, error: &StoreError) {
        self.memory.report(&self.scope, which.map(|which| which.session), operation, error);
    }
}

/// Whether the answer is to come in pieces.
fn wants_stream(request: &ProxyRequest) -> bool {
    request.body.get("stream").and_then(serde_json::Value::as_bool).unwrap_or(false)
}
