//! What of the window fits the model's token limit: the oldest goes first.

use crate::message::{Message, Role};
use crate::tokens;

/// The part of the window that fits.
#[derive(Debug, PartialEq)]
pub struct Fitted<'a> {
    /// Kept messages, oldest first.
    pub messages: Vec<&'a Message>,
    /// How many were left out.
    pub dropped: usize,
}

impl Fitted<'_> {
    /// How many user and assistant messages are shown.
    pub fn messages_in_context(&self) -> usize {
        self.messages.iter().filter(|message| message.is_spoken()).count()
    }

    /// How many more tokens fit beside these and what must be there, at most `wanted`.
    pub fn room(&self, fixed: &[&str], limit: usize, wanted: usize) -> usize {
        let overhead = tokens::MESSAGE_OVERHEAD * (self.messages.len() + fixed.len());
        let sum = |count: fn(&str) -> usize| -> usize {
            let messages = self.messages.iter().map(|message| count(&cost_text(message)));
            messages.chain(fixed.iter().map(|text| count(text))).sum::<usize>() + overhead
        };
        // As in `fit`: counting is for when the bound does not settle it.
        if sum(tokens::at_most) + wanted <= limit {
            return wanted;
        }
        limit.saturating_sub(sum(tokens::count)).min(wanted)
    }
}

/// The question alone is over the limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the question and instructions take {tokens} tokens, the model's limit leaves {limit}")]
pub struct DoesNotFit {
    /// What they take.
    pub tokens: usize,
    /// What there is.
    pub limit: usize,
}

/// Keeps as much of the window as fits `limit` tokens beside what must be there (`fixed`: the system
/// prompt and the question). A tool call and its results are kept or dropped together.
pub fn fit<'a>(window: Vec<&'a Message>, fixed: &[&str], limit: usize) -> Result<Fitted<'a>, DoesNotFit> {
    let pieces = || window.iter().map(|m| cost_text(m));
    let bound: usize = pieces().map(|t| tokens::at_most(&t)).chain(fixed.iter().map(|t| tokens::at_most(t))).sum();
    if bound + tokens::MESSAGE_OVERHEAD * (window.len() + fixed.len()) <= limit {
        return Ok(Fitted { messages: window, dropped: 0 });
    }
    let taken: usize = fixed.iter().map(|text| tokens::count(text) + tokens::MESSAGE_OVERHEAD).sum();
    let Some(mut left) = limit.checked_sub(taken) else {
        return Err(DoesNotFit { tokens: taken, limit });
    };
    let start = first_kept(&window, &mut left);
    Ok(Fitted { messages: window[start..].to_vec(), dropped: start })
}

/// Walks back from the newest message as far as the tokens reach, then forward to a question: an answer whose question
/// was cut, or a result whose call was, says too little.
fn first_kept(window: &[&Message], left: &mut usize) -> usize {
    let mut start = window.len();
    while start > 0 {
        let cost = tokens::count(&cost_text(window[start - 1])) + tokens::MESSAGE_OVERHEAD;
        let Some(rest) = left.checked_sub(cost) else { break };
        *left = rest;
        start -= 1;
    }
    while start > 0 && window.get(start).is_some_and(|message| message.role != Role::User) {
        start += 1;
    }
    start
}

/// What a message costs: its text, or all of it when it is more than text.
fn cost_text(message: &Message) -> std::borrow::Cow<'_, str> {
    match &message.raw {
        Some(raw) => raw.to_string().into(),
        None => (&message.text).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use proptest::prelude::*;

    fn said(role: Role, text: &str) -> Message {
        Message::new(role, text, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn the_oldest_goes_first() {
        let all = [said(Role::User, "one two three"), said(Role::Assistant, "four"), said(Role::User, "five")];
        let fitted = fit(all.iter().collect(), &["question"], 16).expect("fits");
        assert_eq!(fitted.messages.iter().map(|m| m.text.as_str()).collect::<Vec<_>>(), ["five"]);
        assert_eq!((fitted.dropped, fitted.messages_in_context()), (2, 1));
    }

    #[test]
    fn what_follows_a_question_goes_with_it() {
        let long = "word ".repeat(50);
        let cut = [said(Role::User, &long), said(Role::Tool, "42"), said(Role::Assistant, "It is 42.")];
        let kept = [said(Role::User, "And now?"), said(Role::Assistant, "43.")];
        let all: Vec<&Message> = cut.iter().chain(&kept).collect();
        let fitted = fit(all, &["q"], 40).expect("fits");
        assert_eq!(fitted.messages.iter().map(|m| m.text.as_str()).collect::<Vec<_>>(), ["And now?", "43."]);
        assert_eq!(fit(cut.iter().collect(), &["q"], 40).expect("fits").messages, Vec::<&Message>::new());
    }

    #[test]
    fn a_window_that_fits_may_begin_with_an_answer() {
        let all = [said(Role::Assistant, "Hello."), said(Role::User, "Hi.")];
        assert_eq!(fit(all.iter().collect(), &["q"], 40).expect("fits").dropped, 0);
    }

    #[test]
    fn a_question_over_the_limit_is_refused() {
        let long = "word ".repeat(50);
        assert!(matches!(fit(vec![], &[&long], 20), Err(DoesNotFit { limit: 20, .. })));
    }

    proptest! {
        /// C7: context and question are never over the limit, and what is kept is the newest.
        #[test]
        fn never_over_the_limit(texts in prop::collection::vec("[a-zé ]{0,60}", 0..12), limit in 10_usize..200) {
            let all: Vec<Message> = texts.iter().map(|t| said(Role::User, t)).collect();
            let window: Vec<&Message> = all.iter().collect();
            let cost = |text: &str| tokens::count(text) + tokens::MESSAGE_OVERHEAD;
            let fitted = fit(window.clone(), &["why?"], limit).expect("a short question fits");
            let total: usize = fitted.messages.iter().map(|m| cost(&m.text)).sum::<usize>() + cost("why?");
            prop_assert!(total <= limit);
            prop_assert!(window.ends_with(&fitted.messages));
            prop_assert_eq!(fitted.room(&["why?"], limit, 1_000), limit - total);
            prop_assert_eq!(fitted.room(&["why?"], limit + 5_000, 1_000), 1_000);
            if fitted.dropped > 0 {
                prop_assert!(total + cost(&window[fitted.dropped - 1].text) > limit, "one more would have fitted");
            }
        }
    }
}
