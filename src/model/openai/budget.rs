//! The retry budget: when everything fails, asking everything again makes it worse.
//!
//! Every request earns a fraction of a retry and every retry costs a whole one, so that over many
//! requests the server sees at most 1.2 times their number, however long a storm lasts.

use std::sync::atomic::{AtomicU32, Ordering};

/// What a retry costs.
const COST: u32 = 100;

/// What a request earns. Less than a fifth, so that the first handful is paid back within 60 requests.
const EARNING: u32 = 15;

/// What there is at first: a lone question may be asked again right after the start.
const AT_FIRST: u32 = 3 * COST;

/// What can be saved up in quiet times.
const SAVINGS_MAX: u32 = 10 * COST;

/// What may be spent on retries, shared by all requests to one server.
#[derive(Debug)]
pub(super) struct RetryBudget(AtomicU32);

impl Default for RetryBudget {
    fn default() -> Self {
        Self(AtomicU32::new(AT_FIRST))
    }
}

impl RetryBudget {
    /// A request was made.
    pub(super) fn earn(&self) {
        self.change(|saved| Some((saved + EARNING).min(SAVINGS_MAX)));
    }

    /// Takes out a retry, if there is one.
    pub(super) fn spend(&self) -> bool {
        self.change(|saved| saved.checked_sub(COST))
    }

    fn change(&self, to: impl FnMut(u32) -> Option<u32>) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, to).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many retries a storm gets out of the budget when every request wants two.
    fn storm(budget: &RetryBudget, requests: usize) -> usize {
        let wants = |_| {
            budget.earn();
            (0..2).filter(|_| budget.spend()).count()
        };
        (0..requests).map(wants).sum()
    }

    #[test]
    fn a_lone_question_may_be_asked_again() {
        assert_eq!(storm(&RetryBudget::default(), 1), 2);
    }

    #[test]
    fn a_storm_costs_a_fifth_more_at_most() {
        for requests in [60, 100, 1_000, 10_000] {
            let retries = storm(&RetryBudget::default(), requests);
            assert!(retries * 5 <= requests, "{retries} retries of {requests} requests");
        }
    }

    #[test]
    fn quiet_times_save_up_no_more_than_a_handful() {
        let budget = RetryBudget::default();
        (0..100_000).for_each(|_| budget.earn());
        assert!(storm(&budget, 100) <= 10 + 15);
    }
}
