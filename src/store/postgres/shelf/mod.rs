//! What tenants know, searched by the database: for those who know too much to be held in memory, where pgvector is installed.
//!
//! Words are found by a GIN index over hashes of their stems, meanings by an HNSW graph over half-precision vectors from which what all have
//! in common is taken (`centre`: a graph finds more of the nearest where vectors point everywhere); what comes of the two is looked at exactly, and ranked as in memory. Nothing here is the truth: it is made from passages in the background (`fill`), a
//! document that was just added is found a moment later, and one that went is gone at once.
//!
//! Reading order: `centre`, `fill`, `look`.

mod centre;
mod fill;
mod look;

pub(super) use look::nearest;

use super::connect::meaning;
use super::sql::Connection;
use super::{Postgres, schema};
use crate::scope::TenantScope;
use crate::store::whose::Whose;
use crate::store::{AskedPassages, SeenPassages, StoreError, StoreFuture};

/// Which rows are meant, whatever row-level security says.
const HERE: &str = "home = current_setting('recalld.tenant')";

/// Lengths of vectors that a graph is made for; a tenant whose vectors have another is held in memory.
pub(super) const DIMENSIONS: [usize; 7] = [256, 384, 512, 768, 1_024, 1_536, 3_072];

/// How many others a vector knows in a graph, and among how many they are chosen: with pgvector's 16 and 64 a graph of 100,000
/// passages that have nothing to do with each other finds 0.93 of the nearest, with these 0.996, in the same time.
const LINKS: usize = 24;
const LOOKED_AT: usize = 200;

/// What makes the tables, with a graph for each length.
pub(super) fn steps() -> String {
    let mut sql = include_str!("../shelf.sql").to_owned();
    for dimensions in DIMENSIONS {
        sql.push_str(&format!(
            "CREATE INDEX IF NOT EXISTS passage_meaning_{dimensions} ON passage_meaning
                 USING hnsw ((vector::halfvec({dimensions})) halfvec_ip_ops) WITH (m = {LINKS}, ef_construction = {LOOKED_AT})
                 WHERE dimensions = {dimensions};\n"
        ));
    }
    for table in ["knowledge_shelf", "knowledge_centre", "passage_words", "passage_meaning"] {
        sql.push_str(&schema::guarded(table, "home"));
    }
    // For the owner's functions; whoever serves is bound.
    sql.push_str("ALTER TABLE passage_words NO FORCE ROW LEVEL SECURITY;\n");
    sql
}

/// Whether the tables are there, and what searches them.
pub(super) fn is_there(db: &Connection, schema: &str) -> Result<bool, StoreError> {
    let sql = "SELECT to_regclass(?1 || '.passage_meaning') IS NOT NULL
                   AND to_regproc(?1 || '.words_found') IS NOT NULL";
    db.query_row(sql, [schema], |row| row.get(0)).map_err(|error| meaning(&error))
}

/// Whether they can be made: pgvector is installed in this database, in a version that goes on looking where a filter leaves too few.
pub(super) fn can_be_there(db: &Connection) -> Result<bool, StoreError> {
    let sql = "SELECT to_regtype('halfvec') IS NOT NULL AND EXISTS (SELECT 1 FROM pg_extension
                   WHERE extname = 'vector' AND string_to_array(split_part(extversion, '-', 1), '.')::int[] >= ARRAY[0, 8])";
    db.query_row(sql, [], |row| row.get(0)).map_err(|error| meaning(&error))
}

impl Postgres {
    pub(super) fn shelve_some(&self, limit: usize) -> StoreFuture<'_, u64> {
        let held_max = self.pool.settings().passages_held_max;
        Box::pin(async move {
            if !self.pool.searches() {
                return Ok(0);
            }
            let mut done = 0;
            for tenant in self.tenants_of("known_tenant").await? {
                let whose = Whose::Tenant(tenant);
                // Nearly always there is nothing to do, and looking takes no lock.
                if self.pool.read(whose.clone(), move |db| fill::is_due(db, held_max)).await? {
                    done += self.pool.write(whose, move |db| fill::fill(db, held_max, limit)).await?;
                }
            }
            Ok(done)
        })
    }

    pub(super) fn search_here(
        &self,
        tenant: &TenantScope,
        asked: AskedPassages,
    ) -> StoreFuture<'_, Option<SeenPassages>> {
        if !self.pool.searches() {
            return Box::pin(std::future::ready(Ok(None)));
        }
        let (whose, name) = (Whose::from(tenant.tenant()), tenant.tenant().as_str().to_owned());
        self.read_for(whose, move |db| look::look(db, &name, &asked))
    }
}

/// A word of a tenant, as the index has it.
fn lexeme(tenant: &str, term: u32) -> String {
    let mark = xxhash_rust::xxh3::xxh3_64(tenant.as_bytes()) as u32;
    format!("{term:x}t{mark:x}")
}
