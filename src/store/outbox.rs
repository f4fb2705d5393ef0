//! What a store keeps of webhooks that are yet to be delivered: a queue, claimed by lease, and those that were given up.
//!
//! This is the one place where something of an ephemeral session is written down, and only when a webhook is set. A row goes
//! when it is delivered, and its bytes with it.

use std::sync::Arc;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;

use super::{Finished, Page, PageRequest, StoreFuture};
use crate::scope::{Tenant, User};

/// Webhooks of a tenant that may wait; what comes beyond that is given up at once. Fewer in this crate's own tests, where each of
/// them is a transaction of its own.
pub const OUTBOX_WAITING_MAX: usize = if cfg!(test) { 1_000 } else { 10_000 };
/// Webhooks of a tenant that are kept after they were given up: the newest.
pub const OUTBOX_DEAD_MAX: usize = 100;

/// The part of a store that keeps webhooks.
pub trait Outbox: Send + Sync {
    /// Keeps a webhook until it is delivered. One of the same id that is there already is enough.
    fn put(&self, parcel: Parcel) -> StoreFuture<'_, ()>;

    /// Takes the next webhook that is due, or whose lease has lapsed, of any tenant but those that are busy. One whose
    /// leases lapsed too often is dead and is not taken.
    fn claim(&self, now: Timestamp, lease: SignedDuration, busy: Vec<Tenant>) -> StoreFuture<'_, Option<ParcelClaim>>;

    /// Removes what was delivered, and its bytes from the disk.
    fn delivered(&self, claim: &ParcelClaim) -> StoreFuture<'_, Finished>;

    /// Notes why a try failed, and when the next one is; without one it is dead, and of too many dead ones of a tenant the
    /// oldest go.
    fn undelivered(&self, claim: &ParcelClaim, error: &str, next_try: Option<Timestamp>) -> StoreFuture<'_, Finished>;

    /// Puts a webhook back that was not tried to the end, as if it had not been claimed.
    fn return_parcel(&self, claim: &ParcelClaim) -> StoreFuture<'_, Finished>;

    /// Frees what a former process claimed; to be called before anybody claims. Answers how many.
    fn release_parcels(&self) -> StoreFuture<'_, u64>;

    /// A tenant's webhooks, oldest first, without what they tell.
    fn parcels(&self, tenant: &Tenant, page: PageRequest) -> StoreFuture<'_, Page<PostedParcel>>;

    /// One of them, with what it tells.
    fn parcel(&self, tenant: &Tenant, id: &str) -> StoreFuture<'_, Option<(PostedParcel, Bytes)>>;

    /// Counts the webhooks of a tenant, or of everybody.
    fn parcel_counts(&self, tenant: Option<&Tenant>) -> StoreFuture<'_, ParcelCounts>;

    /// Brings dead ones of a tenant back, all or one, and lets those that wait for their next try go now. Answers how many.
    fn retry_parcels(&self, tenant: &Tenant, id: Option<&str>) -> StoreFuture<'_, u64>;

    /// Removes one that nobody needs delivered any more. Answers whether there was one.
    fn drop_parcel(&self, tenant: &Tenant, id: &str) -> StoreFuture<'_, bool>;

    /// Removes those that were given up and are older than this. Answers how many.
    fn forget_dead_parcels(&self, before: Timestamp) -> StoreFuture<'_, u64>;

    /// Told whenever there is something to deliver. A hint: who misses it finds it by looking.
    fn parcel_news(&self) -> Arc<Notify>;
}

/// A webhook that is to be delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parcel {
    /// Its `webhook-id`.
    pub id: String,
    /// Whose webhook it is for.
    pub tenant: Tenant,
    /// Whose session it tells of, if it was anybody's.
    pub user: Option<User>,
    /// That session's name.
    pub session: String,
    /// Why it ended, in a word.
    pub reason: String,
    /// What is told.
    pub body: Bytes,
    /// When.
    pub created_at: Timestamp,
}

/// A webhook in somebody's hands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParcelClaim {
    /// The webhook.
    pub parcel: Parcel,
    /// Tries so far, the present one included.
    pub attempts: u32,
    pub(super) key: i64,
    pub(super) fence: i64,
}

/// How far a webhook has come, without what it tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostedParcel {
    /// Its `webhook-id`.
    pub id: String,
    /// Whose session it tells of, if it was anybody's.
    pub user: Option<String>,
    /// That session's name.
    pub session: String,
    /// Why that ended, in a word.
    pub reason: String,
    /// `queued`, `running` or `dead`.
    pub state: String,
    /// Tries so far.
    pub attempts: u32,
    /// When it is tried next; `None` is at once, or never.
    pub run_at: Option<Timestamp>,
    /// Why the last try failed.
    pub last_error: Option<String>,
    /// When the session ended.
    pub created_at: Timestamp,
    /// How much it tells.
    pub bytes: u64,
}

/// How many webhooks there are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ParcelCounts {
    /// They wait for their time, or are under way.
    pub queued: u64,
    /// Of those, tried before without success.
    pub failing: u64,
    /// They were given up.
    pub dead: u64,
    /// Why the last of those that failed did.
    pub last_error: Option<String>,
}
