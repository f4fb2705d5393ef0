//! What the model is shown: a system prompt, the window, the question.

use serde_json::{Value, json};

use crate::memory::{MemorySettings, WindowAs};
use crate::session::{DoesNotFit, Template, Turn, fit, window};

/// A composed prompt and how much of the conversation is in it.
#[derive(Debug, PartialEq)]
pub(super) struct Composed {
    pub(super) messages: Vec<Value>,
    pub(super) messages_in_context: usize,
}

/// Composes the prompt for a question from the turns before it.
pub(super) fn compose(
    template: &Template,
    role: Option<&str>,
    turns: &[Turn],
    query: &str,
    settings: &MemorySettings,
) -> Result<Composed, DoesNotFit> {
    let mut system = template.system(role);
    let limit = settings.model_tokens_max.saturating_sub(settings.answer_tokens);
    let fitted = fit(window(turns, settings.context_messages), &[&system, query], limit)?;
    let messages_in_context = fitted.messages_in_context();
    let earlier: Vec<Value> = match settings.window_as {
        WindowAs::Messages => fitted.messages.iter().map(|message| message.to_wire()).collect(),
        WindowAs::Text => {
            let text = template.conversation(&fitted.messages);
            if !text.is_empty() {
                system = format!("{system}\n\n{text}");
            }
            Vec::new()
        }
    };
    let mut messages = vec![json!({"role": "system", "content": system})];
    messages.extend(earlier);
    messages.push(json!({"role": "user", "content": query}));
    Ok(Composed { messages, messages_in_context })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{CountedIds, Ids};
    use crate::message::{Message, Role};
    use crate::session::{Templates, TurnStatus};
    use jiff::Timestamp;

    fn turn(number: u64, question: &str, answer: &str) -> Turn {
        let ids = CountedIds::default();
        let said = |role, text: &str| Message::new(role, text, Timestamp::UNIX_EPOCH);
        Turn {
            id: ids.turn(Timestamp::UNIX_EPOCH),
            session: ids.session(),
            number,
            status: TurnStatus::Complete,
            messages: vec![said(Role::User, question), said(Role::Assistant, answer)],
            metadata: Default::default(),
            created_at: Timestamp::UNIX_EPOCH,
            superseded: false,
        }
    }

    fn contents(composed: &Composed) -> Vec<&str> {
        composed.messages.iter().filter_map(|message| message["content"].as_str()).collect()
    }

    #[test]
    fn the_window_lies_between_system_prompt_and_question() {
        let templates = Templates::default();
        let turns: Vec<Turn> = (1..=8).map(|n| turn(n, &format!("q{n}"), &format!("a{n}"))).collect();
        let template = templates.choose(Some("en"), "");
        let composed = compose(template, None, &turns, "now?", &MemorySettings::default()).expect("fits");
        let contents = contents(&composed);
        assert_eq!(contents[1..], ["q4", "a4", "q5", "a5", "q6", "a6", "q7", "a7", "q8", "a8", "now?"]);
        assert_eq!(composed.messages_in_context, 10);
    }

    #[test]
    fn as_text_it_stands_in_the_system_prompt() {
        let templates = Templates::default();
        let settings = MemorySettings { window_as: WindowAs::Text, ..MemorySettings::default() };
        let turns = [turn(1, "Wat is dat?", "Een helm.")];
        let composed = compose(templates.choose(Some("nl"), ""), None, &turns, "Hoe duur?", &settings).expect("fits");
        let contents = contents(&composed);
        assert_eq!(contents.len(), 2);
        assert!(contents[0].contains("**Eerdere gesprek:**\n\nGebruiker: \"Wat is dat?\""), "{}", contents[0]);
        assert_eq!(composed.messages_in_context, 2);
    }

    #[test]
    fn the_oldest_goes_when_tokens_run_out() {
        let templates = Templates::default();
        let settings = MemorySettings { model_tokens_max: 120, answer_tokens: 20, ..MemorySettings::default() };
        let turns = [turn(1, &"old ".repeat(80), "a1"), turn(2, "q2", "a2")];
        let composed = compose(templates.choose(Some("en"), ""), None, &turns, "now?", &settings).expect("fits");
        assert_eq!(contents(&composed)[1..], ["a1", "q2", "a2", "now?"]);
        assert_eq!(composed.messages_in_context, 3);
    }
}
