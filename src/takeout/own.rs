//! Our own export, read back.

use std::io::{BufRead, Read};

use xxhash_rust::xxh3::Xxh3;

use super::line::{Line, LineError, Summary, VERSION, open};
use super::{Found, PartRecord, ReadError, Taker};
use crate::id::{DocumentId, SessionId};

/// Longest line that is read, in bytes. A turn with pictures in it may be long.
pub const LINE_BYTES_MAX: usize = 64 << 20;

/// Reads the lines of an export. A file that goes on with another export is two files.
pub(super) fn read(input: impl BufRead, taker: Taker<'_>) -> Result<(), ReadError> {
    let lines = Lines { input, number: 0 };
    let mut reading =
        Reading { lines, part: Part::default(), session: None, document: None, held: None, spoilt: false };
    let ended = reading.all(taker);
    reading.release(taker);
    ended
}

struct Reading<R> {
    lines: Lines<R>,
    part: Part,
    /// The conversation that turns belong to.
    session: Option<SessionId>,
    /// The document that parts and passages belong to.
    document: Option<DocumentId>,
    /// A conversation of which nothing else was read so far, and whether a bad line followed it. It is handed over with the
    /// next good line of it: a conversation whose turns are all bad must not arrive empty.
    held: Option<Found>,
    spoilt: bool,
}

/// What was read since the last header.
#[derive(Default)]
struct Part {
    begun: bool,
    ended: bool,
    lines: u64,
    hash: Xxh3,
}

impl<R: BufRead> Reading<R> {
    fn all(&mut self, taker: Taker<'_>) -> Result<(), ReadError> {
        while let Some(text) = self.lines.next()? {
            let goes_on = self.take(&text)?.is_none_or(|found| self.hand_over(found, taker));
            if !goes_on {
                return Ok(());
            }
        }
        self.ended()
    }

    fn hand_over(&mut self, found: Found, taker: Taker<'_>) -> bool {
        match &found {
            Found::Bad(..) => self.spoilt = true,
            Found::Passed(_) => {}
            Found::Line(_, line) => {
                self.spoilt &= !matches!(**line, Line::Turn(..) | Line::Episode(..));
                let goes_on = self.release(taker);
                if matches!(**line, Line::Session(..)) {
                    self.held = Some(found);
                    return goes_on;
                }
            }
        }
        taker(found)
    }

    /// Hands over the conversation that was held back, unless all that followed was bad. Answers whether to go on.
    fn release(&mut self, taker: Taker<'_>) -> bool {
        let spoilt = std::mem::take(&mut self.spoilt);
        self.held.take().filter(|_| !spoilt).is_none_or(taker)
    }

    /// What a line is; `None` for those that are only about the file.
    fn take(&mut self, text: &[u8]) -> Result<Option<Found>, ReadError> {
        let line = match std::str::from_utf8(text) {
            Ok(line) if line.trim().is_empty() => return Ok(None),
            Ok(line) => open(line),
            Err(_) => Err(LineError::Shape("it is not text".into())),
        };
        if let Ok(Line::End(summary)) = &line {
            self.check(summary)?;
            return Ok(None);
        }
        if let Ok(Line::Header(header)) = &line {
            if header.version > VERSION {
                return Err(ReadError::Newer(header.version));
            }
            self.part = Part { begun: true, ..Part::default() };
            (self.session, self.document) = (None, None);
        }
        self.part.lines += 1;
        self.part.hash.update(text);
        Ok(self.found(line))
    }

    fn found(&mut self, line: Result<Line, LineError>) -> Option<Found> {
        let at = format!("line {}", self.lines.number);
        match line {
            Ok(Line::Header(_) | Line::End(_)) => None,
            Ok(Line::Damaged(_)) => Some(Found::Passed("damaged when it was exported")),
            Ok(Line::Turn(session, _)) if self.session != Some(session) => {
                Some(Found::Bad(at, "its conversation does not stand before it".into()))
            }
            Ok(Line::Part(PartRecord { document, .. }) | Line::Passage(document, _))
                if self.document != Some(document) =>
            {
                Some(Found::Bad(at, "its document does not stand before it".into()))
            }
            Ok(line) => {
                match &line {
                    Line::Session(_, session) => self.session = Some(session.id),
                    Line::Document(document) => self.document = Some(document.id),
                    _ => {}
                }
                Some(Found::Line(at, Box::new(line)))
            }
            Err(error) => Some(Found::Bad(at, error.to_string())),
        }
    }

    fn check(&mut self, summary: &Summary) -> Result<(), ReadError> {
        let (lines, checksum) = (self.part.lines, format!("{:016x}", self.part.hash.digest()));
        self.part.ended = true;
        if (summary.lines, &summary.checksum) == (lines, &checksum) {
            return Ok(());
        }
        let told = format!("its last line tells of {} lines and checksum {}", summary.lines, summary.checksum);
        Err(ReadError::Broken(format!("{told}, it has {lines} and {checksum}")))
    }

    fn ended(&self) -> Result<(), ReadError> {
        match self.part.begun && !self.part.ended {
            true => Err(ReadError::Broken(format!("it has no last line; {} lines were read", self.part.lines))),
            false => Ok(()),
        }
    }
}

/// Lines of bounded length.
pub(super) struct Lines<R> {
    input: R,
    pub(super) number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn of(input: R) -> Self {
        Self { input, number: 0 }
    }

    /// The next line with its end.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, ReadError> {
        let mut line = Vec::new();
        let bytes_max = LINE_BYTES_MAX as u64;
        let read = self.input.by_ref().take(bytes_max).read_until(b'\n', &mut line);
        let read = read.map_err(|error| ReadError::Io(error.to_string()))?;
        self.number += 1;
        match read {
            0 => Ok(None),
            read if read == LINE_BYTES_MAX && line.last() != Some(&b'\n') => {
                Err(ReadError::Broken(format!("line {} is longer than {LINE_BYTES_MAX} bytes", self.number)))
            }
            _ => Ok(Some(line)),
        }
    }
}
