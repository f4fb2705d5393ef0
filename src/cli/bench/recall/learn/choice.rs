//! Which signals get a weight.

use anyhow::{Context, anyhow, bail};

use crate::recall::Weights;
use crate::recall::signals::{KeySignal, ReplySignal};

/// A signal of a message by a person, or of a reply by the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    Key(KeySignal),
    Reply(ReplySignal),
}

impl Signal {
    /// Every signal there is.
    pub(super) fn all() -> Vec<Self> {
        let replies = ReplySignal::ALL.iter().copied().map(Self::Reply);
        KeySignal::ALL.iter().copied().map(Self::Key).chain(replies).collect()
    }

    /// The column's name in a signal table.
    pub(super) fn column(self) -> String {
        match self {
            Self::Key(signal) => format!("key:{}", signal.name()),
            Self::Reply(signal) => format!("reply:{}", signal.name()),
        }
    }

    /// Reads `bm25n`, `key:bm25n` or `reply:li`.
    fn parse(text: &str) -> anyhow::Result<Self> {
        let signal = match text.strip_prefix("reply:") {
            Some(name) => ReplySignal::parse(name).map(Self::Reply),
            None => KeySignal::parse(text.strip_prefix("key:").unwrap_or(text)).map(Self::Key),
        };
        signal.ok_or_else(|| anyhow!("`{text}` is no signal; `docs/recall.md` lists them"))
    }

    fn needs_vectors(self) -> bool {
        match self {
            Self::Key(signal) => signal.needs_vectors(),
            Self::Reply(signal) => signal.needs_vectors(),
        }
    }
}

/// The signals that weights are given for.
pub(super) fn signals_of(weights: &Weights) -> Vec<Signal> {
    let replies = weights.replies.iter().map(|(signal, _)| Signal::Reply(*signal));
    weights.keys.iter().map(|(signal, _)| Signal::Key(*signal)).chain(replies).collect()
}

/// The weights of these signals; those that have none get zero.
pub(super) fn values(weights: &Weights, signals: &[Signal]) -> Vec<f64> {
    let key = |wanted: KeySignal| weights.keys.iter().find(|(signal, _)| *signal == wanted).map(|(_, weight)| *weight);
    let reply =
        |wanted: ReplySignal| weights.replies.iter().find(|(signal, _)| *signal == wanted).map(|(_, weight)| *weight);
    let value = |signal: &Signal| match signal {
        Signal::Key(signal) => key(*signal),
        Signal::Reply(signal) => reply(*signal),
    };
    signals.iter().map(|signal| f64::from(value(signal).unwrap_or_default())).collect()
}

/// Weights as the engine takes them.
pub(super) fn weights(signals: &[Signal], values: &[f64]) -> Weights {
    let mut weights = Weights::default();
    for (signal, value) in signals.iter().zip(values) {
        match signal {
            Signal::Key(signal) => weights.keys.push((*signal, *value as f32)),
            Signal::Reply(signal) => weights.replies.push((*signal, *value as f32)),
        }
    }
    weights
}

/// Chooses signals by a list: `all`, names, or changes (`+cov`, `-isq`) to the signals that have weights now.
pub(super) fn choose(list: &[String], now: &[Signal], with_vectors: bool) -> anyhow::Result<Vec<Signal>> {
    let changes = list.iter().all(|word| word.starts_with(['+', '-']));
    let mut chosen = if changes { now.to_vec() } else { Vec::new() };
    for word in list {
        if word == "all" {
            chosen = Signal::all();
            continue;
        }
        let signal = Signal::parse(word.trim_start_matches(['+', '-'])).context("--signals")?;
        chosen.retain(|other| *other != signal);
        if !word.starts_with('-') {
            chosen.push(signal);
        }
    }
    chosen.retain(|signal| with_vectors || !signal.needs_vectors());
    if chosen.is_empty() {
        bail!("no signal is left to learn a weight for");
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(list: &str, with_vectors: bool, expected: &str) {
        let now = [Signal::Key(KeySignal::Own), Signal::Key(KeySignal::Late), Signal::Reply(ReplySignal::Base)];
        let list: Vec<String> = list.split_whitespace().map(str::to_owned).collect();
        let chosen = choose(&list, &now, with_vectors).expect("a choice");
        assert_eq!(chosen.into_iter().map(Signal::column).collect::<Vec<_>>().join(" "), expected);
    }

    #[test]
    fn without_a_list_the_signals_stay_as_they_are() {
        check("", true, "key:bm25n key:li reply:base");
        check("", false, "key:bm25n reply:base");
    }

    #[test]
    fn a_list_replaces_them_and_changes_change_them() {
        check("cov reply:you", true, "key:cov reply:you");
        check("+cov -li", true, "key:bm25n reply:base key:cov");
        check("-reply:base", true, "key:bm25n key:li");
    }

    #[test]
    fn all_are_all_and_some_may_be_taken_away() {
        let all = choose(&["all".into(), "-li".into()], &[], true).expect("a choice");
        assert_eq!(all.len(), KeySignal::ALL.len() + ReplySignal::ALL.len() - 1);
    }

    #[test]
    fn mistakes_are_named() {
        let wrong = choose(&["bm52".into()], &[], true).expect_err("unknown");
        assert!(format!("{wrong:#}").contains("`bm52` is no signal"));
        assert!(choose(&["-bm25n".into()], &[Signal::Key(KeySignal::Own)], true).is_err());
    }

    #[test]
    fn weights_go_in_and_out() {
        let signals = [Signal::Key(KeySignal::Own), Signal::Reply(ReplySignal::Base), Signal::Key(KeySignal::Late)];
        let weights = weights(&signals, &[0.5, -1.0, 2.0]);
        assert_eq!(values(&weights, &signals), [0.5, -1.0, 2.0]);
        assert_eq!(values(&Weights::default(), &signals), [0.0; 3]);
        assert_eq!(signals_of(&weights).len(), 3);
    }
}
