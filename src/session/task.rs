//! Which requests are a client's own errands: a title for its chat list, tags, follow-up questions.
//!
//! Open WebUI sends them through the same door as the conversation, under the same chat id, and the title
//! may be asked for before the first turn is answered. They are nobody's words: forwarded as they came,
//! remembered by nobody.
//!
//! A client that says so in a header is believed. Else an errand is recognised by its shape and its first
//! lines, and in doubt it is a conversation: a title kept too many is a nuisance, a question lost is a fault.

use serde_json::Value;

use crate::message::content_text;

/// An errand of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// A title for the chat.
    Title,
    /// What the user may ask next.
    FollowUps,
    /// Tags for the chat.
    Tags,
    /// What to search for.
    SearchQueries,
    /// A face for a message.
    Emoji,
    /// A description for a painter.
    ImagePrompt,
    /// The rest of a sentence that is being typed.
    Autocomplete,
    /// Which tools to call, for models that cannot say so themselves.
    ToolChoice,
    /// One answer out of several models' answers.
    Merge,
    /// What the client's own memory should keep.
    MemoryReview,
    /// A summary in place of the oldest messages.
    Compaction,
    /// One we have not met; the client says it is one.
    Other,
}

/// Every task with Open WebUI's word for it.
const WORDS: [(&str, Task); 11] = [
    ("title_generation", Task::Title),
    ("follow_up_generation", Task::FollowUps),
    ("tags_generation", Task::Tags),
    ("query_generation", Task::SearchQueries),
    ("emoji_generation", Task::Emoji),
    ("image_prompt_generation", Task::ImagePrompt),
    ("autocomplete_generation", Task::Autocomplete),
    ("function_calling", Task::ToolChoice),
    ("moa_response_generation", Task::Merge),
    ("memory_review", Task::MemoryReview),
    ("context_compaction", Task::Compaction),
];

impl Task {
    /// Open WebUI's word for it, for logs and counters.
    pub fn as_str(self) -> &'static str {
        WORDS.iter().find(|(_, task)| *task == self).map_or("other", |(word, _)| word)
    }

    /// Reads a header. Any word names a task; a template that nobody filled in (`{{TASK}}`, sent by clients
    /// too old to know it) names none, or nothing would ever be remembered.
    fn named(header: &str) -> Option<Self> {
        let word = header.trim();
        if word.is_empty() || word.starts_with("{{") {
            return None;
        }
        Some(WORDS.iter().find(|(known, _)| *known == word).map_or(Self::Other, |(_, task)| *task))
    }
}

/// What tells an errand from a conversation, beside its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestShape {
    /// Whether the answer is to come in pieces.
    pub stream: bool,
    /// Whether the model may call tools.
    pub has_tools: bool,
}

/// How errands begin under the heading `### Task:`, in Open WebUI 0.12 and before.
const HEADED: [(&str, Task); 10] = [
    ("Generate a concise title", Task::Title),
    ("Generate a concise, 3-5 word title", Task::Title),
    ("Predict 3-5 useful messages", Task::FollowUps),
    ("Suggest 3-5 relevant follow-up", Task::FollowUps),
    ("Generate 1-3 broad tags", Task::Tags),
    ("Analyze the chat history to determine the necessity", Task::SearchQueries),
    // The slip of the pen is theirs.
    ("Generate a detailed prompt for am image", Task::ImagePrompt),
    ("Generate a detailed prompt for an image", Task::ImagePrompt),
    ("You are an autocompletion system", Task::Autocomplete),
    ("Summarize the conversation history that will be compacted", Task::Compaction),
];

/// How errands without a heading begin.
const BARE: [(&str, Task); 2] = [
    ("Your task is to reflect the speaker's likely facial expression", Task::Emoji),
    ("You have been provided with a set of responses from various models to the latest user query", Task::Merge),
];

/// Errands that are told by what the system message says: how it begins, and how the user's message does.
const BY_SYSTEM: [(&str, &[&str], Task); 2] = [
    ("You are Open WebUI's private memory reviewer", &["Review the completed conversation turn"], Task::MemoryReview),
    ("Available Tools:", &["Query: ", "History:"], Task::ToolChoice),
];

/// The heading most errands begin with. Questions about attached files begin with it too.
pub(super) const HEADING: &str = "### Task:";

/// Recognises a client's errand, by the header that says so, else by shape and first lines.
pub fn recognise_task(header: Option<&str>, messages: &[Value], shape: RequestShape) -> Option<Task> {
    if let Some(task) = header.and_then(Task::named) {
        return Some(task);
    }
    if shape.has_tools {
        return None;
    }
    let asked = only_user_message(messages)?;
    let task = by_system(messages, &asked).or_else(|| by_first_lines(&asked))?;
    // Merged answers are shown as they are written; whoever runs any other errand waits for its end.
    (!shape.stream || task == Task::Merge).then_some(task)
}

/// The text of the one message that is not a system's, if it is a user's. A model may have a system prompt
/// of its own, which then stands before its errands too.
fn only_user_message(messages: &[Value]) -> Option<String> {
    let mut others = messages.iter().filter(|message| !is_system(message));
    let (only, more) = (others.next()?, others.next());
    (role(only) == "user" && more.is_none()).then(|| content_text(only.get("content")))
}

fn role(message: &Value) -> &str {
    message.get("role").and_then(Value::as_str).unwrap_or("")
}

fn is_system(message: &Value) -> bool {
    matches!(role(message), "system" | "developer")
}

fn by_system(messages: &[Value], asked: &str) -> Option<Task> {
    let system = content_text(messages.iter().find(|message| is_system(message))?.get("content"));
    let fits = |(begins, asks, _): &&(&str, &[&str], Task)| {
        system.trim_start().starts_with(begins) && asks.iter().any(|ask| asked.trim_start().starts_with(ask))
    };
    BY_SYSTEM.iter().find(fits).map(|(_, _, task)| *task)
}

