//! What time removes, and what it leaves.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::Talk;
use super::talk::{at, expire};
use crate::period::{Period, Ttl};
use crate::session::{OpenTurn, SessionSeed, TurnStatus};
use crate::store::{Expired, Expiry, Store};

const fn seconds(n: u64) -> Ttl {
    Ttl::of(Period::seconds(n))
}

/// A turn goes when it is as old as the server's TTL, and not before.
pub async fn turns_go_by_the_servers_ttl(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    for second in [100, 101, 300] {
        talk.add_at(second).await;
    }
    assert_eq!(expire(&store, at(199), seconds(100), 10).await.turns, 0);
    assert_eq!(expire(&store, at(200), seconds(100), 10).await.turns, 1);
    assert_eq!(talk.last(10).await, ["at 101", "at 300"]);
    assert_eq!(talk.find().await.map(|session| session.turns), Some(2));
}

/// A session's own TTL counts instead of the server's, longer or shorter.
pub async fn a_sessions_own_ttl_rules(store: Arc<dyn Store>) {
    let (short, long, plain) = (Talk::new(&store), Talk::new(&store), Talk::new(&store));
    short.create(SessionSeed { ttl: Some(seconds(10)), ..SessionSeed::default() }).await;
    long.create(SessionSeed { ttl: Some(seconds(1_000)), ..SessionSeed::default() }).await;
    for talk in [&short, &long, &plain] {
        talk.add_at(0).await;
        talk.add_at(50).await;
    }
    expire(&store, at(20), seconds(100), 10).await;
    assert_eq!((short.numbers().await, long.numbers().await, plain.numbers().await), (vec![2], vec![1, 2], vec![1, 2]));
    expire(&store, at(120), seconds(100), 10).await;
    assert_eq!((short.numbers().await, long.numbers().await, plain.numbers().await), (vec![], vec![1, 2], vec![2]));
    expire(&store, at(1_000), Ttl::NEVER, 10).await;
    assert_eq!((long.numbers().await, plain.numbers().await), (vec![2], vec![2]));
}

/// `never` holds under any TTL of the server, with turns and without.
pub async fn a_session_that_never_expires_stays(store: Arc<dyn Store>) {
    let (talk, empty) = (Talk::new(&store), Talk::new(&store));
    for talk in [&talk, &empty] {
        talk.create(SessionSeed { ttl: Some(Ttl::NEVER), ..SessionSeed::default() }).await;
    }
    talk.add_at(0).await;
    talk.exchange("today", "yes").await;
    assert_eq!(expire(&store, Timestamp::MAX, seconds(1), 10).await, Expired::default());
    assert_eq!(talk.numbers().await, [1, 2]);
    assert!(empty.find().await.is_some());
}

/// Without any TTL everything is kept.
pub async fn nothing_goes_where_nothing_expires(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    talk.add_at(0).await;
    talk.another().create(SessionSeed::default()).await;
    assert_eq!(expire(&store, Timestamp::MAX, Ttl::NEVER, 10).await, Expired::default());
    assert_eq!(store.stats(&talk.scope).await.expect("stats").sessions, 2);
}

/// A turn that is being answered is not taken away; once it has ended, it goes.
pub async fn a_pending_turn_stays(store: Arc<dyn Store>) {
    for own in [None, Some(seconds(1))] {
        let talk = Talk::new(&store);
        let seed = SessionSeed { ttl: own, ..SessionSeed::default() };
        let question = OpenTurn { seed, ..talk.question("how?") };
        let opened = talk.open(question.clone()).await;
        let later = opened.created_at + SignedDuration::from_hours(1);
        assert_eq!(expire(&store, later, seconds(1), 10).await, Expired::default());
        talk.end(question.id, TurnStatus::Complete, "so").await;
        let expired = expire(&store, later, seconds(1), 10).await;
        assert_eq!((expired.turns, expired.sessions), (1, 1));
    }
}

/// Batches are bounded, take the oldest first, and end.
pub async fn batches_say_whether_there_is_more(store: Arc<dyn Store>) {
    let (talk, own) = (Talk::new(&store), Talk::new(&store));
    own.create(SessionSeed { ttl: Some(seconds(100)), ..SessionSeed::default() }).await;
    for second in 0..5 {
        talk.add_at(second).await;
        own.add_at(second).await;
    }
    let expiry = Expiry { now: at(103), server_ttl: seconds(100), turns_max: 3 };
    let first = store.expire(expiry).await.expect("expiry runs");
    assert_eq!((first.turns, first.more), (3, true));
    let rest = expire(&store, at(103), seconds(100), 3).await;
    assert_eq!((rest.turns, rest.sessions), (5, 0));
    assert_eq!((talk.last(10).await, own.last(10).await), (vec!["at 4".to_owned()], vec!["at 4".to_owned()]));
    assert_eq!(expire(&store, at(103), seconds(100), 3).await, Expired::default());
}

