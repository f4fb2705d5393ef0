//! When to look whether a session is over: a calendar of seconds, each with the sessions to look at then.
//!
//! Coming back moves a session's end, but not its page in the calendar: when that second has come, whoever is not over
//! is written down again, for the second in which it will be. So a visit costs nothing here, and a session is looked at
//! once in each time to live, however many there are beside it.

use std::collections::BTreeMap;
use std::time::Duration;

/// A calendar of things that may be over.
#[derive(Debug)]
pub(super) struct Calendar<T> {
    seconds: BTreeMap<u64, Vec<T>>,
}

impl<T> Default for Calendar<T> {
    fn default() -> Self {
        Self { seconds: BTreeMap::new() }
    }
}

/// The first whole second in which something that ends then is over.
pub(super) fn second_of(end: Duration) -> u64 {
    end.as_secs() + u64::from(end.subsec_nanos() > 0)
}

impl<T> Calendar<T> {
    /// Writes something down for a second.
    pub(super) fn note(&mut self, second: u64, thing: T) {
        self.seconds.entry(second).or_default().push(thing);
    }

    /// The next thing to look at, and the second it was written down for.
    pub(super) fn due(&mut self, now: Duration) -> Option<(u64, T)> {
        let mut first = self.seconds.first_entry().filter(|first| *first.key() <= now.as_secs())?;
        let second = *first.key();
        let thing = first.get_mut().pop();
        if first.get().is_empty() {
            first.remove();
        }
        thing.map(|thing| (second, thing))
    }

    /// The next second in which there is something to look at.
    pub(super) fn next(&self) -> Option<u64> {
        self.seconds.first_key_value().map(|(second, _)| *second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_comes_in_its_second() {
        let mut calendar = Calendar::default();
        for (second, thing) in [(5, 'b'), (3, 'a'), (9, 'c')] {
            calendar.note(second, thing);
        }
        assert_eq!(calendar.due(Duration::from_secs(2)), None);
        assert_eq!(calendar.due(Duration::from_millis(5_900)), Some((3, 'a')));
        assert_eq!(calendar.due(Duration::from_secs(5)), Some((5, 'b')));
        assert_eq!((calendar.due(Duration::from_secs(8)), calendar.next()), (None, Some(9)));
        assert_eq!((second_of(Duration::from_millis(3_000)), second_of(Duration::from_millis(3_001))), (3, 4));
    }
}
