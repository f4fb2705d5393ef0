//! Where a request belongs in what is already held. Looks nothing up and changes nothing.
//!
//! The turns of a session form a tree: an edited question is a new branch beside the old one. One branch is
//! visible; the others are superseded and kept. A client that resends its history walks down the tree
//! with it, and where its walk ends the new question goes. When in doubt the question is appended to the
//! visible branch: a wrong append is a blemish, a wrong supersession hides what a user said. What follows is cut
//! only by a sign of an edit: a history that ends at a stored answer, the client's own name for a message, or a
//! client that always resends everything. A question that is still being answered is never cut: another one
//! after the same history is a second branch, and both stay visible.

use serde::{Deserialize, Serialize};

use super::exchange::{Asked, Exchange};
use super::{Fingerprint, Shift, TurnStatus};
use crate::id::TurnId;
use crate::message::Role;

/// Who keeps the conversation's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HistoryMode {
    /// We do: the client sends only what is new.
    #[default]
    Server,
    /// The client does, and has always sent all of it.
    Client,
    /// The client does, and leaves out or condenses what is old.
    Windowed,
}

/// A stored turn, as far as alignment needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct Outline {
    /// Its name.
    pub id: TurnId,
    /// Its number.
    pub number: u64,
    /// The turn before it on its branch; 0 at the beginning.
    pub parent: u64,
    /// Whether it is on the visible branch.
    pub visible: bool,
    /// How far it has come.
    pub status: TurnStatus,
    /// What was asked.
    pub question: Fingerprint,
    /// What was answered.
    pub answer: Option<Fingerprint>,
    /// Other answers to the same question, by revision number.
    pub revisions: Vec<(u32, Option<Fingerprint>)>,
    /// What the client calls its parts.
    pub ids: ClientIds,
    /// Tool calls that wait for their results.
    pub open_calls: Vec<String>,
    /// Which try at an answer it shows.
    pub attempt: u32,
}

/// Names a client gives to a question, its answer and the request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientIds {
    /// The user's message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
    /// The model's message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The request: the same key again is the same request again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The message that it lays before each question, as a fingerprint; kept with every question that came behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preamble: Option<String>,
}

/// What is held of a session: its turns by number, superseded ones included.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Held {
    /// Who keeps the history.
    pub mode: HistoryMode,
    /// The turns; of a very long session the newest.
    pub turns: Vec<Outline>,
    /// Numbers kept free before the first turn, for a history that the client mentioned and that is not stored.
    pub earlier: u64,
}

/// Where a request belongs.
#[derive(Debug, Clone, PartialEq)]
pub struct Alignment {
    /// What to do with it.
    pub step: Step,
    /// Who keeps the history from now on.
    pub mode: HistoryMode,
    /// The branch that the client is on from now on, each turn with the revision to show if not the current one;
    /// `None` leaves everything as it is.
    pub visible: Option<Vec<(u64, Option<u32>)>>,
}

impl Alignment {
    /// What changes in the session, compared with what is held.
    pub fn shift(&self, held: &Held) -> Shift {
        let mut shift = Shift { mode: (self.mode != held.mode).then_some(self.mode), ..Shift::default() };
        let Some(branch) = &self.visible else { return shift };
        let is_hidden = |turn: &&Outline| !turn.visible && branch.iter().any(|(number, _)| *number == turn.number);
        shift.show = held.turns.iter().filter(is_hidden).map(|turn| turn.number).collect();
        shift.hide = held.cut_by(branch);
        shift.activate = branch.iter().filter_map(|(number, revision)| Some((*number, (*revision)?))).collect();
        shift
    }
}

/// What to do with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A new turn after `parent`, and before it the client's exchanges from `import` on, which are new to us.
    Append {
        /// The turn before it; 0 at the beginning.
        parent: u64,
        /// The first of the request's exchanges that is not held.
        import: usize,
    },
    /// Another answer to the same question.
    Revise(TurnId),
    /// The next tool round of a turn.
    Continue(TurnId),
    /// The same request again: its answer, or waiting for it.
    Repeat(TurnId),
}

