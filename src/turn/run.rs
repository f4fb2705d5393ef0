//! The path of a turn, once it has been accepted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tracing::warn;

use super::clarify::{Answered, noted};
use super::compose::{Composed, compose};
use super::once::Before;
use super::trace::{SearchNotes, SearchResults};
use super::{Answer, Health, Reminded, Shown, TurnError, TurnEvent, TurnRequest, notes};
use crate::id::{SessionId, TurnId};
use crate::language::Tongue;
use crate::memory::Memory;
use crate::message::{Message, Role};
use crate::model::{Ending, ModelError, Piece, Pieces, Prompt};
use crate::recall::Ask;
use crate::scope::Scope;
use crate::session::{
    ClosedTurn, InTopic, Intent, OpenTurn, Placement, Saying, SessionSeed, Turn, TurnStatus, read_intent,
};
use crate::store::{Kept, Opened, Recent, StoreError};

/// One turn on its way.
pub(super) struct Run {
    pub(super) memory: Memory,
    pub(super) scope: Scope,
    pub(super) session: SessionId,
    pub(super) turn: TurnId,
    /// Which try at its answer this is.
    pub(super) attempt: u32,
    pub(super) events: mpsc::Sender<TurnEvent>,
}

/// What the model said, and how it ended.
struct Heard {
    text: String,
    ending: Result<Ending, Stop>,
}

/// Why the answer stopped before its end.
enum Stop {
    Model(ModelError),
    ClientGone,
    Endless(usize),
}

impl Stop {
    /// The reason kept with the turn.
    fn reason(&self) -> String {
        match self {
            Self::Model(error) => error.to_string(),
            Self::ClientGone => "the client left before the answer was complete".into(),
            Self::Endless(chars) => TurnError::Endless(*chars).to_string(),
        }
    }
}

impl Run {
    /// Takes the turn and tells the listener how it went; whether anybody listens changes nothing.
    pub(super) async fn go(mut self, request: TurnRequest) {
        // The memory waits for this place before it closes, so that the turn can end properly.
        let running = Arc::clone(&self.memory.running);
        let _place = running.acquire().await;
        let ending = match self.take(request).await {
            Ok(answer) => TurnEvent::Done(Box::new(answer)),
            Err(error) => TurnEvent::Failed(error),
        };
        let _ = self.events.send(ending).await;
    }

