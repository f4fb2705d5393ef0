//! Summaries in memory: exact whatever happened, found by meaning and by words, told of a conversation.

use jiff::SignedDuration;
use proptest::prelude::*;

use super::*;
use crate::episode::Meaning;
use crate::id::{CountedIds, Ids};
use crate::language::when::TimeRange;
use crate::model::embed::{Builtin, Embedder};
use crate::recall::search::Within;
use crate::topic::Thresholds;

fn at(hours: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(hours)
}

/// An episode of a session that began in some hour.
fn episode(session: SessionId, level: Level, turns: (u64, u64), hour: i64, summary: &str) -> Episode {
    let embedder = Builtin::default();
    let values = embedder.at_once(summary).expect("at once");
    Episode {
        id: EpisodeId::beginning(session, level.as_str(), turns.0, at(hour)),
        session,
        level,
        first: turns.0,
        last: turns.1,
        weight: 20,
        from: at(hour),
        to: at(hour),
        summary: summary.to_owned(),
        vector: Some(Meaning { embedder: embedder.id().as_str().to_owned(), values }),
        made_by: "test".into(),
        version: 1,
    }
}

fn held(episode: Episode) -> HeldEpisode {
    HeldEpisode::new(episode, Builtin::default().id().as_str())
}

fn shelf(episodes: impl IntoIterator<Item = Episode>) -> EpisodeShelf {
    let mut shelf = EpisodeShelf::default();
    episodes.into_iter().for_each(|episode| shelf.put(held(episode)));
    shelf
}

fn sought(question: &str) -> Sought<'_> {
    let embedder = Builtin::default();
    Sought {
        text: question,
        tongue: Tongue::English,
        vector: embedder.at_once(question).as_deref().and_then(quantise),
        thresholds: Thresholds::of(embedder.id(), embedder.near()),
        within: Within::default(),
        range: None,
    }
}

/// Stretches about several things, one after the other.
fn talks(session: SessionId) -> Vec<Episode> {
    let about = [
        "user: Which vector database should I take, FAISS or pgvector?\nassistant: pgvector lives inside PostgreSQL.",
        "user: My sourdough bread does not rise.\nassistant: Feed the starter twice a day.",
        "user: We hike in the Dolomites in June.\nassistant: Take the train to Bolzano.",
    ];
    let told = |(n, summary): (u64, &&str)| {
        episode(session, Level::Stretch, (20 * n + 1, 20 * n + 20), 24 * n as i64, summary)
    };
    (0..).zip(&about).map(told).collect()
}

#[track_caller]
fn check(question: &str, expected: &[u64]) {
    let shelf = shelf(talks(CountedIds::default().session()));
    let related = find(&shelf, &sought(question), 9).into_iter().filter(|found| found.related);
    assert_eq!(related.map(|found| found.episode.first).collect::<Vec<_>>(), expected, "{question}");
}

#[test]
fn episodes_are_found_by_meaning() {
    check("What did we discuss about databases?", &[1]);
    check("How do I bake bread?", &[21]);
    check("Where do we hike?", &[41]);
    check("What is the name of my dentist?", &[]);
}

#[test]
fn words_find_where_vectors_are_another_embedders() {
    let session = CountedIds::default().session();
    let mut talks = talks(session);
    talks.iter_mut().for_each(|told| told.vector.as_mut().expect("a vector").embedder = "another".into());
    let found = find(&shelf(talks), &sought("pgvector or FAISS?"), 9);
    assert_eq!((found[0].episode.first, found[0].related, found[0].signals.len()), (1, true, 1));
    assert!(!found[1].related);
}

