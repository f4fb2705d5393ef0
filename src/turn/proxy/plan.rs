//! What is to be done with a request: found out before anything is written or asked.

use std::time::{Duration, Instant};

use serde_json::{Map, json};

use super::ProxyRequest;
use super::ending::forces_a_call;
use super::keep::Book;
use super::prompt::{self, Laid};
use super::run::Run;
use crate::id::{SessionId, TurnId};
use crate::memory::SessionLock;
use crate::message::{Message, Role};
use crate::recall::{Ask, TurnRange};
use crate::scope::Scope;
use crate::session::{
    Alignment, Asked, ClientIds, ClosedTurn, Exchange, Held, InTopic, OpenTurn, Outline, Placement, ReviseTurn,
    SessionSeed, Shift, Step, Turn, TurnDraft, TurnStatus, align, late_results, said_before, with_results,
};
use crate::store::{HistoryMatch, Moment, RequestError, Trail};
use crate::turn::clarify::{Answered, noted};
use crate::turn::{Health, JOIN_EVERY, JOIN_TRIES, Reminded, TurnError, notes};

/// Outlines read beyond those a client's list needs, for branches it has left.
const OUTLINES_SPARE: usize = 64;
/// Most outlines that are read.
const OUTLINES_MAX: usize = 1_000;

/// What comes of planning.
pub(super) enum Planned {
    /// The model is asked.
    Ask(Box<Plan>),
    /// The answer is there already.
    Repeat(Turn),
}

/// How the model is asked.
pub(super) struct Plan {
    pub(super) write: Write,
    /// Results of tools that came with the question, for the turns that waited for them.
    pub(super) late: Vec<ClosedTurn>,
    pub(super) laid: Laid,
    pub(super) noted: Noted,
    pub(super) health: Health,
    pub(super) recall_time: Duration,
    pub(super) read_time: Duration,
}

/// What is kept with the ending, whatever is said.
#[derive(Default)]
pub(super) struct Noted {
    /// The question, and what the model is reminded of for it: the trace is written from them while the model thinks.
    pub(super) reminded: Option<(String, Reminded)>,
    /// The topic that the question belongs to.
    pub(super) topic: Option<InTopic>,
    /// The clarification that the question answers.
    pub(super) answered: Option<Answered>,
    /// Whether the model has no choice but to call a tool.
    pub(super) forced: bool,
}

/// What is written before the first byte leaves. The lock is held until that is done.
pub(super) enum Write {
    Nothing,
    Open(Box<OpenTurn>, SessionLock),
    Revise(ReviseTurn, SessionLock),
    Continue(ClosedTurn, SessionLock),
}

/// A conversation and what is held of it.
struct Found {
    session: SessionId,
    /// The conversation it left at an earlier point.
    fork: Option<SessionId>,
    /// Whether what is held could be read; if not, nothing of the client's history is taken for new.
    known: bool,
    /// Whether it begins with this request, as far as is known.
    begins: bool,
    /// How many of the request's first exchanges were said before its first turn.
    earlier: usize,
    held: Held,
    lock: SessionLock,
}

impl Found {
    /// Where a request belongs in it.
    fn align(&mut self, asked: &Asked) -> Alignment {
        self.earlier = said_before(&self.held, asked);
        if self.earlier == 0 {
            return align(&self.held, asked);
        }
        let mut alignment = align(&self.held, &asked.without_first(self.earlier));
        if let Step::Append { import, .. } = &mut alignment.step {
            *import += self.earlier;
        }
        alignment
    }

    /// The first of a request's exchanges that is taken for new.
    fn new_from(&self, asked: &Asked, import: usize) -> usize {
        if asked.names_session && self.known { import } else { asked.exchanges.len() }
    }

    /// How many numbers are kept free for a history that is not taken in.
    fn keeps_free(&self, asked: &Asked) -> u64 {
        let is_told_of = self.begins && self.fork.is_none();
        if is_told_of { asked.exchanges.iter().filter(|exchange| says_something(exchange)).count() as u64 } else { 0 }
    }

