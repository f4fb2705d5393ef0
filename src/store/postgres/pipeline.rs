//! Statements that are sent without waiting for their answers: several then make one way to the server and back.
//!
//! In a transaction that is safe. What fails makes everything behind it fail as well, and whoever waits next is told the first
//! failure, at the latest with COMMIT.

use std::cell::RefCell;
use std::future::ready;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use futures_util::future::join;
use tokio_postgres::Error;

type Answer = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// Most answers that are owed at one time.
const OWED_MAX: usize = 64;

/// The answers that nobody has waited for yet, in the order in which they will come.
#[derive(Default)]
pub(super) struct Pipeline(RefCell<Vec<Answer>>);

impl Pipeline {
    /// Takes a statement in. Answers whether it is time to wait.
    pub(super) fn send(&self, answer: impl Future<Output = Result<(), Error>> + Send + 'static) -> bool {
        let mut answer: Answer = Box::pin(answer);
        // The first look hands it to the connection, which keeps the order; nobody need be woken.
        if let Poll::Ready(done) = answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            answer = Box::pin(ready(done));
        }
        let mut owed = self.0.borrow_mut();
        owed.push(answer);
        owed.len() >= OWED_MAX
    }

    /// Waits for an answer and for all that are owed; the first failure counts.
    pub(super) fn and<T>(
        &self,
        answer: impl Future<Output = Result<T, Error>>,
    ) -> impl Future<Output = Result<T, Error>> {
        let owed = std::mem::take(&mut *self.0.borrow_mut());
        async move {
            let told = async {
                let mut first = Ok(());
                for answer in owed {
                    first = first.and(answer.await);
                }
                first
            };
            let (told, answer) = join(told, answer).await;
            told.and(answer)
        }
    }
}
