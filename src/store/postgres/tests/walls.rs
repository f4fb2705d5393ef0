//! Two walls between tenants: what the statements say, and what the database lets through. Each holds without the other.

use std::sync::Arc;

use jiff::Timestamp;

use super::super::blind::Blind;
use super::super::{Postgres, PostgresSettings};
use super::address;
use crate::clock::ManualClock;
use crate::store::Store;
use crate::store::conformance::neighbours::Neighbour;

async fn store(blind: Option<Arc<Blind>>, unguarded: bool) -> Option<Arc<dyn Store>> {
    let url = address()?;
    let clock = Arc::new(ManualClock::at(Timestamp::from_second(1_700_000_000).expect("a time")));
    let settings = PostgresSettings { blind, unguarded, ..PostgresSettings::new(&url) };
    Some(Arc::new(Postgres::passing(settings, clock).await.expect("a store in a new schema")))
}

/// What a tenant is told from its first word to its last while another one is there, and whether the other one saw nothing of it.
async fn beside_another(store: &Arc<dyn Store>, round: usize) -> Vec<String> {
    let (mut one, mut other) =
        (Neighbour::new(store, &format!("one-{round}")), Neighbour::new(store, &format!("other-{round}")));
    other.settle_in().await;
    other.look_around().await;
    other.told();
    other.look_around().await;
    let before = other.told();
    one.settle_in().await;
    one.look_around().await;
    one.leave().await;
    other.look_around().await;
    assert_same(&before, &other.told(), "what the other tenant has");
    one.told()
}

#[track_caller]
fn assert_same(expected: &[String], told: &[String], what: &str) {
    for (expected, told) in expected.iter().zip(told) {
        assert_eq!(expected, told, "{what}");
    }
    assert_eq!(expected.len(), told.len(), "{what}");
}

const PARTS: usize = 4;

/// Robs one statement after the other of its tenant. There are many, so they are shared out among several tests.
async fn the_database_holds(part: usize) {
    let blind = Arc::new(Blind::default());
    let Some(store) = store(Some(Arc::clone(&blind)), false).await else { return };
    let expected = beside_another(&store, 0).await;
    assert!(expected.iter().any(|told| told.contains("Lisbon")), "nothing was said");
    let statements = blind.seen();
    assert!(statements > 40, "only {statements} statements name a tenant");
    for which in (part..statements).step_by(PARTS) {
        let robbed = blind.rob(Some(which));
        let told = beside_another(&store, which + 1).await;
        assert_same(&expected, &told, &format!("without its tenant: {robbed}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_database_holds_where_a_statement_forgets_the_tenant() {
    the_database_holds(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_database_holds_where_a_second_one_does() {
    the_database_holds(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_database_holds_where_a_third_one_does() {
    the_database_holds(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_database_holds_where_a_fourth_one_does() {
    the_database_holds(3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_statements_hold_where_the_database_lets_everything_through() {
    let Some(guarded) = store(None, false).await else { return };
    let expected = beside_another(&guarded, 0).await;
    let Some(unguarded) = store(None, true).await else { return };
    for round in 0..3 {
        assert_same(&expected, &beside_another(&unguarded, round).await, "without row-level security");
    }
}
