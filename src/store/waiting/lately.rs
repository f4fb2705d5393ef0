//! What was lately said, kept in memory so that conversations go on while the database is away.
//!
//! Whatever is read or written on the way of a chat passes by here and is noted: the end of each conversation, its outline, and the
//! questions that are being answered. It is what this process saw last; what others wrote meanwhile is not in it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::queue::Conversation;
use super::turn::WaitingTurn;
use crate::id::{SessionId, TurnId};
use crate::scope::{Scope, Tenant};
use crate::session::{ClosedTurn, Held, OpenTurn, Outline, Shift, Turn, TurnStatus, newest};
use crate::store::{DoneRequest, Opened, Recent, Trail};

/// Most conversations, and most bytes of them.
const CONVERSATIONS_MAX: usize = 4_096;
const BYTES_MAX: usize = 64 << 20;
/// Most messages of a conversation, most outlines, and most questions of it that are being answered.
const MESSAGES_MAX: usize = 100;
const OUTLINES_MAX: usize = 256;
const ASKED_MAX: usize = 16;
/// Most requests with a key that are known.
const REQUESTS_MAX: usize = 4_096;

/// The conversations of late.
#[derive(Debug, Default)]
pub(super) struct Lately(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    seen: HashMap<Conversation, Seen>,
    moment: u64,
    bytes: usize,
    /// What requests with a key made, the newest last.
    requests: VecDeque<(Scope, [u8; 32], DoneRequest)>,
}

/// What is known of one.
#[derive(Debug, Default)]
struct Seen {
    used: u64,
    bytes: usize,
    recent: Option<Recent>,
    held: Option<Held>,
    /// Questions that are being answered, with their numbers.
    asked: Vec<(WaitingTurn, u64)>,
    /// The last turn, to know a conversation by.
    last: Option<WaitingTurn>,
}

impl Lately {
    /// The end of a conversation was read.
    pub(super) fn saw(&self, scope: &Scope, session: SessionId, recent: &Recent) {
        let kept = Recent { session: recent.session.clone(), turns: recent.turns.clone(), damaged: Vec::new() };
        self.note(scope, session, |seen| seen.recent = Some(kept));
    }

    /// A conversation's outline was read.
    pub(super) fn saw_held(&self, scope: &Scope, session: SessionId, held: &Held) {
        let from = held.turns.len().saturating_sub(OUTLINES_MAX);
        let kept = Held { turns: held.turns[from..].to_vec(), ..*held };
        self.note(scope, session, |seen| seen.held = Some(kept));
    }

    /// A question was written.
    pub(super) fn asked(&self, scope: &Scope, open: OpenTurn, opened: &Opened) {
        let Some(number) = opened.number else { return };
        let turn = WaitingTurn::asked(scope.clone(), open, opened.created_at);
        if let Some((key, done)) = turn.request() {
            self.known().done(scope, key, DoneRequest { waits: false, ..done });
        }
        self.note(scope, turn.session, |seen| seen.ask(turn, number));
    }

    /// What a request with this key made lately.
    pub(super) fn request(&self, scope: &Scope, key: [u8; 32]) -> Option<DoneRequest> {
        let known = self.known();
        let mut requests = known.requests.iter().rev();
        requests.find(|(whose, known, _)| whose == scope && *known == key).map(|(.., done)| done.clone())
    }

    /// How it was answered was written, too.
    pub(super) fn answered(&self, scope: &Scope, closed: &ClosedTurn) {
        self.note(scope, closed.session, |seen| seen.answer(closed));
    }

    /// A question that is being answered, and when it was asked.
    pub(super) fn question(&self, scope: &Scope, session: SessionId, id: TurnId) -> Option<(OpenTurn, Timestamp)> {
        let known = self.known();
        let seen = known.seen.get(&(scope.clone(), session))?;
        seen.asked.iter().find(|(turn, _)| turn.id == id).and_then(|(turn, _)| turn.open.clone())
    }

    /// The end of a conversation, if it is known.
    pub(super) fn recent(&self, scope: &Scope, session: SessionId, messages_max: usize) -> Option<Recent> {
        let known = self.known();
        let recent = known.seen.get(&(scope.clone(), session))?.recent.clone()?;
        Some(Recent { turns: newest(recent.turns, messages_max), ..recent })
    }

    /// Its outline, if that is known.
    pub(super) fn held(&self, scope: &Scope, session: SessionId) -> Option<Held> {
        self.known().seen.get(&(scope.clone(), session))?.held.clone()
    }

    /// A turn of late.
    pub(super) fn turn(&self, scope: &Scope, id: TurnId) -> Option<Turn> {
        let known = self.known();
        let mut theirs = known.seen.iter().filter(|((whose, _), _)| whose == scope);
        theirs.find_map(|(_, seen)| {
            let ended = seen.recent.iter().flat_map(|recent| &recent.turns).find(|turn| turn.id == id).cloned();
            ended.or_else(|| seen.asked.iter().find(|(turn, _)| turn.id == id).and_then(|(turn, n)| turn.question(*n)))
        })
    }

    /// The conversation that a client tells of, if it is one of late.
    pub(super) fn on_trail(&self, is_theirs: impl Fn(&WaitingTurn) -> bool, trail: &Trail) -> Option<SessionId> {
        let known = self.known();
        on_trail(known.seen.values().filter_map(|seen| seen.last.as_ref()).filter(|turn| is_theirs(turn)), trail)
    }