    /// What the client says was said before its question, where some of it is new here.
    fn brought(&self, asked: &Asked, step: &Step) -> Option<Vec<String>> {
        let Step::Append { import, .. } = step else { return None };
        let past = asked.exchanges.iter().flat_map(|exchange| &exchange.messages).filter(|message| message.is_spoken());
        (self.known && self.fork.is_none() && *import < asked.exchanges.len())
            .then(|| past.map(|message| message.text.clone()).collect())
    }

    /// Where the conversation stands when a request takes back some of it, or has a question answered again.
    fn stands(&self, shift: &Shift, again: Option<TurnId>) -> Option<Moment> {
        let again = self.held.turns.iter().filter(|turn| Some(turn.id) == again).map(|turn| turn.number);
        let before = shift.hide.iter().copied().chain(again).min()?;
        Some(Moment { session: self.session, before: Some(before) })
    }
}

impl Run {
    /// Decides what to do with a request.
    pub(super) async fn plan(&mut self, request: &ProxyRequest) -> Result<Planned, TurnError> {
        let started = Instant::now();
        let now = self.memory.parts.clock.now();
        let asked = prompt::read(&request.body, request.ids.clone(), request.marked_as_retry, now);
        let remembered = request.mode.records() || request.mode.injects();
        let says_something = |asked: &Asked| asked.has_no_question() || asked.open[0].says_something();
        let Some(mut asked) = asked.filter(|asked| remembered && says_something(asked)) else {
            return Ok(just_pass(Write::Nothing));
        };
        (asked.resends_history, asked.names_session) = (request.resends_history, request.session.is_some());
        let mut found = self.find(request, &asked).await?;
        let alignment = found.align(&asked);
        if asked.has_no_question() && !matches!(alignment.step, Step::Continue(_)) {
            // No turn waits for these results.
            return Ok(just_pass(Write::Nothing));
        }
        let alignment = match self.repeated(&found, &asked, alignment).await? {
            Ok(turn) => return Ok(Planned::Repeat(turn)),
            Err(alignment) => alignment,
        };
        let shift = alignment.shift(&found.held);
        let answered = self.answers(&asked, &found, &alignment, &shift);
        let (laid, reminded) = self.lay_out(request, &asked, &found, &alignment, &shift, answered.as_ref()).await;
        if request.mode.records() {
            self.admit(request, &asked, &found, &alignment).await?;
            self.count_topics(&reminded.recalled);
        }
        let (health, recall_time, topic) = (reminded.health, reminded.took, reminded.topic.clone());
        let reminded = Some((asked.open[0].text.clone(), reminded));
        let noted = Noted { reminded, topic, answered, forced: forces_a_call(&request.body) };
        let late = if request.mode.records() { late_results(&found.held, &asked) } else { Vec::new() };
        let late = late.into_iter().map(|late| late.closing(found.session)).collect();
        let write = match request.mode.records() {
            true => self.to_write(request, asked, found, &alignment, shift, &laid, noted.answered.as_ref()),
            false => Write::Nothing,
        };
        let read_time = started.elapsed().saturating_sub(recall_time);
        Ok(Planned::Ask(Box::new(Plan { write, late, laid, noted, health, recall_time, read_time })))
    }

