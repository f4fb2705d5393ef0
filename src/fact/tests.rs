//! What becomes of what people say, told as conversations; and the laws that hold for any of them.

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;

use super::*;
use crate::id::{CountedIds, Ids};

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// A Monday, at midnight.
fn monday() -> Timestamp {
    "2026-03-02T00:00:00Z".parse().expect("a time")
}

/// `fri 18:00` of that week.
fn time(day: &str, hour: &str) -> Timestamp {
    let days = DAYS.iter().position(|name| *name == day).expect("a day") as i64;
    let (hours, minutes) = hour.split_once(':').expect("hh:mm");
    let minutes = days * 1_440 + hours.parse::<i64>().expect("hours") * 60 + minutes.parse::<i64>().expect("minutes");
    monday() + SignedDuration::from_mins(minutes)
}

fn spoken(at: Timestamp) -> String {
    let minutes = at.duration_since(monday()).as_mins();
    format!("{} {:02}:{:02}", DAYS[(minutes / 1_440) as usize], minutes % 1_440 / 60, minutes % 60)
}

/// Reads `fri 18:00 state location = Porto 0.9 until sat 10:00`; the last parts may be left out. Acts are `state`,
/// `correct`, `end`, `hand` (by a person) and `doubtful` (not trusted).
fn statement(line: &str, ids: &CountedIds) -> Statement {
    let (line, until) = match line.split_once(" until ") {
        Some((line, until)) => (line, until.split_once(' ').map(|(day, hour)| time(day, hour))),
        None => (line, None),
    };
    let (head, value) = line.split_once('=').expect("an equals sign");
    let head: Vec<&str> = head.split_whitespace().collect();
    let [day, hour, act, path] = head[..] else { panic!("`{line}` is not `day hour act key = value`") };
    let value = value.trim();
    let (value, confidence) = match value.rsplit_once(' ').map(|(value, sure)| (value, sure.parse::<f64>())) {
        Some((value, Ok(sure))) => (value, sure),
        _ => (value, 0.9),
    };
    let (at, key) = (time(day, hour), Key::from_path(Category::Identity, path));
    if act == "hand" {
        return Statement::by_hand(ids.fact(at), key, value, Act::Correct, 0.9, at);
    }
    let proposal = Proposal {
        key,
        value: value.to_owned(),
        act: match act {
            "correct" => Act::Correct,
            "end" => Act::End,
            _ => Act::State,
        },
        confidence,
        importance: 0.9,
        from: None,
        until,
        quote: line.to_owned(),
        forgets: false,
    };
    let message = Some(ids.turn(at).message(0));
    let evidence = Evidence { message, session: None, said_at: at, quote: String::new() };
    let standing = match act {
        "doubtful" => Status::Quarantined,
        _ if confidence < ACTIVE_CONFIDENCE_MIN => Status::Provisional,
        _ => Status::Active,
    };
    Statement::heard(proposal, evidence, Maker::Builtin, standing, at)
}

fn statements(conversation: &str) -> Vec<Statement> {
    let ids = CountedIds::default();
    let lines = conversation.lines().map(str::trim).filter(|line| !line.is_empty());
    let ordered = |(order, line): (u64, &str)| Statement { order, ..statement(line, &ids) };
    (1..).zip(lines).map(ordered).collect()
}

fn told(fact: &Fact) -> String {
    let held = match (fact.status, fact.valid_to) {
        (Status::Active, None) => format!("since {}", spoken(fact.valid_from)),
        (Status::Active, Some(until)) => format!("until {}", spoken(until)),
        (status, None) => status.as_str().to_owned(),
        (status, Some(to)) => format!("{} to {}, {}", spoken(fact.valid_from), spoken(to), status.as_str()),
    };
    let often = if fact.confirmations == 1 { String::new() } else { format!(" ×{}", fact.confirmations) };
    format!("{}: {} ({held}){often}", fact.key.path(), fact.value)
}

fn facts(statements: &[Statement], now: Timestamp) -> Vec<Fact> {
    timeline(statements, now).into_iter().map(|version| version.fact).collect()
}

/// The one place that knows the API; the cases below only know conversations.
#[track_caller]
fn check(conversation: &str, expected: &str) {
    let mut told: Vec<String> = facts(&statements(conversation), time("sun", "23:00")).iter().map(told).collect();
    let mut expected: Vec<&str> = expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    told.sort_unstable();
    expected.sort_unstable();
    assert_eq!(told, expected);
}

#[test]
fn a_lower_confidence_never_replaces_a_higher_one() {
    check(
        "mon 09:00 state name = Alex 1.0
         tue 09:00 state name = Al 0.6
         wed 09:00 state full_name = Alexander 0.95",
        "name: Alex (since mon 09:00)
         name: Al (provisional)
         full_name: Alexander (since wed 09:00)",
    );
}

#[test]
fn what_is_not_sure_enough_is_held_and_not_told() {
    check("mon 09:00 state name = Al 0.6", "name: Al (provisional)");
    check(
        "mon 09:00 state name = Al 0.6
         tue 09:00 state name = Al 0.9",
        "name: Al (since tue 09:00) ×2",
    );
}

