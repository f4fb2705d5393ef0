//! What is said in a session, in any order: its weight, its counts and its bounds.

use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;
use crate::id::{CountedIds, Ids, SessionId};
use crate::message::{Message, Role};
use crate::session::{ClientIds, ClosedTurn, OpenTurn, Placement, ReviseTurn, Shift, TurnDraft};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + second).expect("within this age")
}

fn said(role: Role, text: &str) -> Message {
    Message::new(role, text, at(0))
}

fn id() -> SessionId {
    SessionId::ephemeral("acme", "v")
}

/// A session that is talked in.
struct Talk {
    session: LiveSession,
    ids: CountedIds,
    now: i64,
}

impl Talk {
    fn begin() -> Self {
        let session = LiveSession::begin(&SessionSeed::default(), at(0));
        Self { session, ids: CountedIds::default(), now: 0 }
    }

    fn open(&mut self, question: &str, place: Placement) -> TurnId {
        let turn = self.ids.turn(at(self.now));
        let (seed, metadata) = (SessionSeed::default(), Map::new());
        let question = said(Role::User, question);
        let open = OpenTurn { id: turn, session: id(), seed, question, metadata, asked_at: None, place };
        self.session.open(open, at(self.now));
        turn
    }

    fn close(&mut self, turn: TurnId, answer: &str, attempt: u32) {
        let closed = ClosedTurn {
            id: turn,
            session: id(),
            status: TurnStatus::Complete,
            messages: vec![said(Role::Assistant, answer)],
            metadata: Map::from_iter([("injected".to_owned(), json!({"block": "x"}))]),
            attempt,
            others: Vec::new(),
            trace: Some("{}".into()),
            topic: None,
            waits_since: None,
        };
        self.session.close(closed, usize::MAX, at(self.now)).expect("the turn is there");
    }

    fn revise(&mut self, turn: TurnId) -> u32 {
        let (ids, shift) = (ClientIds::default(), Shift::default());
        let revise = ReviseTurn { id: turn, session: id(), ids, then: Vec::new(), shift };
        self.session.revise(revise, at(self.now)).expect("the turn is there")
    }

    fn exchange(&mut self, question: &str, answer: &str) -> TurnId {
        let turn = self.open(question, Placement::default());
        self.close(turn, answer, 0);
        turn
    }

    fn tell(&mut self, messages: usize) {
        let leaving = self.session.leaving(messages, at(self.now));
        let texts = leaving.hours.iter().map(|hour| format!("user: {} things", hour.said.len())).collect();
        let (retold, past) = leaving.told(texts, Duration::from_secs(24 * 3600));
        let retold = match past {
            Some(past) => retold.with_past(past.told("user: long ago".into())),
            None => retold,
        };
        assert!(self.session.take_in(retold), "nothing has changed meanwhile");
    }

    fn texts(&self) -> Vec<String> {
        let shown = self.session.turns(id()).filter(|turn| !turn.superseded);
        shown.flat_map(|turn| turn.messages.into_iter().map(|message| message.text)).collect()
    }
}

/// A4: over 30 messages the oldest 20 go, over 50 the next 20.
#[test]
fn two_thirds_leave() {
    for (messages, going) in [(0, 0), (30, 0), (31, 20), (50, 20), (51, 40), (70, 40), (71, 60)] {
        assert_eq!(leaves(messages, 30), going, "{messages}");
    }
}

#[test]
fn another_answer_puts_the_first_aside() {
    let mut talk = Talk::begin();
    let turn = talk.exchange("Hi", "one");
    assert_eq!(talk.revise(turn), 1);
    talk.close(turn, "two", 1);
    assert_eq!(talk.texts(), ["Hi", "two"]);
    let others = talk.session.revisions(turn).expect("the turn");
    assert_eq!(others.iter().map(|other| other.messages[0].text.as_str()).collect::<Vec<_>>(), ["one"]);
    talk.close(turn, "late", 0);
    assert_eq!((talk.texts(), talk.session.message_count()), (vec!["Hi".into(), "two".into()], 2));
    let kept = talk.session.turn(id(), turn).expect("the turn");
    assert_eq!(kept.metadata, Map::new(), "what was laid before the model goes with the ending");
}

