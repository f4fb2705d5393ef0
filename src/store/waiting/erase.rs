//! What is erased does not come back when the store does: what waits of it goes as well, from the spool, too.

use super::Waiting;
use super::spool::written;
use super::turn::WaitingTurn;
use crate::id::TurnId;
use crate::store::{BookState, Erasure, Erasures, Reapplied, Receipt, Store, StoreError, StoreFuture, TenantKept};

impl<S: Store + ?Sized> Erasures for Waiting<S> {
    /// While the database is away this fails, and is to be asked for again; what waits here is gone all the same.
    fn erase(&self, what: Erasure) -> StoreFuture<'_, Option<Receipt>> {
        Box::pin(async move {
            let _alone = self.replaying.write().await;
            let receipt = self.inner.erasures().erase(what.clone()).await;
            let waiting = self.erase_waiting_if(&receipt, &what).await?;
            Ok(match receipt? {
                None if waiting > 0 => Some(Receipt::of_waiting(waiting, self.clock.now())),
                receipt => receipt.map(|receipt| receipt.with_waiting(waiting)),
            })
        })
    }

    fn reapply(&self) -> StoreFuture<'_, Reapplied> {
        self.inner.erasures().reapply()
    }

    fn kept(&self) -> StoreFuture<'_, Vec<TenantKept>> {
        self.inner.erasures().kept()
    }

    fn book(&self) -> StoreFuture<'_, BookState> {
        self.inner.erasures().book()
    }
}

impl<S: Store + ?Sized> Waiting<S> {
    /// Erases what waits here after the store did so, or could not because it is away. Answers how many turns were nowhere else.
    pub(super) async fn erase_waiting_if<T>(
        &self,
        erased: &Result<T, StoreError>,
        what: &Erasure,
    ) -> Result<u64, StoreError> {
        if !matches!(erased, Ok(_) | Err(StoreError::Away(_))) {
            return Ok(0);
        }
        if let Some(lately) = self.lately() {
            lately.forget_tenant(what.tenant());
        }
        self.erase_waiting(what).await
    }

    async fn erase_waiting(&self, what: &Erasure) -> Result<u64, StoreError> {
        let (here, orders) = {
            let mut queue = self.queue();
            let gone: Vec<WaitingTurn> = queue.iter().filter(|turn| turn.is_part_of(what)).cloned().collect();
            gone.iter().for_each(|turn| drop(queue.remove(turn.id)));
            let ids = || gone.iter().map(|turn| turn.id).collect();
            let mut orders: Vec<_> =
                self.outage.iter().map(|outage| outage.spool.erase(ids(), Some(what.clone()))).collect();
            // What the model was shown beside other questions may repeat what is gone.
            let others = queue.iter().filter(|turn| turn.scope.tenant() == what.tenant() && turn.shows_anything());
            let others: Vec<TurnId> = others.map(|turn| turn.id).collect();
            for id in others {
                queue.change(id, WaitingTurn::forget_shown);
                orders.extend(queue.get(id).and_then(|turn| self.spool(turn)));
            }
            // A turn whose question is in the store was counted there.
            (gone.iter().filter(|turn| turn.open.is_some() && !turn.known).count() as u64, orders)
        };
        for order in orders {
            written(order).await?;
        }
        Ok(here)
    }
}