    async fn take(&mut self, mut request: TurnRequest) -> Result<Answer, TurnError> {
        let started = Instant::now();
        let mut opened = None;
        if let Some(mark) = request.request {
            match self.before(&mark, &request.query).await? {
                Before::Nothing => {}
                Before::Answered(answer) => return Ok(*answer),
                Before::Unanswered => {
                    opened = self.try_again().await;
                    request.request = None;
                }
            }
        }
        let (recent, mut health) = self.recent(request.session.map(|_| self.session)).await;
        let read_time = started.elapsed();
        self.memory.tenants.admit_turns(self.scope.tenant(), recent.session.is_none(), 1).await?;
        let (mut composed, language) = self.compose(&request, &recent)?;
        let open = self.memory.clarifications.open(&self.scope, self.session);
        let answered = open.and_then(|open| Answered::by(open, &request.query));
        let reminded = match request.alone {
            true => Reminded::nothing(),
            false => self.remind(&request.query, answered.as_ref(), &mut composed).await,
        };
        health = health.and(reminded.health);
        let shown = shown(&composed, &reminded);
        let _ = self.events.send(TurnEvent::Reminded(shown)).await;
        let intent = intent(&request.query, &language, &recent, answered.as_ref());
        let (question, mark) = (request.query.clone(), request.request);
        let prompt = Prompt {
            messages: std::mem::take(&mut composed.messages),
            stream: request.stream,
            model: self.memory.settings.model.clone(),
        };
        let prompt_bytes = self.bytes_to_charge(&prompt);

        // The question reaches the disk while the model thinks, and before the first byte leaves; meanwhile the trace is
        // written.
        let searched = SearchResults::of(&question, &reminded);
        let search = SearchNotes::of(searched.as_ref(), &reminded.recalled);
        let ((opened, open_time), asked, trace) = tokio::join!(
            timed(self.open(request, opened, &intent, answered.as_ref(), &language)),
            self.ask(prompt),
            async { self.memory.trace(&question, &reminded) }
        );
        if let (Err(StoreError::Repeated), Some(mark)) = (&opened, mark) {
            // The same request came at the same time, here or elsewhere, and was first.
            return match self.before(&mark, &question).await? {
                Before::Answered(answer) => Ok(*answer),
                Before::Nothing | Before::Unanswered => Err(StoreError::Repeated.into()),
            };
        }
        let opened = opened.inspect_err(|error| self.fail("open_turn", error))?;
        if recent.session.is_none() {
            self.memory.log_created(&self.scope, self.session);
        }
        let heard = match asked {
            Ok(pieces) => self.listen(pieces).await,
            Err(stop) => Heard { text: String::new(), ending: Err(stop) },
        };

        let tokens = heard.ending.as_ref().ok().and_then(|ending| ending.tokens_used);
        self.memory.tenants.charge(self.scope.tenant(), tokens, prompt_bytes + heard.text.len());

        // A failing store costs the mark `ok`, not the answer.
        let (kept, close_time) = timed(self.close(&heard, &composed, &search, trace, reminded.topic)).await;
        if opened.kept == Kept::Waiting || kept != Some(Kept::OnDisk) {
            health = Health::Degraded;
            self.memory.meters().turns_waited.one();
        } else {
            self.memory.meters().turns_stored.one();
            self.memory.recall.take_in(&self.scope);
        }
        let store_time = read_time + open_time + close_time;
        let ending = heard.ending.map_err(|stop| self.stopped(stop))?;
        let asks = self.memory.hear(&heard.text);
        self.memory.settle(&self.scope, self.session, self.turn, asks, answered.as_ref());
        Ok(Answer {
            number: opened.number,
            model: self.model(Some(&ending)),
            tokens_used: ending.tokens_used,
            text: heard.text,
            messages_in_context: composed.messages_in_context,
            intent,
            clarification: reminded.clarification,
            health,
            citations: reminded.recalled.citations(),
            searched,
            reminders: reminded.recalled.reminders,
            shown,
            store_time,
        })
    }

    /// How long the question is as the model gets it; nobody asks where tokens are not counted.
    fn bytes_to_charge(&self, prompt: &Prompt) -> usize {
        let counts = self.memory.settings.limits.tokens_per_day != 0;
        if counts { prompt.messages.iter().map(|message| message.to_string().len()).sum() } else { 0 }
    }

    /// Lays before the model what was said about the question, here or in other conversations.
    async fn remind(&self, query: &str, answered: Option<&Answered>, composed: &mut Composed) -> Reminded {
        let ask = Ask {
            question: query.to_owned(),
            session: Some(self.session),
            tokens_max: composed.recall_tokens_max,
            shown: std::mem::take(&mut composed.shown),
            shown_ranges: std::mem::take(&mut composed.shown_ranges),
            ..Ask::default()
        };
        let chosen = answered.map(|answered| &answered.chosen);
        let mut reminded = self.memory.remind_of_choice(&self.scope, ask, chosen).await;
        if !composed.lay(&reminded.recalled, self.memory.settings.inject) {
            reminded.recalled.leave_out();
        }
        reminded
    }

