//! The database that several instances share.

use super::Check;
use crate::config::Settings;

/// Whether it answers, and what its tables are like.
#[cfg(feature = "postgres")]
pub(super) async fn look(settings: &Settings) -> Vec<Check> {
    use crate::store::Postgres;

    let settings = settings.database().expect("whoever asks has seen its address");
    let place = settings.place();
    match Postgres::inspect(settings).await {
        Ok(state) => {
            let knowledge = match state.searches {
                true => "large tenants are searched by the database (pgvector)",
                false => {
                    "all tenants are held in memory; `CREATE EXTENSION vector` (0.8 or later) and `recalld migrate` have \
                     the database search large ones"
                }
            };
            let answers = Check::ok("data", format!("PostgreSQL at {place} answers"));
            vec![answers, schema(state.found, state.known), Check::ok("knowledge", knowledge)]
        }
        Err(error) => {
            let hint = "is the server there, and is `database_url` right? until it answers, turns wait in memory";
            vec![Check::fail("data", format!("PostgreSQL at {place}: {error}; {hint}"))]
        }
    }
}

#[cfg(not(feature = "postgres"))]
pub(super) async fn look(_: &Settings) -> Vec<Check> {
    vec![Check::fail("data", "`database_url` is set, and this recalld was built without the feature `postgres`")]
}

#[cfg(feature = "postgres")]
fn schema(found: i64, known: i64) -> Check {
    match found {
        0 => Check::ok("schema", "there are no tables yet; the next start makes them (or `recalld migrate`)"),
        _ if found == known => Check::ok("schema", format!("version {found}, the newest")),
        _ if found > known => {
            Check::fail("schema", format!("version {found}, this binary knows {known}; use a newer recalld"))
        }
        _ => {
            Check::ok("schema", format!("version {found}; the next start brings it to {known} (or `recalld migrate`)"))
        }
    }
}