    /// The conversation: the one the client names, else the one in which this was said, else a new one.
    async fn find(&mut self, request: &ProxyRequest, asked: &Asked) -> Result<Found, TurnError> {
        let (session, fork) = match request.session {
            Some(session) => (Some(session), None),
            // Two unnamed users may say the same, so the text does not identify the conversation.
            None if request.alone => (None, None),
            None => match self.by_history(asked).await {
                Some(HistoryMatch::Continues(session)) => (Some(session), None),
                Some(HistoryMatch::Forks(session)) if asked.carries_answers() => (None, Some(session)),
                _ => (None, None),
            },
        };
        let begins = session.is_none();
        let session = session.unwrap_or_else(|| new_session(request, &self.scope));
        let lock = self.memory.lock_session(&self.scope, session).await;
        let outlines = (2 * asked.exchanges.len() + OUTLINES_SPARE).min(OUTLINES_MAX);
        let (held, known) = match self.held(session, outlines).await {
            Ok(held) => (held, true),
            Err(error) => {
                // Without what is held the question is appended: that loses nothing.
                self.report(None, "read_history", &error);
                (Held::default(), false)
            }
        };
        Ok(Found { session, fork, known, begins, earlier: 0, held, lock })
    }

    /// The conversation of this user in which this was said.
    async fn by_history(&self, asked: &Asked) -> Option<HistoryMatch> {
        if !asked.tool_results.is_empty()
            && let Some(found) = self.on_trail(asked, asked.tool_results.clone()).await
        {
            return Some(found);
        }
        if !asked.carries_answers() && !asked.marked_as_retry {
            return None;
        }
        self.on_trail(asked, Vec::new()).await
    }

    async fn on_trail(&self, asked: &Asked, calls: Vec<String>) -> Option<HistoryMatch> {
        let tail = asked.tail().filter(|_| calls.is_empty());
        let trail = Trail { chain: asked.chain(self.beginning), question: asked.question, calls, tail };
        match self.memory.parts.store.match_history(&self.scope, trail).await {
            Ok(found) => found,
            Err(error) => {
                self.report(None, "match_history", &error);
                None
            }
        }
    }

    /// A request that was made before: its answer, once there is one. An answer that never came whole is
    /// asked for again.
    async fn repeated(
        &self,
        found: &Found,
        asked: &Asked,
        alignment: Alignment,
    ) -> Result<Result<Turn, Alignment>, TurnError> {
        let Step::Repeat(id) = alignment.step else { return Ok(Err(alignment)) };
        if found.held.turns.iter().any(|turn| turn.id == id && turn.question != asked.question) {
            return Err(RequestError::KeyReused.into());
        }
        for _ in 0..JOIN_TRIES {
            if self.client_left() {
                return Err(TurnError::Stopping);
            }
            match self.turn(id).await? {
                Some(turn) if turn.status == TurnStatus::Complete || awaits_tools(&turn) => return Ok(Ok(turn)),
                Some(turn) if turn.status == TurnStatus::Pending => tokio::time::sleep(JOIN_EVERY).await,
                _ => break,
            }
        }
        Ok(Err(Alignment { step: Step::Revise(id), ..alignment }))
    }

    /// The clarification that a question answers. One that is asked again answers what it answered before; what a turn asked
    /// that this request takes back is open no more.
    fn answers(&self, asked: &Asked, found: &Found, alignment: &Alignment, shift: &Shift) -> Option<Answered> {
        if asked.has_no_question() {
            return None;
        }
        let desk = &self.memory.clarifications;
        let held = match alignment.step {
            Step::Append { .. } | Step::Continue(_) => desk.open(&self.scope, found.session).filter(|open| {
                let mut gone = found.held.turns.iter().filter(|turn| shift.hide.contains(&turn.number));
                !gone.any(|turn| open.asked_in == Some(turn.id))
            }),
            Step::Revise(id) | Step::Repeat(id) => desk.answered_in(&self.scope, found.session, id),
        };
        Answered::by(held?, &asked.open[0].text)
    }

