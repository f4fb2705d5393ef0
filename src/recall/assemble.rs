//! From what was found to what is shown: texts cut to what matters, replies and neighbours beside them, asides in their
//! layers, duplicates merged, all within the budget, oldest first.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::asides::Decided;
use super::counted::Counted;
use super::desk::TOPIC_WITHIN;
use super::excerpt::excerpt;
use super::index::ScopeIndex;
use super::index::docs::{DocNo, Docs};
use super::known;
use super::layer::{Considered, Layer, LayerBounds, Section};
use super::pack::{Draft, Stack, pack};
use super::plan::Plan;
use super::render::{HEADING_TOKENS_MAX, Page, aside_head, line, one_line, reference};
use super::search::Found;
use super::signals::Asked;
use super::signals::late::Late;
use super::texts::{SaidMessage, SaidTurn};
use super::told::{Cuts, News, Told};
use super::{Ask, Fate, Ranked, Reason, Recalled, Reminder};
use crate::id::{MessageId, TurnId};
use crate::store::Outdated;
use crate::tokens;

/// Messages whose texts are fetched, best first: more than a thousand tokens hold.
const FETCHED: usize = 40;
/// The best of them come with the message before them.
const WITH_NEIGHBOUR: usize = 5;
/// What a line has beside what was said, what a telling word brings with it, and how much of a long message may be left
/// after it was cut.
const LINE_TOKENS: usize = 14;
const WORD_TOKENS: usize = 2;
const TEXT_TOKENS_MAX: usize = 80;
/// The reply to the best is worth about as much as the tenth best.
const REPLY_BEHIND: f32 = 10.0;
const NEIGHBOUR_BEHIND: f32 = 20.0;
/// What mentions a code of the question is worth more than the best.
const SINGLED_OUT_BEFORE: f32 = 0.5;
/// The last messages of a topic that the question returns to come before everything that was found.
const TOPIC_WORTH: f32 = 4.0;
/// A message with fewer telling words is no duplicate because a summary has them: "yes" is in many.
const TOLD_WORDS_MIN: usize = 3;
/// Messages that share this much of their words say the same.
const SAME_SHARE: f32 = 0.9;

/// The turns whose texts are needed: of as many messages, with their replies, as fill the budget by a careful guess.
pub(crate) fn turns_wanted(index: &ScopeIndex, found: &[Found], ask: &Ask) -> Vec<TurnId> {
    let mut guessed = 0;
    let mut wanted: Vec<TurnId> = Vec::new();
    let mut want = |turn: TurnId| {
        if !wanted.contains(&turn) {
            wanted.push(turn);
        }
    };
    ask.returns_to.iter().for_each(|turn| want(*turn));
    let related: Vec<&Found> = found.iter().take(FETCHED).filter(|found| found.related).collect();
    for (rank, found) in related.iter().enumerate() {
        // Some will turn out to say the same as others.
        if guessed > ask.tokens_max + ask.tokens_max / 4 && !found.singled_out {
            continue;
        }
        let answered = rank.checked_sub(REPLY_BEHIND as usize).and_then(|rank| reply(index, related[rank]));
        if !ask.shown.contains(&found.id.turn()) {
            guessed += tokens_about(&index.keys, found.is_key.then_some(found.no));
        }
        guessed += tokens_about(&index.replies, answered.or((!found.is_key).then_some(found.no)));
        want(found.id.turn());
    }
    found.iter().take(WITH_NEIGHBOUR).filter_map(|found| before(index, found)).for_each(|no| {
        want(index.keys.ids[no as usize].turn());
    });
    wanted
}

/// Whether what was found still stands where it was found.
pub(crate) fn all_in_place(index: &ScopeIndex, found: &[Found]) -> bool {
    found.iter().all(|found| Place::of(index, found).is_some())
}

/// About how many tokens a message's line has: its date and speaker, and some for each word that tells something.
fn tokens_about(docs: &Docs, no: Option<DocNo>) -> usize {
    let card = no.and_then(|no| docs.cards().get(no as usize));
    card.map_or(0, |card| LINE_TOKENS + (WORD_TOKENS * card.length as usize).min(TEXT_TOKENS_MAX))
}

/// The reply to a found message, if it has one.
fn reply(index: &ScopeIndex, found: &Found) -> Option<DocNo> {
    let place = Place::of(index, found)?;
    if place.is_key { index.keys.card(place.no).partner() } else { None }
}

/// The message before a found one, in its session.
fn before(index: &ScopeIndex, found: &Found) -> Option<DocNo> {
    let place = Place::of(index, found)?;
    if place.is_key { index.keys.card(place.no).before() } else { None }
}