#[test]
fn another_time_is_left_out() {
    let shelf = shelf(talks(CountedIds::default().session()));
    let firsts = |within: Within| {
        let asked = Sought { within, ..sought("bread") };
        let mut firsts: Vec<u64> = find(&shelf, &asked, 9).iter().map(|found| found.episode.first).collect();
        firsts.sort_unstable();
        firsts
    };
    let micros = |hours: i64| Some(at(hours).as_microsecond());
    assert_eq!(firsts(Within { from: micros(1), to: None }), [21, 41]);
    assert_eq!(firsts(Within { from: micros(24), to: micros(48) }), [21]);
    assert_eq!(firsts(Within { from: None, to: micros(0) }), [0; 0]);
    let range = TimeRange::between(Some(at(40)), Some(at(60)));
    let best = find(&shelf, &Sought { range, ..sought("What did we do then?") }, 1);
    assert_eq!(best[0].episode.first, 41, "{best:?}");
}

/// Each as level and turns, what they are worth first.
#[track_caller]
fn check_session(episodes: &[Episode], shown: &[TurnRange], session: SessionId, expected: &str) {
    let parts = told_of_session(&shelf(episodes.iter().cloned()), session, |held| held.is_shown(shown));
    let told = parts.iter().map(|(held, _)| format!("{} {}-{}", held.level.as_str(), held.first, held.last));
    assert_eq!(told.collect::<Vec<_>>().join(", "), expected);
}

/// A4: the newest in detail, hours of the last day, and one summary of what lies further back.
#[test]
fn the_newest_is_told_first() {
    let ids = CountedIds::default();
    let (session, other) = (ids.session(), ids.session());
    let tell =
        |level: Level, first: u64, last: u64, hour: i64| episode(session, level, (first, last), hour, "user: Hi.");
    let mut all = vec![tell(Level::Stretch, 1, 10, 0), tell(Level::Hour, 1, 10, 0)];
    check_session(&all, &[], session, "stretch 1-10");
    all.extend([tell(Level::Stretch, 11, 20, 1), tell(Level::Stretch, 21, 30, 1), tell(Level::Hour, 11, 30, 1)]);
    check_session(&all, &[], session, "stretch 21-30, hour 11-30, hour 1-10");
    all.extend([tell(Level::Stretch, 31, 40, 26), tell(Level::Hour, 31, 40, 26)]);
    let whole = Episode { to: at(1), ..tell(Level::Session, 1, 30, 0) };
    all.extend([whole, episode(other, Level::Stretch, (50, 60), 99, "user: Hi.")]);
    check_session(&all, &[], session, "stretch 31-40, session 1-30");
    let shown = |first: u64| [TurnRange { session, first, last: u64::MAX }];
    check_session(&all, &shown(36), session, "stretch 31-40, session 1-30");
    check_session(&all, &shown(31), session, "stretch 21-30, session 1-30");
    check_session(&all, &shown(1), session, "");
    check_session(&all, &shown(1), other, "stretch 50-60");
}

#[test]
fn what_is_taken_back_is_not_told() {
    let session = CountedIds::default().session();
    let held = held(episode(session, Level::Stretch, (11, 20), 0, "user: Hi."));
    let range = |first, last| [TurnRange { session, first, last }];
    assert!(held.tells_of(&range(20, 25)) && held.tells_of(&range(1, 11)) && held.tells_of(&range(14, 15)));
    assert!(!held.tells_of(&range(21, 25)) && !held.tells_of(&range(1, 10)) && !held.tells_of(&[]));
}

#[test]
fn a_summary_is_shortened_once() {
    let lines: Vec<String> = (0..20).map(|n| format!("user: I met Ann{n} in Porto on {} May 2026.", n + 1)).collect();
    let held = held(episode(CountedIds::default().session(), Level::Hour, (1, 20), 0, &lines.join("\n")));
    let shrunk = Shrunk::default();
    let text = shrunk.text(&held, 48);
    assert!(crate::tokens::count(&text) <= 48 && text.contains("Porto"), "{text}");
    assert!(Arc::ptr_eq(&text, &shrunk.text(&held, 48)));
    assert_eq!(&*shrunk.text(&held, 4_000), &*held.summary);
    let retold = HeldEpisode { summary: "user: Nothing.".into(), ..held };
    assert_eq!(&*shrunk.text(&retold, 48), "user: Nothing.", "what it said before may have been erased");
}

