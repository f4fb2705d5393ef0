//! The window: which turns leave it, and into which stretches they are cut.

/// How much of a conversation stays as it was said. Durable sessions count turns, ephemeral ones messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// From how much on the oldest go; 0 keeps everything.
    pub at: usize,
    /// How much stays.
    pub keep: usize,
    /// How much one stretch tells.
    pub stretch: usize,
}

/// A turn that is shown and not summarised yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaving {
    /// Its number.
    pub number: u64,
    /// How much it counts in the measure of the window.
    pub weight: usize,
}

/// The last stretch, if there is room in it and all its turns are there to be told again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open {
    /// Its first turn.
    pub first: u64,
    /// How much it tells.
    pub weight: usize,
}

/// A stretch to be made, or to be made longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Its first turn.
    pub first: u64,
    /// Its last.
    pub last: u64,
    /// How much it tells.
    pub weight: usize,
}

/// Cuts what leaves the window into stretches; the first continues the open one, or begins with turn `from`. They leave no
/// gap, so that a turn that is shown later than others belongs to a stretch, too.
///
/// Turns go in steps of what a full window has too much, so that it makes no difference whether they are cut as they come
/// or all at once.
pub fn cut(from: u64, leaving: &[Leaving], open: Option<Open>, window: &Window) -> Vec<Cut> {
    let (mut from, going) = (from, leaving.iter().take(going(leaving, window)));
    let mut cuts: Vec<Cut> = Vec::new();
    let mut open = open.map(|open| Cut { first: open.first, last: 0, weight: open.weight });
    for turn in going {
        let room = |cut: &Cut| cut.weight < window.stretch;
        let mut cut = match open.take().or_else(|| cuts.pop_if(|last| room(last))).filter(room) {
            Some(last) => last,
            None => Cut { first: from, last: 0, weight: 0 },
        };
        cut.last = turn.number;
        from = turn.number + 1;
        cut.weight += turn.weight;
        cuts.push(cut);
    }
    cuts
}

/// How many of the oldest turns go.
fn going(leaving: &[Leaving], window: &Window) -> usize {
    let step = window.at.saturating_sub(window.keep).max(1);
    let mut left: usize = leaving.iter().map(|turn| turn.weight).sum();
    let (mut turns, mut gone) = (0, 0);
    while window.at > 0 && left >= window.at {
        let until = gone + step;
        while let Some(turn) = leaving.get(turns).filter(|_| gone < until) {
            gone += turn.weight;
            left -= turn.weight;
            turns += 1;
        }
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::episode::EpisodeSettings;
    use proptest::prelude::*;

    fn turns(numbers: std::ops::RangeInclusive<u64>, weight: usize) -> Vec<Leaving> {
        numbers.map(|number| Leaving { number, weight }).collect()
    }

    /// A conversation that is cut as it grows, looked at after every `each` turns.
    fn grown(turns: &[Leaving], each: usize, window: &Window) -> Vec<Cut> {
        let (mut cuts, mut until): (Vec<Cut>, u64) = (Vec::new(), 0);
        for now in (each..=turns.len()).step_by(each).chain([turns.len()]) {
            let leaving: Vec<Leaving> = turns[..now].iter().copied().filter(|turn| turn.number > until).collect();
            let open = cuts.last().filter(|last| last.weight < window.stretch);
            for made in
                cut(until + 1, &leaving, open.map(|last| Open { first: last.first, weight: last.weight }), window)
            {
                until = made.last;
                cuts.retain(|cut| cut.first != made.first);
                cuts.push(made);
            }
        }
        cuts
    }

    #[track_caller]
    fn check(turns: &[Leaving], window: &Window, expected: &str) {
        let cuts = grown(turns, 1, window);
        let told: Vec<String> = cuts.iter().map(|cut| format!("{}-{}", cut.first, cut.last)).collect();
        assert_eq!(told.join(" "), expected);
    }

    /// E2, E7: at 20 turns the oldest go, the last 10 stay, and 100 turns are about 5 episodes.
    #[test]
    fn a_hundred_turns_are_five_stretches() {
        let window = EpisodeSettings::default().durable;
        check(&turns(1..=19, 1), &window, "");
        check(&turns(1..=20, 1), &window, "1-10");
        check(&turns(1..=29, 1), &window, "1-10");
        check(&turns(1..=40, 1), &window, "1-20 21-30");
        check(&turns(1..=100, 1), &window, "1-20 21-40 41-60 61-80 81-90");
    }

    /// A4: messages 1–30 stay, 31–50 send 1–20 away, 51–70 send 21–40. A turn is two messages.
    #[test]
    fn thirty_messages_stay_and_twenty_go() {
        let window = EpisodeSettings::default().ephemeral;
        for (messages, gone) in [(30, 0), (32, 20), (50, 20), (52, 40), (70, 40), (72, 60)] {
            let told: usize = grown(&turns(1..=messages / 2, 2), 1, &window).iter().map(|cut| cut.weight).sum();
            assert_eq!(told, gone, "after {messages} messages");
        }
    }

    #[test]
    fn a_window_without_a_bound_keeps_everything() {
        assert_eq!(cut(1, &turns(1..=1_000, 1), None, &Window { at: 0, keep: 10, stretch: 20 }), []);
    }

    #[test]
    fn a_stretch_without_room_is_left_alone() {
        let window = EpisodeSettings::default().durable;
        let made = cut(21, &turns(21..=40, 1), Some(Open { first: 1, weight: 20 }), &window);
        assert_eq!(made, [Cut { first: 21, last: 30, weight: 10 }]);
    }

    prop_compose! {
        fn any_turns()(steps in proptest::collection::vec((1..4_u64, 1..4_usize), 0..200)) -> Vec<Leaving> {
            let mut number = 0;
            steps.into_iter().map(|(step, weight)| { number += step; Leaving { number, weight } }).collect()
        }
    }

    prop_compose! {
        fn any_window()(at in 1..40_usize, keep in 0..40_usize, stretch in 1..60_usize) -> Window {
            Window { at, keep: keep.min(at - 1), stretch }
        }
    }

    proptest! {
        #[test]
        fn cut_late_or_early_is_cut_the_same(turns in any_turns(), window in any_window(), each in 1..50_usize) {
            prop_assert_eq!(grown(&turns, each, &window), grown(&turns, 1, &window));
        }

        #[test]
        fn every_turn_is_told_once_or_waits(turns in any_turns(), window in any_window()) {
            let cuts = cut(1, &turns, None, &window);
            prop_assert!(cuts.first().is_none_or(|cut| cut.first == 1));
            prop_assert!(cuts.windows(2).all(|pair| pair[0].last + 1 == pair[1].first), "{cuts:?}");
            let told = |turn: &Leaving| cuts.iter().filter(|cut| (cut.first..=cut.last).contains(&turn.number)).count();
            let until = cuts.last().map_or(0, |cut| cut.last);
            for turn in &turns {
                prop_assert_eq!(told(turn), usize::from(turn.number <= until));
            }
            let left: usize = turns.iter().filter(|turn| turn.number > until).map(|turn| turn.weight).sum();
            prop_assert!(left < window.at, "{left} wait in a window of {}", window.at);
        }
    }
}
