//! From what was found to what is shown: texts cut to what matters, replies and neighbours beside them, duplicates
//! merged, all within the budget, oldest first.

use std::collections::{HashMap, HashSet};

use super::counted::Counted;
use super::excerpt::excerpt;
use super::index::ScopeIndex;
use super::index::docs::{DocNo, Docs, NONE};
use super::pack::{Draft, Layer, pack};
use super::plan::Plan;
use super::render::{HEADING_TOKENS_MAX, line, reference, render};
use super::search::Found;
use super::signals::Asked;
use super::signals::late::Late;
use super::{Ask, Fate, Ranked, Reason, Recalled, Reminder};
use crate::id::{MessageId, TurnId};
use crate::session::Turn;
use crate::tokens;

/// Messages whose texts are fetched, best first: more than a thousand tokens hold.
const FETCHED: usize = 40;
/// The best of them come with the message before them.
const WITH_NEIGHBOUR: usize = 5;
/// What a line has beside what was said, and how much of a long message may be left after it was cut.
const LINE_TOKENS_MIN: usize = 14;
const WORDS_COUNTED_MAX: usize = 40;
/// The reply to the best is worth about as much as the tenth best.
const REPLY_BEHIND: f32 = 10.0;
const NEIGHBOUR_BEHIND: f32 = 20.0;
/// What mentions a code of the question is worth more than the best.
const SINGLED_OUT_BEFORE: f32 = 0.5;
/// Messages that share this much of their words say the same.
const SAME_SHARE: f32 = 0.9;