#[test]
fn the_oldest_go_when_there_is_no_room() {
    let mut shelf = shelf(talks(CountedIds::default().session()));
    let bytes = shelf.bytes();
    shelf.shrink_to(bytes);
    assert_eq!(shelf.all().count(), 3);
    shelf.shrink_to(bytes - 1);
    let mut left: Vec<u64> = shelf.all().map(|(_, held)| held.first).collect();
    left.sort_unstable();
    assert_eq!(left, [21, 41]);
    shelf.shrink_to(0);
    assert_eq!((shelf.bytes(), shelf.by_term.len(), shelf.by_session.len()), (0, 0, 0));
}

proptest! {
    /// However it came about, a shelf answers as one that was filled anew.
    #[test]
    fn what_happened_on_the_way_makes_no_difference(steps in proptest::collection::vec((0_u64..12, any::<bool>(), 0_usize..3), 0..60)) {
        let session = CountedIds::default().session();
        let words = ["user: bread and butter", "user: databases in Porto", "user: hiking with Ann"];
        let tell = |first: u64, said: usize| episode(session, Level::Stretch, (first + 1, first + 1), first as i64, words[said]);
        let (mut shelf, mut there) = (EpisodeShelf::default(), std::collections::BTreeMap::new());
        for (first, put, said) in steps {
            if put {
                shelf.put(held(tell(first, said)));
                there.insert(first, said);
            } else {
                shelf.remove(tell(first, said).id);
                there.remove(&first);
            }
        }
        let mut anew = EpisodeShelf::default();
        there.iter().for_each(|(first, said)| anew.put(held(tell(*first, *said))));
        prop_assert_eq!(shelf.bytes(), anew.bytes());
        for question in words {
            prop_assert_eq!(find(&shelf, &sought(question), 5), find(&anew, &sought(question), 5));
        }
        prop_assert_eq!(told_of_session(&shelf, session, |_| false), told_of_session(&anew, session, |_| false));
    }
}

/// Of many summaries only some are looked at; the best are the same as if all were.
#[test]
fn the_best_of_many_are_those_of_all() {
    const THINGS: [&str; 20] = [
        "garden",
        "violin",
        "passport",
        "kitchen",
        "marathon",
        "dentist",
        "laptop",
        "holiday",
        "mortgage",
        "puppy",
        "recipe",
        "festival",
        "bicycle",
        "interview",
        "vaccine",
        "chess",
        "hospital",
        "telescope",
        "wedding",
        "tax",
    ];
    let thing = |n: usize| THINGS[n % THINGS.len()];
    let said = |n: usize| format!("user: The {} and the {}, then the {}.", thing(n), thing(n / 20), thing(n / 7 + 3));
    let session = CountedIds::default().session();
    let turns = |n: usize| (n as u64 * 10 + 1, n as u64 * 10 + 10);
    let shelf = shelf((0..700).map(|n| episode(session, Level::Stretch, turns(n), n as i64, &said(n))));
    for n in (0..400).step_by(23) {
        let question = format!("What was it about the {} and the {}?", thing(n), thing(n / 20));
        for range in [None, TimeRange::between(Some(at(300)), Some(at(330)))] {
            let narrow = Within { from: Some(at(500).as_microsecond()), to: Some(at(510).as_microsecond()) };
            for within in [Within::default(), narrow] {
                let sought = || Sought { range, within, ..sought(&question) };
                let mut all = find(&shelf, &sought(), 700);
                all.truncate(3);
                assert_eq!(all.len(), 3);
                assert_eq!(find(&shelf, &sought(), 3), all, "{question}");
            }
        }
    }
}
