//! Many at once, and some who leave in the middle.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::Talk;
use super::talk::{assistant, draft};
use crate::session::{Turn, TurnStatus};
use crate::store::Store;

/// How many do something at the same time.
const TASKS: usize = 64;

/// Everybody writes into one conversation: gapless numbers, nothing lost, nothing twice.
pub async fn many_tasks_on_one_session_lose_nothing(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    at_once(|n| {
        let talk = talk.clone();
        async move {
            talk.add(vec![draft(&format!("{n} a"), "yes"), draft(&format!("{n} b"), "yes")]).await;
            talk.exchange(&format!("{n} c"), "yes").await;
        }
    })
    .await;
    let turns = talk.turns().await;
    assert_gapless(&turns, 3 * TASKS);
    let said: BTreeSet<&str> = turns.iter().map(|turn| turn.question().text.as_str()).collect();
    assert_eq!(said.len(), 3 * TASKS, "nothing is there twice");
    assert_eq!(talk.find().await.map(|session| session.turns), Some(3 * TASKS as u64));
}

/// Everybody writes into a conversation of their own: nobody sees another's words.
pub async fn many_tasks_on_many_sessions_lose_nothing(store: Arc<dyn Store>) {
    let start = Talk::new(&store);
    at_once(|n| {
        let talk = start.another();
        async move {
            for turn in 1..=3 {
                talk.exchange(&format!("{n}.{turn}"), "yes").await;
            }
            assert_eq!(talk.last(9).await, [format!("{n}.1"), format!("{n}.2"), format!("{n}.3")]);
            assert_eq!(talk.numbers().await, [1, 2, 3]);
        }
    })
    .await;
    let stats = store.stats(&start.scope).await.expect("stats");
    assert_eq!((stats.sessions, stats.turns), (TASKS as u64, 3 * TASKS as u64));
}

/// Chats that overlap in one session: each answer stands with its question.
pub async fn chats_at_once_keep_their_answers_apart(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let mut asked = Vec::new();
    for n in 0..TASKS {
        asked.push(talk.ask(&n.to_string()).await);
    }
    at_once(|n| {
        let (talk, id) = (talk.clone(), asked[n]);
        async move { talk.end(id, TurnStatus::Complete, &format!("answer {n}")).await }
    })
    .await;
    for turn in talk.turns().await {
        let answer = turn.answer().map(|message| message.text.clone());
        assert_eq!(answer, Some(format!("answer {}", turn.question().text)));
    }
}

/// The same turn, opened and closed by many at the same time, is there once.
pub async fn a_turn_opened_by_many_is_one_turn(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let question = talk.question("once");
    at_once(|n| {
        let (talk, question) = (talk.clone(), question.clone());
        async move {
            let id = question.id;
            assert_eq!(talk.open(question).await.number, Some(1));
            talk.end(id, TurnStatus::Complete, &format!("answer {n}")).await;
        }
    })
    .await;
    let turns = talk.turns().await;
    assert_eq!((turns.len(), turns[0].messages.len()), (1, 2));
}

/// No two turns have the same time, and the higher number has the later one.
pub async fn times_are_distinct_and_follow_the_numbers(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    at_once(|n| {
        let talk = talk.clone();
        async move {
            talk.ask(&n.to_string()).await;
            talk.add(vec![draft("added", "yes")]).await;
        }
    })
    .await;
    let turns = talk.turns().await;
    let times: Vec<Timestamp> = turns.iter().map(|turn| turn.created_at).collect();
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
    assert_gapless(&turns, 2 * TASKS);
}

/// A batch whose caller went away is there as a whole or not at all.
pub async fn a_dropped_batch_is_whole_or_absent(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    for n in 0..TASKS {
        let batch = ["a", "b", "c"].map(|part| draft(&format!("{n} {part}"), "yes")).to_vec();
        dropped_after(n, talk.try_add(batch)).await;
    }
    talk.add(vec![draft("end", "yes")]).await;
    let mut turns = talk.turns().await;
    assert_gapless(&turns, turns.len());
    turns.retain(|turn| turn.question().text != "end");
    for batch in turns.chunks(3) {
        let said: Vec<&str> = batch.iter().map(|turn| turn.question().text.as_str()).collect();
        let n = said[0].trim_end_matches(" a");
        assert_eq!(said, [format!("{n} a"), format!("{n} b"), format!("{n} c")]);
    }
}

/// A chat whose caller went away leaves a whole question or none, a whole ending or none; and when it is
/// done again, it is there once.
pub async fn a_dropped_chat_leaves_whole_turns(store: Arc<dyn Store>) {
    let talk = Talk::new(&store);
    let questions: Vec<_> = (0..TASKS).map(|n| talk.question(&n.to_string())).collect();
    for (n, question) in questions.iter().enumerate() {
        dropped_after(n, talk.try_open(question.clone())).await;
        let ending = talk.ending(question.id, TurnStatus::Complete, vec![assistant("so")]);
        dropped_after(n, talk.try_close(ending)).await;
    }
    for turn in talk.turns().await {
        assert_eq!(turn.messages.len(), if turn.status == TurnStatus::Pending { 1 } else { 2 });
    }
    for question in &questions {
        talk.open(question.clone()).await;
        talk.end(question.id, TurnStatus::Complete, "so").await;
    }
    assert_gapless(&talk.turns().await, TASKS);
}

/// Runs a task per number, all together.
async fn at_once<F: Future<Output = ()> + Send + 'static>(task: impl Fn(usize) -> F) {
    let tasks: Vec<_> = (0..TASKS).map(|n| tokio::spawn(task(n))).collect();
    for task in tasks {
        task.await.expect("the task keeps its promises");
    }
}

/// Polls a future for a little while and drops it, done or not.
async fn dropped_after<T>(moments: usize, future: impl Future<Output = T>) {
    let patience = async {
        for _ in 0..moments * 4 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        _ = future => {}
        () = patience => {}
    }
}

fn assert_gapless(turns: &[Turn], count: usize) {
    let numbers: Vec<u64> = turns.iter().map(|turn| turn.number).collect();
    assert_eq!(numbers, (1..=count as u64).collect::<Vec<_>>());
}
