//! A memory as a file: topics, what is known, conversations with their episodes and turns, episodes that outlived theirs, user by
//! user; then what all users of the tenant share.
//!
//! Read in pages and handed over in pieces, so that it takes the same memory whatever its size. What changes meanwhile is
//! in it as it was when its page was read.

use bytes::Bytes;
use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::Sender;
use xxhash_rust::xxh3::Xxh3;

use super::ReviewError;
use crate::id::{DocumentId, SessionId};
use crate::memory::Memory;
use crate::scope::{Scope, TenantScope, User, Whose};
use crate::store::{
    EpisodesAfter, FactsFrom, PageRequest, SessionsAfter, StoreError, TopicsAfter, TurnRecords, TurnsAfter,
};
use crate::takeout::{Cursor, Damage, Header, Line, PART_BYTES, PartRecord, Position, SessionRecord, Summary, seal};

/// Records of a page, and bytes of turns in one.
const PAGE: usize = 200;
const PAGE_BYTES: usize = 256 << 10;
/// Names under which something is known, in a page.
const NAMES_PAGE: usize = 20;
/// Exports that read a page of turns at the same moment. Many exports at once would otherwise queue before all other
/// reads.
static READING: Semaphore = Semaphore::const_new(2);
/// Bytes that are handed over at once.
const PIECE_BYTES: usize = 64 << 10;

/// What is to be exported.
#[derive(Debug, Clone)]
pub struct ExportRequest {
    /// Whose memory.
    pub whose: Whose,
    /// One conversation of it.
    pub session: Option<SessionId>,
    /// Only what was said since.
    pub since: Option<Timestamp>,
    /// Whether ephemeral conversations are among it.
    pub live: bool,
    /// Behind which line it goes on.
    pub after: Option<Cursor>,
}

impl Memory {
    /// Hands a memory over as the lines of a file, piece by piece; answers what was in them. When nobody takes the pieces any
    /// more it ends.
    pub async fn export(&self, what: ExportRequest, pieces: Sender<Bytes>) -> Result<Summary, ReviewError> {
        let out = Out { pieces, text: String::new(), hash: Xxh3::new(), summary: Summary::default() };
        let mut export = Export { memory: self, what: &what, out };
        let exported = export.run().await;
        exported.inspect_err(|error| {
            if let (ReviewError::Store(failure), Whose::One(scope)) = (error, &what.whose) {
                self.report(scope, what.session, "export", failure);
            }
        })
    }
}

struct Export<'a> {
    memory: &'a Memory,
    what: &'a ExportRequest,
    out: Out,
}

