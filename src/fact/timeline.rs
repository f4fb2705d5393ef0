//! What follows from all that was said about a key: one value after the other, each with when it held.
//!
//! Statements are taken in the order in which they were said. So it makes no difference in which order they came, and
//! what is taken away or put back changes exactly what followed from it.

use jiff::Timestamp;

use super::{Act, Fact, Key, Maker, Statement, Status};
use crate::id::MessageId;

/// A fact with what it follows from.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    /// The fact.
    pub fact: Fact,
    /// The statements that say it, by their place among those given, in the order they were said.
    pub said_by: Vec<usize>,
    /// The statement that ended it.
    pub ended_by: Option<usize>,
}

/// The facts that follow from statements about one name of a category, all its items included, as of now.
pub fn timeline(statements: &[Statement], now: Timestamp) -> Vec<Version> {
    let mut order: Vec<usize> = (0..statements.len()).collect();
    order.sort_by_key(|at| statements[*at].place());
    let mut keys: Vec<&Key> = statements.iter().map(|statement| &statement.key).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.into_iter().flat_map(|key| Line::of(key, statements, &order, now).versions()).collect()
}

/// Whether a statement has a say about a key.
fn concerns(statement: &Statement, key: &Key) -> bool {
    let about_all = || statement.ends_everything() && statement.key.item.is_none() && statement.key.name == key.name;
    statement.key == *key || about_all()
}

/// One key's values while statements are gone through.
struct Line<'a> {
    statements: &'a [Statement],
    current: Option<Version>,
    /// What a value that holds for a time only took the place of: it comes back afterwards.
    covered: Option<Version>,
    /// Held, but not sure or not trusted enough.
    aside: Vec<Version>,
    over: Vec<Version>,
}

impl<'a> Line<'a> {
    fn of(key: &Key, statements: &'a [Statement], order: &[usize], now: Timestamp) -> Self {
        let mut line = Self { statements, current: None, covered: None, aside: Vec::new(), over: Vec::new() };
        for at in order.iter().copied().filter(|at| concerns(&statements[*at], key)) {
            line.time_passes(statements[at].evidence.said_at);
            line.hear(at);
        }
        line.time_passes(now);
        line
    }

    fn hear(&mut self, at: usize) {
        let said = &self.statements[at];
        let held = self.current.as_ref().map(|current| (said.says(&current.fact.value), current.fact.confidence));
        match (said.act, held) {
            (Act::End, _) if said.standing == Status::Quarantined => {}
            (Act::End, _) => self.end(at),
            (_, Some((true, _))) if said.standing == Status::Quarantined => {}
            _ if said.standing == Status::Quarantined => self.set_aside(at, Status::Quarantined),
            (_, Some((true, _))) => self.current.iter_mut().for_each(|current| current.hear(said, at)),
            (Act::State, Some((false, sure))) if said.confidence < sure => self.set_aside(at, Status::Provisional),
            (Act::State, None) if said.standing == Status::Provisional => self.set_aside(at, Status::Provisional),
            _ => self.replace(at),
        }
    }

    /// A value that nothing held contradicts, or that is sure enough to.
    fn replace(&mut self, at: usize) {
        let said = &self.statements[at];
        let known = self.aside.iter().position(|version| said.says(&version.fact.value));
        let mut next = match known.map(|known| self.aside.remove(known)) {
            Some(mut version) => {
                version.hear(said, at);
                version.fact.valid_from = said.from.unwrap_or(said.evidence.said_at);
                version
            }
            None => Version::begun(said, at),
        };
        next.fact.status = Status::Active;
        let old = self.current.replace(next);
        let for_a_time = said.until.is_some();
        if !for_a_time {
            self.over.extend(self.covered.take());
        }
        if let Some(mut old) = old {
            let when = said.from.unwrap_or(said.evidence.said_at).min(said.evidence.said_at);
            old.close(Status::Superseded, when, Some((said, at)));
            match for_a_time && old.fact.until.is_none() {
                true => self.covered = Some(old),
                false => self.over.push(old),
            }
        }
    }

    fn set_aside(&mut self, at: usize, status: Status) {
        let said = &self.statements[at];
        match self.aside.iter_mut().find(|version| said.says(&version.fact.value)) {
            Some(version) => {
                version.hear(said, at);
                if status == Status::Provisional {
                    version.fact.status = status;
                }
            }
            None => {
                let mut version = Version::begun(said, at);
                version.fact.status = status;
                self.aside.push(version);
            }
        }
    }

