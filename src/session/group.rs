//! Loose messages to turns: a client that has its own model adds what was said, in any pieces.

use super::TURN_MESSAGES_MAX;
use crate::message::{Message, Role};

/// What becomes of added messages.
#[derive(Debug, PartialEq, Default)]
pub struct Grouped {
    /// Messages that answer the session's last turn.
    pub joins_last: Vec<Message>,
    /// New turns, each a list of messages.
    pub turns: Vec<Vec<Message>>,
}

/// Groups messages into turns. A user's message opens a turn, what others say joins the open one. The
/// session's last turn is still open when it was added without an answer.
pub fn group(last_is_open: bool, messages: Vec<Message>) -> Grouped {
    let mut grouped = Grouped::default();
    for message in messages {
        let opens = message.role == Role::User;
        match grouped.turns.last_mut() {
            Some(turn) if !opens && turn.len() < TURN_MESSAGES_MAX => turn.push(message),
            None if !opens && last_is_open => grouped.joins_last.push(message),
            _ => grouped.turns.push(vec![message]),
        }
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use proptest::prelude::*;

    /// Roles by letter, turns separated by bars; what joins the last turn comes first, after `+`.
    #[track_caller]
    fn check(last_is_open: bool, said: &str, expected: &str) {
        let grouped = group(last_is_open, said.chars().map(message).collect());
        let letters = |turn: &Vec<Message>| turn.iter().map(letter).collect::<String>();
        let mut shown: Vec<String> = grouped.turns.iter().map(letters).collect();
        if !grouped.joins_last.is_empty() {
            shown.insert(0, format!("+{}", letters(&grouped.joins_last)));
        }
        assert_eq!(shown.join("|"), expected);
    }

    fn message(letter: char) -> Message {
        let role = match letter {
            'u' => Role::User,
            'a' => Role::Assistant,
            't' => Role::Tool,
            _ => Role::System,
        };
        Message::new(role, "x", Timestamp::UNIX_EPOCH)
    }

    fn letter(message: &Message) -> &'static str {
        &message.role.as_str()[..1]
    }

    #[test]
    fn a_question_and_its_answer_are_one_turn() {
        check(false, "uaua", "ua|ua");
    }

    #[test]
    fn two_people_talking_are_a_turn_each() {
        check(false, "uuu", "u|u|u");
    }

    #[test]
    fn tool_rounds_stay_in_their_turn() {
        check(false, "uataua", "uata|ua");
    }

    #[test]
    fn a_greeting_is_a_turn_of_its_own() {
        check(false, "aua", "a|ua");
    }

    #[test]
    fn an_answer_sent_later_joins_the_open_turn() {
        check(true, "aua", "+a|ua");
        check(true, "ua", "ua");
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_reordered(open: bool, said in "[uats]{0,40}") {
            let grouped = group(open, said.chars().map(message).collect());
            let all = grouped.joins_last.iter().chain(grouped.turns.iter().flatten());
            prop_assert_eq!(all.map(letter).collect::<String>(), said);
            prop_assert!(grouped.turns.iter().all(|turn| turn[1..].iter().all(|m| m.role != Role::User)));
        }
    }
}
