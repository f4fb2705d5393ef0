//! Lines from a person at a terminal, with editing and history, or from a pipe.
//!
//! Reading blocks, so it has a thread of its own; it reads one line each time it is asked for one.

use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};

use anyhow::Context;
use rustyline::error::ReadlineError;
use rustyline::{Config, DefaultEditor};
use tokio::sync::mpsc;

use super::engine::variable;
use super::output::{Colours, Tint};

/// Most lines kept between runs.
const HISTORY_LINES_MAX: usize = 1_000;
/// What stands before what a person types.
const PROMPT: &str = "> ";

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A line, without its end.
    Text(String),
    /// Ctrl-C at the prompt.
    Interrupted,
    /// There will be no more.
    End,
    /// It could not be read.
    Failed(String),
}

/// Where lines come from.
pub(super) struct Lines {
    /// Whether a person types them.
    pub(super) typed: bool,
    wanted: Sender<()>,
    read: mpsc::Receiver<Line>,
}

impl Lines {
    /// Reads stdin from now on.
    pub(super) fn open() -> anyhow::Result<Self> {
        let typed = std::io::stdin().is_terminal();
        let ((wanted, asked), (told, read)) = (channel(), mpsc::channel(1));
        let reading = move || if typed { read_terminal(&asked, &told) } else { read_pipe(&asked, &told) };
        std::thread::Builder::new().name("lines".into()).spawn(reading).context("cannot start a thread")?;
        Ok(Self { typed, wanted, read })
    }

    /// The next line. Ctrl-C ends what comes from a pipe; at a prompt it is a key like any other.
    pub(super) async fn next(&mut self) -> Line {
        if self.wanted.send(()).is_err() {
            return Line::End;
        }
        tokio::select! {
            line = self.read.recv() => line.unwrap_or(Line::End),
            Ok(()) = tokio::signal::ctrl_c(), if !self.typed => Line::End,
        }
    }
}

fn read_pipe(asked: &Receiver<()>, told: &mpsc::Sender<Line>) {
    let mut stdin = std::io::stdin().lock();
    while asked.recv().is_ok() {
        let mut bytes = Vec::new();
        let line = match stdin.read_until(b'\n', &mut bytes) {
            Ok(0) => Line::End,
            Ok(_) => Line::Text(String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned()),
            Err(error) => Line::Failed(error.to_string()),
        };
        if told.blocking_send(line).is_err() {
            return;
        }
    }
}

fn read_terminal(asked: &Receiver<()>, told: &mpsc::Sender<Line>) {
    let mut terminal = match Terminal::open() {
        Ok(terminal) => terminal,
        Err(error) => return drop(told.blocking_send(Line::Failed(error.to_string()))),
    };
    while asked.recv().is_ok() {
        if told.blocking_send(terminal.read()).is_err() {
            return;
        }
    }
}

struct Terminal {
    editor: DefaultEditor,
    prompt: (&'static str, String),
    /// `None` when there is no place for it; then the history lasts as long as the process.
    history: Option<PathBuf>,
}

impl Terminal {
    fn open() -> Result<Self, ReadlineError> {
        let config = Config::builder().max_history_size(HISTORY_LINES_MAX)?.history_ignore_dups(true)?;
        let mut editor = DefaultEditor::with_config(config.history_ignore_space(true).build())?;
        let history = history_file(variable).filter(|path| make_room(path));
        if let Some(path) = &history {
            // A first run has none.
            let _ = editor.load_history(path);
        }
        let prompt = (PROMPT, Colours::of(&std::io::stdout()).paint(Tint::Bold, PROMPT));
        Ok(Self { editor, prompt, history })
    }

    fn read(&mut self) -> Line {
        match self.editor.readline(&self.prompt) {
            Ok(text) => {
                self.remember(&text);
                Line::Text(text)
            }
            Err(ReadlineError::Interrupted) => Line::Interrupted,
            Err(ReadlineError::Eof) => Line::End,
            Err(error) => Line::Failed(error.to_string()),
        }
    }

    /// Kept at once, so that a killed terminal costs nothing. A full disk costs only the history.
    fn remember(&mut self, text: &str) {
        let added = !text.trim().is_empty() && self.editor.add_history_entry(text).unwrap_or(false);
        if let (true, Some(path)) = (added, &self.history) {
            let _ = self.editor.append_history(path);
        }
    }
}

/// Where typed lines are kept between runs.
fn history_file(home: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    state_folder(home).map(|state| state.join("history"))
}

/// Where commands keep what they note for themselves.
pub(super) fn state_folder(home: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let state = home("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let state = state.or_else(|| home("HOME").map(|home| PathBuf::from(home).join(".local/state")));
    state.map(|state| state.join("recalld"))
}

/// Makes the folder of the history, for nobody else to read.
fn make_room(history: &Path) -> bool {
    let Some(folder) = history.parent() else { return false };
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(environment: &[(&str, &str)], expected: Option<&str>) {
        let find = |name: &str| environment.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        assert_eq!(history_file(find), expected.map(PathBuf::from));
    }

    #[test]
    fn the_history_is_kept_where_state_is_kept() {
        check(&[("HOME", "/home/ann")], Some("/home/ann/.local/state/recalld/history"));
        check(&[("HOME", "/home/ann"), ("XDG_STATE_HOME", "/state")], Some("/state/recalld/history"));
        check(&[("HOME", "/home/ann"), ("XDG_STATE_HOME", "relative")], Some("/home/ann/.local/state/recalld/history"));
        check(&[], None);
    }
}
