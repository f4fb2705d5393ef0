//! Room for a number of each message or word of a scope, kept from one question to the next.
//!
//! Few of them get a number; making and clearing room for all grew with the scope and was a twentieth of a search.

use std::cell::RefCell;

/// How much room a thread keeps: a question needs no more lists at a time, and longer ones are not kept.
const LISTS_MAX: usize = 8;
const LIST_MAX: usize = 1 << 17;

thread_local! {
    static SCORES: RefCell<Vec<Vec<f32>>> = const { RefCell::new(Vec::new()) };
    static PLACES: RefCell<Vec<Vec<u32>>> = const { RefCell::new(Vec::new()) };
    static BITS: RefCell<Vec<Vec<u64>>> = const { RefCell::new(Vec::new()) };
}

/// What room is kept for.
pub(super) trait Number: Copy + Default + PartialEq + 'static {
    /// What this thread keeps.
    fn kept<T>(use_it: impl FnOnce(&mut Vec<Vec<Self>>) -> T) -> T;
}

impl Number for f32 {
    fn kept<T>(use_it: impl FnOnce(&mut Vec<Vec<Self>>) -> T) -> T {
        SCORES.with_borrow_mut(use_it)
    }
}

impl Number for u32 {
    fn kept<T>(use_it: impl FnOnce(&mut Vec<Vec<Self>>) -> T) -> T {
        PLACES.with_borrow_mut(use_it)
    }
}

impl Number for u64 {
    fn kept<T>(use_it: impl FnOnce(&mut Vec<Vec<Self>>) -> T) -> T {
        BITS.with_borrow_mut(use_it)
    }
}

/// Zeros, at least as many as were asked for. Whoever has them leaves nothing else behind.
pub(super) struct Spare<T: Number> {
    pub(super) zeros: Vec<T>,
}

impl<T: Number> Spare<T> {
    pub(super) fn take(count: usize) -> Self {
        let mut zeros = T::kept(Vec::pop).unwrap_or_default();
        if zeros.len() < count {
            zeros.resize(count, T::default());
        }
        Self { zeros }
    }
}

impl<T: Number> Drop for Spare<T> {
    fn drop(&mut self) {
        let is_empty = || self.zeros.iter().all(|value| *value == T::default());
        debug_assert!(std::thread::panicking() || is_empty(), "something was left behind");
        let zeros = std::mem::take(&mut self.zeros);
        T::kept(|kept| {
            // A panic may have left anything behind.
            if kept.len() < LISTS_MAX && zeros.len() <= LIST_MAX && !std::thread::panicking() {
                kept.push(zeros);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_used_again_and_is_always_empty() {
        let mut one = Spare::<f32>::take(3);
        one.zeros[2] = 1.0;
        one.zeros[2] = 0.0;
        let place = one.zeros.as_ptr();
        drop(one);
        let (again, other) = (Spare::<f32>::take(2), Spare::<f32>::take(5));
        assert_eq!((again.zeros.as_ptr(), again.zeros.as_slice()), (place, &[0.0; 3][..]));
        assert_eq!(other.zeros, [0.0; 5]);
        drop(Spare::<u64>::take(LIST_MAX + 1));
        assert_eq!(Spare::<u64>::take(1).zeros.len(), 1, "too much to keep");
    }
}