/// The turns whose texts are needed: of as many messages as fill the budget by any guess.
pub(crate) fn turns_wanted(index: &ScopeIndex, found: &[Found], ask: &Ask) -> Vec<TurnId> {
    let mut guessed = 0;
    let mut wanted: Vec<TurnId> = Vec::new();
    let mut want = |turn: TurnId| {
        if !wanted.contains(&turn) {
            wanted.push(turn);
        }
    };
    for found in found.iter().take(FETCHED).filter(|found| found.related) {
        // Some will turn out to say the same as others.
        if guessed > ask.tokens_max + ask.tokens_max / 4 && !found.singled_out {
            continue;
        }
        guessed += if ask.shown.contains(&found.id.turn()) { 0 } else { tokens_at_least(index, found) };
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

/// Fewer tokens than a message's line has: its date and speaker, and one for each word that tells something.
fn tokens_at_least(index: &ScopeIndex, found: &Found) -> usize {
    let length = Place::of(index, found).map_or(0, |place| place.docs(index).lengths[place.no as usize]);
    LINE_TOKENS_MIN + (length as usize).min(WORDS_COUNTED_MAX)
}

/// The message before a found one, in its session.
fn before(index: &ScopeIndex, found: &Found) -> Option<DocNo> {
    let place = Place::of(index, found)?;
    let before = if place.is_key { index.key.before[place.no as usize] } else { NONE };
    (before != NONE).then_some(before)
}

/// The turns whose texts were needed, and those of them that could be read.
pub(crate) struct ReadTurns {
    pub(crate) wanted: Vec<TurnId>,
    pub(crate) turns: Vec<Turn>,
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

/// Packs and renders what was found.
pub(crate) fn assemble(
    index: &ScopeIndex,
    ask: &Ask,
    plan: &Plan,
    asked: &Asked<'_>,
    found: Vec<Found>,
    read: &ReadTurns,
    counted: &Counted,
) -> Recalled {
    let mut desk = Assembling {
        index,
        ask,
        plan,
        wanted: &read.wanted,
        turns: read.turns.iter().map(|turn| (turn.id, turn)).collect(),
        late: asked.late(index),
        fates: HashMap::new(),
        counted,
        said: Vec::new(),
    };
    let referred_to = plan.added.referred_to().map(|words| reference(&words));
    let head_tokens = HEADING_TOKENS_MAX + referred_to.as_deref().map_or(0, |line| tokens::count(line) + 1);
    let budget = ask.tokens_max.saturating_sub(head_tokens);
    let mut reminders = pack(layers(index, &found), budget, |candidate| desk.weigh(candidate));
    reminders.sort_by_key(|reminder| (reminder.said_at, reminder.message));
    let kept: HashSet<MessageId> = reminders.iter().map(|reminder| reminder.message).collect();
    let text = render(&reminders, referred_to.as_deref(), &plan.zone);
    let tokens = reminders.iter().map(|reminder| reminder.tokens).sum::<usize>();
    let tokens = if text.is_empty() { 0 } else { tokens + head_tokens };
    Recalled {
        ranked: ranked(found, &desk.fates, &kept),
        tokens,
        reminders,
        text,
        profile: Some(plan.profile),
        completed: plan.added.completed(&plan.question.text),
        with_vectors: asked.plain().is_some(),
        searched: index.keys.len() + index.replies.len(),
    }
}

/// Hits by rank; behind them their replies, and further behind the messages before them. Those that mention a code of
/// the question come first of all.
fn layers(index: &ScopeIndex, found: &[Found]) -> Vec<Layer<Candidate>> {
    let mut layers = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
    let packable = found.iter().take(FETCHED).filter(|found| found.related);
    for (rank, found) in packable.enumerate() {
        let Some(place) = Place::of(index, found) else { continue };
        let draft = |place: Place, reason: Reason, behind: f32| {
            let what = Candidate { place, reason, score: found.score };
            Draft { what, worth: 1.0 / (1.0 + rank as f32 + behind) }
        };
        match found.singled_out {
            true => layers[3].push(draft(place, Reason::Hit, -(rank as f32) - SINGLED_OUT_BEFORE)),
            false => layers[0].push(draft(place, Reason::Hit, 0.0)),
        }
        let reply = if place.is_key { index.key.reply[place.no as usize] } else { NONE };
        if reply != NONE {
            layers[1].push(draft(Place { is_key: false, no: reply }, Reason::Reply, REPLY_BEHIND));
        }
        if let Some(no) = before(index, found).filter(|_| rank < WITH_NEIGHBOUR) {
            layers[2].push(draft(Place { is_key: true, no }, Reason::Neighbour, NEIGHBOUR_BEHIND));
        }
    }
    layers.into_iter().map(|drafts| Layer::open(drafts.into())).collect()
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
    turns: HashMap<TurnId, &'a Turn>,
    late: Late<'a>,
    /// What became of those that were looked at and not taken.
    fates: HashMap<MessageId, Fate>,
    counted: &'a Counted,
    /// Words of what was taken, sorted.
    said: Vec<Vec<u32>>,
}

impl Assembling<'_> {
    fn weigh(&mut self, candidate: Candidate) -> Option<(Reminder, usize)> {
        let id = candidate.place.id(self.index);
        match self.reminder(id, candidate) {
            Ok(reminder) => {
                let tokens = reminder.tokens;
                self.fates.insert(id, Fate::OverBudget);
                Some((reminder, tokens))
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
        let (_, message) = turn.identified().find(|(message, _)| *message == id).ok_or(Fate::Unreadable)?;
        if self.ask.shown.contains(&turn.id) {
            return Err(Fate::Shown);
        }
        let said = self.said_by(candidate.place);
        if self.fates.contains_key(&id) || self.said.iter().any(|other| same(other, &said)) {
            return Err(Fate::Duplicate);
        }
        self.said.push(said);
        let (text, excerpt) = excerpt(&message.text, self.plan.question.tongue, &mut self.late);
        let mut reminder = Reminder {
            message: id,
            session: turn.session,
            role: message.role,
            name: message.name.clone(),
            said_at: message.created_at,
            text,
            excerpt,
            reason: candidate.reason,
            tokens: 0,
            score: candidate.score,
        };
        reminder.tokens = self.tokens(&reminder);
        Ok(reminder)
    }

    /// Why a turn is not here: it could not be read, or nobody thought that there would be room for it.
    fn not_at_hand(&self, turn: TurnId) -> Fate {
        if self.wanted.contains(&turn) { Fate::Unreadable } else { Fate::OverBudget }
    }

    /// The tokens of a reminder's line, with room for its line break. Counting costs more than finding: what was counted
    /// for an earlier question is remembered.
    fn tokens(&self, reminder: &Reminder) -> usize {
        let known = self.counted.get(reminder.message, &reminder.text);
        known.unwrap_or_else(|| {
            let tokens = tokens::count(&line(reminder, &self.plan.zone)) + 1;
            self.counted.keep(reminder.message, &reminder.text, tokens);
            tokens
        })
    }

    /// The words of a message, as numbers in order.
    fn said_by(&self, place: Place) -> Vec<u32> {
        let words = place.docs(self.index).words(place.no);
        let mut said: Vec<u32> = words.iter().map(|word| word.word()).collect();
        said.sort_unstable();
        said
    }
}

fn same(a: &[u32], b: &[u32]) -> bool {
    let (small, large) = (a.len().min(b.len()), a.len().max(b.len()));
    if (small as f32) < SAME_SHARE * large as f32 || large == 0 {
        return false;
    }
    let shared = a.iter().filter(|word| b.binary_search(word).is_ok()).count();
    let all = a.len() + b.len() - shared;
    shared as f32 >= SAME_SHARE * all as f32
}
