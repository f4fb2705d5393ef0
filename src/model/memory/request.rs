//! What goes out: a task as a request, in the form that the server understands.

use bytes::Bytes;
use serde_json::{Value, json};

use super::Task;
use crate::model::ModelError;

/// How a server is spoken to. The first is tried first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Dialect {
    format: Format,
    limit: Limit,
}

/// How the shape of the answer is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Format {
    /// By a schema that the server keeps to.
    #[default]
    Schema,
    /// As any object; the schema is shown to the model.
    Object,
    /// By words alone.
    Words,
}

/// What the bound of an answer is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Limit {
    #[default]
    MaxTokens,
    /// As newer models of OpenAI want it.
    MaxCompletionTokens,
}

impl Dialect {
    /// What to try next with a server that refused this; `None` when the refusal is about something else.
    pub(super) fn simpler(self, refusal: &ModelError) -> Option<Self> {
        let ModelError::Refused { status: 400 | 415 | 422 | 501, message, .. } = refusal else { return None };
        let message = message.to_lowercase();
        if message.contains("max_completion_tokens") && self.limit == Limit::MaxTokens {
            return Some(Self { limit: Limit::MaxCompletionTokens, ..self });
        }
        // Said of a question that is too long, which no other format would shorten.
        if message.contains("context") {
            return None;
        }
        match self.format {
            Format::Schema => Some(Self { format: Format::Object, ..self }),
            Format::Object => Some(Self { format: Format::Words, ..self }),
            Format::Words => None,
        }
    }
}

/// A task as messages: what is to be done, and with what.
pub(super) fn messages<T: Task>(task: &T, input_bytes_max: usize) -> Vec<Value> {
    vec![
        json!({ "role": "system", "content": task.prompt().trim() }),
        json!({ "role": "user", "content": task.input(input_bytes_max) }),
    ]
}

/// A wrong answer and what is wrong with it. Of a long one its beginning is enough.
pub(super) fn mistake(answer: &str, mistake: &str) -> [Value; 2] {
    const SHOWN_CHARS_MAX: usize = 2_000;
    let shown: String = answer.chars().take(SHOWN_CHARS_MAX).collect();
    let told = format!(
        "That cannot be used: {mistake}. Answer again, with nothing but one JSON object of the shape asked for."
    );
    [json!({ "role": "assistant", "content": shown }), json!({ "role": "user", "content": told })]
}

/// The body of a request.
pub(super) fn body<T: Task>(
    task: &T,
    model: &str,
    messages: &[Value],
    answer_tokens_max: usize,
    dialect: Dialect,
) -> Bytes {
    let mut messages = messages.to_vec();
    let limit = match dialect.limit {
        Limit::MaxTokens => "max_tokens",
        Limit::MaxCompletionTokens => "max_completion_tokens",
    };
    let format = match dialect.format {
        Format::Schema => {
            let schema = json!({ "name": name(task), "strict": true, "schema": task.schema() });
            Some(json!({ "type": "json_schema", "json_schema": schema }))
        }
        Format::Object => Some(json!({ "type": "json_object" })),
        Format::Words => None,
    };
    if dialect.format != Format::Schema {
        let prompt = format!("{}\n\nThe JSON schema of the answer:\n{}", task.prompt().trim(), task.schema());
        messages[0]["content"] = Value::String(prompt);
    }
    let mut body = json!({ "model": model, "messages": messages, "stream": false, limit: answer_tokens_max });
    if let Some(format) = format {
        body["response_format"] = format;
    }
    Bytes::from(body.to_string())
}

/// A task's name as servers take it: letters, digits, `_` and `-`.
fn name<T: Task>(task: &T) -> String {
    task.name().replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, message: &str) -> ModelError {
        ModelError::Refused { status, message: message.into(), retry_after: None }
    }

    #[test]
    fn a_server_is_met_where_it_stands() {
        let first = Dialect::default();
        let object = first.simpler(&refused(400, "response_format json_schema is not supported")).expect("simpler");
        assert_eq!(object.format, Format::Object);
        let words = object.simpler(&refused(422, "unknown field response_format")).expect("simpler");
        assert_eq!((words.format, words.simpler(&refused(400, "no"))), (Format::Words, None));
        let renamed = first.simpler(&refused(400, "use 'max_completion_tokens' instead")).expect("another name");
        assert_eq!((renamed.format, renamed.limit), (Format::Schema, Limit::MaxCompletionTokens));
    }

    #[test]
    fn other_refusals_are_no_matter_of_form() {
        for (status, message) in [(401, "key"), (404, "model"), (429, "busy"), (500, "oops"), (400, "context length")] {
            assert_eq!(Dialect::default().simpler(&refused(status, message)), None, "{status}");
        }
        assert_eq!(Dialect::default().simpler(&ModelError::BrokeOff(String::new())), None);
    }
}
