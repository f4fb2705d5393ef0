//! What of the best messages fits into a budget of tokens.
//!
//! Drafts stand in stacks, each in its own order. The next one is always the front that is worth most, whatever the
//! budget; the budget takes from that row until something does not fit. So a larger budget never loses what a smaller
//! one had, and no budget is exceeded. A stack may have a floor (so much of it comes before everything else) and a
//! ceiling (more of it is never taken). A draft is weighed only when its turn has come: most never are.

use std::collections::VecDeque;

/// Something that may be packed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Draft<T> {
    pub(crate) what: T,
    /// What a token of it is worth.
    pub(crate) worth: f32,
}

/// A kind of draft, in its own order.
#[derive(Debug, Clone)]
pub(crate) struct Stack<T> {
    pub(crate) drafts: VecDeque<Draft<T>>,
    /// Tokens of it that come before the rest of all stacks.
    pub(crate) floor: usize,
    /// Tokens of it that are never exceeded.
    pub(crate) ceiling: usize,
}

impl<T> Stack<T> {
    /// A stack without floor or ceiling.
    pub(crate) fn open(drafts: VecDeque<Draft<T>>) -> Self {
        Self { drafts, floor: 0, ceiling: usize::MAX }
    }
}

/// What fits, in the order in which it was taken. `weigh` is told how many tokens the stack may still take, makes the
/// thing itself and says how many it takes, or `None` when there is nothing to pack after all.
pub(crate) fn pack<T, U>(
    mut stacks: Vec<Stack<T>>,
    budget: usize,
    mut weigh: impl FnMut(T, usize) -> Option<(U, usize)>,
) -> Vec<U> {
    let mut taken = vec![0; stacks.len()];
    let mut left = budget;
    let mut packed = Vec::new();
    while let Some(at) = next_stack(&stacks, &taken) {
        let room = stacks[at].ceiling.saturating_sub(taken[at]);
        let weighed = stacks[at].drafts.pop_front().and_then(|draft| weigh(draft.what, room));
        let Some((thing, tokens)) = weighed.filter(|(_, tokens)| *tokens <= room) else { continue };
        match left.checked_sub(tokens) {
            Some(rest) => left = rest,
            None => break,
        }
        taken[at] += tokens;
        packed.push(thing);
    }
    packed
}

/// The stack to take from: the first below its floor, else the one whose front is worth most.
fn next_stack<T>(stacks: &[Stack<T>], taken: &[usize]) -> Option<usize> {
    let fronts =
        stacks.iter().enumerate().filter_map(|(at, stack)| stack.drafts.front().map(|draft| (at, draft.worth)));
    let below_floor = fronts.clone().find(|(at, _)| taken[*at] < stacks[*at].floor);
    let best = || fronts.reduce(|best, next| if next.1 > best.1 { next } else { best });
    below_floor.or_else(best).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Weighed = (usize, usize);

    fn stack(drafts: &[(usize, usize, f32)], floor: usize, ceiling: usize) -> Stack<Weighed> {
        let draft = |(what, tokens, worth): &(usize, usize, f32)| Draft { what: (*what, *tokens), worth: *worth };
        Stack { drafts: drafts.iter().map(draft).collect(), floor, ceiling }
    }

    fn packed(stacks: &[Stack<Weighed>], budget: usize) -> Vec<Weighed> {
        pack(stacks.to_vec(), budget, |weighed, _| Some((weighed, weighed.1)))
    }

    fn names(stacks: &[Stack<Weighed>], budget: usize) -> Vec<usize> {
        packed(stacks, budget).into_iter().map(|(what, _)| what).collect()
    }

    #[test]
    fn what_is_worth_most_comes_first() {
        let stacks = [stack(&[(1, 10, 0.9), (2, 10, 0.2)], 0, 99), stack(&[(7, 5, 0.6)], 0, 99)];
        assert_eq!(names(&stacks, 99), [1, 7, 2]);
        assert_eq!(names(&stacks, 15), [1, 7]);
        assert_eq!(names(&stacks, 9), [0; 0]);
    }

    #[test]
    fn floors_come_first_and_ceilings_are_kept() {
        let stacks = [stack(&[(1, 10, 0.9), (2, 10, 0.9)], 0, 15), stack(&[(7, 5, 0.1), (8, 5, 0.1)], 5, 99)];
        assert_eq!(names(&stacks, 99), [7, 1, 8]);
    }

    #[test]
    fn what_comes_to_nothing_is_passed_over() {
        let stacks = vec![stack(&[(1, 10, 0.9), (2, 10, 0.8)], 0, 99)];
        let odd = pack(stacks, 10, |(what, tokens), _| (what == 2).then_some((what, tokens)));
        assert_eq!(odd, [2]);
    }

    fn stacks() -> impl Strategy<Value = Vec<Stack<Weighed>>> {
        let stack = (proptest::collection::vec((1_usize..60, 0.0_f32..9.0), 0..12), 0_usize..80, 0_usize..400);
        proptest::collection::vec(stack, 0..4).prop_map(|stacks| {
            let mut next = 0;
            let mut named = |(tokens, worth): &(usize, f32)| {
                next += 1;
                (next, *tokens, *worth)
            };
            let named = stacks
                .iter()
                .map(|(drafts, floor, ceiling)| stack_of(drafts.iter().map(&mut named).collect(), *floor, *ceiling));
            named.collect()
        })
    }

    fn stack_of(drafts: Vec<(usize, usize, f32)>, floor: usize, ceiling: usize) -> Stack<Weighed> {
        stack(&drafts, floor, ceiling)
    }

    proptest! {
        #[test]
        fn no_budget_is_exceeded_and_more_budget_never_loses(stacks in stacks(), budget in 0_usize..600, more in 0_usize..300) {
            let small = packed(&stacks, budget);
            let large = packed(&stacks, budget + more);
            prop_assert!(small.iter().map(|(_, tokens)| tokens).sum::<usize>() <= budget);
            prop_assert!(large.starts_with(&small));
            prop_assert_eq!(small, packed(&stacks, budget));
        }
    }
}