/// Decides where a request belongs.
pub fn align(held: &Held, asked: &Asked) -> Alignment {
    let stay = |step, mode| Alignment { step, mode, visible: None };
    if let Some(turn) = held.waits_for(asked) {
        return stay(Step::Continue(turn.id), held.mode);
    }
    if let Some(turn) = held.repeated(asked) {
        return stay(Step::Repeat(turn.id), held.mode);
    }
    if let Some(turn) = held.failed_round(asked) {
        return stay(Step::Revise(turn.id), held.mode);
    }
    if let Some(turn) = held.same_question_id(asked) {
        let visible = Some(held.branch(turn));
        return Alignment { step: Step::Revise(turn.id), mode: held.mode, visible };
    }
    if let Some(turn) = held.reworded(asked) {
        let mut before = held.branch(turn);
        before.pop();
        let step = Step::Append { parent: turn.parent, import: 0 };
        return Alignment { step, mode: held.mode, visible: Some(before) };
    }
    let sends_what_is_new = asked.exchanges.is_empty() || held.mode == HistoryMode::Server;
    if sends_what_is_new && !asked.carries_answers() && !asked.resends_history {
        return stay(Step::Append { parent: held.head(), import: held.known_before(asked) }, held.mode);
    }
    held.walk(asked)
}

/// How many of the first exchanges were said before what is held, in a session that began without them and is now given
/// them by its client. All that follows them must be held.
pub fn said_before(held: &Held, asked: &Asked) -> usize {
    if held.earlier == 0 || !asked.names_session {
        return 0;
    }
    let is_held = |from: &usize| {
        let rest = &asked.exchanges[*from..];
        held.descend(rest, |turn, exchange| turn.is(exchange)).known == rest.len()
    };
    (0..asked.exchanges.len()).find(is_held).unwrap_or(0)
}

impl Held {
    /// The number of the visible branch's last turn; 0 when there is none.
    fn head(&self) -> u64 {
        self.turns.iter().rev().find(|turn| turn.visible).map_or(0, |turn| turn.number)
    }

    fn turn(&self, number: u64) -> Option<&Outline> {
        self.turns.iter().find(|turn| turn.number == number)
    }

    /// The turn this request asked for already: by its key, by the answer's id, or marked as a retry.
    fn repeated(&self, asked: &Asked) -> Option<&Outline> {
        let same = |ours: &Option<String>, theirs: &Option<String>| ours.is_some() && ours == theirs;
        let known = self.turns.iter().rev().find(|turn| {
            let by_key = same(&turn.ids.key, &asked.ids.key);
            by_key || (same(&turn.ids.answer, &asked.ids.answer) && turn.question == asked.question)
        });
        known.or_else(|| {
            let last = self.turn(self.head()).filter(|_| asked.marked_as_retry)?;
            (last.question == asked.question).then_some(last)
        })
    }

    /// How many messages before the question are no new turns: a preamble from its second appearance on, a question
    /// whose call was dropped, the results of tools.
    fn known_before(&self, asked: &Asked) -> usize {
        let is_known = |exchange: &&Exchange| match exchange.messages.as_slice() {
            [alone] if alone.role == Role::User => self.has_question(exchange.question),
            _ => self.waits_for_exchange(exchange).is_some_and(|(_, from)| from == 0),
        };
        asked.exchanges.iter().take_while(is_known).count()
    }

    fn has_question(&self, question: Fingerprint) -> bool {
        let preamble = Some(question.to_string());
        self.turns.iter().any(|turn| turn.question == question || turn.ids.preamble == preamble)
    }

    /// The message at the head of a request that comes before each question: known, followed by another message of
    /// the user, and not the question of a turn with an open call.
    pub fn preamble(&self, asked: &Asked) -> Option<String> {
        let [alone] = asked.exchanges.first()?.messages.as_slice() else { return None };
        let question = asked.exchanges[0].question;
        let waits = |turn: &Outline| turn.question == question && !turn.open_calls.is_empty();
        let known = alone.role == Role::User && self.has_question(question) && !self.turns.iter().any(waits);
        known.then(|| question.to_string())
    }

    /// The turn whose tool calls the request answers.
    fn waits_for(&self, asked: &Asked) -> Option<&Outline> {
        let answers = |turn: &&Outline| turn.open_calls.iter().any(|call| asked.tool_results.contains(call));
        let newest_first = || self.turns.iter().rev();
        newest_first().filter(|turn| turn.visible).find(answers).or_else(|| newest_first().find(answers))
    }

    /// The last turn, if its tools have answered, the model has not, and the client asks it to once more.
    fn failed_round(&self, asked: &Asked) -> Option<&Outline> {
        let last = self.turn(self.head()).filter(|_| !asked.tool_results.is_empty())?;
        (last.status == TurnStatus::Failed && last.question == asked.question).then_some(last)
    }

    /// The turn that asks this very message, by the client's own name for it.
    fn same_question_id(&self, asked: &Asked) -> Option<&Outline> {
        let id = asked.ids.question.as_ref()?;
        let same = |turn: &&Outline| turn.ids.question.as_ref() == Some(id) && turn.question == asked.question;
        self.turns.iter().rev().find(same).filter(|_| asked.tool_results.is_empty())
    }