    fn end(&mut self, at: usize) {
        let said = &self.statements[at];
        let everything = said.value.trim().is_empty();
        let when = said.until.or(said.from).unwrap_or(said.evidence.said_at).min(said.evidence.said_at);
        let meant = |version: &Version| everything || said.says(&version.fact.value);
        let mut ended: Vec<Version> = self.aside.extract_if(.., |version| meant(version)).collect();
        if let Some(current) = self.current.take_if(|current| meant(current)) {
            ended.push(current);
            self.current = self.covered.take().filter(|_| !everything).map(Version::resumed);
        }
        ended.extend(self.covered.take_if(|covered| meant(covered)));
        for mut version in ended {
            version.close(Status::Retracted, when, Some((said, at)));
            self.over.push(version);
        }
    }

    /// What held until a time before this one holds no longer; what it covered does again.
    fn time_passes(&mut self, to: Timestamp) {
        let is_over = |version: &Version| version.fact.until.is_some_and(|until| until <= to);
        let mut ended: Vec<Version> = self.aside.extract_if(.., |version| is_over(version)).collect();
        if let Some(current) = self.current.take_if(|current| is_over(current)) {
            ended.push(current);
            self.current = self.covered.take().map(Version::resumed);
        }
        for mut version in ended {
            let until = version.fact.until.unwrap_or(to);
            version.close(Status::Expired, until, None);
            self.over.push(version);
        }
    }

    fn versions(self) -> Vec<Version> {
        let Self { statements, current, covered, aside, mut over } = self;
        over.extend(covered.into_iter().chain(current).chain(aside));
        over.iter_mut().for_each(|version| version.count(statements));
        over
    }
}

impl Version {
    fn begun(said: &Statement, at: usize) -> Self {
        let said_at = said.evidence.said_at;
        let fact = Fact {
            id: said.id,
            key: said.key.clone(),
            value: said.value.clone(),
            confidence: said.confidence,
            importance: said.importance,
            status: Status::Active,
            valid_from: said.from.unwrap_or(said_at),
            valid_to: said.until,
            until: said.until,
            learned_at: said.learned_at,
            evidence: said.evidence.clone(),
            last_said_at: said_at,
            confirmations: 0,
            ended_by: None,
        };
        Self { fact, said_by: vec![at], ended_by: None }
    }

    /// The same was said again.
    fn hear(&mut self, said: &Statement, at: usize) {
        let fact = &mut self.fact;
        fact.confidence = fact.confidence.max(said.confidence);
        fact.importance = fact.importance.max(said.importance);
        fact.last_said_at = said.evidence.said_at;
        if let Some(until) = said.until {
            (fact.until, fact.valid_to) = (Some(until), Some(until));
        }
        if said.act == Act::Correct {
            fact.value.clone_from(&said.value);
        }
        self.said_by.push(at);
    }

    fn close(&mut self, status: Status, when: Timestamp, by: Option<(&Statement, usize)>) {
        self.fact.status = status;
        self.fact.valid_to = Some(when.max(self.fact.valid_from));
        self.fact.ended_by = by.and_then(|(said, _)| said.evidence.message);
        self.ended_by = by.map(|(_, at)| at);
    }

    fn resumed(mut self) -> Self {
        self.fact.status = Status::Active;
        (self.fact.valid_to, self.fact.ended_by, self.ended_by) = (None, None, None);
        self
    }

    /// Counts who said it, each message once, and names it by the statement that we learned first.
    fn count(&mut self, statements: &[Statement]) {
        let said = || self.said_by.iter().map(|at| &statements[*at]);
        let mut messages: Vec<MessageId> = said().filter_map(|said| said.evidence.message).collect();
        messages.sort_unstable();
        messages.dedup();
        let by_hand = said().filter(|said| said.evidence.message.is_none()).count();
        let uncounted: u64 = said().map(|said| said.also).sum();
        self.fact.confirmations = (messages.len() + by_hand) as u64 + uncounted;
        // How much it matters is a person's to say.
        if let Some(matters) = said().rev().find(|said| said.maker == Maker::Person).map(|said| said.importance) {
            self.fact.importance = matters;
        }
        if let Some(first) = said().min_by_key(|said| (said.order, said.id)) {
            (self.fact.id, self.fact.learned_at) = (first.id, first.learned_at);
        }
    }
}
