//! Records of a file into a memory: a conversation at a time, each in one transaction, or in parts when it is long.

mod known;

use self::known::Gathered;
use super::ReviewError;
use crate::memory::Memory;
use crate::message::Message;
use crate::scope::{Scope, Whose};
use crate::session::{TextError, check_text};
use crate::store::{Arrival, StoreError, TakenIn};
use crate::takeout::{EpisodeRecord, FactRecord, Line, SessionRecord, TopicRecord, TurnRecord};

/// Turns, and bytes of text, that are taken in at once.
const TURNS_AT_ONCE: usize = 500;
const BYTES_AT_ONCE: usize = 4 << 20;
/// Topics or episodes that are taken in at once.
const RECORDS_AT_ONCE: usize = 500;
/// Names under which something is known that are taken in at once.
const NAMES_AT_ONCE: usize = 50;
/// Refused lines that are told one by one; all are counted.
const REFUSED_TOLD_MAX: usize = 1_000;

/// What an import came to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ImportReport {
    /// Conversations that are new, and those that were here.
    pub sessions: u64,
    /// See [`ImportReport::sessions`].
    pub sessions_known: u64,
    /// What is in them; turns that were here are counted apart.
    pub taken: TakenIn,
    /// Topics that are new.
    pub topics: u64,
    /// Names under which something about a user is new.
    pub facts: u64,
    /// Documents that are new.
    pub documents: u64,
    /// Lines that were refused, by number and with the reason; the first thousand.
    pub refused: Vec<(u64, String)>,
    /// How many there were.
    pub refused_count: u64,
}

impl ImportReport {
    /// Notes a line that was refused.
    pub fn refuse(&mut self, number: u64, reason: impl Into<String>) {
        self.refused_count += 1;
        if self.refused.len() < REFUSED_TOLD_MAX {
            self.refused.push((number, reason.into()));
        }
    }

    fn add(&mut self, taken: TakenIn) {
        let TakenIn { turns, messages, completed, known, episodes, .. } = taken;
        let total = &mut self.taken;
        total.turns += turns;
        total.messages += messages;
        total.completed += completed;
        total.known += known;
        total.episodes += episodes;
    }
}

/// An import under way. Lines are handed to [`Importer::take`] in the order of their file.
pub struct Importer {
    memory: Memory,
    whose: Whose,
    dry: bool,
    report: ImportReport,
    /// The conversation that turns belong to.
    open: Option<Open>,
    topics: Vec<TopicRecord>,
    facts: Vec<(u64, FactRecord)>,
    gone: Vec<EpisodeRecord>,
    /// The document that passages and parts of files belong to.
    document: Option<Gathered>,
    /// Whose the topics and episodes are.
    theirs: Option<Scope>,
    /// Whether the first conversation was counted before.
    again: bool,
}

struct Open {
    scope: Scope,
    arrival: Arrival,
    /// The lines that the turns came in.
    numbers: Vec<u64>,
    bytes: usize,
    counted: bool,
    /// It lives here already, and what is in the file is not taken in.
    closed: bool,
    /// A line of it was refused. Without any other turn the conversation is not taken in.
    refused: bool,
}

impl Memory {
    /// Begins an import. With `dry` nothing is written, and what would be is counted. `again` says that the first conversation
    /// was counted by an import before.
    pub fn import(&self, whose: Whose, dry: bool, again: bool) -> Importer {
        let (memory, report) = (self.clone(), ImportReport::default());
        Importer {
            memory,
            whose,
            dry,
            report,
            open: None,
            topics: Vec::new(),
            facts: Vec::new(),
            gone: Vec::new(),
            document: None,
            theirs: None,
            again,
        }
    }
}

impl Importer {
    /// Takes a line. One that cannot be taken in is noted and passed over; an error is the store's.
    pub async fn take(&mut self, number: u64, line: Line) -> Result<(), ReviewError> {
        match line {
            Line::Header(_) | Line::Damaged(_) | Line::End(_) => Ok(()),
            Line::Session(user, record) => self.session(number, user, record).await,
            Line::Turn(session, record) => match &self.open {
                Some(open) if open.arrival.session.id == session => self.turn(number, record).await,
                _ => self.refused(number, "its conversation does not stand before it"),
            },
            Line::Episode(_, record) if !record.gone => self.episode(number, record),
            Line::Topic(user, record) => match self.turn_to(number, user).await? {
                true => {
                    self.topics.push(record);
                    self.settle_when_full().await
                }
                false => Ok(()),
            },
            Line::Fact(user, record) => match self.turn_to(number, user).await? {
                true => {
                    self.facts.push((number, record));
                    if self.facts.len() >= NAMES_AT_ONCE { self.settle().await } else { Ok(()) }
                }
                false => Ok(()),
            },
            Line::Document(document) => self.document(number, document).await,
            Line::Passage(id, passage) => self.passage(number, id, passage),
            Line::Part(part) => self.part(number, part),
            Line::Episode(user, record) => match self.turn_to(number, user).await? {
                true => {
                    self.gone.push(record);
                    self.settle_when_full().await
                }
                false => Ok(()),
            },
        }
    }

