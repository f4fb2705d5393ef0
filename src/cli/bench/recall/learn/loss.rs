//! How wrong weights are: listwise softmax cross-entropy over all messages of a chat, plus a pull towards a prior.
//!
//! A question's scores become probabilities by softmax; the target spreads its mass evenly over the evidence. The mean
//! over questions is what [`super::descent`] makes small. Questions are worked off in a fixed number of portions that
//! are added up in order, so that the result does not depend on the number of cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// A question as learning sees it: a column of numbers for each signal, an entry for each message.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lesson {
    /// Column after column.
    columns: Vec<f32>,
    messages: usize,
    /// Which messages hold the answer; none if they are not among those that are ranked.
    wanted: Vec<u32>,
}

impl Lesson {
    /// Takes `columns` numbers of each message, message after message, and the messages that hold the answer.
    pub(crate) fn new(rows: &[impl AsRef<[f32]>], columns: usize, wanted: Vec<u32>) -> Self {
        let mut flat = Vec::with_capacity(rows.len() * columns);
        for column in 0..columns {
            flat.extend(rows.iter().map(|row| row.as_ref()[column]));
        }
        Self { columns: flat, messages: rows.len(), wanted }
    }

    fn column(&self, at: usize) -> &[f32] {
        &self.columns[at * self.messages..(at + 1) * self.messages]
    }

    /// Whether a signal tells any two messages apart.
    pub(crate) fn varies(&self, at: usize) -> bool {
        self.column(at).windows(2).any(|pair| pair[0] != pair[1])
    }

    /// The score of each message.
    pub(crate) fn scores(&self, weights: &[f64]) -> Vec<f64> {
        let mut scores = vec![0.0; self.messages];
        for (at, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight != 0.0) {
            scores.iter_mut().zip(self.column(at)).for_each(|(score, value)| *score += weight * f64::from(*value));
        }
        scores
    }

    /// The messages with the highest scores, best first; of equal ones the earlier.
    pub(crate) fn ranked(&self, weights: &[f64], ranked_max: usize) -> Vec<usize> {
        let scores = self.scores(weights);
        let mut order: Vec<usize> = (0..self.messages).collect();
        let by_score = |a: &usize, b: &usize| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b));
        if order.len() > ranked_max {
            order.select_nth_unstable_by(ranked_max, by_score);
            order.truncate(ranked_max);
        }
        order.sort_unstable_by(by_score);
        order
    }

    /// Adds this question's cross-entropy and gradient to what there is.
    fn add_to(&self, sum: &mut Sum, weights: &[f64]) {
        if self.wanted.is_empty() {
            return;
        }
        let mut scores = self.scores(weights);
        let highest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let share = 1.0 / self.wanted.len() as f64;
        let wanted: f64 = self.wanted.iter().map(|at| scores[*at as usize] * share).sum();
        scores.iter_mut().for_each(|score| *score = (*score - highest).exp());
        let mass: f64 = scores.iter().sum();
        sum.value += highest + mass.ln() - wanted;
        // The probabilities minus the target: the gradient of each score.
        scores.iter_mut().for_each(|score| *score /= mass);
        self.wanted.iter().for_each(|at| scores[*at as usize] -= share);
        for (at, entry) in sum.gradient.iter_mut().enumerate() {
            *entry += product(&scores, self.column(at));
        }
    }
}

/// In four lanes, so that the processor can do them at once.
fn product(a: &[f64], b: &[f32]) -> f64 {
    let mut lanes = [0.0; 4];
    let (a, b) = (a.chunks_exact(4), b.chunks_exact(4));
    let rest: f64 = a.remainder().iter().zip(b.remainder()).map(|(a, b)| a * f64::from(*b)).sum();
    for (a, b) in a.zip(b) {
        for lane in 0..4 {
            lanes[lane] += a[lane] * f64::from(b[lane]);
        }
    }
    lanes.iter().sum::<f64>() + rest
}

#[derive(Clone)]
struct Sum {
    value: f64,
    gradient: Vec<f64>,
}

/// The loss of weights over some questions.
pub(crate) struct Loss<'a> {
    pub(crate) lessons: Vec<&'a Lesson>,
    /// Weights that are taken as right unless the questions say otherwise.
    pub(crate) prior: &'a [f64],
    /// How much a squared distance from them costs.
    pub(crate) l2: f64,
}

/// Questions are worked off in so many portions.
const PORTIONS: usize = 32;

impl Loss<'_> {
    /// The loss and its gradient.
    pub(crate) fn at(&self, weights: &[f64]) -> (f64, Vec<f64>) {
        let Sum { mut value, mut gradient } = self.sum(weights);
        let count = self.lessons.iter().filter(|lesson| !lesson.wanted.is_empty()).count().max(1) as f64;
        value /= count;
        for ((entry, weight), prior) in gradient.iter_mut().zip(weights).zip(self.prior) {
            let off = weight - prior;
            value += self.l2 * off * off;
            *entry = *entry / count + 2.0 * self.l2 * off;
        }
        (value, gradient)
    }

    fn sum(&self, weights: &[f64]) -> Sum {
        let nothing = Sum { value: 0.0, gradient: vec![0.0; weights.len()] };
        let portions: Vec<&[&Lesson]> = self.lessons.chunks(self.lessons.len().div_ceil(PORTIONS).max(1)).collect();
        let done: Vec<Mutex<Sum>> = portions.iter().map(|_| Mutex::new(nothing.clone())).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some((portion, sum)) = pick(&next, &portions, &done) {
                let mut sum = sum.lock().expect("a portion is worked off once");
                portion.iter().for_each(|lesson| lesson.add_to(&mut sum, weights));
            }
        };
        let cores = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| {
            (1..cores).for_each(|_| drop(scope.spawn(work)));
            work();
        });
        done.into_iter().fold(nothing, |mut all, sum| {
            let sum = sum.into_inner().expect("a portion is worked off once");
            all.value += sum.value;
            all.gradient.iter_mut().zip(sum.gradient).for_each(|(all, entry)| *all += entry);
            all
        })
    }
}

