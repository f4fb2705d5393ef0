//! What of the best messages fits into a budget of tokens.
//!
//! Drafts stand in layers, each in its own order. The next one is always the front that is worth most, whatever the
//! budget; the budget takes from that row until something does not fit. So a larger budget never loses what a smaller
//! one had, and no budget is exceeded. A layer may have a floor (so much of it comes before everything else) and a
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
pub(crate) struct Layer<T> {
    pub(crate) drafts: VecDeque<Draft<T>>,
    /// Tokens of it that come before the rest of all layers.
    pub(crate) floor: usize,
    /// Tokens of it that are never exceeded.
    pub(crate) ceiling: usize,
}

impl<T> Layer<T> {
    /// A layer without floor or ceiling.
    pub(crate) fn open(drafts: VecDeque<Draft<T>>) -> Self {
        Self { drafts, floor: 0, ceiling: usize::MAX }
    }
}

/// What fits, in the order in which it was taken. `weigh` makes the thing itself and says how many tokens it takes,
/// or `None` when there is nothing to pack after all.
pub(crate) fn pack<T, U>(
    mut layers: Vec<Layer<T>>,
    budget: usize,
    mut weigh: impl FnMut(T) -> Option<(U, usize)>,
) -> Vec<U> {
    let mut taken = vec![0; layers.len()];
    let mut left = budget;
    let mut packed = Vec::new();
    while let Some(at) = next_layer(&layers, &taken) {
        let Some((thing, tokens)) = layers[at].drafts.pop_front().and_then(|draft| weigh(draft.what)) else { continue };
        if taken[at] + tokens > layers[at].ceiling {
            layers[at].drafts.clear();
            continue;
        }
        match left.checked_sub(tokens) {
            Some(rest) => left = rest,
            None => break,
        }
        taken[at] += tokens;
        packed.push(thing);
    }
    packed
}

/// The layer to take from: the first below its floor, else the one whose front is worth most.
fn next_layer<T>(layers: &[Layer<T>], taken: &[usize]) -> Option<usize> {
    let fronts =
        layers.iter().enumerate().filter_map(|(at, layer)| layer.drafts.front().map(|draft| (at, draft.worth)));
    let below_floor = fronts.clone().find(|(at, _)| taken[*at] < layers[*at].floor);
    let best = || fronts.reduce(|best, next| if next.1 > best.1 { next } else { best });
    below_floor.or_else(best).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Weighed = (usize, usize);

    fn layer(drafts: &[(usize, usize, f32)], floor: usize, ceiling: usize) -> Layer<Weighed> {
        let draft = |(what, tokens, worth): &(usize, usize, f32)| Draft { what: (*what, *tokens), worth: *worth };
        Layer { drafts: drafts.iter().map(draft).collect(), floor, ceiling }
    }

    fn packed(layers: &[Layer<Weighed>], budget: usize) -> Vec<Weighed> {
        pack(layers.to_vec(), budget, |weighed| Some((weighed, weighed.1)))
    }

    fn names(layers: &[Layer<Weighed>], budget: usize) -> Vec<usize> {
        packed(layers, budget).into_iter().map(|(what, _)| what).collect()
    }

    #[test]
    fn what_is_worth_most_comes_first() {
        let layers = [layer(&[(1, 10, 0.9), (2, 10, 0.2)], 0, 99), layer(&[(7, 5, 0.6)], 0, 99)];
        assert_eq!(names(&layers, 99), [1, 7, 2]);
        assert_eq!(names(&layers, 15), [1, 7]);
        assert_eq!(names(&layers, 9), [0; 0]);
    }

    #[test]
    fn floors_come_first_and_ceilings_end_a_layer() {
        let layers = [layer(&[(1, 10, 0.9), (2, 10, 0.9)], 0, 15), layer(&[(7, 5, 0.1), (8, 5, 0.1)], 5, 99)];
        assert_eq!(names(&layers, 99), [7, 1, 8]);
    }

    #[test]
    fn what_comes_to_nothing_is_passed_over() {
        let layers = vec![layer(&[(1, 10, 0.9), (2, 10, 0.8)], 0, 99)];
        let odd = pack(layers, 10, |(what, tokens)| (what == 2).then_some((what, tokens)));
        assert_eq!(odd, [2]);
    }

    fn layers() -> impl Strategy<Value = Vec<Layer<Weighed>>> {
        let layer = (proptest::collection::vec((1_usize..60, 0.0_f32..9.0), 0..12), 0_usize..80, 0_usize..400);
        proptest::collection::vec(layer, 0..4).prop_map(|layers| {
            let mut next = 0;
            let mut named = |(tokens, worth): &(usize, f32)| {
                next += 1;
                (next, *tokens, *worth)
            };
            let named = layers
                .iter()
                .map(|(drafts, floor, ceiling)| layer_of(drafts.iter().map(&mut named).collect(), *floor, *ceiling));
            named.collect()
        })
    }

    fn layer_of(drafts: Vec<(usize, usize, f32)>, floor: usize, ceiling: usize) -> Layer<Weighed> {
        layer(&drafts, floor, ceiling)
    }

    proptest! {
        #[test]
        fn no_budget_is_exceeded_and_more_budget_never_loses(layers in layers(), budget in 0_usize..600, more in 0_usize..300) {
            let small = packed(&layers, budget);
            let large = packed(&layers, budget + more);
            prop_assert!(small.iter().map(|(_, tokens)| tokens).sum::<usize>() <= budget);
            prop_assert!(large.starts_with(&small));
            prop_assert_eq!(small, packed(&layers, budget));
        }
    }
}