    /// Notes a line that was no record. It counts as a turn of the conversation before it.
    pub fn refuse(&mut self, number: u64, reason: impl Into<String>) {
        if let Some(open) = &mut self.open {
            open.refused = true;
        }
        self.report.refuse(number, reason);
    }

    /// Takes in what is left, and answers what it all came to.
    pub async fn finish(mut self) -> Result<ImportReport, ReviewError> {
        self.close().await?;
        self.settle().await?;
        self.shelve().await?;
        Ok(self.report)
    }

    fn refused(&mut self, number: u64, reason: &str) -> Result<(), ReviewError> {
        self.report.refuse(number, reason);
        Ok(())
    }

    async fn session(&mut self, number: u64, user: Option<String>, record: SessionRecord) -> Result<(), ReviewError> {
        self.close().await?;
        self.settle().await?;
        let scope = match self.whose.of(user.as_deref()) {
            Ok(scope) => scope,
            Err(error) => return self.refused(number, &format!("its user {error}")),
        };
        let closed = self.lives_here(&scope, &record).await?;
        if closed {
            self.report.refuse(number, "this conversation was held here; what is in the file is passed over");
        }
        let counted = closed || std::mem::take(&mut self.again);
        let arrival = Arrival { session: record, episodes: Vec::new(), turns: Vec::new() };
        self.open = Some(Open { scope, arrival, numbers: Vec::new(), bytes: 0, counted, closed, refused: false });
        Ok(())
    }

    /// Whether a conversation of another program was held through us, so that all of it is here already.
    async fn lives_here(&self, scope: &Scope, record: &SessionRecord) -> Result<bool, ReviewError> {
        const MARK: &str = "imported_from";
        if !record.metadata.contains_key(MARK) {
            return Ok(false);
        }
        let here = self.memory.parts.store.session(scope, record.id).await?;
        Ok(here.is_some_and(|here| !here.metadata.contains_key(MARK)))
    }

    async fn turn(&mut self, number: u64, record: TurnRecord) -> Result<(), ReviewError> {
        if let Err(reason) = self.check_record(&record) {
            self.refuse(number, reason);
            return Ok(());
        }
        let Some(open) = self.open.as_mut().filter(|open| !open.closed) else { return Ok(()) };
        open.bytes += record.messages.iter().map(weight).sum::<usize>();
        open.arrival.turns.push(record);
        open.numbers.push(number);
        if open.numbers.len() >= TURNS_AT_ONCE || open.bytes >= BYTES_AT_ONCE { self.hand_over().await } else { Ok(()) }
    }

    /// Every text has the bound of an answer, whoever stored it first.
    fn check_record(&self, record: &TurnRecord) -> Result<(), String> {
        let chars_max = self.memory.settings.answer_chars_max;
        for text in record.texts() {
            if let Err(reason @ TextError::TooLong { .. }) = check_text(text, chars_max) {
                return Err(format!("a message of it {reason}"));
            }
        }
        Ok(())
    }

    fn episode(&mut self, number: u64, record: EpisodeRecord) -> Result<(), ReviewError> {
        match &mut self.open {
            Some(open) if open.arrival.session.id == record.episode.session && open.numbers.is_empty() => {
                open.arrival.episodes.push(record);
                Ok(())
            }
            _ => self.refused(number, "its conversation does not stand right before it"),
        }
    }

    /// Ends the conversation that was open.
    async fn close(&mut self) -> Result<(), ReviewError> {
        let is_due = |open: &Open| !open.numbers.is_empty() || !(open.counted || open.refused);
        if self.open.as_ref().is_some_and(|open| !open.closed && is_due(open)) {
            self.hand_over().await?;
        }
        self.open = None;
        Ok(())
    }