/// The turns whose texts were needed, and those of them that could be read.
pub(crate) struct ReadTurns {
    pub(crate) wanted: Vec<TurnId>,
    pub(crate) turns: Vec<Arc<SaidTurn>>,
    /// What they state that is no longer so.
    pub(crate) outdated: Vec<Outdated>,
}

/// Where a message stands in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    is_key: bool,
    no: DocNo,
}

impl Place {
    /// The index may have changed since the search: numbers are checked.
    fn of(index: &ScopeIndex, found: &Found) -> Option<Self> {
        let place = Self { is_key: found.is_key, no: found.no };
        (place.docs(index).ids.get(found.no as usize) == Some(&found.id)).then_some(place)
    }

    fn docs(self, index: &ScopeIndex) -> &Docs {
        if self.is_key { &index.keys } else { &index.replies }
    }

    fn id(self, index: &ScopeIndex) -> MessageId {
        self.docs(index).ids[self.no as usize]
    }
}

/// A message that may be packed, and why.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    place: Place,
    reason: Reason,
    score: f32,
}

/// Something that may be packed: a message, or an aside by its number.
#[derive(Debug, Clone, Copy)]
enum Item {
    Message(Candidate),
    Aside(usize),
}

/// Something that was packed.
enum Packed {
    Message(Reminder),
    Aside(usize),
}

/// Packs and renders what was found.
#[allow(clippy::too_many_arguments, reason = "each is one thing that a context is made of")]
pub(crate) fn assemble(
    index: &ScopeIndex,
    ask: &Ask,
    plan: &Plan,
    asked: &Asked<'_>,
    found: Vec<Found>,
    read: &ReadTurns,
    asides: &[Decided],
    counted: &Counted,
    cuts: &Cuts,
) -> Recalled {
    let mut desk = Assembling {
        index,
        ask,
        plan,
        wanted: &read.wanted,
        turns: read.turns.iter().map(|turn| (turn.id, &**turn)).collect(),
        outdated: &read.outdated,
        late: asked.late(index),
        fates: HashMap::new(),
        counted,
        cuts,
        said: Vec::new(),
        told: Told::default(),
        asides: asides.iter().map(considered).collect(),
    };
    let stacks = stacks(index, ask, &found, asides);
    let referred_to = plan.added.referred_to().map(|words| reference(&words));
    let reference_tokens = referred_to.as_deref().map_or(0, |line| tokens::count(line) + 1);
    let budget = ask.tokens_max.saturating_sub(headings(&stacks, &desk.asides) + reference_tokens);
    let packed = pack(stacks, budget, |item, room| desk.weigh(item, room));
    let mut page = Page { referred_to, ..Page::default() };
    for packed in packed {
        match packed {
            Packed::Message(reminder) => page.reminders.push(reminder),
            Packed::Aside(at) => desk.asides[at].fate = Fate::Kept,
        }
    }
    page.reminders.sort_by_key(|reminder| (reminder.said_at, reminder.message));
    let kept: HashSet<MessageId> = page.reminders.iter().map(|reminder| reminder.message).collect();
    let ranked = ranked(found, &desk.fates, &kept);
    page.asides = desk.asides;
    Recalled {
        ranked,
        text: page.render(&plan.zone, ask.session),
        tokens: page.tokens(reference_tokens),
        reminders: page.reminders,
        asides: page.asides,
        profile: Some(plan.profile),
        completed: plan.added.completed(&plan.question.text),
        with_vectors: asked.plain().is_some(),
        searched: index.keys.len() + index.replies.len(),
    }
}

/// An aside before it is weighed: for all that is known there is no room for it.
fn considered((aside, fate): &Decided) -> Considered {
    Considered { aside: aside.clone(), fate: fate.unwrap_or(Fate::OverBudget), tokens: 0 }
}

/// Tokens of the headings over everything that may be packed.
fn headings(stacks: &[Stack<Item>], asides: &[Considered]) -> usize {
    let section = |draft: &Draft<Item>| match draft.what {
        Item::Message(_) => Section::Past,
        Item::Aside(at) => asides[at].aside.layer.section(),
    };
    let sections: HashSet<Section> = stacks.iter().flat_map(|stack| &stack.drafts).map(section).collect();
    sections.len() * HEADING_TOKENS_MAX
}

/// A stack for each layer, in their order.
fn stacks(index: &ScopeIndex, ask: &Ask, found: &[Found], asides: &[Decided]) -> Vec<Stack<Item>> {
    let of = |layer: Layer| {
        let open = asides.iter().enumerate().filter(move |(_, (aside, fate))| aside.layer == layer && fate.is_none());
        let drafts = open.map(|(at, (aside, _))| Draft { what: Item::Aside(at), worth: aside.worth }).collect();
        let LayerBounds { floor, ceiling } = layer.bounds();
        Stack { drafts, floor, ceiling }
    };
    let stacks = Layer::ALL.into_iter().flat_map(|layer| match layer {
        Layer::Messages => {
            std::iter::once(topic_stack(index, ask, found)).chain(message_stacks(index, found)).collect()
        }
        layer => vec![of(layer)],
    });
    stacks.collect()
}

