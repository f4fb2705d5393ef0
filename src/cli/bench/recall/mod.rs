//! `recalld bench recall|learn|followups|episodes|recall-speed`: how well and how fast things are found again.
//!
//! Everything goes through the library calls that the server makes: dated messages are added to a store of their own,
//! then questions are asked. So a number here is what a user would get.
//!
//! Reading order: `chats` (files in), `score` and `sheet` (numbers out), `stage` (a memory to measure with), then the
//! commands `rank`, `learn`, `followups`, `episodes` and `speed`.

pub(super) mod chats;
pub(super) mod episodes;
pub(super) mod followups;
pub(super) mod learn;
pub(super) mod rank;
mod score;
pub(super) mod sheet;
pub(super) mod speed;
pub(super) mod stage;

pub(super) use sheet::print;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};

use super::table::machine;

/// A bar for work that takes a while.
pub(super) fn progress(doing: &str, things: &str, count: usize) -> anyhow::Result<ProgressBar> {
    let template = format!("{doing} {{bar:40}} {{human_pos}} of {{human_len}} {things}, {{eta}} left");
    let style = ProgressStyle::with_template(&template).context("a template of ours")?;
    Ok(ProgressBar::new(count as u64).with_style(style))
}

/// What a table is about, and where it was measured.
pub(super) fn title(what: &str, how: &str) -> String {
    format!("{what}: {how} ({})", machine())
}

#[cfg(test)]
mod tests;
