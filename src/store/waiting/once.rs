//! Requests with an `Idempotency-Key` while the store is away: a turn that waits is found by the request that asked it.

use super::Waiting;
use crate::scope::Scope;
use crate::session::RequestMark;
use crate::store::{DoneRequest, OnceWrite, OnceWritten, Requests, Store, StoreFuture};

impl<S: Store + ?Sized> Requests for Waiting<S> {
    fn done_request(&self, scope: &Scope, key: [u8; 32]) -> StoreFuture<'_, Option<DoneRequest>> {
        let waits = self.queue().by_request(scope, key);
        let scope = scope.clone();
        Box::pin(async move {
            if waits.is_some() {
                return Ok(waits);
            }
            let found = self.soon(self.inner.requests().done_request(&scope, key)).await;
            self.or_lately(found, |lately| lately.request(&scope, key).map(Some))
        })
    }

    fn write_once(&self, scope: &Scope, request: RequestMark, write: OnceWrite) -> StoreFuture<'_, OnceWritten> {
        let scope = scope.clone();
        Box::pin(async move {
            if let OnceWrite::Turns(session, ..) | OnceWrite::Messages(session, ..) = &write {
                self.settle_to_add(&scope, *session).await;
            }
            self.inner.requests().write_once(&scope, request, write).await
        })
    }
}