    /// Forgets a conversation: it was changed in a way that is not followed here, or erased.
    pub(super) fn forget(&self, scope: &Scope, session: SessionId) {
        let mut known = self.known();
        if let Some(seen) = known.seen.remove(&(scope.clone(), session)) {
            known.bytes -= seen.bytes;
        }
    }

    /// Forgets a tenant's conversations.
    pub(super) fn forget_tenant(&self, tenant: &Tenant) {
        let mut known = self.known();
        known.seen.retain(|(scope, _), _| scope.tenant() != tenant);
        known.bytes = known.seen.values().map(|seen| seen.bytes).sum();
    }

    fn note(&self, scope: &Scope, session: SessionId, change: impl FnOnce(&mut Seen)) {
        let mut known = self.known();
        known.moment += 1;
        let moment = known.moment;
        let seen = known.seen.entry((scope.clone(), session)).or_default();
        change(seen);
        let (before, now) = (seen.bytes, seen.weight());
        (seen.bytes, seen.used) = (now, moment);
        known.bytes = known.bytes + now - before;
        if known.seen.len() > CONVERSATIONS_MAX || known.bytes > BYTES_MAX {
            known.make_room();
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The conversation of a client's history, among the last turns of some: where all of it was said, else the only one in
/// which the end of it was.
pub(super) fn on_trail<'a>(turns: impl Iterator<Item = &'a WaitingTurn>, trail: &Trail) -> Option<SessionId> {
    let turns: Vec<&WaitingTurn> = turns.collect();
    if let Some(turn) = turns.iter().find(|turn| turn.follows(trail)) {
        return Some(turn.session);
    }
    let mut ends = turns.iter().filter(|turn| trail.tail.is_some_and(|tail| turn.ends_with(&tail)));
    ends.next().filter(|_| ends.next().is_none()).map(|turn| turn.session)
}

impl Known {
    fn done(&mut self, scope: &Scope, key: [u8; 32], done: DoneRequest) {
        self.requests.push_back((scope.clone(), key, done));
        if self.requests.len() > REQUESTS_MAX {
            self.requests.pop_front();
        }
    }

    /// The quarter that was not used for longest goes.
    fn make_room(&mut self) {
        let mut used: Vec<u64> = self.seen.values().map(|seen| seen.used).collect();
        used.sort_unstable();
        let oldest = used[used.len() / 4];
        self.seen.retain(|_, seen| seen.used > oldest);
        self.bytes = self.seen.values().map(|seen| seen.bytes).sum();
    }
}

impl Seen {
    fn ask(&mut self, turn: WaitingTurn, number: u64) {
        let Some((open, _)) = &turn.open else { return };
        // Whoever moves about in a conversation changes more than is followed here.
        if open.place.shift != (Shift { mode: open.place.shift.mode, ..Shift::default() })
            || !open.place.imported.is_empty()
            || !open.place.earlier.is_empty()
        {
            (self.recent, self.held) = (None, None);
        } else if number == 1 {
            self.recent.get_or_insert_default();
            self.held.get_or_insert_default();
        }
        if self.asked.len() >= ASKED_MAX {
            self.asked.remove(0);
        }
        self.asked.push((turn, number));
        self.outline(self.asked.len() - 1);
    }

    fn answer(&mut self, closed: &ClosedTurn) {
        let Some(at) = self.asked.iter().position(|(turn, _)| turn.id == closed.id).filter(|_| closed.attempt == 0)
        else {
            // Another try, or one that began elsewhere: what it changed is not known.
            (self.recent, self.held) = (None, None);
            return;
        };
        self.asked[at].0.end(closed.clone());
        self.outline(at);
        let (turn, number) = &self.asked[at];
        if let (Some(recent), Some(so_far)) = (&mut self.recent, turn.turn(*number).filter(Turn::enters_context)) {
            recent.turns.retain(|known| known.id != so_far.id);
            recent.turns.push(so_far);
            recent.turns.sort_by_key(|turn| turn.number);
            recent.turns = newest(std::mem::take(&mut recent.turns), MESSAGES_MAX);
        }
        if closed.status != TurnStatus::Pending {
            self.last = Some(self.asked.remove(at).0);
        }
    }

    /// Puts a question that is being answered into the outline, as far as it has come.
    fn outline(&mut self, at: usize) {
        let Some(held) = &mut self.held else { return };
        let (turn, number) = &self.asked[at];
        held.turns.retain(|known| known.id != turn.id);
        let last = held.turns.last().map_or(0, |last| last.number);
        if let Some(mode) = turn.open.as_ref().and_then(|(open, _)| open.place.shift.mode) {
            held.mode = mode;
        }
        held.turns.extend(turn.outline(last).map(|outline| Outline { number: *number, ..outline }));
        held.turns.sort_by_key(|turn| turn.number);
        let from = held.turns.len().saturating_sub(OUTLINES_MAX);
        held.turns.drain(..from);
    }

    fn weight(&self) -> usize {
        let said = |turn: &Turn| turn.messages.iter().map(|message| message.text.len() + 256).sum::<usize>();
        let recent: usize = self.recent.iter().flat_map(|recent| &recent.turns).map(said).sum();
        let asked: usize = self.asked.iter().map(|(turn, _)| turn.bytes).sum();
        let outlines = self.held.as_ref().map_or(0, |held| held.turns.len() * 256);
        1_024 + recent + asked + outlines + self.last.as_ref().map_or(0, |turn| turn.bytes)
    }
}