    /// The end of the conversation. An answer without it is worth more than no answer.
    async fn recent(&self, session: Option<SessionId>) -> (Recent, Health) {
        let Some(session) = session else { return (Recent::default(), Health::Ok) };
        let messages_max = self.memory.settings.context_messages;
        match self.memory.parts.store.last_turns(&self.scope, session, messages_max).await {
            Ok(recent) if recent.damaged.is_empty() => (recent.for_prompt(), Health::Ok),
            Ok(recent) => {
                self.memory.meters().rows_damaged.many(recent.damaged.len() as u64);
                recent.damaged.iter().for_each(|damage| self.fail("read_history", damage));
                (recent.for_prompt(), Health::Degraded)
            }
            Err(error) => {
                self.fail("read_history", &error);
                (Recent::default(), Health::Degraded)
            }
        }
    }

    /// What the model is shown, and the language it is worded in.
    fn compose(&self, request: &TurnRequest, recent: &Recent) -> Result<(Composed, String), TurnError> {
        let known = recent.session.as_ref().and_then(|session| session.metadata.get("language")?.as_str());
        let sample = language_sample(&recent.turns, &request.query);
        let template = self.memory.templates.choose(known, &sample);
        let composed =
            compose(template, request.role.as_deref(), &recent.turns, &request.query, &self.memory.settings)?;
        Ok((composed, template.language.clone()))
    }

    async fn open(
        &self,
        request: TurnRequest,
        opened: Option<Opened>,
        intent: &Intent,
        answered: Option<&Answered>,
        language: &str,
    ) -> Result<Opened, StoreError> {
        if let Some(opened) = opened {
            return Ok(opened);
        }
        let SessionSeed { mut metadata, ttl, kind } = request.seed;
        metadata.entry("language").or_insert_with(|| language.into());
        let role = request.role.map_or(Value::Null, Value::String);
        let open = OpenTurn {
            id: self.turn,
            session: self.session,
            seed: SessionSeed { metadata, ttl, kind },
            question: Message::new(Role::User, request.query, self.memory.parts.clock.now()),
            metadata: notes([
                ("intent", intent.name.into()),
                ("confidence", intent.confidence.into()),
                ("clarification", json!(answered.map(|answered| noted(&answered.chosen)))),
                ("role", role),
            ]),
            asked_at: None,
            place: Placement { request: request.request, ..Placement::default() },
        };
        self.memory.parts.store.open_turn(&self.scope, open).await
    }

    /// Puts the question to the model; gives up when the client does.
    async fn ask(&self, prompt: Prompt) -> Result<Pieces, Stop> {
        self.memory.meters().model_questions.one();
        tokio::select! {
            pieces = self.memory.parts.model.ask(prompt) => pieces.map_err(Stop::Model),
            () = self.events.closed() => Err(Stop::ClientGone),
        }
    }

    /// Hears the model out, passing pieces on as they come.
    async fn listen(&self, mut pieces: Pieces) -> Heard {
        let (mut text, mut chars) = (String::new(), 0);
        let chars_max = self.memory.settings.answer_chars_max;
        let ending = loop {
            let piece = tokio::select! {
                piece = pieces.next() => piece,
                () = self.events.closed() => break Err(Stop::ClientGone),
            };
            match piece {
                Some(Ok(Piece::Text(more))) => {
                    chars += more.chars().count();
                    if chars > chars_max {
                        break Err(Stop::Endless(chars_max));
                    }
                    text.push_str(&more);
                    if self.events.send(TurnEvent::Piece(more)).await.is_err() {
                        break Err(Stop::ClientGone);
                    }
                }
                Some(Ok(Piece::End(ending))) => break Ok(ending),
                Some(Err(error)) => break Err(Stop::Model(error)),
                None => break Err(Stop::Model(ModelError::BrokeOff("it ended without an end".into()))),
            }
        };
        Heard { text, ending }
    }

    /// Writes how the turn ended. `None` when it could not be kept at all.
    async fn close(
        &self,
        heard: &Heard,
        composed: &Composed,
        search: &SearchNotes,
        trace: Option<String>,
        topic: Option<InTopic>,
    ) -> Option<Kept> {
        let closed = ClosedTurn { trace, topic, ..self.closed(heard, composed, search) };
        if closed.status == TurnStatus::Failed {
            self.memory.meters().turns_failed.one();
        }
        match self.memory.parts.store.close_turn(&self.scope, closed).await {
            Ok(kept) => {
                self.memory.follow_topics(&self.scope);
                Some(kept)
            }
            Err(error) => {
                self.fail("close_turn", &error);
                None
            }
        }
    }

