//! Webhooks: claimed, sent, and gone; tried again later, or given up for a person to see.

use std::sync::Arc;

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;
use tracing::{info, warn};

use crate::memory::Memory;
use crate::scope::Tenant;
use crate::store::{Finished, Page, PageRequest, ParcelClaim, ParcelCounts, PostedParcel, StoreError};
use crate::webhook::{Letter, NotDelivered, next_try};

/// How long a webhook may be in one hand; longer than any delivery takes.
const LEASE: SignedDuration = SignedDuration::from_mins(1);
/// How long webhooks that were given up are kept, counted from the end they tell of.
const DEAD_KEPT: SignedDuration = SignedDuration::from_hours(14 * 24);
/// Most deliveries in one call of [`Memory::deliver_once`].
const RUN_MAX: usize = 100_000;

/// How a try at a delivery ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivered {
    /// The receiver has it.
    Yes,
    /// It is tried again later.
    Later,
    /// It was given up.
    GivenUp,
    /// Somebody else has it, or it was dropped.
    Lost,
}

impl Memory {
    /// Delivers what is due, one after the other. To be called by whoever has no worker, or no time. Answers how each ended.
    pub async fn deliver_once(&self) -> Result<Vec<Delivered>, StoreError> {
        let mut ended = Vec::new();
        while ended.len() < RUN_MAX {
            let Some(claim) = self.claim_parcel(Vec::new()).await? else { break };
            ended.push(self.deliver(&claim).await?);
        }
        Ok(ended)
    }

    /// Takes the next webhook that is due, of any tenant but those that are busy. Nothing where nobody carries them.
    pub async fn claim_parcel(&self, busy: Vec<Tenant>) -> Result<Option<ParcelClaim>, StoreError> {
        if self.parts.ending.courier.is_none() {
            return Ok(None);
        }
        self.parts.store.outbox().claim(self.parts.clock.reading().wall, LEASE, busy).await
    }

    /// Sends a webhook and notes what came of it. May be dropped at any time: then the claim is still held, see
    /// [`Memory::return_parcel`].
    pub async fn deliver(&self, claim: &ParcelClaim) -> Result<Delivered, StoreError> {
        match self.send(claim).await {
            Ok(()) => self.note_delivery(claim).await,
            Err(why) => self.note_refusal(claim, &why).await,
        }
    }

    /// Where it goes is decided now: a URL that was mended counts for what waits.
    async fn send(&self, claim: &ParcelClaim) -> Result<(), NotDelivered> {
        let parcel = &claim.parcel;
        // When the store does not answer, what was last known counts.
        let _ = self.tenants.roll().await;
        let target = self.of(&parcel.tenant).settings.webhook.target().ok().flatten();
        let (Some(target), Some(courier)) = (target, &self.parts.ending.courier) else {
            return Err(NotDelivered::NoTarget);
        };
        let now = self.parts.clock.reading().wall;
        courier.deliver(Letter::sealed(&target, &parcel.id, parcel.body.clone(), now)).await
    }

    async fn note_delivery(&self, claim: &ParcelClaim) -> Result<Delivered, StoreError> {
        let (id, attempts) = (&claim.parcel.id, claim.attempts);
        self.parts.meters.webhooks_delivered.one();
        info!(webhook.id = %id, tenant.id = %claim.parcel.tenant, attempts, "Webhook `{id}` was delivered");
        match self.parts.store.outbox().delivered(claim).await? {
            Finished::Lost => Ok(Delivered::Lost),
            _ => Ok(Delivered::Yes),
        }
    }

    async fn note_refusal(&self, claim: &ParcelClaim, why: &NotDelivered) -> Result<Delivered, StoreError> {
        let (id, attempts) = (&claim.parcel.id, claim.attempts);
        let now = self.parts.clock.reading().wall;
        let pause = next_try(attempts, dice(id, attempts), why.retry_after()).filter(|_| !why.is_final());
        let next = pause.map(|pause| now.saturating_add(pause).unwrap_or(Timestamp::MAX));
        self.parts.meters.webhooks_failed.one();
        warn!(webhook.id = %id, tenant.id = %claim.parcel.tenant, attempts, error = %why,
              "Webhook `{id}` was not delivered ({attempts} tries so far): {why}");
        if next.is_none() {
            self.parts.meters.webhooks_dead.one();
        }
        match (self.parts.store.outbox().undelivered(claim, &why.to_string(), next).await?, next) {
            (Finished::Lost, _) => Ok(Delivered::Lost),
            (_, Some(_)) => Ok(Delivered::Later),
            (_, None) => Ok(Delivered::GivenUp),
        }
    }

    /// Puts a webhook back that was not seen through.
    pub async fn return_parcel(&self, claim: &ParcelClaim) -> Result<(), StoreError> {
        self.parts.store.outbox().return_parcel(claim).await.map(drop)
    }

    /// Told when there is something to deliver.
    pub fn parcel_news(&self) -> Arc<Notify> {
        self.parts.store.outbox().parcel_news()
    }

    /// A tenant's webhooks that are not delivered, without what they tell.
    pub async fn webhooks(&self, tenant: &Tenant, page: PageRequest) -> Result<Page<PostedParcel>, StoreError> {
        self.parts.store.outbox().parcels(tenant, page).await
    }

    /// One of them, with what it tells.
    pub async fn webhook(&self, tenant: &Tenant, id: &str) -> Result<Option<(PostedParcel, Bytes)>, StoreError> {
        self.parts.store.outbox().parcel(tenant, id).await
    }

    /// How many a tenant has, or everybody.
    pub async fn webhook_counts(&self, tenant: Option<&Tenant>) -> Result<ParcelCounts, StoreError> {
        self.parts.store.outbox().parcel_counts(tenant).await
    }

    /// Tries webhooks again that were given up or wait for their next try, all of a tenant's or one.
    pub async fn retry_webhooks(&self, tenant: &Tenant, id: Option<&str>) -> Result<u64, StoreError> {
        self.parts.store.outbox().retry_parcels(tenant, id).await
    }

    /// Removes a webhook that nobody needs delivered any more. Answers whether there was one.
    pub async fn drop_webhook(&self, tenant: &Tenant, id: &str) -> Result<bool, StoreError> {
        self.parts.store.outbox().drop_parcel(tenant, id).await
    }

    /// Forgets webhooks that were given up long ago.
    pub(super) async fn forget_dead_webhooks(&self) -> Result<u64, StoreError> {
        let before = self.parts.clock.reading().wall.saturating_sub(DEAD_KEPT).unwrap_or(Timestamp::MIN);
        self.parts.store.outbox().forget_dead_parcels(before).await
    }
}

/// A number in `0.0..1.0` for a try: chance that is the same on each run and differs between webhooks.
fn dice(id: &str, attempts: u32) -> f64 {
    let seed = format!("{id}.{attempts}");
    (xxhash_rust::xxh3::xxh3_64(seed.as_bytes()) >> 11) as f64 / (1_u64 << 53) as f64
}
