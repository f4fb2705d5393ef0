//! What is laid before the model: the client's own list, and what it lacks.

use std::collections::HashSet;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::id::TurnId;
use crate::memory::{InjectInto, MemorySettings};
use crate::message::Message;
use crate::recall::{Recalled, TurnRange, recent_conversation};
use crate::session::{Asked, ClientIds, Fingerprint, Turn, as_plain_answer, fit, unwrap_message, window};
use crate::tokens;
use crate::turn::compose::{fits, recall_room, shown_to_the_end, shown_whole};
use crate::turn::inject::{block, inject};

/// Fields of a body that are for us and nobody else.
pub(super) const OUR_FIELDS: [&str; 3] = ["memory", "session_id", "user_id"];

/// The client's list as messages, its wrappers taken off. Roles we do not know are set-up, not conversation.
pub(super) fn said(body: &Map<String, Value>, now: jiff::Timestamp) -> Vec<Message> {
    let list = body.get("messages").and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(|wire| Message::from_wire(wire.clone(), now))
        .filter_map(unwrap_message)
        .collect()
}

/// Reads the request as a conversation.
pub(super) fn read(body: &Map<String, Value>, ids: ClientIds, retry: bool, now: jiff::Timestamp) -> Option<Asked> {
    Asked::read(said(body, now), ids, retry)
}

/// What a request is sent on with.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Laid {
    /// The window as messages of its own, for a client that sends only what is new.
    pub(super) window: Vec<Value>,
    /// The block inside the last user message: what was recalled, and what a client left out.
    pub(super) block: String,
    /// How many remembered messages and summaries these are.
    pub(super) items: usize,
    /// Tokens of what the block holds.
    pub(super) tokens: usize,
    /// What the model is told first, where the client tells it nothing.
    pub(super) system: Option<String>,
}

impl Laid {
    /// Whether the model is shown nothing but what the client sent.
    pub(super) fn is_nothing(&self) -> bool {
        self.block.is_empty() && self.window.is_empty() && self.system.is_none()
    }

    /// What was kept beside a turn.
    pub(super) fn noted_in(turn: &Turn) -> Self {
        let Some(injected) = turn.metadata.get("injected") else { return Self::default() };
        Self {
            block: injected["block"].as_str().unwrap_or("").to_owned(),
            window: injected["messages"].as_array().cloned().unwrap_or_default(),
            items: injected["items"].as_u64().unwrap_or(0) as usize,
            tokens: injected["tokens"].as_u64().unwrap_or(0) as usize,
            system: injected["system"].as_str().map(str::to_owned),
        }
    }

    /// What is kept beside the turn, for its tool rounds.
    pub(super) fn noted(&self) -> Map<String, Value> {
        let Self { block, window, items, tokens, system } = self;
        let mut injected = json!({"block": block, "messages": window, "items": items, "tokens": tokens});
        if let Some(system) = system {
            injected["system"] = system.as_str().into();
        }
        crate::turn::notes([("injected", injected)])
    }
}

/// Whether what is recalled has a place in the list: it must end with what a user or a tool said.
pub(super) fn takes_a_block(body: &Map<String, Value>) -> bool {
    let last = body.get("messages").and_then(Value::as_array).and_then(|messages| messages.last());
    matches!(last.and_then(|message| message["role"].as_str()), Some("user" | "tool"))
}

/// What the client sent, to distinguish it from what it left out. A call counts in the form in which the window has it, too.
pub(super) fn sent(asked: &Asked) -> HashSet<Fingerprint> {
    let all = || asked.exchanges.iter().flat_map(|exchange| &exchange.messages).chain(&asked.open);
    let calls = all().filter(|message| message.calls_tools()).map(|call| Fingerprint::of(&as_plain_answer(call)));
    all().map(Fingerprint::of).chain(calls).collect()
}

/// The end of the conversation that the model lacks.
#[derive(Debug, Default)]
pub(super) struct Lacking<'a> {
    messages: Vec<&'a Message>,
    /// The turns that are in it as a whole.
    pub(super) shown: Vec<TurnId>,
    /// The same as a stretch of the conversation.
    pub(super) shown_ranges: Vec<TurnRange>,
    /// Tokens that what is recalled may take beside it.
    pub(super) recall_tokens_max: usize,
}

