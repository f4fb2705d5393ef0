//! A model that says what it was told to, and remembers what it was shown: for tests.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::stream;

use super::{ChatModel, Ending, ModelError, ModelFuture, Piece, Pieces, Prompt};

/// One answer of the script: its pieces, and how it ends.
#[derive(Debug, Clone)]
pub struct Line {
    /// What is said.
    pub pieces: Vec<String>,
    /// An error after the pieces, instead of a proper end.
    pub error: Option<ModelError>,
}

/// The model. When the script is over it answers `ok`.
#[derive(Debug, Default)]
pub struct Scripted {
    lines: Mutex<VecDeque<Line>>,
    shown: Mutex<Vec<Prompt>>,
}

impl Scripted {
    /// Answers with these texts, one after the other.
    pub fn saying<T: Into<String>>(answers: impl IntoIterator<Item = T>) -> Self {
        let line = |text: T| Line { pieces: vec![text.into()], error: None };
        Self { lines: Mutex::new(answers.into_iter().map(line).collect()), shown: Mutex::default() }
    }

    /// Adds a line to the script.
    pub fn then(&self, line: Line) {
        lock(&self.lines).push_back(line);
    }

    /// Everything the model was shown so far.
    pub fn shown(&self) -> Vec<Prompt> {
        lock(&self.shown).clone()
    }
}

impl ChatModel for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    fn ask(&self, prompt: Prompt) -> ModelFuture<'_> {
        lock(&self.shown).push(prompt);
        let line = lock(&self.lines).pop_front();
        let line = line.unwrap_or_else(|| Line { pieces: vec!["ok".into()], error: None });
        Box::pin(async move {
            if let (true, Some(error)) = (line.pieces.is_empty(), &line.error) {
                return Err(error.clone());
            }
            let ending = Ending { model: Some("scripted".into()), ..Ending::default() };
            let end = line.error.map_or(Ok(Piece::End(ending)), Err);
            let pieces: Vec<_> = line.pieces.into_iter().map(|text| Ok(Piece::Text(text))).chain([end]).collect();
            Ok(Box::pin(stream::iter(pieces)) as Pieces)
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
