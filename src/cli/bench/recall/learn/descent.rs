//! Finding the lowest point of a smooth function: L-BFGS with a backtracking line search.
//!
//! The function is asked for its value and gradient; from the last few steps and how the gradient changed along them,
//! the two-loop recursion guesses the curvature and so a step that is about the right length.

use std::collections::VecDeque;

/// When it is good enough, and when it is enough.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    pub(crate) steps_max: usize,
    /// The largest entry of the gradient at which the point counts as lowest.
    pub(crate) gradient_max: f64,
}

impl Default for Patience {
    fn default() -> Self {
        Self { steps_max: 300, gradient_max: 1e-5 }
    }
}

/// Where the descent ended.
#[derive(Debug, Clone)]
pub(crate) struct Lowest {
    pub(crate) point: Vec<f64>,
    pub(crate) value: f64,
    pub(crate) steps: usize,
}

/// Steps that are remembered for the curvature.
const MEMORY: usize = 10;
/// A step is accepted when it gains at least this share of what the slope promised.
const ENOUGH: f64 = 1e-4;
/// Halvings after which no step in this direction will do.
const HALVINGS_MAX: usize = 50;

/// A step, and how the gradient changed along it.
struct Past {
    step: Vec<f64>,
    change: Vec<f64>,
    /// One over their product, which is positive.
    inverse: f64,
}

/// Walks downhill from `start`. `function` answers its value and gradient at a point.
pub(crate) fn descend(
    start: Vec<f64>,
    patience: Patience,
    mut function: impl FnMut(&[f64]) -> (f64, Vec<f64>),
) -> Lowest {
    let (mut point, mut past) = (start, VecDeque::with_capacity(MEMORY));
    let (mut value, mut gradient) = function(&point);
    for steps in 0..patience.steps_max {
        let steepest = gradient.iter().fold(0.0_f64, |most, entry| most.max(entry.abs()));
        if steepest <= patience.gradient_max {
            return Lowest { point, value, steps };
        }
        let mut direction = downhill(&gradient, &past);
        if dot(&direction, &gradient) >= 0.0 {
            // The guessed curvature is of no use here any more.
            past.clear();
            direction = downhill(&gradient, &past);
        }
        // Without a memory the slope says nothing about the right length.
        let first = if past.is_empty() { 1.0 / steepest.max(1.0) } else { 1.0 };
        let slope = dot(&direction, &gradient);
        let Some(next) = search(&point, value, &direction, slope, first, &mut function) else {
            return Lowest { point, value, steps };
        };
        remember(&mut past, minus(&next.point, &point), minus(&next.gradient, &gradient));
        (point, value, gradient) = (next.point, next.value, next.gradient);
    }
    Lowest { point, value, steps: patience.steps_max }
}

struct Reached {
    point: Vec<f64>,
    value: f64,
    gradient: Vec<f64>,
}

/// The first of ever shorter steps that gains enough.
fn search(
    from: &[f64],
    value: f64,
    direction: &[f64],
    slope: f64,
    first: f64,
    function: &mut impl FnMut(&[f64]) -> (f64, Vec<f64>),
) -> Option<Reached> {
    let mut length = first;
    for _ in 0..HALVINGS_MAX {
        let point: Vec<f64> = from.iter().zip(direction).map(|(at, step)| at + length * step).collect();
        let (reached, gradient) = function(&point);
        if reached <= value + ENOUGH * length * slope {
            return Some(Reached { point, value: reached, gradient });
        }
        length /= 2.0;
    }
    None
}

fn remember(past: &mut VecDeque<Past>, step: Vec<f64>, change: Vec<f64>) {
    let product = dot(&step, &change);
    // A step along which the slope did not rise says nothing about the curvature.
    if product <= 1e-12 * dot(&change, &change) {
        return;
    }
    if past.len() == MEMORY {
        past.pop_front();
    }
    past.push_back(Past { step, change, inverse: 1.0 / product });
}

/// The two-loop recursion: minus the gradient, bent by what is known of the curvature.
fn downhill(gradient: &[f64], past: &VecDeque<Past>) -> Vec<f64> {
    let mut direction: Vec<f64> = gradient.iter().map(|entry| -entry).collect();
    let mut shares = Vec::with_capacity(past.len());
    for one in past.iter().rev() {
        let share = one.inverse * dot(&one.step, &direction);
        add(&mut direction, -share, &one.change);
        shares.push(share);
    }
    if let Some(last) = past.back() {
        let scale = 1.0 / (last.inverse * dot(&last.change, &last.change));
        direction.iter_mut().for_each(|entry| *entry *= scale);
    }
    for (one, share) in past.iter().zip(shares.into_iter().rev()) {
        let back = one.inverse * dot(&one.change, &direction);
        add(&mut direction, share - back, &one.step);
    }
    direction
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn minus(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

fn add(to: &mut [f64], times: f64, what: &[f64]) {
    to.iter_mut().zip(what).for_each(|(to, what)| *to += times * what);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(start: &[f64], function: impl Fn(&[f64]) -> (f64, Vec<f64>), lowest: &[f64], within: f64) -> Lowest {
        let patience = Patience { steps_max: 500, gradient_max: 1e-9 };
        let found = descend(start.to_vec(), patience, function);
        for (found, expected) in found.point.iter().zip(lowest) {
            assert!((found - expected).abs() < within, "{found} is not {expected}");
        }
        found
    }

    /// A bowl a thousand times steeper one way than the other, with its lowest point at (3, -2, 5).
    fn bowl(at: &[f64]) -> (f64, Vec<f64>) {
        let (centre, steepness) = ([3.0, -2.0, 5.0], [1_000.0, 1.0, 30.0]);
        let off: Vec<f64> = at.iter().zip(centre).map(|(at, centre)| at - centre).collect();
        let value = off.iter().zip(steepness).map(|(off, steep)| 0.5 * steep * off * off).sum();
        (value, off.iter().zip(steepness).map(|(off, steep)| steep * off).collect())
    }

    #[test]
    fn the_bottom_of_a_long_bowl_is_found_in_few_steps() {
        let found = check(&[0.0, 0.0, 0.0], bowl, &[3.0, -2.0, 5.0], 1e-7);
        assert!(found.steps < 40 && found.value < 1e-12, "{found:?}");
    }

    #[test]
    fn a_curved_valley_is_followed() {
        // Rosenbrock's banana.
        let banana = |at: &[f64]| {
            let (x, y) = (at[0], at[1]);
            let value = (1.0 - x).powi(2) + 100.0 * (y - x * x).powi(2);
            (value, vec![-2.0 * (1.0 - x) - 400.0 * x * (y - x * x), 200.0 * (y - x * x)])
        };
        check(&[-1.2, 1.0], banana, &[1.0, 1.0], 1e-6);
    }

    #[test]
    fn who_starts_at_the_bottom_stays_there() {
        assert_eq!(check(&[3.0, -2.0, 5.0], bowl, &[3.0, -2.0, 5.0], 1e-12).steps, 0);
    }

    #[test]
    fn patience_ends() {
        let slope = |at: &[f64]| (-at[0], vec![-1.0]);
        let found = descend(vec![0.0], Patience { steps_max: 7, gradient_max: 1e-9 }, slope);
        assert_eq!(found.steps, 7);
    }
}
