//! Connections that break at the worst of times.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::connect::meaning;
use super::super::session::execute;
use super::super::sql::Connection;
use super::{add, count, scratch};
use crate::id::{Ids, RandomIds};
use crate::scope::Scope;
use crate::store::whose::Whose;
use crate::store::{Store, StoreError};

/// Ends the connection from inside; whoever serves may not do that.
const END: &str = "RESET ROLE; SELECT pg_terminate_backend(pg_backend_pid())";

fn add_one(db: &Connection, scope: &Scope) -> Result<(), StoreError> {
    let touch = "UPDATE session SET consolidated = consolidated + 1 WHERE tenant = ?1";
    execute(db, touch, [scope.tenant().as_str()]).map(drop)
}

/// Writes once, with a connection that `breaks` in its first try; answers how often that was tried, and what is written.
async fn written(breaks: &'static str, tells: bool) -> Option<(u32, u64)> {
    let store = scratch().await?;
    let (scope, session, tries) = (Scope::as_stored("acme", "ann"), RandomIds.session(), Arc::new(AtomicU32::new(0)));
    add(&store, &scope, session, "before").await;
    let (of, counted) = (scope.clone(), Arc::clone(&tries));
    let write = move |db: &Connection| {
        add_one(db, &of)?;
        if counted.fetch_add(1, Ordering::Relaxed) == 0 {
            let broken = db.batch(breaks).map_err(|error| meaning(&error));
            if tells {
                broken?;
            }
        }
        Ok(())
    };
    store.pool.write(Whose::from(&scope), write).await.expect("written");
    add(&store, &scope, session, "after").await;
    assert_eq!(store.last_turns(&scope, session, 10).await.expect("the end").turns.len(), 2);
    let sum = "SELECT sum(consolidated)::bigint FROM session".to_owned();
    Some((tries.load(Ordering::Relaxed), count(&store, Whose::from(&scope), sum).await))
}

/// A connection that breaks in the middle of a write costs a second try, and nothing is written twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_connection_is_replaced() {
    assert!(matches!(written(END, true).await, None | Some((2, 1))));
}

/// It breaks just before COMMIT: the server says that nothing was kept, and it is written again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_lost_before_commit_is_written_again() {
    assert!(matches!(written(END, false).await, None | Some((2, 1))));
}

/// It breaks when COMMIT is done and its answer is on the way: the server says that it is kept, and nothing is written twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_kept_is_not_written_again() {
    const KEPT: &str = "COMMIT; RESET ROLE; SELECT pg_terminate_backend(pg_backend_pid())";
    assert!(matches!(written(KEPT, false).await, None | Some((1, 1))));
}

/// A statement that nobody waited for and that fails takes its transaction with it, and says why.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_was_not_waited_for_is_not_lost() {
    let Some(store) = scratch().await else { return };
    let (scope, session) = (Scope::as_stored("acme", "ann"), RandomIds.session());
    add(&store, &scope, session, "before").await;
    let of = scope.clone();
    let write = move |db: &Connection| {
        add_one(db, &of)?;
        super::super::session::send(db, "UPDATE session SET turns = -1", [])?;
        super::super::session::send(db, "UPDATE session SET turns = turns", [])
    };
    let error = store.pool.write(Whose::from(&scope), write).await.expect_err("no session has less than no turns");
    assert!(error.to_string().contains("session_turns_check"), "{error}");
    let sum = "SELECT sum(consolidated)::bigint FROM session".to_owned();
    assert_eq!(count(&store, Whose::from(&scope), sum).await, 0, "half of it was written");
}

/// Whoever has read leaves no transaction open, although nobody waits for its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_leaves_no_transaction_open() {
    let Some(store) = scratch().await else { return };
    let (scope, session) = (Scope::as_stored("acme", "ann"), RandomIds.session());
    add(&store, &scope, session, "hello").await;
    for _ in 0..4 {
        store.last_turns(&scope, session, 10).await.expect("the end");
    }
    let schema = store.pool.settings().schema.clone();
    let open = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND pid <> pg_backend_pid()
         AND query LIKE '%' AND pid IN (SELECT pid FROM pg_locks WHERE relation IN (
             SELECT oid FROM pg_class WHERE relnamespace = '{schema}'::regnamespace))"
    );
    assert_eq!(count(&store, Whose::Ours, open).await, 0);
}