#[test]
fn an_edit_hides_what_it_replaces() {
    let mut talk = Talk::begin();
    talk.exchange("one", "1");
    talk.exchange("two", "2");
    let shift = Shift { hide: vec![2], ..Shift::default() };
    talk.open("two, please", Placement { parent: Some(1), shift, ..Placement::default() });
    assert_eq!(talk.texts(), ["one", "1", "two, please"]);
    let held = talk.session.held(10);
    let outline: Vec<_> = held.turns.iter().map(|turn| (turn.number, turn.parent, turn.visible)).collect();
    assert_eq!(outline, [(1, 0, true), (2, 1, false), (3, 1, true)]);
}

/// A4: what is old is told by the hour, what is older as one, and where it stood is still known.
#[test]
fn what_is_old_is_told_by_the_hour() {
    let mut talk = Talk::begin();
    for n in 0..30 {
        talk.now = n * 3 * 3600 / 2;
        talk.exchange(&format!("question {n}"), "yes");
    }
    talk.tell(40);
    let told: Vec<_> = talk.session.summaries().map(|told| (told.level.as_str(), told.first, told.last)).collect();
    assert_eq!((told[0], told.len()), (("session", 1, 13), 8), "{told:?}");
    assert_eq!(told[7], ("hour", 20, 20));
    assert_eq!((talk.session.messages_held(), talk.session.message_count()), (20, 60));
    assert_eq!((talk.session.held(100).turns.len(), talk.texts()[0].as_str()), (30, "question 20"));
}

#[test]
fn what_changed_meanwhile_is_not_replaced() {
    let mut talk = Talk::begin();
    let first = talk.exchange("one", "1");
    talk.exchange("two", "2");
    let leaving = talk.session.leaving(2, at(1));
    talk.revise(first);
    let (retold, _) = leaving.told(vec!["user: one".into()], Duration::MAX);
    assert!(!talk.session.take_in(retold));
    assert_eq!(talk.texts()[0], "one");
}

/// A question that is being answered is not told of, nor what follows it.
#[test]
fn who_waits_for_an_answer_stays() {
    let mut talk = Talk::begin();
    talk.exchange("one", "1");
    talk.open("two", Placement::default());
    talk.exchange("three", "3");
    talk.tell(100);
    assert_eq!(talk.texts(), ["two", "three", "3"]);
    talk.now = 11 * 60;
    talk.tell(100);
    assert!(talk.texts().is_empty(), "after ten minutes nobody waits any more");
}

/// An answer that would be over the session's bound by itself is not kept, and the session stays within it.
#[test]
fn an_answer_that_is_too_large_is_not_kept() {
    let mut talk = Talk::begin();
    let turn = talk.open("Hi", Placement::default());
    let bytes_max = talk.session.bytes() + 1_000;
    let closed = ClosedTurn {
        id: turn,
        session: id(),
        status: TurnStatus::Complete,
        messages: vec![said(Role::Assistant, &"x".repeat(2_000))],
        metadata: Map::new(),
        attempt: 0,
        others: Vec::new(),
        trace: None,
        topic: None,
        waits_since: None,
    };
    talk.session.close(closed, bytes_max, at(1)).expect("the turn is there");
    let kept = talk.session.turn(id(), turn).expect("the turn");
    assert_eq!((kept.status, kept.messages.len()), (TurnStatus::Failed, 1));
    assert!(talk.session.bytes() <= bytes_max && kept.metadata["reason"].as_str().is_some());
}

