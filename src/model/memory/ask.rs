//! Asking: a task, answered in its shape; once more with the mistake; then no more.

use std::sync::PoisonError;
use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;

use super::request::{Dialect, body, messages, mistake};
use super::{Failure, MemoryModel, NoProposal, Proposal, Spent, Task, read};
use crate::model::embed::beginning;
use crate::model::{Ending, ModelError};

/// The part of the model's tokens that is kept for its answer and whatever it thinks before.
const ANSWER_SHARE: usize = 4;
/// Tokens for the prompt, the schema and a mistake that is shown.
const PROMPT_TOKENS: usize = 1_000;
/// Requests that one question may take: an answer and another, and refusals until the server takes the form.
const REQUESTS_MAX: u32 = 5;
/// Bytes that are certain to fit into a token on average, in any language we know.
const BYTES_PER_TOKEN: usize = 3;
/// What is kept of an answer that could not be used, in bytes.
const RAW_BYTES_MAX: usize = 4_096;

/// An answer as it came.
struct Heard {
    text: String,
    truncated: bool,
}

impl MemoryModel {
    /// Asks for an answer in a task's shape. Dropping the future cancels it.
    pub async fn ask<T: Task>(&self, task: &T) -> Result<Proposal<T::Answer>, NoProposal> {
        let mut talk = messages(task, self.input_bytes_max());
        let mut spent = Spent::default();
        let first = self.hear(task, &talk, &mut spent).await.map_err(|why| NoProposal { why, spent, raw: None })?;
        let wrong = match first.read(task) {
            Ok(value) => return Ok(Proposal { value, spent }),
            Err(wrong) => wrong,
        };
        talk.extend(mistake(&first.text, &wrong));
        let raw = |heard: &Heard| Some(beginning(&heard.text, RAW_BYTES_MAX).to_owned());
        let second = self.hear(task, &talk, &mut spent).await;
        let second = second.map_err(|why| NoProposal { why, spent, raw: raw(&first) })?;
        match second.read(task) {
            Ok(value) => Ok(Proposal { value, spent }),
            Err(_) if second.truncated => Err(NoProposal { why: Failure::Truncated, spent, raw: raw(&second) }),
            Err(wrong) => Err(NoProposal { why: Failure::Unusable(wrong), spent, raw: raw(&second) }),
        }
    }

    /// How long asking may take as a whole.
    pub fn patience(&self) -> Duration {
        self.settings.timeout.saturating_mul(REQUESTS_MAX)
    }

    /// Room for what a task is about.
    fn input_bytes_max(&self) -> usize {
        let tokens = self.settings.tokens_max;
        tokens.saturating_sub(tokens / ANSWER_SHARE + PROMPT_TOKENS) * BYTES_PER_TOKEN
    }

    /// One answer, in the first form that the server takes; that form is remembered.
    async fn hear<T: Task>(&self, task: &T, talk: &[Value], spent: &mut Spent) -> Result<Heard, Failure> {
        let mut dialect = *self.dialect.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match self.hear_once(task, talk, dialect, spent).await {
                Ok(heard) => {
                    *self.dialect.lock().unwrap_or_else(PoisonError::into_inner) = dialect;
                    return Ok(heard);
                }
                Err(error) => dialect = dialect.simpler(&error).ok_or(error)?,
            }
        }
    }

    async fn hear_once<T: Task>(
        &self,
        task: &T,
        talk: &[Value],
        dialect: Dialect,
        spent: &mut Spent,
    ) -> Result<Heard, ModelError> {
        let patience = self.settings.timeout;
        let answer_tokens_max = self.settings.tokens_max / ANSWER_SHARE;
        let body = body(task, &self.settings.model, talk, answer_tokens_max, dialect);
        let sent = body.len();
        spent.calls += 1;
        let answer = timeout(patience, self.server.complete(body)).await;
        let (text, ending) = answer.map_err(|_| ModelError::Silent(patience))??;
        spent.tokens += tokens(&ending, sent + text.len());
        Ok(Heard { text, truncated: ending.finish_reason.as_deref() == Some("length") })
    }
}

impl Heard {
    /// What it comes to, or what is wrong with it.
    fn read<T: Task>(&self, task: &T) -> Result<T::Answer, String> {
        let mut wrong = None;
        for object in read::objects(&self.text) {
            match task.parse(&object) {
                Ok(answer) => return Ok(answer),
                Err(mistake) => drop(wrong.get_or_insert(mistake)),
            }
        }
        match wrong {
            _ if self.truncated => Err("it was cut off because it was too long; be much shorter".to_owned()),
            Some(mistake) => Err(mistake),
            None => Err("there is no JSON object in it".to_owned()),
        }
    }
}

/// What was used, by the server's word; else guessed from the bytes.
fn tokens(ending: &Ending, bytes: usize) -> u64 {
    ending.tokens_used.unwrap_or(bytes as u64 / 4)
}
