//! Clarifications as clients see them.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use super::time;
use crate::clarify::{ChoiceOption, Chosen};
use crate::review::OpenClarification;

/// A question that waits for a choice.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct ClarificationView {
    session_id: String,
    question: String,
    options: Vec<OptionView>,
    asked_at: String,
    /// When it is let go, unless it is answered before.
    expires_at: String,
}

/// One of the things to choose from.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct OptionView {
    label: String,
    attributes: BTreeMap<String, String>,
}

impl From<ChoiceOption> for OptionView {
    fn from(option: ChoiceOption) -> Self {
        Self { label: option.label, attributes: option.attributes }
    }
}

impl From<OpenClarification> for ClarificationView {
    fn from(open: OpenClarification) -> Self {
        Self {
            session_id: open.session.to_string(),
            question: open.clarification.question,
            options: open.clarification.options.into_iter().map(OptionView::from).collect(),
            asked_at: time(open.clarification.asked_at),
            expires_at: time(open.expires_at),
        }
    }
}

/// What an answer to a clarification chose.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::api) struct ChosenView {
    /// What was asked.
    question: String,
    /// What was chosen; empty when none of it is wanted.
    options: Vec<OptionView>,
    /// What told: `name`, `ordinal`, `number`, `attribute`, `comparison`, `close match`, `all` or `neither`.
    by: &'static str,
}

impl From<Chosen> for ChosenView {
    fn from(chosen: Chosen) -> Self {
        let options = chosen.options.into_iter().map(OptionView::from).collect();
        Self { question: chosen.question, options, by: chosen.by.as_str() }
    }
}