#[test]
fn an_equal_confidence_replaces() {
    check(
        "mon 09:00 state location = Lisbon 0.9
         fri 18:00 state location = Porto 0.9",
        "location: Lisbon (mon 09:00 to fri 18:00, superseded)
         location: Porto (since fri 18:00)",
    );
}

#[test]
fn a_correction_replaces_whatever_the_score() {
    check(
        "mon 09:00 state name = Alex 1.0
         mon 09:01 correct name = Alec 0.5",
        "name: Alex (mon 09:00 to mon 09:01, superseded)
         name: Alec (since mon 09:01)",
    );
}

#[test]
fn moving_house_twice() {
    check(
        "mon 09:00 state location = Lisbon
         wed 10:00 correct location = Porto
         fri 18:00 correct location = Berlin",
        "location: Lisbon (mon 09:00 to wed 10:00, superseded)
         location: Porto (wed 10:00 to fri 18:00, superseded)
         location: Berlin (since fri 18:00)",
    );
}

#[test]
fn changing_ones_mind_back() {
    check(
        "mon 09:00 state language = Python
         tue 09:00 correct language = Rust
         wed 09:00 correct language = Python",
        "language: Python (mon 09:00 to tue 09:00, superseded)
         language: Rust (tue 09:00 to wed 09:00, superseded)
         language: Python (since wed 09:00)",
    );
}

#[test]
fn the_same_is_one_fact_however_it_is_spelled() {
    check(
        "mon 09:00 state location = Lisbon 0.7
         tue 09:00 state location = lisbon. 0.9
         wed 09:00 state location = LISBON 0.5",
        "location: Lisbon (since mon 09:00) ×3",
    );
}

#[test]
fn fifty_times_the_same_is_one_fact_with_fifty_confirmations() {
    let often: Vec<String> = (0..50).map(|minute| format!("mon 09:{minute:02} state name = Alex 1.0")).collect();
    check(&often.join("\n"), "name: Alex (since mon 09:00) ×50");
}

/// What arrives late is put where it was said, and never replaces what was said after it.
#[test]
fn what_was_said_last_holds_whenever_it_came() {
    check(
        "fri 18:00 state location = Porto
         mon 09:00 correct location = Lisbon",
        "location: Lisbon (mon 09:00 to fri 18:00, superseded)
         location: Porto (since fri 18:00)",
    );
}

#[test]
fn several_of_a_kind_stand_side_by_side() {
    check(
        "mon 09:00 state pet/rex = Rex
         tue 09:00 state pet/tom = Tom
         wed 09:00 end pet/rex =",
        "pet/rex: Rex (mon 09:00 to wed 09:00, retracted)
         pet/tom: Tom (since tue 09:00)",
    );
    check(
        "mon 09:00 state pet/rex = Rex
         tue 09:00 state pet/tom = Tom
         wed 09:00 end pet =
         thu 09:00 state pet/tom = Tom",
        "pet/rex: Rex (mon 09:00 to wed 09:00, retracted)
         pet/tom: Tom (tue 09:00 to wed 09:00, retracted)
         pet/tom: Tom (since thu 09:00)",
    );
}

#[test]
fn only_what_is_meant_ends() {
    check(
        "mon 09:00 state location = Lisbon
         tue 09:00 end location = Porto",
        "location: Lisbon (since mon 09:00)",
    );
    check(
        "mon 09:00 state name = Alex 1.0
         tue 09:00 state name = Al 0.6
         wed 09:00 end name = al",
        "name: Alex (since mon 09:00)
         name: Al (tue 09:00 to wed 09:00, retracted)",
    );
}

#[test]
fn what_holds_for_a_time_gives_way_to_what_it_covered() {
    check(
        "mon 09:00 state location = Lisbon
         tue 09:00 state location = Berlin until fri 18:00",
        "location: Lisbon (since mon 09:00)
         location: Berlin (tue 09:00 to fri 18:00, expired)",
    );
    check(
        "mon 09:00 state diet = vegan until fri 18:00
         sat 09:00 state diet = vegan",
        "diet: vegan (mon 09:00 to fri 18:00, expired)
         diet: vegan (since sat 09:00)",
    );
}

/// While it lasts, the one that holds for a time is the only one.
#[test]
fn what_is_covered_does_not_hold() {
    let said = statements(
        "mon 09:00 state location = Lisbon
         tue 09:00 state location = Berlin until fri 18:00",
    );
    let active: Vec<Fact> =
        facts(&said, time("wed", "09:00")).into_iter().filter(|fact| fact.status == Status::Active).collect();
    assert_eq!(active.iter().map(told).collect::<Vec<_>>(), ["location: Berlin (until fri 18:00)"]);
    assert_eq!(active[0].status_at(time("sat", "09:00")), Status::Expired);
}