    /// What the model lacks: the end of the conversation, as far as the client left it out, and what was said about
    /// the question at any time.
    async fn lay_out(
        &self,
        request: &ProxyRequest,
        asked: &Asked,
        found: &Found,
        alignment: &Alignment,
        shift: &Shift,
        answered: Option<&Answered>,
    ) -> (Laid, Reminded) {
        let again = match &alignment.step {
            Step::Continue(id) => return (self.lay_out_again(*id, asked, found).await, Reminded::nothing()),
            Step::Revise(id) => Some(*id),
            _ => None,
        };
        if !request.mode.injects() || !prompt::takes_a_block(&request.body) {
            return (Laid::default(), Reminded::nothing());
        }
        let chosen = answered.map(|answered| &answered.chosen);
        let late = late_results(&found.held, asked);
        if request.live.is_some() {
            return self.lay_out_visit(request, asked, (shift, again, &late), chosen).await;
        }
        let (turns, health) = self.recent(found).await;
        let is_shown = |turn: &Turn| !shift.hide.contains(&turn.number) && Some(turn.id) != again;
        let turns = with_results(turns.into_iter().filter(is_shown), &late);
        let settings = &self.memory.settings;
        let lacking = prompt::lacking(asked, &turns, settings, settings.context_messages);
        let there = self.sent_or_gone(asked, found, shift).await;
        let ask = Ask {
            question: asked.open[0].text.clone(),
            session: Some(found.session),
            running: found.brought(asked, &alignment.step),
            follows: there.left.or_else(|| found.stands(shift, again)),
            tokens_max: lacking.recall_tokens_max,
            shown: lacking.shown.iter().copied().chain(again).chain(there.turns).collect(),
            shown_ranges: lacking.shown_ranges.iter().copied().chain(there.ranges).collect(),
            taken_back: taken_back(found.session, shift),
            ..Ask::default()
        };
        let mut reminded = self.memory.remind_of_choice(&self.scope, ask, chosen).await;
        reminded.health = reminded.health.and(health);
        (prompt::lay_out(asked, lacking, &mut reminded.recalled), reminded)
    }

    /// The end of the conversation. An answer without it is worth more than no answer.
    async fn recent(&self, found: &Found) -> (Vec<Turn>, Health) {
        if found.known && found.held.turns.is_empty() {
            return (Vec::new(), Health::Ok);
        }
        let messages_max = self.memory.settings.context_messages;
        match self.memory.parts.store.last_turns(&self.scope, found.session, messages_max).await {
            Ok(recent) if recent.damaged.is_empty() => (recent.turns, Health::Ok),
            Ok(recent) => {
                self.memory.meters().rows_damaged.many(recent.damaged.len() as u64);
                (recent.turns, Health::Degraded)
            }
            Err(error) => {
                self.report(None, "read_history", &error);
                (Vec::new(), Health::Degraded)
            }
        }
    }

    /// Turns that the client sent itself, here or in the conversation it left, and those that this very request
    /// supersedes: the model needs no reminder of either.
    async fn sent_or_gone(&self, asked: &Asked, found: &Found, shift: &Shift) -> There {
        let left = match found.fork {
            Some(session) => self.memory.parts.store.held(&self.scope, session, OUTLINES_MAX).await.unwrap_or_default(),
            None => Held::default(),
        };
        let sent = prompt::sent(asked);
        // A client that dropped a call has sent all that there is of its turn.
        let is_sent = |turn: &Outline| {
            let answer_is_sent = || turn.answer.as_ref().is_none_or(|answer| sent.contains(answer));
            sent.contains(&turn.question) && (!turn.open_calls.is_empty() || answer_is_sent())
        };
        let gone = |turn: &Outline| shift.hide.contains(&turn.number);
        let here = found.held.turns.iter().filter(|turn| is_sent(turn) || gone(turn));
        let turns = here.chain(left.turns.iter().filter(|turn| is_sent(turn))).map(|turn| turn.id).collect();
        let of_left = found.fork.map_or_else(Vec::new, |session| sent_ranges(session, &left.turns, is_sent));
        let left = of_left.first().map(|range| Moment { session: range.session, before: Some(range.last + 1) });
        let ranges = [sent_ranges(found.session, &found.held.turns, is_sent), of_left].concat();
        There { turns, ranges, left }
    }

