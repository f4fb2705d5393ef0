//! Who a transaction is for: a user, a tenant, or each in turn. What is done for everybody is done tenant by tenant, what belongs to
//! several users user by user.

use std::sync::atomic::Ordering;

use super::Postgres;
use super::connect::meaning;
use super::sql::{self, Connection};

use crate::scope::Scope;
use crate::store::whose::Whose;
use crate::store::{StoreError, StoreFuture};

/// Lists that say whose the things on them are, and that everybody may see.
const LISTS: [&str; 4] = ["recall_row_todo", "recall_vector_todo", "topic_todo", "fact_todo"];

impl Postgres {
    pub(super) fn write<T, F>(&self, scope: &Scope, work: F) -> StoreFuture<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &Scope) -> Result<T, StoreError> + Clone + Send + 'static,
    {
        let of = scope.clone();
        #[cfg(test)]
        let work = {
            let moves_at_once = self.moves_at_once;
            move |db: &Connection, scope: &Scope| {
                let done = work(db, scope)?;
                if moves_at_once {
                    super::archive::move_everything(db)?;
                }
                Ok(done)
            }
        };
        self.write_for(Whose::from(scope), move |db| work(db, &of))
    }

    pub(super) fn write_for<T, F>(&self, whose: Whose, work: F) -> StoreFuture<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Clone + Send + 'static,
    {
        Box::pin(self.pool.write(whose, work))
    }

    /// Writes for every tenant, one transaction each.
    pub(super) fn write_each<T, F>(&self, work: F) -> StoreFuture<'_, Vec<T>>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Clone + Send + 'static,
    {
        Box::pin(async move {
            let mut done = Vec::new();
            for tenant in self.tenants_of("known_tenant").await? {
                done.push(self.pool.write(Whose::Tenant(tenant), work.clone()).await?);
            }
            Ok(done)
        })
    }

    /// Writes things of several users, one transaction each.
    pub(super) fn write_groups<I, T, F>(
        &self,
        items: Vec<I>,
        whose: fn(&I) -> Whose,
        work: F,
    ) -> StoreFuture<'_, Vec<T>>
    where
        I: Clone + Send + 'static,
        T: Send + 'static,
        F: FnOnce(&Connection, &[I]) -> Result<T, StoreError> + Clone + Send + 'static,
    {
        Box::pin(async move {
            let mut done = Vec::new();
            for (whose, items) in grouped(items, whose) {
                let work = work.clone();
                done.push(self.pool.write(whose, move |db| work(db, &items)).await?);
            }
            Ok(done)
        })
    }

    pub(super) fn read<T, F>(&self, scope: &Scope, work: F) -> StoreFuture<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &Scope) -> Result<T, StoreError> + Clone + Send + 'static,
    {
        let of = scope.clone();
        self.read_for(Whose::from(scope), move |db| work(db, &of))
    }

    pub(super) fn read_for<T, F>(&self, whose: Whose, work: F) -> StoreFuture<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Clone + Send + 'static,
    {
        Box::pin(self.pool.read(whose, work))
    }

    /// Reads of every tenant that has something on a list, up to a limit.
    pub(super) fn read_each<T, F>(&self, list: &'static str, limit: usize, work: F) -> StoreFuture<'_, Vec<T>>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, usize) -> Result<Vec<T>, StoreError> + Clone + Send + 'static,
    {
        Box::pin(async move {
            let list = if LISTS.contains(&list) { list } else { "known_tenant" };
            let mut found = Vec::new();
            for tenant in self.tenants_of(list).await? {
                let (work, left) = (work.clone(), limit - found.len());
                found.extend(self.pool.read(Whose::Tenant(tenant), move |db| work(db, left)).await?);
                if found.len() >= limit {
                    break;
                }
            }
            Ok(found)
        })
    }

    /// The tenants that a list names, each time beginning with another one.
    pub(super) async fn tenants_of(&self, list: &'static str) -> Result<Vec<String>, StoreError> {
        let sql = match list {
            "known_tenant" => "SELECT name FROM known_tenant ORDER BY name".to_owned(),
            list => format!("SELECT DISTINCT home FROM (SELECT home FROM {list} LIMIT 10000) AS first ORDER BY home"),
        };
        let mut tenants = self
            .pool
            .read(Whose::Ours, move |db| {
                let mut statement = db.prepare_cached(&sql).map_err(|error| meaning(&error))?;
                let rows = statement.query_map([], |row| row.get(0)).map_err(|error| meaning(&error))?;
                rows.collect::<sql::Result<Vec<String>>>().map_err(|error| meaning(&error))
            })
            .await?;
        if !tenants.is_empty() {
            let first = self.turn_of.fetch_add(1, Ordering::Relaxed) % tenants.len();
            tenants.rotate_left(first);
        }
        Ok(tenants)
    }

    pub(super) fn read_here<T, F>(&self, scope: &Scope, work: F) -> StoreFuture<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &Scope) -> Result<T, StoreError> + Clone + Send + 'static,
    {
        self.read(scope, work)
    }

    pub(super) fn read_here_for<T, F>(&self, whose: Whose, work: F) -> StoreFuture<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Clone + Send + 'static,
    {
        self.read_for(whose, work)
    }

    pub(super) fn look_up<T, F>(&self, scope: &Scope, _turns: usize, work: F) -> StoreFuture<'_, T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &Scope) -> Result<T, StoreError> + Clone + Send + 'static,
    {
        self.read(scope, work)
    }
}

/// Things by whose they are, in the order they came.
pub(super) fn grouped<I>(items: Vec<I>, whose: fn(&I) -> Whose) -> Vec<(Whose, Vec<I>)> {
    let mut groups: Vec<(Whose, Vec<I>)> = Vec::new();
    for item in items {
        let whose = whose(&item);
        match groups.iter_mut().find(|(known, _)| *known == whose) {
            Some((_, group)) => group.push(item),
            None => groups.push((whose, vec![item])),
        }
    }
    groups
}