/// The last messages of the topic that the question returns to, before all that was found.
fn topic_stack(index: &ScopeIndex, ask: &Ask, found: &[Found]) -> Stack<Item> {
    let keys = index.keys_of(&ask.returns_to, TOPIC_WITHIN);
    let places = keys.iter().flat_map(|no| {
        let reply = index.keys.card(*no).partner().map(|no| Place { is_key: false, no });
        std::iter::once(Place { is_key: true, no: *no }).chain(reply)
    });
    let hit = |place: Place| found.iter().find(|found| found.related && Place::of(index, found) == Some(place));
    let draft = |place: Place| {
        let (reason, score) = hit(place).map_or((Reason::Topic, 0.0), |found| (Reason::Hit, found.score));
        Draft { what: Item::Message(Candidate { place, reason, score }), worth: TOPIC_WORTH }
    };
    Stack::open(places.map(draft).collect())
}

/// Hits by rank; behind them their replies, and further behind the messages before them. Those that mention a code of
/// the question come first of all.
fn message_stacks(index: &ScopeIndex, found: &[Found]) -> Vec<Stack<Item>> {
    let mut stacks = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
    let packable = found.iter().take(FETCHED).filter(|found| found.related);
    for (rank, found) in packable.enumerate() {
        let Some(place) = Place::of(index, found) else { continue };
        let draft = |place: Place, reason: Reason, behind: f32| {
            let what = Item::Message(Candidate { place, reason, score: found.score });
            Draft { what, worth: 1.0 / (1.0 + rank as f32 + behind) }
        };
        match found.singled_out {
            true => stacks[3].push(draft(place, Reason::Hit, -(rank as f32) - SINGLED_OUT_BEFORE)),
            false => stacks[0].push(draft(place, Reason::Hit, 0.0)),
        }
        if let Some(no) = reply(index, found) {
            stacks[1].push(draft(Place { is_key: false, no }, Reason::Reply, REPLY_BEHIND));
        }
        if let Some(no) = before(index, found).filter(|_| rank < WITH_NEIGHBOUR) {
            stacks[2].push(draft(Place { is_key: true, no }, Reason::Neighbour, NEIGHBOUR_BEHIND));
        }
    }
    stacks.into_iter().map(|drafts| Stack::open(drafts.into())).collect()
}

fn ranked(found: Vec<Found>, fates: &HashMap<MessageId, Fate>, kept: &HashSet<MessageId>) -> Vec<Ranked> {
    let ranked = |found: Found| {
        let fate = match fates.get(&found.id) {
            _ if kept.contains(&found.id) => Fate::Kept,
            _ if !found.related => Fate::Unrelated,
            Some(fate) => *fate,
            None => Fate::OverBudget,
        };
        Ranked { message: found.id, score: found.score, signals: found.parts, fate }
    };
    found.into_iter().map(ranked).collect()
}

/// What is needed while messages are weighed.
struct Assembling<'a> {
    index: &'a ScopeIndex,
    ask: &'a Ask,
    plan: &'a Plan,
    /// Turns that were to be read, and those that could be.
    wanted: &'a [TurnId],
    turns: HashMap<TurnId, &'a SaidTurn>,
    late: Late<'a>,
    /// What those state that is no longer so.
    outdated: &'a [Outdated],
    /// What became of those that were looked at and not taken.
    fates: HashMap<MessageId, Fate>,
    counted: &'a Counted,
    cuts: &'a Cuts,
    /// Words of what was taken.
    said: Vec<Said>,
    /// Texts of what was taken.
    told: Told,
    asides: Vec<Considered>,
}