/// The session goes with its last turn, and only then.
pub async fn an_emptied_session_goes_with_its_last_turn(store: Arc<dyn Store>) {
    let (talk, other) = (Talk::new(&store), Talk::new(&store));
    for second in [0, 1, 50] {
        talk.add_at(second).await;
    }
    other.add_at(50).await;
    let expired = expire(&store, at(101), seconds(100), 10).await;
    assert_eq!((expired.turns, expired.sessions), (2, 0));
    let expired = expire(&store, at(150), seconds(100), 10).await;
    assert_eq!((expired.turns, expired.sessions), (2, 2));
    assert_eq!((talk.find().await, other.find().await), (None, None));
}

/// A session nobody said anything in goes when it was not used for its TTL.
pub async fn an_unused_session_goes_after_its_ttl(store: Arc<dyn Store>) {
    let (own, plain) = (Talk::new(&store), Talk::new(&store));
    let made = own.create(SessionSeed { ttl: Some(seconds(10)), ..SessionSeed::default() }).await;
    plain.create(SessionSeed::default()).await;
    let end = made.last_accessed + SignedDuration::from_secs(10);
    let before = end - SignedDuration::from_micros(1);
    assert_eq!(expire(&store, before, seconds(1_000), 10).await, Expired::default());
    assert_eq!(expire(&store, end, seconds(1_000), 10).await.sessions, 1);
    assert_eq!((own.find().await, plain.find().await.is_some()), (None, true));
    let much_later = end + SignedDuration::from_secs(2_000);
    assert_eq!(expire(&store, much_later, seconds(1_000), 10).await.sessions, 1);
}

/// What was turn 2 is never another turn 2.
pub async fn numbers_are_not_used_again_after_expiry(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    for second in [0, 1, 500] {
        talk.add_at(second).await;
    }
    expire(&store, at(200), seconds(100), 10).await;
    talk.exchange("next", "yes").await;
    talk.add_at(501).await;
    assert_eq!(talk.numbers().await, [3, 4, 5]);
}

/// A new TTL counts for what is there as for what comes.
pub async fn a_new_ttl_dates_the_turns_again(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    for second in [0, 100, 200] {
        talk.add_at(second).await;
    }
    talk.set_ttl(seconds(50)).await;
    assert_eq!(expire(&store, at(60), Ttl::NEVER, 10).await.turns, 1);
    talk.set_ttl(Ttl::NEVER).await;
    assert_eq!(expire(&store, at(10_000), seconds(1), 10).await.turns, 0);
    talk.set_ttl(seconds(150)).await;
    talk.add_at(130).await;
    assert_eq!(expire(&store, at(280), Ttl::NEVER, 10).await.turns, 2);
    assert_eq!(talk.last(10).await, ["at 200"]);
}

/// A TTL longer than the calendar does not turn into the past.
pub async fn a_ttl_beyond_the_end_of_time_is_never(store: Arc<dyn Store>) {
    let endless = Ttl::of(Period::from_micros(i64::MAX));
    let (made_so, changed) = (Talk::new(&store), Talk::new(&store));
    made_so.create(SessionSeed { ttl: Some(endless), ..SessionSeed::default() }).await;
    made_so.add_at(0).await;
    changed.add_at(0).await;
    changed.set_ttl(endless).await;
    assert_eq!(expire(&store, Timestamp::MAX, endless, 10).await, Expired::default());
    assert_eq!((made_so.numbers().await, changed.numbers().await), (vec![1], vec![1]));
}

/// A clean-up finds the users who have more topics than the limit, of all tenants, and no others.
pub async fn users_with_many_topics_are_found(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let (ann, bob, eve) = (talk.of("acme", "ann"), talk.of("acme", "bob"), talk.of("other", "eve"));
    for (talk, topics) in [(&ann, 3), (&bob, 2), (&eve, 4)] {
        for n in 0..topics {
            talk.begin(&format!("Question {n}?")).await;
        }
    }
    let found = async |topics_max| {
        let scopes = store.topics().crowded_scopes(topics_max, 100).await.expect("scopes are read");
        let mut users: Vec<String> = scopes.iter().map(|scope| scope.user().to_string()).collect();
        users.sort();
        users
    };
    assert_eq!(found(2).await, ["ann", "eve"]);
    assert_eq!(found(3).await, ["eve"]);
    assert_eq!(found(4).await, [""; 0]);
}
