//! What the model is shown: a system prompt, the window, what was recalled, the question.
//!
//! Within the model's limit the question comes first, then the window (its oldest messages go first), and what was
//! recalled takes the room that is left: the running conversation is worth more than a memory of another one.

use serde_json::{Value, json};

use super::inject::{block, inject};
use crate::id::TurnId;
use crate::memory::{InjectInto, MemorySettings, WindowAs};
use crate::message::block::MARKS_TOKENS_MAX;
use crate::recall::{Recalled, TurnRange};
use crate::session::{DoesNotFit, Fitted, Template, Turn, fit, window};
use crate::tokens;

/// A composed prompt and how much of the conversation is in it.
#[derive(Debug, PartialEq)]
pub(super) struct Composed {
    pub(super) messages: Vec<Value>,
    pub(super) messages_in_context: usize,
    /// The turns that are in it as a whole: they need not be recalled.
    pub(super) shown: Vec<TurnId>,
    /// The same as a stretch of the conversation.
    pub(super) shown_ranges: Vec<TurnRange>,
    /// Tokens that what is recalled may take.
    pub(super) recall_tokens_max: usize,
}

impl Composed {
    /// Lays what was recalled before the model. A text that grew over its room, because it imitates our marks, stays
    /// out. Answers whether it was laid.
    pub(super) fn lay(&mut self, recalled: &Recalled, into: InjectInto) -> bool {
        let block = block(&recalled.text);
        fits(recalled, &block, self.recall_tokens_max) && inject(&mut self.messages, &block, into)
    }
}

/// Whether a block takes no more than its room. What is in it was counted already, unless marks were taken out of it.
pub(super) fn fits(recalled: &Recalled, block: &str, tokens_max: usize) -> bool {
    let as_counted = block.contains(recalled.text.trim());
    block.is_empty()
        || (as_counted && recalled.tokens <= tokens_max)
        || tokens::count(block) <= tokens_max + MARKS_TOKENS_MAX
}

/// Tokens that what is recalled may take beside what fitted, its marks not counted.
pub(super) fn recall_room(fitted: &Fitted<'_>, fixed: &[&str], limit: usize, settings: &MemorySettings) -> usize {
    let wanted = settings.recall.tokens_max + MARKS_TOKENS_MAX;
    fitted.room(fixed, limit, wanted).saturating_sub(MARKS_TOKENS_MAX)
}

/// The turns whose question is shown: what follows it is shown, too, because a window loses its oldest first.
pub(super) fn shown_whole(fitted: &Fitted<'_>, turns: &[Turn]) -> Vec<TurnId> {
    let is_shown = |turn: &&Turn| fitted.messages.iter().any(|message| std::ptr::eq(*message, turn.question()));
    turns.iter().filter(is_shown).map(|turn| turn.id).collect()
}

/// From the first of these turns to the end of the conversation: a window loses its oldest first.
pub(super) fn shown_to_the_end(shown: &[TurnId], turns: &[Turn]) -> Vec<TurnRange> {
    let first = turns.iter().filter(|turn| shown.contains(&turn.id)).min_by_key(|turn| turn.number);
    first.map(|turn| TurnRange { session: turn.session, first: turn.number, last: u64::MAX }).into_iter().collect()
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
    let recall_tokens_max = recall_room(&fitted, &[&system, query], limit, settings);
    let shown = shown_whole(&fitted, turns);
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
    let shown_ranges = shown_to_the_end(&shown, turns);
    Ok(Composed { messages, messages_in_context, shown, shown_ranges, recall_tokens_max })
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
        let session = ids.session();
        // Each turn has an id of its own, in the order of their numbers.
        let id = (1..number).fold(ids.turn(Timestamp::UNIX_EPOCH), |_, _| ids.turn(Timestamp::UNIX_EPOCH));
        let said = |role, text: &str| Message::new(role, text, Timestamp::UNIX_EPOCH);
        Turn {
            id,
            session,
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
        assert_eq!(contents(&composed)[1..], ["q2", "a2", "now?"], "no answer without its question");
        assert_eq!(composed.messages_in_context, 2);
        assert_eq!(composed.shown, [turns[1].id], "what is cut may be recalled");
        let range = TurnRange { session: turns[1].session, first: 2, last: u64::MAX };
        assert_eq!(composed.shown_ranges, [range]);
    }

    /// C7: with the window full, what is recalled has only the room that is left.
    #[test]
    fn the_window_comes_before_what_is_recalled() {
        let templates = Templates::default();
        let compose = |model_tokens_max: usize| {
            let settings = MemorySettings { model_tokens_max, answer_tokens: 20, ..MemorySettings::default() };
            let turns = [turn(1, &"old ".repeat(80), "a1"), turn(2, "q2", "a2")];
            compose(templates.choose(Some("en"), ""), None, &turns, "now?", &settings).expect("fits")
        };
        assert_eq!(compose(8_192).recall_tokens_max, MemorySettings::default().recall.tokens_max);
        assert_eq!(compose(120).recall_tokens_max.min(40), compose(120).recall_tokens_max);
        let mut tight = compose(260);
        assert!((1..100).contains(&tight.recall_tokens_max), "{}", tight.recall_tokens_max);
        let recalled = |text: &str, tokens| Recalled { text: text.to_owned(), tokens, ..Recalled::default() };
        assert!(!tight.lay(&recalled(&"too long ".repeat(200), 400), InjectInto::User));
        assert!(tight.lay(&recalled("- Rex", 3), InjectInto::User));
        let last = tight.messages.last().expect("the question")["content"].as_str().expect("text");
        assert!(last.starts_with("<recalled_memory ") && last.ends_with("now?"), "{last}");
    }
}
