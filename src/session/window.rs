//! Which messages of a conversation the model is shown: the last few, chronological.

use super::Turn;
use crate::message::Message;

/// The newest turns, as many as it takes for `messages_max` messages by the user or the model.
pub(crate) fn newest(mut turns: Vec<Turn>, messages_max: usize) -> Vec<Turn> {
    let mut spoken = 0;
    let needed = turns.iter().rev().take_while(|turn| {
        let wanted = spoken < messages_max;
        spoken += turn.spoken();
        wanted
    });
    let surplus = turns.len() - needed.count();
    turns.split_off(surplus)
}

/// The last `messages_max` user and assistant messages of turns that enter context, oldest first. Tool
/// results come along with the call they answer and are not counted; a call that is cut off takes its
/// results with it.
pub fn window(turns: &[Turn], messages_max: usize) -> Vec<&Message> {
    let said: Vec<&Message> =
        turns.iter().filter(|turn| turn.enters_context()).flat_map(|turn| &turn.messages).collect();
    let Some(beyond) = said.iter().filter(|message| message.is_spoken()).count().checked_sub(messages_max) else {
        return said;
    };
    let start = match said.iter().enumerate().filter(|(_, message)| message.is_spoken()).nth(beyond) {
        Some((first_kept, _)) => first_kept,
        None => said.len(),
    };
    said[start..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::super::TurnStatus;
    use super::*;
    use crate::id::{CountedIds, Ids};
    use crate::message::Role;
    use jiff::Timestamp;
    use proptest::prelude::*;

    /// Turns as words: `q`uestion, `c`all, `t`ool result, `a`nswer; `!` marks a failed turn.
    fn turns(conversation: &str) -> Vec<Turn> {
        let ids = CountedIds::default();
        let session = ids.session();
        conversation
            .split_whitespace()
            .enumerate()
            .map(|(n, word)| Turn {
                id: ids.turn(Timestamp::UNIX_EPOCH),
                session,
                number: n as u64 + 1,
                status: if word.ends_with('!') { TurnStatus::Failed } else { TurnStatus::Complete },
                messages: word.trim_end_matches('!').char_indices().map(|(i, c)| message(n, i, c)).collect(),
                metadata: Default::default(),
                created_at: Timestamp::UNIX_EPOCH,
                superseded: false,
            })
            .collect()
    }

    fn message(turn: usize, at: usize, letter: char) -> Message {
        let role = match letter {
            'q' => Role::User,
            't' => Role::Tool,
            _ => Role::Assistant,
        };
        Message::new(role, format!("{letter}{}.{at}", turn + 1), Timestamp::UNIX_EPOCH)
    }

    #[track_caller]
    fn check(conversation: &str, messages_max: usize, expected: &str) {
        let turns = turns(conversation);
        let shown: Vec<&str> = window(&turns, messages_max).into_iter().map(|m| m.text.as_str()).collect();
        assert_eq!(shown.join(" "), expected);
    }

    #[test]
    fn the_last_messages_are_shown_oldest_first() {
        check("qa qa qa", 4, "q2.0 a2.1 q3.0 a3.1");
        check("qa qa qa", 3, "a2.1 q3.0 a3.1");
        check("qa", 10, "q1.0 a1.1");
        check("", 10, "");
        check("qa", 0, "");
    }

    #[test]
    fn failed_turns_are_not_shown() {
        check("qa q! qa", 10, "q1.0 a1.1 q3.0 a3.1");
    }

    #[test]
    fn a_tool_result_never_comes_without_its_call() {
        check("qctta qa", 4, "c1.1 t1.2 t1.3 a1.4 q2.0 a2.1");
        check("qctta qa", 3, "a1.4 q2.0 a2.1");
    }

    proptest! {
        /// C3: no more and no fewer than asked for, as long as there are enough.
        #[test]
        fn exactly_so_many_are_shown(words in prop::collection::vec("qa|q!|qct{1,3}a|q", 0..12), max in 0_usize..12) {
            let turns = turns(&words.join(" "));
            let shown = window(&turns, max);
            let spoken = |m: &&&Message| m.role != Role::Tool;
            let all = turns.iter().filter(|t| t.enters_context()).flat_map(|t| &t.messages).collect::<Vec<_>>();
            prop_assert_eq!(shown.iter().filter(spoken).count(), max.min(all.iter().filter(spoken).count()));
            prop_assert!(all.ends_with(&shown));
            prop_assert!(shown.first().is_none_or(|m| m.role != Role::Tool));
        }
    }
}