fn by_first_lines(text: &str) -> Option<Task> {
    let (line, beginnings) = match below_heading(text) {
        Some(line) => (line, &HEADED[..]),
        None => (text.trim_start(), &BARE[..]),
    };
    beginnings.iter().find(|(begins, _)| line.starts_with(begins)).map(|(_, task)| *task)
}

/// What stands below the heading, if the text begins with it.
pub(super) fn below_heading(text: &str) -> Option<&str> {
    let (first, rest) = text.trim_start().split_once('\n')?;
    (first.trim_end() == HEADING).then(|| rest.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn asked(text: &str) -> Vec<Value> {
        vec![json!({"role": "user", "content": text})]
    }

    #[track_caller]
    fn check(text: &str, expected: Option<Task>) {
        assert_eq!(recognise_task(None, &asked(text), RequestShape::default()), expected, "{text}");
    }

    #[test]
    fn errands_are_known_by_their_first_lines() {
        check("### Task:\nGenerate a concise title summarizing the chat.\n### Guidelines:", Some(Task::Title));
        check("### Task:\nGenerate a concise, 3-5 word title with an emoji.", Some(Task::Title));
        check("\n### Task: \r\nPredict 3-5 useful messages this user", Some(Task::FollowUps));
        check("### Task:\nSuggest 3-5 relevant follow-up questions", Some(Task::FollowUps));
        check("### Task:\nGenerate 1-3 broad tags categorizing", Some(Task::Tags));
        check("### Task:\nAnalyze the chat history to determine the necessity of", Some(Task::SearchQueries));
        check("### Task:\nGenerate a detailed prompt for am image generation", Some(Task::ImagePrompt));
        check("### Task:\nYou are an autocompletion system. Continue", Some(Task::Autocomplete));
        check("### Task:\nSummarize the conversation history that will be compacted out", Some(Task::Compaction));
        check("Your task is to reflect the speaker's likely facial expression through", Some(Task::Emoji));
    }

    #[test]
    fn conversations_are_not_errands() {
        check("### Task:\nRespond to the user query using the provided context, with citations", None);
        check("### Task:\nWrite a poem about the sea", None);
        check("### Task:", None);
        check("Generate a concise title for my book", None);
        check("Please explain: ### Task:\nGenerate a concise title", None);
        check("", None);
    }

    /// The same words in another shape are somebody's: pasted into a chat, or part of one.
    #[test]
    fn the_shape_counts() {
        let title = asked("### Task:\nGenerate a concise title");
        for shape in [RequestShape { stream: true, has_tools: false }, RequestShape { stream: false, has_tools: true }]
        {
            assert_eq!(recognise_task(None, &title, shape), None, "{shape:?}");
        }
        let hello = [json!({"role": "user", "content": "Hi"}), json!({"role": "assistant", "content": "Hello"})];
        let later: Vec<_> = hello.into_iter().chain(title.clone()).collect();
        assert_eq!(recognise_task(None, &later, RequestShape::default()), None);
        assert_eq!(recognise_task(None, &[], RequestShape::default()), None);
        let called = [json!({"role": "assistant", "content": "### Task:\nGenerate a concise title"})];
        assert_eq!(recognise_task(None, &called, RequestShape::default()), None);
    }

    #[test]
    fn a_system_prompt_may_stand_before_an_errand() {
        let mut messages = vec![json!({"role": "system", "content": "You are a pirate."})];
        messages.extend(asked("### Task:\nGenerate a concise title"));
        assert_eq!(recognise_task(None, &messages, RequestShape::default()), Some(Task::Title));
    }

    #[test]
    fn some_errands_are_told_by_their_system_prompt() {
        let with = |system: &str, user: &str| {
            let messages = [json!({"role": "system", "content": system}), json!({"role": "user", "content": user})];
            recognise_task(None, &messages, RequestShape::default())
        };
        let reviewer = "You are Open WebUI's private memory reviewer. Answer in JSON.";
        assert_eq!(with(reviewer, "Review the completed conversation turn and say"), Some(Task::MemoryReview));
        assert_eq!(with("Available Tools: [..]", "Query: what time is it?"), Some(Task::ToolChoice));
        assert_eq!(with("Available Tools: [..]", "What tools do you have?"), None);
        assert_eq!(with("Be kind.", "Query: what time is it?"), None);
    }

    #[test]
    fn merged_answers_may_be_streamed() {
        let merge = asked(
            "You have been provided with a set of responses from various models to the latest user query: \"Hi\"",
        );
        let shape = RequestShape { stream: true, has_tools: false };
        assert_eq!(recognise_task(None, &merge, shape), Some(Task::Merge));
    }

    #[test]
    fn a_header_is_believed_unless_nobody_filled_it_in() {
        let streamed = RequestShape { stream: true, has_tools: true };
        let check = |header, expected| assert_eq!(recognise_task(Some(header), &asked("Hi"), streamed), expected);
        check("title_generation", Some(Task::Title));
        check("something_new", Some(Task::Other));
        check("", None);
        check("  ", None);
        check("{{TASK}}", None);
    }

    #[test]
    fn parts_are_read_as_text() {
        let parts =
            json!({"role": "user", "content": [{"type": "text", "text": "### Task:\nGenerate 1-3 broad tags"}]});
        assert_eq!(recognise_task(None, &[parts], RequestShape::default()), Some(Task::Tags));
    }

    #[test]
    fn every_task_has_a_word() {
        for (word, task) in WORDS {
            assert_eq!((task.as_str(), Task::named(word)), (word, Some(task)));
        }
        assert_eq!(Task::Other.as_str(), "other");
    }
}