    /// The turn that asks this message in other words, by the client's own name for it. Where history comes with the
    /// message, that says more.
    fn reworded(&self, asked: &Asked) -> Option<&Outline> {
        let is_lone = asked.exchanges.is_empty() && asked.tool_results.is_empty();
        let id = asked.ids.question.as_ref().filter(|_| is_lone && asked.names_session)?;
        self.turns.iter().rev().find(|turn| turn.ids.question.as_ref() == Some(id))
    }

    /// The visible turns that give way to a branch: what stood after its end, and what had taken the place of a turn that
    /// it shows again. What is still being answered stays, with the turns it follows from there.
    fn cut_by(&self, branch: &[(u64, Option<u32>)]) -> Vec<u64> {
        let on_branch = |number: u64| branch.iter().any(|(on, _)| *on == number);
        let end = branch.last().map_or(0, |(number, _)| *number);
        let mut cut = Vec::new();
        for turn in self.turns.iter().filter(|turn| turn.visible && !on_branch(turn.number)) {
            let returns = |other: &Outline| other.parent == turn.parent && !other.visible && on_branch(other.number);
            let gives_way = match turn.parent == end {
                true => !self.is_being_answered(turn),
                false => cut.contains(&turn.parent) || self.turns.iter().any(returns),
            };
            if gives_way {
                cut.push(turn.number);
            }
        }
        cut
    }

    /// Whether this turn or a visible one after it awaits its answer. One whose tools are at work has an answer: their call.
    fn is_being_answered(&self, turn: &Outline) -> bool {
        let mut after = vec![turn.number];
        let awaits = |turn: &Outline| turn.status == TurnStatus::Pending && turn.answer.is_none();
        awaits(turn)
            || self.turns.iter().filter(|later| later.visible).any(|later| {
                let follows = after.contains(&later.parent);
                if follows {
                    after.push(later.number);
                }
                follows && awaits(later)
            })
    }

    /// A turn and those before it on its branch, oldest first.
    fn branch(&self, last: &Outline) -> Vec<(u64, Option<u32>)> {
        let before = |turn: &&Outline| self.turn(turn.parent);
        let mut branch: Vec<_> = std::iter::successors(Some(last), before).map(|turn| (turn.number, None)).collect();
        branch.reverse();
        branch
    }

    /// Walks down the tree with the client's history.
    fn walk(&self, asked: &Asked) -> Alignment {
        let mode = if self.mode == HistoryMode::Windowed { HistoryMode::Windowed } else { HistoryMode::Client };
        let exact = self.descend(&asked.exchanges, |turn, exchange| turn.is(exchange));
        if exact.known == asked.exchanges.len() {
            return self.arrived(asked, exact.path, mode);
        }
        if let Some(alignment) = self.by_the_tail(asked) {
            return alignment;
        }
        // Some clients polish answers before they send them back; the questions still tell.
        let Descent { path, known } =
            self.descend(&asked.exchanges, |turn, exchange| turn.question == exchange.question);
        if path.is_empty() && !self.turns.is_empty() {
            // Nothing of it is known: perhaps all was condensed.
            let step = Step::Append { parent: self.head(), import: asked.exchanges.len() };
            return Alignment { step, mode: HistoryMode::Windowed, visible: None };
        }
        let alignment = if known == asked.exchanges.len() {
            self.arrived(asked, path, mode)
        } else {
            // What the client heard elsewhere is new to us.
            let parent = path.last().map_or(0, |(number, _)| *number);
            Alignment { step: Step::Append { parent, import: known }, mode, visible: Some(path) }
        };
        if asked.resends_history || alignment.shift(self).hide.is_empty() {
            return alignment;
        }
        // It does not end at a stored answer, so it may come from a program that does not know what it would cut.
        let step = Step::Append { parent: self.head(), import: known };
        Alignment { step, mode, visible: None }
    }

    /// The whole history was found: the question follows it, or is asked again.
    fn arrived(&self, asked: &Asked, mut path: Vec<(u64, Option<u32>)>, mode: HistoryMode) -> Alignment {
        let parent = path.last().map_or(0, |(number, _)| *number);
        if let Some(again) = self.child(parent, |turn| turn.question == asked.question) {
            path.push((again.number, None));
            return Alignment { step: Step::Revise(again.id), mode, visible: Some(path) };
        }
        if path.is_empty() && mode == HistoryMode::Windowed {
            // A client that leaves out old messages may have left out all of them.
            let step = Step::Append { parent: self.head(), import: asked.exchanges.len() };
            return Alignment { step, mode, visible: None };
        }
        let step = Step::Append { parent, import: asked.exchanges.len() };
        Alignment { step, mode, visible: Some(path) }
    }