impl Assembling<'_> {
    fn weigh(&mut self, item: Item, room: usize) -> Option<(Packed, usize)> {
        match item {
            Item::Message(candidate) => self.weigh_message(candidate),
            Item::Aside(at) => self.weigh_aside(at, room).map(|tokens| (Packed::Aside(at), tokens)),
        }
    }

    /// The tokens of an aside, without what was told before; `None` if nothing is left or there is no room for it.
    fn weigh_aside(&mut self, at: usize, room: usize) -> Option<usize> {
        let Considered { aside, .. } = &self.asides[at];
        let head = aside_head(aside, &self.plan.zone, self.ask.session);
        let (text, tokens) = match aside.layer {
            Layer::Summary | Layer::Episodes => {
                let News { text, tokens } = self.told.news(&aside.text, self.cuts);
                (text, self.counted.line(&head) + tokens + 1)
            }
            _ => {
                let text = one_line(&aside.text).into_owned();
                let tokens = self.counted.line(&format!("{head} {text}")) + 1;
                (text, tokens)
            }
        };
        let fate = if text.is_empty() { Fate::Duplicate } else { Fate::OverBudget };
        let considered = &mut self.asides[at];
        considered.fate = fate;
        (fate == Fate::OverBudget && tokens <= room).then(|| {
            self.told.tell(&text);
            considered.aside.text = text.into();
            considered.tokens = tokens;
            tokens
        })
    }

    fn weigh_message(&mut self, candidate: Candidate) -> Option<(Packed, usize)> {
        let id = candidate.place.id(self.index);
        match self.reminder(id, candidate) {
            Ok(reminder) => {
                let tokens = reminder.tokens;
                self.fates.insert(id, Fate::OverBudget);
                self.told.say(&reminder.text);
                Some((Packed::Message(reminder), tokens))
            }
            Err(fate) => {
                self.fates.entry(id).or_insert(fate);
                None
            }
        }
    }

    /// A message as it would be shown, or why it is not.
    fn reminder(&mut self, id: MessageId, candidate: Candidate) -> Result<Reminder, Fate> {
        let turn = *self.turns.get(&id.turn()).ok_or_else(|| self.not_at_hand(id.turn()))?;
        let message = turn.messages.iter().find(|message| message.id == id).ok_or(Fate::Unreadable)?;
        if self.ask.shown.contains(&turn.id) {
            return Err(Fate::Shown);
        }
        let said = Said::by(self.index, candidate.place);
        if self.fates.contains_key(&id) || self.said.iter().any(|other| other.is_same(&said)) {
            return Err(Fate::Duplicate);
        }
        if said.words.len() >= TOLD_WORDS_MIN && self.told.has(&one_line(&message.text)) {
            return Err(Fate::Duplicate);
        }
        self.said.push(said);
        let (text, excerpt) = excerpt(&message.text, self.plan.question.tongue, &mut self.late);
        let mut reminder = Reminder {
            message: id,
            session: turn.session,
            role: message.role,
            name: message.name.clone(),
            said_at: message.said_at,
            note: self.note(id, &text),
            text,
            excerpt,
            reason: candidate.reason,
            tokens: 0,
            score: candidate.score,
        };
        reminder.tokens = self.tokens(&reminder, message);
        Ok(reminder)
    }

    /// What holds now, where a message says what is no longer so, or the reply repeats it.
    fn note(&self, id: MessageId, text: &str) -> Option<String> {
        let of_turn = |outdated: &&Outdated| outdated.message.turn() == id.turn();
        known::note(text, self.outdated.iter().filter(of_turn))
    }

    /// Why a turn is not here: it could not be read, or nobody thought that there would be room for it.
    fn not_at_hand(&self, turn: TurnId) -> Fate {
        if self.wanted.contains(&turn) { Fate::Unreadable } else { Fate::OverBudget }
    }

    /// The tokens of a reminder's line, with room for its line break. Counting costs more than finding: what was counted
    /// before is remembered.
    fn tokens(&self, reminder: &Reminder, message: &SaidMessage) -> usize {
        let line = || line(reminder, &self.plan.zone);
        match reminder.excerpt || reminder.note.is_some() {
            true => self.counted.line(&line()) + 1,
            false => *message.line_tokens.get_or_init(|| tokens::count(&line()) + 1),
        }
    }
}

/// The words of a message, as numbers.
struct Said {
    words: Vec<u32>,
    /// A bit for each word; some share one.
    bits: u64,
}

impl Said {
    fn by(index: &ScopeIndex, place: Place) -> Self {
        let words: Vec<u32> = place.docs(index).words(place.no).iter().map(|word| word.word()).collect();
        let bits = words.iter().fold(0, |bits, word| bits | 1 << (word % u64::BITS));
        Self { words, bits }
    }

    /// Whether both say the same. Nearly all that do not are told by how many words they have, or by their bits: a word that
    /// only one of them has makes one bit differ at most.
    fn is_same(&self, other: &Self) -> bool {
        let (a, b) = (self.words.len(), other.words.len());
        let most = ((1.0 - SAME_SHARE) * (a + b) as f32) as u32 + 1;
        (a.min(b) as f32) >= SAME_SHARE * a.max(b) as f32
            && (self.bits ^ other.bits).count_ones() <= most
            && same(&self.sorted(), &other.sorted())
    }

    fn sorted(&self) -> Vec<u32> {
        let mut words = self.words.clone();
        words.sort_unstable();
        words
    }
}

fn same(a: &[u32], b: &[u32]) -> bool {
    let shared = a.iter().filter(|word| b.binary_search(word).is_ok()).count();
    let all = a.len() + b.len() - shared;
    all > 0 && shared as f32 >= SAME_SHARE * all as f32
}