impl Export<'_> {
    async fn run(&mut self) -> Result<Summary, ReviewError> {
        self.out.line(&Line::Header(self.header()), None).await?;
        let from = self.what.after.clone();
        match &self.what.whose {
            Whose::One(scope) => self.user(scope, from.map(|cursor| cursor.position)).await?,
            everyone @ Whose::Everyone(_) => {
                let shared = everyone.shared();
                match from {
                    Some(Cursor { position: Position::Document(after), .. }) => self.documents(&shared, after).await?,
                    from => {
                        self.everyone(&shared, from).await?;
                        self.documents(&shared, None).await?;
                    }
                }
            }
        }
        self.out.end().await
    }

    async fn everyone(&mut self, tenant: &TenantScope, from: Option<Cursor>) -> Result<(), ReviewError> {
        let mut last: Option<User> = None;
        if let Some(Cursor { user, position }) = from {
            let scope = self.what.whose.of(Some(&user)).map_err(|_| ReviewError::CursorGone)?;
            self.user(&scope, Some(position)).await?;
            last = Some(scope.user().clone());
        }
        let takeout = self.memory.parts.store.takeout();
        while let Some(scope) = takeout.next_user(tenant.tenant(), last.as_ref()).await? {
            self.user(&scope, None).await?;
            last = Some(scope.user().clone());
        }
        Ok(())
    }

    fn header(&self) -> Header {
        let user = match &self.what.whose {
            Whose::One(scope) => Some(scope.user().to_string()),
            Whose::Everyone(_) => None,
        };
        let after = self.what.after.as_ref().map(Cursor::to_string);
        let ExportRequest { session, since, .. } = *self.what;
        Header { user, session, since, after, ..Header::of(self.what.whose.tenant().as_str()) }
    }

    async fn user(&mut self, scope: &Scope, from: Option<Position>) -> Result<(), ReviewError> {
        if matches!(from, None | Some(Position::Topic(_))) {
            self.topics(scope, from).await?;
        }
        if matches!(from, None | Some(Position::Topic(_) | Position::Facts)) && self.what.session.is_none() {
            self.facts(scope).await?;
        }
        if !matches!(from, Some(Position::Gone(_))) {
            self.sessions(scope, from).await?;
        }
        if self.what.session.is_none() {
            self.gone(scope, from).await?;
        }
        Ok(())
    }

    async fn topics(&mut self, scope: &Scope, from: Option<Position>) -> Result<(), ReviewError> {
        let after = match from {
            Some(Position::Topic(id)) => Some(id),
            _ => None,
        };
        let ExportRequest { session, since, .. } = *self.what;
        let mut which = TopicsAfter { after, session, since, limit: PAGE };
        loop {
            let page = self.memory.parts.store.takeout().topic_records(scope, which).await?;
            let page = page.ok_or(ReviewError::CursorGone)?;
            let more = page.len() == PAGE;
            for record in page {
                let id = record.topic.id;
                which.after = Some(id);
                let line = Line::Topic(Some(scope.user().to_string()), record);
                self.out.line(&line, Some(&at(scope, Position::Topic(id)))).await?;
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// What is known comes before what was said: whoever reads the words again finds that they are understood.
    async fn facts(&mut self, scope: &Scope) -> Result<(), ReviewError> {
        let mut from = Some(FactsFrom::START);
        while let Some(next) = from {
            let limit = if matches!(next, FactsFrom::Names(_)) { NAMES_PAGE } else { PAGE };
            let part = self.memory.parts.store.takeout().fact_records(scope, next, self.what.since, limit).await?;
            for record in part.records {
                let line = Line::Fact(Some(scope.user().to_string()), record);
                self.out.line(&line, Some(&at(scope, Position::Facts))).await?;
            }
            from = part.next;
        }
        Ok(())
    }

    /// What all users of the tenant share, in the order in which it came.
    async fn documents(&mut self, tenant: &TenantScope, after: Option<DocumentId>) -> Result<(), ReviewError> {
        let outline = self.memory.parts.store.knowledge().outline(tenant).await?.documents;
        let begin = match after {
            Some(id) => 1 + outline.iter().position(|(known, _)| *known == id).ok_or(ReviewError::CursorGone)?,
            None => 0,
        };
        let mut last = after;
        for (id, _) in &outline[begin..] {
            self.document(tenant, *id, last).await?;
            last = Some(*id);
        }
        Ok(())
    }

    /// A document in lines. One that broke off is told again from its first, so only its last line goes on behind it.
    async fn document(
        &mut self,
        tenant: &TenantScope,
        id: DocumentId,
        last: Option<DocumentId>,
    ) -> Result<(), ReviewError> {
        let knowledge = self.memory.parts.store.knowledge();
        // What goes meanwhile is not in the file.
        let Some((document, original)) = knowledge.original(tenant, id).await? else { return Ok(()) };
        if self.what.since.is_some_and(|since| document.updated_at < since) {
            return Ok(());
        }
        let again = Cursor { user: String::new(), position: Position::Document(last) };
        self.out.line(&Line::Document(document), Some(&again)).await?;
        let mut page = PageRequest::first(PAGE);
        while let Some(found) = knowledge.passages(tenant, id, page).await? {
            for passage in found.items {
                self.out.line(&Line::Passage(id, passage), Some(&again)).await?;
            }
            match found.next {
                Some(next) => page = PageRequest { after: Some(next), ..page },
                None => break,
            }
        }
        let behind = Cursor { user: String::new(), position: Position::Document(Some(id)) };
        let parts = original.len().div_ceil(PART_BYTES).max(1);
        for n in 0..parts {
            let bytes = original[n * PART_BYTES..original.len().min((n + 1) * PART_BYTES)].to_vec();
            let line = Line::Part(PartRecord { document: id, at: (n * PART_BYTES) as u64, bytes });
            self.out.line(&line, Some(if n + 1 == parts { &behind } else { &again })).await?;
        }
        Ok(())
    }

    async fn sessions(&mut self, scope: &Scope, from: Option<Position>) -> Result<(), ReviewError> {
        let ExportRequest { since, live, .. } = *self.what;
        let all = SessionsAfter { since, live, limit: PAGE, ..SessionsAfter::default() };
        let begun = match from {
            Some(Position::Session(id)) => Some((id, None)),
            Some(Position::Turn(id, number)) => Some((id, Some(number))),
            _ => self.what.session.map(|id| (id, None)),
        };
        let Some((id, after)) = begun else { return self.sessions_after(scope, all).await };
        let only = SessionsAfter { only: Some(id), live: true, since: None, ..all };
        let found = self.memory.parts.store.takeout().session_records(scope, only).await?.unwrap_or_default();
        match (found.into_iter().next(), self.what.session) {
            (Some(record), _) => self.session(scope, record, after).await?,
            (None, Some(id)) => return Err(ReviewError::UnknownSession(id)),
            (None, None) => return Err(ReviewError::CursorGone),
        }
        match self.what.session {
            Some(_) => Ok(()),
            None => self.sessions_after(scope, SessionsAfter { after: Some(id), ..all }).await,
        }
    }

    async fn sessions_after(&mut self, scope: &Scope, mut which: SessionsAfter) -> Result<(), ReviewError> {
        loop {
            let page = self.memory.parts.store.takeout().session_records(scope, which).await?;
            let page = page.ok_or(ReviewError::CursorGone)?;
            let more = page.len() == PAGE;
            for record in page {
                which.after = Some(record.id);
                self.session(scope, record, None).await?;
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// A conversation. When it goes on behind a turn, its first line is told again, because turns belong to the line before.
    async fn session(&mut self, scope: &Scope, record: SessionRecord, after: Option<u64>) -> Result<(), ReviewError> {
        let (id, end) = (record.id, record.next_number);
        let line = Line::Session(Some(scope.user().to_string()), record);
        self.out.line(&line, Some(&at(scope, Position::Session(id)))).await?;
        if after.is_none() {
            let since = self.what.since;
            self.episodes(scope, EpisodesAfter { session: Some(id), after: None, since, limit: PAGE }).await?;
        }
        self.turns(scope, id, after.unwrap_or(0), end).await
    }

    async fn turns(&mut self, scope: &Scope, session: SessionId, after: u64, end: u64) -> Result<(), ReviewError> {
        let mut which = TurnsAfter { after, since: self.what.since, limit: PAGE, bytes: PAGE_BYTES };
        loop {
            let reading = READING.acquire().await;
            let page = self.memory.parts.store.takeout().turn_records(scope, session, which).await;
            drop(reading);
            let page = match page {
                // A page of the file is damaged: what lies on others is told, one by one.
                Err(StoreError::DamagedFile(_)) if which.limit > 1 => {
                    which.limit = 1;
                    continue;
                }
                Err(StoreError::DamagedFile(what)) if which.after + 1 < end => {
                    let number = which.after + 1;
                    TurnRecords { turns: vec![Err((number, what))], next: Some(number) }
                }
                page => page?,
            };
            for turn in page.turns {
                let (number, line) = match turn {
                    Ok(record) => (record.number.unwrap_or_default(), Line::Turn(session, record)),
                    Err((number, what)) => (number, Line::Damaged(self.damage(scope, session, number, what))),
                };
                self.out.line(&line, Some(&at(scope, Position::Turn(session, number)))).await?;
            }
            match page.next {
                Some(next) => which.after = next,
                None => return Ok(()),
            }
        }
    }

    /// What is damaged is told of, in the file and in the log, and never shown.
    fn damage(&self, scope: &Scope, session: SessionId, number: u64, what: String) -> Damage {
        let failure = StoreError::Damaged { session, number, what: what.clone() };
        self.memory.report(scope, Some(session), "export", &failure);
        Damage { session, number, what }
    }

    async fn gone(&mut self, scope: &Scope, from: Option<Position>) -> Result<(), ReviewError> {
        let after = match from {
            Some(Position::Gone(id)) => Some(id),
            _ => None,
        };
        self.episodes(scope, EpisodesAfter { session: None, after, since: self.what.since, limit: PAGE }).await
    }

    /// Episodes of a conversation, which have its place, or those that outlived theirs, which have their own.
    async fn episodes(&mut self, scope: &Scope, mut which: EpisodesAfter) -> Result<(), ReviewError> {
        loop {
            let page = self.memory.parts.store.takeout().episode_records(scope, which).await?;
            let page = page.ok_or(ReviewError::CursorGone)?;
            let more = page.len() == PAGE;
            for record in page {
                which.after = Some(record.episode.id);
                let position = which.session.map_or(Position::Gone(record.episode.id), Position::Session);
                let line = Line::Episode(Some(scope.user().to_string()), record);
                self.out.line(&line, Some(&at(scope, position))).await?;
            }
            if !more {
                return Ok(());
            }
        }
    }
}

fn at(scope: &Scope, position: Position) -> Cursor {
    Cursor { user: scope.user().to_string(), position }
}

/// Where lines go: into pieces, counted and hashed.
struct Out {
    pieces: Sender<Bytes>,
    text: String,
    hash: Xxh3,
    summary: Summary,
}

impl Out {
    async fn line(&mut self, line: &Line, cursor: Option<&Cursor>) -> Result<(), ReviewError> {
        let sealed = seal(line, cursor);
        self.summary.count(line);
        self.hash.update(sealed.as_str().as_bytes());
        self.text.push_str(sealed.as_str());
        if self.text.len() < PIECE_BYTES { Ok(()) } else { self.hand_over().await }
    }

    async fn end(&mut self) -> Result<Summary, ReviewError> {
        self.summary.checksum = format!("{:016x}", self.hash.digest());
        self.text.push_str(seal(&Line::End(self.summary.clone()), None).as_str());
        self.hand_over().await?;
        Ok(self.summary.clone())
    }

    async fn hand_over(&mut self) -> Result<(), ReviewError> {
        let piece = Bytes::from(std::mem::take(&mut self.text));
        self.pieces.send(piece).await.map_err(|_| ReviewError::NobodyReads)
    }
}