    /// Takes in what has come of a conversation.
    async fn hand_over(&mut self) -> Result<(), ReviewError> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let next = Arrival { session: open.arrival.session.clone(), episodes: Vec::new(), turns: Vec::new() };
        let arrival = std::mem::replace(&mut open.arrival, next);
        let numbers = std::mem::take(&mut open.numbers);
        open.bytes = 0;
        let (scope, counted) = (open.scope.clone(), std::mem::replace(&mut open.counted, true));
        if !self.dry {
            self.admit(&scope, &arrival).await?;
        }
        let takeout = self.memory.parts.store.takeout();
        let taken = match takeout.take_in(&scope, arrival.clone(), self.dry).await {
            Err(StoreError::Refused(_)) => match self.one_by_one(&scope, arrival, &numbers).await? {
                Ok(taken) => taken,
                Err(episodes) => {
                    if let Some(open) = &mut self.open {
                        (open.counted, open.refused, open.arrival.episodes) = (counted, true, episodes);
                    }
                    return Ok(());
                }
            },
            taken => self.memory.told(&scope, Some(arrival.session.id), "import", taken)?,
        };
        match (counted, taken.new) {
            (true, _) => {}
            (false, true) => self.report.sessions += 1,
            (false, false) => self.report.sessions_known += 1,
        }
        self.report.add(taken);
        Ok(())
    }

    /// Whether the tenant may have this. What is here already is looked for only where that decides.
    async fn admit(&self, scope: &Scope, arrival: &Arrival) -> Result<(), ReviewError> {
        let (tenants, tenant) = (&self.memory.tenants, scope.tenant());
        if tenants.admit_turns(tenant, true, arrival.turns.len() as u64).await.is_ok() {
            return Ok(());
        }
        match self.memory.parts.store.takeout().take_in(scope, arrival.clone(), true).await {
            Ok(new) => Ok(tenants.admit_turns(tenant, new.new, new.turns).await?),
            // It is told when it is taken in.
            Err(_) => Ok(()),
        }
    }

    /// Something in it is refused; the rest is taken in. When every turn is, nothing is written and the episodes are returned.
    async fn one_by_one(
        &mut self,
        scope: &Scope,
        arrival: Arrival,
        numbers: &[u64],
    ) -> Result<Result<TakenIn, Vec<EpisodeRecord>>, ReviewError> {
        let Arrival { session, episodes, turns } = arrival;
        let (alone, had_turns) = (Arrival { session, episodes: Vec::new(), turns: Vec::new() }, !turns.is_empty());
        let mut parts = vec![(numbers.first().copied(), Arrival { episodes, ..alone.clone() })];
        for (turn, number) in turns.into_iter().zip(numbers) {
            let part = Arrival { turns: vec![turn], ..alone.clone() };
            if self.take_part(scope, Some(*number), part.clone(), true).await?.is_some() {
                parts.push((Some(*number), part));
            }
        }
        if had_turns && parts.len() == 1 {
            return Ok(Err(parts.swap_remove(0).1.episodes));
        }
        let (mut sum, mut written) = (ImportReport::default(), false);
        for (number, part) in parts {
            if let Some(taken) = self.take_part(scope, number, part, self.dry).await? {
                sum.taken.new |= taken.new;
                sum.add(taken);
                written = true;
            }
        }
        Ok(if written { Ok(sum.taken) } else { Err(Vec::new()) })
    }

    /// Takes in a part of a conversation. `None` when the store refuses it, which is noted.
    async fn take_part(
        &mut self,
        scope: &Scope,
        number: Option<u64>,
        part: Arrival,
        dry: bool,
    ) -> Result<Option<TakenIn>, ReviewError> {
        let session = part.session.id;
        match self.memory.parts.store.takeout().take_in(scope, part, dry).await {
            Err(StoreError::Refused(reason)) => {
                self.report.refuse(number.unwrap_or_default(), reason);
                Ok(None)
            }
            taken => self.memory.told(scope, Some(session), "import", taken).map(Some),
        }
    }

    /// Topics and episodes that belong to no conversation are gathered by their user. Answers whether there is one.
    async fn turn_to(&mut self, number: u64, user: Option<String>) -> Result<bool, ReviewError> {
        self.close().await?;
        let scope = match self.whose.of(user.as_deref()) {
            Ok(scope) => scope,
            Err(error) => return self.refused(number, &format!("its user {error}")).map(|()| false),
        };
        if self.theirs.as_ref() != Some(&scope) {
            self.settle().await?;
            self.theirs = Some(scope);
        }
        Ok(true)
    }

    async fn settle_when_full(&mut self) -> Result<(), ReviewError> {
        if self.topics.len() + self.gone.len() >= RECORDS_AT_ONCE { self.settle().await } else { Ok(()) }
    }

    /// Takes in the topics and episodes that were gathered.
    async fn settle(&mut self) -> Result<(), ReviewError> {
        let Some(scope) = self.theirs.clone() else { return Ok(()) };
        let (topics, gone) = (std::mem::take(&mut self.topics), std::mem::take(&mut self.gone));
        if !topics.is_empty() {
            let taken = self.memory.parts.store.takeout().take_in_topics(&scope, topics, self.dry).await;
            self.report.topics += self.memory.told(&scope, None, "import", taken)?;
        }
        let facts = std::mem::take(&mut self.facts);
        if !facts.is_empty() {
            self.settle_facts(&scope, facts).await?;
        }
        if !gone.is_empty() {
            let taken = self.memory.parts.store.takeout().take_in_gone(&scope, gone, self.dry).await;
            self.report.taken.episodes += self.memory.told(&scope, None, "import", taken)?;
        }
        Ok(())
    }
}

fn weight(message: &Message) -> usize {
    message.text.len() + message.raw.as_ref().map_or(0, |raw| raw.to_string().len())
}
