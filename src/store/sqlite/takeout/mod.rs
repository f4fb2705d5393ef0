//! Records in SQL: `read` (what is handed out) and `write` (what is taken in).

mod read;
mod write;

use std::sync::Arc;

use jiff::Timestamp;

use super::job::Follow;
use super::{Backend, facts, knowledge};
use crate::id::SessionId;
use crate::scope::{Scope, Tenant, TenantScope, User};
use crate::store::whose::Whose;
use crate::store::{
    Arrival, DocumentArrival, EpisodesAfter, FactsFrom, FactsRecords, SessionsAfter, StoreError, StoreFuture, TakenIn,
    Takeout, TopicsAfter, TurnRecords, TurnsAfter,
};
use crate::takeout::{EpisodeRecord, FactRecord, SessionRecord, TopicRecord};

impl Takeout for Backend {
    fn next_user(&self, tenant: &Tenant, after: Option<&User>) -> StoreFuture<'_, Option<Scope>> {
        let (tenant, after) = (tenant.clone(), after.cloned());
        self.read_for(Whose::from(&tenant), move |db| read::next_user(db, &tenant, after.as_ref()))
    }

    fn topic_records(&self, scope: &Scope, which: TopicsAfter) -> StoreFuture<'_, Option<Vec<TopicRecord>>> {
        self.read(scope, move |db, scope| read::topics(db, scope, which))
    }

    fn fact_records(
        &self,
        scope: &Scope,
        from: FactsFrom,
        since: Option<Timestamp>,
        limit: usize,
    ) -> StoreFuture<'_, FactsRecords> {
        self.read(scope, move |db, scope| facts::records(db, scope, &from, since, limit))
    }

    fn session_records(&self, scope: &Scope, which: SessionsAfter) -> StoreFuture<'_, Option<Vec<SessionRecord>>> {
        self.read(scope, move |db, scope| read::sessions(db, scope, which))
    }

    fn episode_records(&self, scope: &Scope, which: EpisodesAfter) -> StoreFuture<'_, Option<Vec<EpisodeRecord>>> {
        self.read(scope, move |db, scope| read::episodes(db, scope, which))
    }

    fn turn_records(&self, scope: &Scope, session: SessionId, which: TurnsAfter) -> StoreFuture<'_, TurnRecords> {
        self.read(scope, move |db, scope| read::turns(db, scope, session, which))
    }

    fn take_in(&self, scope: &Scope, arrival: Arrival, dry: bool) -> StoreFuture<'_, TakenIn> {
        if dry {
            return self.read(scope, move |db, scope| write::look(db, scope, &arrival));
        }
        let (due, notes, clock) = (self.due, self.notes(), Arc::clone(&self.clock));
        self.write(scope, move |db, scope| {
            write::take_in(db, scope, arrival, clock.now(), Follow { due, notes: &notes })
        })
    }

    fn take_in_topics(&self, scope: &Scope, topics: Vec<TopicRecord>, dry: bool) -> StoreFuture<'_, u64> {
        match dry {
            true => self.read(scope, move |db, scope| count(&topics, |topic| write::is_new_topic(db, scope, topic))),
            false => self.write(scope, move |db, scope| count(&topics, |topic| write::topic(db, scope, topic))),
        }
    }

    fn take_in_gone(&self, scope: &Scope, episodes: Vec<EpisodeRecord>, dry: bool) -> StoreFuture<'_, u64> {
        match dry {
            true => {
                self.read(scope, move |db, scope| count(&episodes, |record| write::is_new_episode(db, scope, record)))
            }
            false => self.write(scope, move |db, scope| count(&episodes, |record| write::gone(db, scope, record))),
        }
    }

    fn take_in_facts(&self, scope: &Scope, records: Vec<FactRecord>, dry: bool) -> StoreFuture<'_, u64> {
        if dry {
            return self.read(scope, move |db, scope| count(&records, |record| facts::is_new(db, scope, record)));
        }
        let clock = Arc::clone(&self.clock);
        self.write(scope, move |db, scope| count(&records, |record| facts::take_in(db, scope, record, clock.now())))
    }

    fn take_in_document(&self, tenant: &TenantScope, arrival: DocumentArrival, dry: bool) -> StoreFuture<'_, bool> {
        let (tenant, clock) = (tenant.clone(), Arc::clone(&self.clock));
        let whose = Whose::from(tenant.tenant());
        match dry {
            true => self.read_for(whose, move |db| knowledge::is_new(db, tenant.tenant().as_str(), &arrival)),
            false => self.write_for(whose, move |db| {
                knowledge::take_in(db, tenant.tenant().as_str(), &arrival, clock.now().as_microsecond())
            }),
        }
    }
}

/// How many of these it is true of.
fn count<T>(records: &[T], mut is: impl FnMut(&T) -> Result<bool, StoreError>) -> Result<u64, StoreError> {
    records.iter().try_fold(0, |count, record| Ok(count + u64::from(is(record)?)))
}