    /// Follows exchanges from the beginning, as far as they are known.
    fn descend(&self, exchanges: &[Exchange], fits: impl Fn(&Outline, &Exchange) -> bool) -> Descent {
        let mut descent = Descent::default();
        for exchange in exchanges {
            let parent = descent.path.last().map_or(0, |(number, _)| *number);
            let Some(steps) = self.next(parent, &|turn| fits(turn, exchange)) else { break };
            let step = |turn: &Outline| (turn.number, turn.revision_with(exchange.answer));
            descent.path.extend(steps.into_iter().map(step));
            descent.known += 1;
        }
        descent
    }

    /// The next turn after `parent`, with the failed ones before it: a client that asked again may not show
    /// what had failed.
    fn next(&self, parent: u64, fits: &impl Fn(&Outline) -> bool) -> Option<Vec<&Outline>> {
        let failed = |turn: &Outline| turn.status == TurnStatus::Failed;
        if let Some(turn) = self.child(parent, |turn| !failed(turn) && fits(turn)) {
            return Some(vec![turn]);
        }
        let beyond = self.turns.iter().filter(|turn| turn.parent == parent && failed(turn)).find_map(|turn| {
            let mut steps = self.next(turn.number, fits)?;
            steps.insert(0, turn);
            Some(steps)
        });
        beyond.or_else(|| Some(vec![self.child(parent, fits)?]))
    }

    /// A turn after `parent`: the visible one before others, the newest before older ones.
    fn child(&self, parent: u64, fits: impl Fn(&Outline) -> bool) -> Option<&Outline> {
        let children = self.turns.iter().filter(|turn| turn.parent == parent && fits(turn));
        children.max_by_key(|turn| (turn.visible, turn.number))
    }

    /// The client left out or condensed what is old, so its last exchanges tell where it is.
    fn by_the_tail(&self, asked: &Asked) -> Option<Alignment> {
        let (last, before) = asked.exchanges.split_last()?;
        let known: Vec<&Outline> = self.turns.iter().filter(|turn| turn.is(last)).collect();
        let length = |turn: &&Outline| self.length_of_match(turn, before);
        let best = known.iter().max_by_key(|turn| (length(turn), turn.visible, turn.number))?;
        let certain = known.len() == 1 || length(best) >= 1;
        let mode = HistoryMode::Windowed;
        let again = self.child(best.number, |turn| turn.question == asked.question);
        let import = asked.exchanges.len();
        Some(match again {
            Some(again) if certain => {
                Alignment { step: Step::Revise(again.id), mode, visible: Some(self.branch(again)) }
            }
            _ if certain => {
                let step = Step::Append { parent: best.number, import };
                Alignment { step, mode, visible: Some(self.branch(best)) }
            }
            _ => Alignment { step: Step::Append { parent: self.head(), import }, mode, visible: None },
        })
    }

    /// How many exchanges before a turn agree with the branch it stands on.
    fn length_of_match(&self, turn: &Outline, before: &[Exchange]) -> usize {
        let earlier = std::iter::successors(self.turn(turn.parent), |turn| self.turn(turn.parent));
        before.iter().rev().zip(earlier).take_while(|(exchange, turn)| turn.is(exchange)).count()
    }
}

/// How far a client's history is known.
#[derive(Default)]
struct Descent {
    /// The turns on the way, each with the revision to show if not the current one.
    path: Vec<(u64, Option<u32>)>,
    /// How many of the exchanges they are.
    known: usize,
}

impl Outline {
    /// Whether the model is shown it, as [`Turn::enters_context`](super::Turn::enters_context) says.
    pub fn enters_context(&self) -> bool {
        self.status.enters_context() || (self.status == TurnStatus::Pending && self.answer.is_some())
    }

    /// Whether this turn is that exchange. An answer that broke off reached the client in part.
    fn is(&self, exchange: &Exchange) -> bool {
        let broke_off = self.status != TurnStatus::Complete;
        let answers = || self.revisions.iter().map(|(_, answer)| *answer).chain([self.answer]);
        self.question == exchange.question && (broke_off || answers().any(|answer| answer == exchange.answer))
    }

    /// The revision that gave this answer, if it is not the current one.
    fn revision_with(&self, answer: Option<Fingerprint>) -> Option<u32> {
        if answer.is_none() || answer == self.answer {
            return None;
        }
        self.revisions.iter().find(|(_, other)| *other == answer).map(|(number, _)| *number)
    }
}

#[cfg(test)]
#[path = "align_tests.rs"]
mod tests;