    /// What was laid before the model for a question goes with its tool rounds too, byte for byte. A client that brings
    /// the results alone is given the conversation before them as well.
    async fn lay_out_again(&self, id: TurnId, asked: &Asked, found: &Found) -> Laid {
        let Some(turn) = self.turn(id).await.ok().flatten() else { return Laid::default() };
        let laid = Laid::noted_in(&turn);
        if !asked.has_no_question() {
            return laid;
        }
        let earlier = match &self.book {
            Book::Durable => self.recent(found).await.0,
            Book::Live(..) => self.said_in_visit(found.session),
        };
        let earlier = with_results(earlier.into_iter().filter(|one| one.number < turn.number), &[]);
        prompt::before_results(laid, earlier, &turn, asked, &self.memory.settings)
    }

    /// Whether the tenant may have what is to be written: another try at an answer, or the results of tools, are nothing new.
    async fn admit(
        &mut self,
        request: &ProxyRequest,
        asked: &Asked,
        found: &Found,
        alignment: &Alignment,
    ) -> Result<(), TurnError> {
        let Step::Append { import, .. } = alignment.step else { return Ok(()) };
        if request.live.is_some() {
            return Ok(self.let_in(asked, import, request.seed.clone()).await?);
        }
        let turns = 1 + (asked.exchanges.len() - found.new_from(asked, import) + found.earlier) as u64;
        self.memory.tenants.admit_turns(self.scope.tenant(), found.held.turns.is_empty(), turns).await?;
        Ok(())
    }

    #[allow(clippy::too_many_arguments, reason = "each is one thing the row is made of")]
    fn to_write(
        &self,
        request: &ProxyRequest,
        asked: Asked,
        found: Found,
        alignment: &Alignment,
        shift: Shift,
        laid: &Laid,
        answered: Option<&Answered>,
    ) -> Write {
        let session = found.session;
        match alignment.step {
            Step::Append { parent, import } => {
                let import = found.new_from(&asked, import);
                let mut open = self.open(request, asked, &found, parent, import, shift, laid);
                open.metadata
                    .extend(notes([("clarification", json!(answered.map(|answered| noted(&answered.chosen))))]));
                Write::Open(Box::new(open), found.lock)
            }
            Step::Revise(id) | Step::Repeat(id) => {
                let then = asked.open.into_iter().skip(1).collect();
                Write::Revise(ReviseTurn { id, session, ids: asked.ids, shift, then }, found.lock)
            }
            Step::Continue(id) => {
                let attempt = found.held.turns.iter().find(|turn| turn.id == id).map_or(0, |turn| turn.attempt);
                let results = asked.open.iter().rev().take_while(|message| message.role == Role::Tool);
                let mut messages: Vec<Message> = results.cloned().collect();
                messages.reverse();
                let (status, metadata) = (TurnStatus::Pending, Map::new());
                let others = Vec::new();
                Write::Continue(
                    ClosedTurn {
                        id,
                        session,
                        status,
                        messages,
                        metadata,
                        attempt,
                        others,
                        trace: None,
                        topic: None,
                        waits_since: None,
                    },
                    found.lock,
                )
            }
        }
    }

