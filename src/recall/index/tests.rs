//! Whatever happened on the way, an index is equal to one that was built anew.

use std::collections::BTreeMap;

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::id::{CountedIds, Ids};
use crate::message::{Message, Role};
use crate::model::embed::StaticTable;
use crate::recall::row::{ReadRows, encode, rows_of};
use crate::session::{Turn, TurnStatus};

const SAID: [&str; 6] = [
    "I moved to Lisbon in May with my dog Rex.",
    "Where is the best bakery?",
    "The flat costs 900 euro a month.",
    "Ik woon nu in Utrecht bij het station.",
    "Rex prefers the park near the river.",
    "We signed the contract yesterday.",
];

fn turn(order: i64, session: u8, said: usize, named: bool) -> IndexedTurn {
    let ids = CountedIds::default();
    let sessions: Vec<SessionId> = (0..4).map(|_| ids.session()).collect();
    let at = |n: i64| Timestamp::from_microsecond(n * 1_000_000).expect("a time");
    let mut question = Message::new(Role::User, SAID[said % SAID.len()], at(order));
    question.name = named.then(|| ["Ann", "Bob"][said % 2].to_owned());
    let answer = Message::new(Role::Assistant, SAID[(said + 1) % SAID.len()], at(order));
    let id = CountedIds::default().turn(at(order));
    let turn = Turn {
        id,
        session: sessions[usize::from(session % 4)],
        number: order as u64,
        status: TurnStatus::Complete,
        messages: vec![question, answer],
        metadata: Default::default(),
        created_at: at(order),
        superseded: false,
    };
    let vectors = turn
        .messages
        .iter()
        .map(|message| crate::kernel::quantise(&StaticTable::shared().embed(&message.text)))
        .collect();
    IndexedTurn { order, turn: turn.id, session: turn.session, rows: ReadRows::of(encode(&rows_of(&turn))), vectors }
}

/// Who uses a term, how often, and how long that is. Which number a session has depends on which came first; it is the one on the card.
fn uses(docs: &Docs, term: vocabulary::TermNo) -> Vec<(DocNo, u8, u32)> {
    let seen = |posting: &docs::Posting| {
        assert_eq!(docs.session_of(posting), docs.card(posting.doc()).session);
        (posting.doc(), posting.times(), posting.length())
    };
    docs.postings(term).iter().map(seen).collect()
}

/// Everything a search can see.
fn seen(index: &ScopeIndex) -> String {
    let mut terms: Vec<String> = Vec::new();
    for said in SAID.into_iter().chain(["Ann", "Bob"]) {
        for word in words(said) {
            for tongue in Tongue::ALL {
                if let Some(word) = index.vocabulary.word(&word, tongue) {
                    let term = index.vocabulary.term_of(word);
                    terms.push(format!("{:?} {:?}", uses(&index.keys, term), uses(&index.replies, term)));
                }
            }
        }
    }
    // A term that nobody uses any more is as good as unknown.
    terms.retain(|term| term != "[] []");
    let mut sessions: Vec<&Vec<DocNo>> =
        index.sessions.iter().map(|session| &session.keys).filter(|keys| !keys.is_empty()).collect();
    sessions.sort();
    let speakers: Vec<&str> =
        index.keys.cards().iter().map(|card| index.speakers[card.speaker as usize].as_str()).collect();
    // Numbers of speakers, sessions and words depend on who came first.
    let cards = |docs: &Docs| -> Vec<_> {
        let seen = |card: &card::Card| {
            let beside = (card.before(), card.after(), card.partner());
            (beside, card.novelty, card.length, card.length_with_before, card.said_at, card.marks, card.capitals)
        };
        docs.cards().iter().map(seen).collect()
    };
    let near: Vec<_> = index.key.near.iter().map(|near| near.map(f32::to_bits)).collect();
    format!(
        "{:?} {:?} {:?} {:?} {near:?} {speakers:?} {sessions:?} {} {} {} {} {terms:?}",
        index.keys.ids,
        index.replies.ids,
        cards(&index.keys),
        cards(&index.replies),
        index.keys.length_total,
        index.key.length_with_before,
        index.key.length_with_both,
        index.spoken_in,
    )
}

fn built_anew(turns: &BTreeMap<i64, (u8, usize, bool)>) -> ScopeIndex {
    let mut index = ScopeIndex::new(256);
    index.apply(
        turns
            .iter()
            .map(|(order, (session, said, named))| Change::Put(turn(*order, *session, *said, *named)))
            .collect(),
    );
    index
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn changes_in_any_order_equal_building_anew(
        steps in proptest::collection::vec(
            proptest::collection::vec((0_i64..24, 0_u8..4, 0_usize..6, any::<bool>(), any::<bool>()), 1..4), 1..16),
    ) {
        let mut held = BTreeMap::new();
        let mut index = ScopeIndex::new(256);
        for step in steps {
            let mut changes = BTreeMap::new();
            for (order, session, said, named, gone) in step {
                changes.insert(order, (session, said, named, gone));
            }
            let mut applied = Vec::new();
            for (order, (session, said, named, gone)) in changes {
                if gone {
                    held.remove(&order);
                    applied.push(Change::Gone(turn(order, session, said, named).turn));
                } else {
                    held.insert(order, (session, said, named));
                    applied.push(Change::Put(turn(order, session, said, named)));
                }
            }
            index.apply(applied);
            prop_assert_eq!(seen(&index), seen(&built_anew(&held)));
        }
    }
}

#[test]
fn the_oldest_can_be_let_go() {
    let mut index = built_anew(&(0..8).map(|order| (order, (0, order as usize, false))).collect());
    assert!(index.forget_oldest());
    assert_eq!(index.keys.len(), 6);
    assert_eq!(index.keys.card(0).said_at, 2_000_000);
    assert!(index.bytes() > 6 * 256);
}