/// Decides what of the window the model lacks. A client that keeps its own history and sent all of it lacks nothing.
/// What the client sent is not counted against the limit, but for its question: it knows its model better than we do.
pub(super) fn lacking<'a>(
    asked: &Asked,
    turns: &'a [Turn],
    settings: &MemorySettings,
    messages_max: usize,
) -> Lacking<'a> {
    // A client that sends only its question has sent nothing of what was said, even if it asks the same again.
    let sent = if asked.exchanges.is_empty() { HashSet::new() } else { sent(asked) };
    let recent = window(turns, messages_max);
    let missing = recent.into_iter().filter(|message| !sent.contains(&Fingerprint::of(message))).collect();
    let limit = settings.model_tokens_max.saturating_sub(settings.answer_tokens);
    let question = [asked.open.first().map_or("", |message| message.text.as_str())];
    // A question too long for our idea of the model's limit is still the client's to ask.
    let Ok(fitted) = fit(missing, &question, limit) else { return Lacking::default() };
    let recall_tokens_max = recall_room(&fitted, &question, limit, settings);
    let shown = shown_whole(&fitted, turns);
    let shown_ranges = if asked.carries_answers() { Vec::new() } else { shown_to_the_end(&shown, turns) };
    Lacking { shown_ranges, shown, recall_tokens_max, messages: fitted.messages }
}

/// Lays out what the model lacks. A client that resends its history has its messages left as they are: all goes into
/// the block.
pub(super) fn lay_out(asked: &Asked, lacking: Lacking<'_>, recalled: &mut Recalled) -> Laid {
    let Lacking { messages, recall_tokens_max, .. } = lacking;
    // A text that grew over its room, because it imitates our marks, stays out.
    if !fits(recalled, &block(&recalled.text), recall_tokens_max) {
        recalled.leave_out();
    }
    let items = messages.len() + recalled.items();
    let tokens = recalled.tokens;
    if !asked.carries_answers() {
        let window = messages.iter().map(|message| message.to_wire()).collect();
        return Laid { window, block: block(&recalled.text), items, tokens, system: None };
    }
    let recent = recent_conversation(&messages);
    let tokens = tokens + tokens_of(&recent);
    let text = [recalled.text.as_str(), &recent].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>();
    Laid { window: Vec::new(), block: block(&text.join("\n\n")), items, tokens, system: None }
}

/// Lays out the stored conversation for a client that brings nothing but the results of tools: what was laid before the
/// question, the question with its block, and the rounds so far.
pub(super) fn before_results(
    mut laid: Laid,
    earlier: Vec<Turn>,
    turn: &Turn,
    asked: &Asked,
    settings: &MemorySettings,
) -> Laid {
    if laid.window.is_empty() {
        let limit = settings.model_tokens_max.saturating_sub(settings.answer_tokens);
        let fixed: Vec<&str> = turn.messages.iter().map(|message| message.text.as_str()).collect();
        let fitted = fit(window(&earlier, settings.context_messages), &fixed, limit);
        laid.window =
            fitted.map_or_else(|_| Vec::new(), |fitted| fitted.messages.iter().map(|one| one.to_wire()).collect());
    }
    let sent = sent(asked);
    let mut question = [turn.question().to_wire()];
    inject(&mut question, &laid.block, InjectInto::User);
    let rounds = turn.messages[1..].iter().filter(|message| !sent.contains(&Fingerprint::of(message)));
    laid.window.extend(question);
    laid.window.extend(rounds.map(Message::to_wire));
    laid.block = String::new();
    laid
}

/// Counted only when there is something to count.
fn tokens_of(text: &str) -> usize {
    if text.is_empty() { 0 } else { tokens::count(text) }
}

/// The body as it is sent on: our own fields gone, what the model lacks laid in.
pub(super) fn onward(mut body: Map<String, Value>, laid: &Laid, into: InjectInto) -> Bytes {
    for field in OUR_FIELDS {
        body.shift_remove(field);
    }
    if let Some(Value::Array(messages)) = body.get_mut("messages") {
        inject(messages, &laid.block, into);
        let is_setup = |message: &Value| matches!(message["role"].as_str(), Some("system" | "developer"));
        let first = messages.iter().position(|message| !is_setup(message)).unwrap_or(messages.len());
        messages.splice(first..first, laid.window.iter().cloned());
        if let Some(system) = laid.system.as_ref().filter(|_| !messages.first().is_some_and(is_setup)) {
            messages.insert(0, json!({"role": "system", "content": system}));
        }
    }
    Bytes::from(Value::Object(body).to_string())
}