fn pick<'p, A, B>(next: &AtomicUsize, a: &'p [A], b: &'p [B]) -> Option<(&'p A, &'p B)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    a.get(at).zip(b.get(at))
}

#[cfg(test)]
mod tests {
    use super::super::descent::{Patience, descend};
    use super::*;

    /// Numbers that look random and are the same on each run.
    fn noise(seed: u32) -> impl Iterator<Item = f32> {
        let mut state = seed.wrapping_mul(2_654_435_761).max(1);
        std::iter::repeat_with(move || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state as f32 / u32::MAX as f32 - 0.5
        })
    }

    fn lessons(count: u32, columns: usize) -> Vec<Lesson> {
        (1..=count)
            .map(|seed| {
                let mut noise = noise(seed);
                let rows: Vec<Vec<f32>> = (0..7 + seed % 5).map(|_| noise.by_ref().take(columns).collect()).collect();
                Lesson::new(&rows, columns, vec![seed % 3, 4])
            })
            .collect()
    }

    #[test]
    fn the_loss_of_one_question_is_as_computed_by_hand() {
        let lesson = Lesson::new(&[[1.0], [0.0], [0.0]], 1, vec![0, 1]);
        let loss = Loss { lessons: vec![&lesson], prior: &[0.5], l2: 0.1 };
        let (value, gradient) = loss.at(&[2.0]);
        // ln(e² + 2) - (2 + 0) / 2 + 0.1 * 1.5²
        let (e2, prior) = (2.0_f64.exp(), 0.1 * 1.5 * 1.5);
        assert!((value - ((e2 + 2.0).ln() - 1.0 + prior)).abs() < 1e-12);
        assert!((gradient[0] - (e2 / (e2 + 2.0) - 0.5 + 0.2 * 1.5)).abs() < 1e-12);
    }

    #[test]
    fn the_gradient_is_the_slope() {
        let lessons = lessons(40, 3);
        let loss = Loss { lessons: lessons.iter().collect(), prior: &[0.1, 0.2, 0.3], l2: 0.01 };
        let at = [0.7, -1.3, 0.4];
        let (_, gradient) = loss.at(&at);
        for column in 0..3 {
            let moved = |by: f64| {
                let mut point = at;
                point[column] += by;
                loss.at(&point).0
            };
            let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            assert!((slope - gradient[column]).abs() < 1e-7, "{slope} is not {}", gradient[column]);
        }
    }

    #[test]
    fn huge_scores_do_not_overflow() {
        let lesson = Lesson::new(&[[1e6], [0.0]], 1, vec![1]);
        let (value, gradient) = Loss { lessons: vec![&lesson], prior: &[0.0], l2: 0.0 }.at(&[1.0]);
        assert_eq!((value, gradient), (1e6, vec![1e6]));
    }

    #[test]
    fn the_signal_that_tells_evidence_gets_the_weight() {
        // The first column tells the evidence in most questions, the second is noise.
        let lessons: Vec<Lesson> = (1..=60_u32)
            .map(|seed| {
                let wanted = seed % 6;
                let told = if seed % 10 == 0 { (wanted + 1) % 6 } else { wanted };
                let mut noise = noise(seed);
                let row = |at: u32| vec![f32::from(u8::from(at == told)), noise.next().unwrap_or_default()];
                Lesson::new(&(0..6).map(row).collect::<Vec<_>>(), 2, vec![wanted])
            })
            .collect();
        let loss = Loss { lessons: lessons.iter().collect(), prior: &[0.0, 0.0], l2: 0.001 };
        let found = descend(vec![0.0, 0.0], Patience::default(), |weights| loss.at(weights));
        assert!(found.point[0] > 2.0 && found.point[1].abs() < 0.6, "{found:?}");
        assert_eq!(lessons[0].ranked(&found.point, 1), [1]);
    }

    #[test]
    fn without_evidence_the_prior_stays() {
        let lesson = Lesson::new(&[[1.0, 0.0], [0.0, 1.0]], 2, vec![]);
        let prior = [0.3, -0.2];
        let loss = Loss { lessons: vec![&lesson], prior: &prior, l2: 0.5 };
        let found = descend(vec![0.0, 0.0], Patience::default(), |weights| loss.at(weights));
        assert!(found.point.iter().zip(prior).all(|(found, prior)| (found - prior).abs() < 1e-4), "{found:?}");
    }

    #[test]
    fn a_signal_that_is_the_same_everywhere_tells_nothing_apart() {
        let lesson = Lesson::new(&[[1.0, 2.0], [1.0, 3.0], [1.0, 3.0]], 2, vec![]);
        assert_eq!([lesson.varies(0), lesson.varies(1)], [false, true]);
    }

    #[test]
    fn of_equal_messages_the_earlier_is_ranked_first() {
        let lesson = Lesson::new(&[[1.0], [2.0], [1.0], [2.0]], 1, vec![]);
        assert_eq!(lesson.ranked(&[1.0], 3), [1, 3, 0]);
        assert_eq!(lesson.ranked(&[0.0], 9), [0, 1, 2, 3]);
    }
}
