//! Among two thousand messages: what a question is about is chosen, whatever brings it up.

use jiff::civil::date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::*;
use crate::id::{CountedIds, Ids};
use crate::kernel::quantise;
use crate::language::Tongue;
use crate::message::{Message, Role};
use crate::model::embed::StaticTable;
use crate::recall::complete::Added;
use crate::recall::index::{Change, IndexedTurn};
use crate::recall::question::{Reading, read};
use crate::recall::row::{ReadRows, encode, rows_of};
use crate::recall::signals::QuestionVectors;
use crate::session::{Turn, TurnStatus};

const ALL: usize = 2_000;
const FILLERS: [&str; 4] = [
    "The train to the office was late again.",
    "We had soup and bread for lunch.",
    "The garden needs water in this weather.",
    "My sister called about the party.",
];

/// Two messages a day, by Ann and Bob in turn, a session a week, from the first of January 2020 on; some say something else.
fn index(others: &[(usize, &str)]) -> ScopeIndex {
    let ids = CountedIds::default();
    let sessions: Vec<_> = (0..=ALL / 14).map(|_| ids.session()).collect();
    let begun = date(2020, 1, 1).at(8, 0, 0, 0).to_zoned(TimeZone::UTC).expect("a time").timestamp();
    let turn = |no: usize| {
        let said = others.iter().find(|(at, _)| *at == no).map_or(FILLERS[no % FILLERS.len()], |(_, said)| said);
        let created_at = begun + (12 * no as i64).hours();
        let mut message = Message::new(Role::User, said, created_at);
        message.name = Some(["Ann", "Bob"][no % 2].to_owned());
        let turn = Turn {
            id: ids.turn(created_at),
            session: sessions[no / 14],
            number: no as u64,
            status: TurnStatus::Complete,
            messages: vec![message],
            metadata: Default::default(),
            created_at,
            superseded: false,
        };
        let vectors = vec![quantise(&StaticTable::shared().embed(said))];
        let rows = ReadRows::of(encode(&rows_of(&turn)));
        Change::Put(IndexedTurn { order: no as i64, turn: turn.id, session: turn.session, rows, vectors })
    };
    let mut index = ScopeIndex::new(256);
    index.apply((0..ALL).map(turn).collect());
    index
}

fn chosen(index: &ScopeIndex, question: &str, with_vectors: bool) -> Vec<DocNo> {
    let names: Vec<String> = index.speakers[1..].to_vec();
    let reading = Reading {
        participants: &names,
        now: Timestamp::from_second(1_790_000_000).expect("a time"),
        zone: TimeZone::UTC,
        tongue_otherwise: Tongue::English,
        from: None,
        to: None,
    };
    let question = read(question, &reading);
    let vector = with_vectors.then(|| StaticTable::shared().embed(&question.without_names));
    let vectors = QuestionVectors { full: vector.clone(), plain: vector };
    let numbers: Vec<u16> = (1..=names.len() as u16).collect();
    let text = question.text.clone();
    let asked = Asked::new(index, &question, &text, &Added::default(), &numbers, &vectors, TimeZone::UTC);
    choose(index, &asked, &asked.word_scores(index)).keys
}

#[track_caller]
fn check_chosen(index: &ScopeIndex, question: &str, with_vectors: bool, expected: &[DocNo]) {
    let chosen = chosen(index, question, with_vectors);
    assert!(expected.iter().all(|no| chosen.contains(no)), "{expected:?} are not all in {chosen:?}");
    assert!(chosen.len() <= CHOSEN + 2 * WITH_NEIGHBOURS + REPLIES, "{} are too many", chosen.len());
    assert!(chosen.is_sorted_by(|a, b| a < b), "each once");
}

#[test]
fn words_bring_messages_up_with_what_was_said_around_them() {
    let index = index(&[(707, "The boiler engineer comes on Friday.")]);
    for with_vectors in [true, false] {
        check_chosen(&index, "When does the boiler engineer come?", with_vectors, &[706, 707, 708]);
    }
}

#[test]
fn meaning_brings_messages_up_that_share_no_word() {
    let index = index(&[(1_234, "Physicians in that hospital treat patients gently.")]);
    check_chosen(&index, "Is a doctor or nurse kind?", true, &[1_234]);
    assert!(!chosen(&index, "Is a doctor or nurse kind?", false).contains(&1_234), "nothing but its meaning does");
}

#[test]
fn of_many_that_say_the_same_those_of_the_time_asked_about_are_chosen() {
    let index = index(&[]);
    // Each fourth message is about lunch. The second of May is 852 days after the first.
    let of_may: Vec<DocNo> = (0..ALL as DocNo).filter(|no| no % 4 == 1 && (851 * 2..855 * 2).contains(no)).collect();
    check_chosen(&index, "What was for lunch on 2 May 2022?", true, &of_may);
    check_chosen(&index, "What was for lunch on 2 May 2022?", false, &of_may);
    let undated = chosen(&index, "What was for lunch?", true);
    assert!(!of_may.iter().all(|no| undated.contains(no)), "only the time brings all of them up");
}

#[test]
fn the_time_asked_about_brings_messages_up_whatever_they_say() {
    let index = index(&[]);
    // Two messages a day: those of the second of May, 852 days after the first.
    let (of_may, question) = ([852 * 2, 852 * 2 + 1], "What happened on 2 May 2022?");
    for with_vectors in [true, false] {
        check_chosen(&index, question, with_vectors, &of_may);
    }
    assert!(chosen(&index, "What happened?", false).is_empty(), "nothing but the time does");
}

#[test]
fn of_many_that_say_the_same_those_by_the_one_asked_about_are_chosen() {
    let others: Vec<(usize, &str)> = (200..1_800).map(|no| (no, "I painted the fence green.")).collect();
    let index = index(&others);
    let by_ann = chosen(&index, "What did Ann paint?", true);
    let painted = |no: &&DocNo| (200..1_800).contains(*no);
    let (ann, bob): (Vec<DocNo>, Vec<DocNo>) = by_ann.iter().filter(painted).partition(|no| **no % 2 == 0);
    assert!(ann.len() > 2 * bob.len(), "{} by Ann and {} by Bob", ann.len(), bob.len());
}

#[test]
fn a_day_counts_where_any_part_of_it_is_asked_about() {
    let index = index(&[]);
    let reading = Reading {
        participants: &[],
        now: Timestamp::from_second(1_790_000_000).expect("a time"),
        zone: TimeZone::UTC,
        tongue_otherwise: Tongue::English,
        from: Some("2020-03-01T10:00:00Z".parse().expect("a time")),
        to: Some("2020-03-02T09:00:00Z".parse().expect("a time")),
    };
    let question = read("What was for lunch?", &reading);
    let asked =
        Asked::new(&index, &question, "lunch", &Added::default(), &[], &QuestionVectors::default(), TimeZone::UTC);
    let day = |text: &str| (text.parse::<Timestamp>().expect("a time").as_microsecond() / DAY) as Day;
    let mut days = Days::new(&asked);
    let cases = [("2020-02-29", 0.0), ("2020-03-01", 1.0), ("2020-03-02", 1.0), ("2020-03-03", 0.0)];
    for (at, expected) in cases.into_iter().chain(cases) {
        assert_eq!(days.of(day(&format!("{at}T12:00:00Z"))), expected, "{at}");
    }
    // It takes the place of the day 64 before.
    assert_eq!(days.of(day("2020-05-04T12:00:00Z")), 0.0);
    assert_eq!(days.of(day("2020-03-01T12:00:00Z")), 1.0);
}
