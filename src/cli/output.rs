//! What the commands say. Everything passes here, so that a closed pipe is noticed in one place and
//! no escape sequence of a model reaches a terminal.
//!
//! Results go to stdout; what a person should know beside them goes to stderr.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use anyhow::Context;
use serde::Serialize;

/// Whoever read our output has seen enough, as `head` has. Commands stop, and nobody complains.
#[derive(Debug, thiserror::Error)]
#[error("nobody reads the output any more")]
pub(super) struct NobodyReads;

/// A line of the result.
pub(super) fn say(line: impl Display) -> anyhow::Result<()> {
    write(&format!("{line}\n"))
}

/// A part of an answer, shown as it comes.
pub(super) fn piece(text: &str) -> anyhow::Result<()> {
    if io::stdout().is_terminal() { write(&harmless(text)) } else { write(text) }
}

/// The result as JSON, indented.
pub(super) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    say(serde_json::to_string_pretty(value).context("cannot write JSON")?)
}

/// The result as JSON, one line of many.
pub(super) fn json_line(value: &impl Serialize) -> anyhow::Result<()> {
    say(serde_json::to_string(value).context("cannot write JSON")?)
}

/// A part of the result that is handed on as it is.
pub(super) fn bytes(part: &[u8]) -> anyhow::Result<()> {
    written(part)
}

/// A line beside the result. When stderr is gone nobody is there to be told.
pub(super) fn note(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// A question to the person at the terminal, on stderr and without a line end.
pub(super) fn prompt(question: &str) {
    let mut stderr = io::stderr().lock();
    let _ = write!(stderr, "{question}").and_then(|()| stderr.flush());
}

fn write(text: &str) -> anyhow::Result<()> {
    written(text.as_bytes())
}

fn written(bytes: &[u8]) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(NobodyReads.into()),
        written => written.context("cannot write the output"),
    }
}

/// A text without control characters, which a model could use to rewrite what stands on the screen.
pub(super) fn harmless(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// How a word is set off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tint {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
}

/// Whether colours are used, decided once for each stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Colours {
    on: bool,
}

impl Colours {
    /// Colours for a stream: on a terminal that knows them, unless `NO_COLOR` is set.
    pub(super) fn of(stream: &impl IsTerminal) -> Self {
        let (no_color, term) = (std::env::var_os("NO_COLOR"), std::env::var_os("TERM"));
        Self { on: stream.is_terminal() && wanted(no_color.as_deref(), term.as_deref()) }
    }

    /// The text in this tint, or as it is.
    pub(super) fn paint(self, tint: Tint, text: &str) -> String {
        let code = match tint {
            Tint::Bold => 1,
            Tint::Dim => 2,
            Tint::Red => 31,
            Tint::Green => 32,
            Tint::Yellow => 33,
        };
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// See <https://no-color.org>: any value but the empty one.
fn wanted(no_color: Option<&OsStr>, term: Option<&OsStr>) -> bool {
    no_color.is_none_or(OsStr::is_empty) && term.is_none_or(|term| term != "dumb")
}

/// How many columns the terminal has; `None` when stdout is something else.
pub(super) fn columns() -> Option<usize> {
    #[cfg(unix)]
    let columns = rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col));
    #[cfg(not(unix))]
    let columns = None;
    columns.filter(|columns| *columns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_cannot_steer_the_terminal() {
        assert_eq!(harmless("a\x1b[2Jb\u{9b}c\r\nd\te\u{7}"), "a[2Jbc\nd\te");
    }

    #[test]
    fn colours_can_be_declined() {
        assert!(wanted(None, Some("xterm".as_ref())));
        assert!(wanted(Some("".as_ref()), None), "empty is not set");
        assert!(!wanted(Some("1".as_ref()), Some("xterm".as_ref())));
        assert!(!wanted(None, Some("dumb".as_ref())));
        assert_eq!(Colours { on: false }.paint(Tint::Red, "x"), "x");
        assert_eq!(Colours { on: true }.paint(Tint::Red, "x"), "\x1b[31mx\x1b[0m");
    }
}
