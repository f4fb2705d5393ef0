//! When to try again: soon at first, then less and less often, for three days and a half.

use std::time::Duration;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// Pauses after each try that failed, in seconds, as Standard Webhooks proposes.
const PAUSES: [u64; 9] = [5, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR];

/// Tries before a webhook is given up.
pub const ATTEMPTS_MAX: u32 = PAUSES.len() as u32 + 1;

/// What chance adds to a pause, at most, as a part of it.
const SPREAD: f64 = 0.25;
/// A receiver that asks for more patience than this has this much.
const PATIENCE_MAX: Duration = Duration::from_secs(24 * HOUR);

/// How long to wait after so many tries; `None` when that was the last. `random` in `0.0..1.0` spreads what failed together;
/// a receiver that asks to be left alone for longer is.
pub fn next_try(attempts: u32, random: f64, wanted: Option<Duration>) -> Option<Duration> {
    let pause = PAUSES.get(attempts.max(1) as usize - 1).copied().map(Duration::from_secs)?;
    let spread = pause.mul_f64(1.0 + SPREAD * random.clamp(0.0, 1.0));
    Some(spread.max(wanted.unwrap_or_default().min(PATIENCE_MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_webhook_is_tried_for_three_days() {
        let all: u64 = (1..ATTEMPTS_MAX).map(|n| next_try(n, 0.0, None).expect("a pause").as_secs()).sum();
        assert_eq!((ATTEMPTS_MAX, next_try(ATTEMPTS_MAX, 0.0, None)), (10, None));
        assert!((72 * HOUR..96 * HOUR).contains(&all), "{all}");
    }

    proptest! {
        #[test]
        fn pauses_grow_whatever_the_dice_say(attempts in 1..ATTEMPTS_MAX - 1, one in 0.0..1.0) {
            let sooner = next_try(attempts, one, None).expect("not the last");
            let later = next_try(attempts + 1, 0.0, None).expect("not the last");
            // The last three lie closer together than chance may move them.
            prop_assert!(attempts > 5 || sooner < later, "{sooner:?} before {later:?}");
            prop_assert!(sooner.as_secs() >= PAUSES[attempts as usize - 1]);
        }

        #[test]
        fn who_asks_for_patience_has_it_within_bounds(attempts in 1..ATTEMPTS_MAX, wanted in 0..1_u64 << 40) {
            let wanted = Duration::from_secs(wanted);
            let pause = next_try(attempts, 0.5, Some(wanted)).expect("not the last");
            prop_assert!(pause >= wanted.min(PATIENCE_MAX));
            prop_assert!(pause <= PATIENCE_MAX.mul_f64(1.0 + SPREAD));
        }

        #[test]
        fn after_the_last_try_there_is_none(more in 0..1000_u32, random in -1.0..2.0) {
            prop_assert_eq!(next_try(ATTEMPTS_MAX + more, random, Some(Duration::from_secs(1))), None);
        }
    }
}