    fn closed(&self, heard: &Heard, composed: &Composed, search: &SearchNotes) -> ClosedTurn {
        let blank = heard.text.trim().is_empty();
        let (status, reason) = match &heard.ending {
            Ok(_) if blank => (TurnStatus::Failed, Some("the model's answer was empty".to_owned())),
            Ok(_) => (TurnStatus::Complete, None),
            Err(stop) if blank => (TurnStatus::Failed, Some(stop.reason())),
            Err(stop) => (TurnStatus::Partial, Some(stop.reason())),
        };
        let messages = if blank { Vec::new() } else { vec![self.answer_message(heard, search)] };
        let reason = reason.map_or(Value::Null, Value::String);
        let mut metadata = notes([("messages_in_context", composed.messages_in_context.into()), ("reason", reason)]);
        metadata.extend(search.turn.clone());
        ClosedTurn {
            id: self.turn,
            session: self.session,
            status,
            messages,
            metadata,
            attempt: self.attempt,
            others: Vec::new(),
            trace: None,
            topic: None,
            waits_since: None,
        }
    }

    fn answer_message(&self, heard: &Heard, search: &SearchNotes) -> Message {
        let mut message = Message::new(Role::Assistant, heard.text.clone(), self.memory.parts.clock.now());
        let ending = heard.ending.as_ref().ok();
        message.metadata = notes([
            ("model", self.model(ending).into()),
            ("tokens_used", json!(ending.and_then(|ending| ending.tokens_used))),
            ("finish_reason", json!(ending.and_then(|ending| ending.finish_reason.as_deref()))),
        ]);
        message.metadata.extend(search.answer.clone());
        message
    }

    fn model(&self, ending: Option<&Ending>) -> String {
        let said = ending.and_then(|ending| ending.model.clone());
        said.unwrap_or_else(|| self.memory.model_name().to_owned())
    }

    fn stopped(&self, stop: Stop) -> TurnError {
        if !matches!(stop, Stop::ClientGone) {
            self.memory.meters().model_failures.one();
        }
        warn!(session.id = %self.session, user.id = %self.scope.user(), operation = "ask_model", error = %stop.reason(),
              "Turn `{}` has no whole answer: {}", self.turn, stop.reason());
        match stop {
            Stop::Model(error) => TurnError::Model(error),
            Stop::ClientGone => TurnError::Stopping,
            Stop::Endless(chars) => TurnError::Endless(chars),
        }
    }

    pub(super) fn fail(&self, operation: &str, error: &StoreError) {
        self.memory.report(&self.scope, Some(self.session), operation, error);
    }
}

/// How much the model is shown.
fn shown(composed: &Composed, reminded: &Reminded) -> Shown {
    let Reminded { recalled, took, .. } = reminded;
    let items = composed.messages_in_context + recalled.items();
    Shown { items, tokens: recalled.tokens, recall_time: *took }
}

/// What kind of thing was said.
fn intent(query: &str, language: &str, recent: &Recent, answered: Option<&Answered>) -> Intent {
    read_intent(&Saying {
        text: query,
        tongue: Tongue::from_code(language).unwrap_or_default(),
        has_history: !recent.turns.is_empty(),
        answers: answered.map(|answered| answered.chosen.by.confidence()),
    })
}

/// Words to tell the language by: the question, and the ones before it, for short follow-ups.
fn language_sample(turns: &[Turn], query: &str) -> String {
    let asked = turns.iter().rev().take(3).map(|turn| turn.question().text.as_str());
    std::iter::once(query).chain(asked).collect::<Vec<_>>().join("\n")
}

async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let started = Instant::now();
    (work.await, started.elapsed())
}