    #[allow(clippy::too_many_arguments, reason = "each is one thing the row is made of")]
    fn open(
        &self,
        request: &ProxyRequest,
        asked: Asked,
        found: &Found,
        parent: u64,
        import: usize,
        shift: Shift,
        laid: &Laid,
    ) -> OpenTurn {
        let now = self.memory.parts.clock.now();
        let before = asked.exchanges[..import].iter().fold(self.beginning, |chain, exchange| exchange.chained(chain));
        let before = (asked.carries_answers() || found.held.turns.is_empty()).then_some(before);
        let draft = |exchange: &Exchange| TurnDraft {
            id: self.memory.parts.ids.turn(now),
            messages: exchange.messages.clone(),
            metadata: notes([("source", json!("client history"))]),
            created_at: None,
        };
        let ids = ClientIds { preamble: found.held.preamble(&asked), ..asked.ids.clone() };
        let drafts =
            |exchanges: &[Exchange]| exchanges.iter().filter(|exchange| says_something(exchange)).map(draft).collect();
        let (imported, earlier) = (drafts(&asked.exchanges[import..]), drafts(&asked.exchanges[..found.earlier]));
        let kept_free = found.keeps_free(&asked);
        let mut open = asked.open.into_iter();
        let question = open.next().expect("a request that asks nothing was passed on already");
        let placement = Placement {
            parent: found.known.then_some(parent),
            imported,
            kept_free,
            earlier,
            then: open.collect(),
            shift,
            ids,
            before,
            request: None,
        };
        let mut seed: SessionSeed = request.seed.clone();
        if let Some(fork) = found.fork {
            seed.metadata.insert("forked_from".into(), fork.to_string().into());
        }
        if found.held.turns.is_empty() {
            let language = self.memory.templates.choose(None, &question.text).language.clone();
            seed.metadata.entry("language").or_insert(language.into());
        }
        let (id, session) = (self.memory.parts.ids.turn(now), found.session);
        let metadata = if laid.is_nothing() { Map::new() } else { laid.noted() };
        OpenTurn { id, session, seed, question, metadata, asked_at: None, place: placement }
    }
}

/// What the model needs no reminder of.
struct There {
    turns: Vec<TurnId>,
    ranges: Vec<TurnRange>,
    /// Where another conversation was left.
    left: Option<Moment>,
}

/// The stretches of a conversation that a client sent itself. Whoever sent the oldest turn that was looked at has sent
/// all before it as well: more were looked at than its list has.
fn sent_ranges(session: SessionId, held: &[Outline], is_sent: impl Fn(&Outline) -> bool) -> Vec<TurnRange> {
    let mut ranges: Vec<TurnRange> = Vec::new();
    let (mut oldest, mut goes_on) = (true, false);
    for turn in held.iter().filter(|turn| turn.visible && turn.enters_context()) {
        let first = if oldest { 0 } else { turn.number };
        match ranges.last_mut() {
            Some(range) if is_sent(turn) && goes_on => range.last = turn.number,
            _ if is_sent(turn) => ranges.push(TurnRange { session, first, last: turn.number }),
            _ => {}
        }
        (oldest, goes_on) = (false, is_sent(turn));
    }
    ranges
}

/// The turns that a request takes back, each a stretch of its own.
fn taken_back(session: SessionId, shift: &Shift) -> Vec<TurnRange> {
    shift.hide.iter().map(|number| TurnRange { session, first: *number, last: *number }).collect()
}

/// The id of a conversation that begins here. A request with a name of its own begins the same conversation
/// however often it is sent. Names are easily guessed, so those of people without a name say nothing.
fn new_session(request: &ProxyRequest, who: &Scope) -> SessionId {
    let ClientIds { question, answer, key, .. } = &request.ids;
    match question.as_ref().or(answer.as_ref()).or(key.as_ref()) {
        Some(name) if !request.alone => SessionId::begun_by(who.tenant().as_str(), who.user().as_str(), name),
        _ => request.new_session,
    }
}

/// Whether an exchange is more than an empty message.
fn says_something(exchange: &Exchange) -> bool {
    exchange.messages[0].says_something()
}

/// Whether the model has answered with a call that waits for its result.
fn awaits_tools(turn: &Turn) -> bool {
    turn.messages.last().is_some_and(Message::calls_tools)
}

fn just_pass(write: Write) -> Planned {
    let nothing = Duration::ZERO;
    let laid = Laid::default();
    Planned::Ask(Box::new(Plan {
        write,
        late: Vec::new(),
        laid,
        noted: Noted::default(),
        health: Health::Ok,
        recall_time: nothing,
        read_time: nothing,
    }))
}