#[test]
fn the_end_tells_what_is_left() {
    let mut talk = Talk::begin();
    talk.exchange("one", "1");
    talk.exchange("two", "2");
    talk.tell(2);
    let name = LiveName::parse("v").expect("a name");
    let key = LiveKey { tenant: crate::scope::Tenant::default(), name };
    let end = talk.session.end(&key, EndReason::Ttl, at(9));
    let told: Vec<&str> = end.messages.iter().map(|message| message.content.as_str()).collect();
    assert_eq!((told, end.message_count, end.summaries.len()), (vec!["two", "2"], 4, 1));
    assert_eq!((end.created_at, end.last_accessed, end.session.as_str()), (at(0), at(9), "v"));
}

/// One thing that happens to a session.
#[derive(Debug, Clone)]
enum Step {
    Ask(String),
    Answer(String),
    Again,
    Hide(u64),
    Show(u64),
    Add(String, String),
    Tell(usize),
    Patch(String),
    Wait(i64),
}

fn step() -> impl Strategy<Value = Step> {
    let text = || "[a-zé ]{1,40}";
    prop_oneof![
        text().prop_map(Step::Ask),
        text().prop_map(Step::Answer),
        Just(Step::Again),
        (1u64..12).prop_map(Step::Hide),
        (1u64..12).prop_map(Step::Show),
        (text(), text()).prop_map(|(question, answer)| Step::Add(question, answer)),
        (0usize..12).prop_map(Step::Tell),
        text().prop_map(Step::Patch),
        (0i64..9_000).prop_map(Step::Wait),
    ]
}

fn take(talk: &mut Talk, last: &mut Option<(TurnId, u32)>, step: Step) {
    let shifted = |hide: Vec<u64>, show: Vec<u64>| Shift { hide, show, ..Shift::default() };
    match step {
        Step::Ask(text) => *last = Some((talk.open(&text, Placement::default()), 0)),
        Step::Answer(text) => {
            if let Some((turn, attempt)) = last.filter(|(turn, _)| talk.session.turn(id(), *turn).is_some()) {
                talk.close(turn, &text, attempt);
            }
        }
        Step::Again => {
            if let Some((turn, _)) = last.filter(|(turn, _)| talk.session.turn(id(), *turn).is_some()) {
                *last = Some((turn, talk.revise(turn)));
            }
        }
        Step::Hide(number) => talk.session.shift(&shifted(vec![number], Vec::new())),
        Step::Show(number) => talk.session.shift(&shifted(Vec::new(), vec![number])),
        Step::Add(question, answer) => {
            let messages = vec![said(Role::User, &question), said(Role::Assistant, &answer)];
            let draft = TurnDraft { id: talk.ids.turn(at(talk.now)), messages, metadata: Map::new(), created_at: None };
            talk.session.add(vec![draft], at(talk.now));
        }
        Step::Tell(messages) => talk.tell(messages),
        Step::Patch(text) => {
            let metadata = Map::from_iter([("note".to_owned(), text.into())]);
            talk.session.patch(&SessionPatch { metadata, ttl: None }, at(talk.now));
        }
        Step::Wait(seconds) => talk.now += seconds,
    }
}

proptest! {
    /// A7: what a session takes is known to the byte after anything that can happen to it; numbers are gapless, messages
    /// are counted once, and nothing that happened is forgotten by being told.
    #[test]
    fn the_weight_is_exact(steps in prop::collection::vec(step(), 0..60)) {
        let (mut talk, mut last) = (Talk::begin(), None);
        for step in steps {
            let before = talk.session.message_count();
            let telling = matches!(step, Step::Tell(_));
            take(&mut talk, &mut last, step);
            prop_assert_eq!(talk.session.bytes(), weigh(&talk.session));
            let copy = LiveSession::from_json(&talk.session.to_json()).expect("it was written here");
            prop_assert_eq!(&copy, &talk.session, "a copy elsewhere is the same");
            if telling {
                prop_assert_eq!(talk.session.message_count(), before);
            }
            let numbers: Vec<u64> = talk.session.held(1_000).turns.iter().map(|turn| turn.number).collect();
            prop_assert_eq!(numbers, (1..=talk.session.turn_count()).collect::<Vec<_>>());
        }
    }
}