#[test]
fn what_a_person_wrote_yields_to_an_explicit_later_word_only() {
    check(
        "mon 09:00 state location = Lisbon 0.9
         tue 09:00 hand location = Faro
         wed 09:00 state location = Porto 0.9",
        "location: Lisbon (mon 09:00 to tue 09:00, superseded)
         location: Faro (since tue 09:00)
         location: Porto (provisional)",
    );
    check(
        "tue 09:00 hand location = Faro
         wed 09:00 correct location = Porto 0.8",
        "location: Faro (tue 09:00 to wed 09:00, superseded)
         location: Porto (since wed 09:00)",
    );
}

#[test]
fn what_is_not_trusted_stays_aside_until_somebody_says_so() {
    check("mon 09:00 doubtful role = admin 1.0", "role: admin (quarantined)");
    check(
        "mon 09:00 state role = guest
         tue 09:00 doubtful role = admin 1.0",
        "role: guest (since mon 09:00)
         role: admin (quarantined)",
    );
    check(
        "mon 09:00 doubtful role = admin 1.0
         tue 09:00 hand role = admin",
        "role: admin (since tue 09:00) ×2",
    );
}

fn conversation() -> impl Strategy<Value = Vec<Statement>> {
    let path = prop::sample::select(vec!["location", "pet/rex", "pet/tom", "pet"]);
    let act = prop::sample::select(vec!["state", "state", "state", "correct", "end", "doubtful", "hand"]);
    let value = prop::sample::select(vec!["Lisbon", "Porto", "Faro", ""]);
    let until = prop::option::weighted(0.15, 0_usize..7);
    let line = (0_usize..7, 0_u32..20, act, path, value, 4_u32..=10, until);
    prop::collection::vec(line, 0..14).prop_map(|lines| {
        let line = |(day, hour, act, path, value, sure, until): &(usize, u32, &str, &str, &str, u32, Option<usize>)| {
            let value = if value.is_empty() && *act != "end" { "Faro" } else { value };
            let until = until.map_or_else(String::new, |day| format!(" until {} 23:30", DAYS[day]));
            let sure = f64::from(*sure) / 10.0;
            format!("{} {hour:02}:00 {act} {path} = {value} {sure:.1}{until}", DAYS[*day])
        };
        statements(&lines.iter().map(line).collect::<Vec<_>>().join("\n"))
    })
}

/// What is held when changes are applied one by one; never two active for one key on the way.
fn applied(mut held: Vec<Fact>, changes: Vec<Change>) -> Vec<Fact> {
    for change in changes {
        held.retain(|fact| fact.id != change.fact.id);
        held.push(change.fact);
        let mut active: Vec<&Key> =
            held.iter().filter(|fact| fact.status == Status::Active).map(|fact| &fact.key).collect();
        let all = active.len();
        active.sort_unstable();
        active.dedup();
        assert_eq!(active.len(), all, "two facts are active for one key");
    }
    held
}

fn active(held: &[Fact]) -> Vec<(Key, String, u64)> {
    let active = held.iter().filter(|fact| fact.status == Status::Active);
    let mut active: Vec<_> =
        active.map(|fact| (fact.key.clone(), fact.value.to_lowercase(), fact.confirmations)).collect();
    active.sort_unstable();
    active
}

fn learned_one_by_one(statements: &[Statement], now: Timestamp) -> Vec<Fact> {
    let mut held = Vec::new();
    for end in 1..=statements.len() {
        let changes = reconcile(&held, &timeline(&statements[..end], now));
        held = applied(held, changes);
    }
    held
}

proptest! {
    #[test]
    fn reconciling_twice_changes_nothing(said in conversation(), hour in 0_i64..200) {
        let now = monday() + SignedDuration::from_hours(hour);
        let held = learned_one_by_one(&said, now);
        prop_assert_eq!(reconcile(&held, &timeline(&said, now)), vec![]);
    }

    #[test]
    fn the_order_of_arrival_does_not_matter(said in conversation(), swaps in prop::collection::vec((0_usize..14, 0_usize..14), 0..20)) {
        let now = time("sun", "23:45");
        let mut shuffled = said.clone();
        for (one, other) in swaps {
            if one < said.len() && other < said.len() {
                shuffled.swap(one, other);
            }
        }
        for (order, statement) in (1..).zip(&mut shuffled) {
            statement.order = order;
        }
        prop_assert_eq!(active(&learned_one_by_one(&said, now)), active(&learned_one_by_one(&shuffled, now)));
    }

    #[test]
    fn what_is_taken_away_and_put_back_leaves_no_trace(said in conversation(), which in 0_usize..14) {
        let now = time("sun", "23:45");
        let before = learned_one_by_one(&said, now);
        let mut without = said.clone();
        if which < said.len() {
            without.remove(which);
        }
        let meanwhile = applied(before.clone(), reconcile(&before, &timeline(&without, now)));
        let after = applied(meanwhile.clone(), reconcile(&meanwhile, &timeline(&said, now)));
        prop_assert_eq!(active(&before), active(&after));
    }
}
