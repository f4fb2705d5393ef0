//! The writing thread: one write's trouble is its own.

use futures_util::future::join_all;

use super::*;
use crate::session::OpenTurn;
use crate::store::sqlite::calls::ABANDONED_BATCH;

#[tokio::test]
async fn a_bug_in_one_write_leaves_the_others_alone() {
    let (file, session) = (DataFile::new(), RandomIds.session());
    let store = file.open();
    let bug = store.writer.write(|db| {
        db.execute("DELETE FROM session", []).expect("a write before the bug");
        panic!("a bug, on purpose");
        #[allow(unreachable_code)]
        Ok(())
    });
    let (bug, ()) = tokio::join!(bug, add(&store, session, vec![draft("how?", "so")]));
    assert!(matches!(bug, Err(StoreError::Refused(_))), "{bug:?}");
    add(&store, session, vec![draft("and?", "so")]).await;
    assert_eq!(store.stats(&ann()).await.expect("stats").turns, 2);
}

#[tokio::test]
async fn a_refused_write_does_not_spoil_those_beside_it() {
    let (file, session) = (DataFile::new(), RandomIds.session());
    let store = file.open();
    let twice = draft("how?", "so");
    let adds = (0..20).map(|n| {
        let mut batch = vec![draft("good", "so")];
        // The same id twice in one session is refused by an index, after the first row went in.
        batch.extend((n % 2 == 0).then(|| [twice.clone(), twice.clone()]).into_iter().flatten());
        store.add_turns(&ann(), session, Some(SessionSeed::default()), batch)
    });
    let refused = join_all(adds).await.into_iter().filter(|added| matches!(added, Err(StoreError::Refused(_)))).count();
    assert_eq!(refused, 10);
    assert_eq!(store.stats(&ann()).await.expect("stats").turns, 10);
}

#[tokio::test]
async fn more_abandoned_turns_than_a_batch_are_all_marked() {
    let (file, session) = (DataFile::new(), RandomIds.session());
    let store = file.open();
    let open = |n: usize| {
        let question = Message::new(Role::User, n.to_string(), Timestamp::UNIX_EPOCH);
        let id = RandomIds.turn(Timestamp::UNIX_EPOCH);
        store.open_turn(
            &ann(),
            OpenTurn {
                id,
                session,
                seed: SessionSeed::default(),
                question,
                metadata: Map::new(),
                asked_at: None,
                place: Default::default(),
            },
        )
    };
    let opened = join_all((0..=ABANDONED_BATCH).map(open)).await;
    assert!(opened.iter().all(Result::is_ok));
    assert_eq!(store.fail_abandoned().await.expect("they are marked"), ABANDONED_BATCH as u64 + 1);
}

#[tokio::test]
async fn having_looked_is_written_by_and_by() {
    let (file, session) = (DataFile::new(), RandomIds.session());
    let store = file.open();
    add(&store, session, vec![draft("how?", "so")]).await;
    let before = store.session(&ann(), session).await.expect("an answer").expect("the session").last_accessed;
    store.last_turns(&ann(), session, 1).await.expect("a look");
    drop(store);
    let store = file.open();
    let after = store.session(&ann(), session).await.expect("an answer").expect("the session").last_accessed;
    assert!(after > before);
}
