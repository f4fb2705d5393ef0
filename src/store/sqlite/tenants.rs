//! Tenants and keys in SQL.

use jiff::Timestamp;

use super::Backend;
use super::connect::meaning;
use super::row::to_json;
use super::session::{execute, send, ttl_column};
use super::sql::{self, Connection, OptionalExtension, Row, params};
use crate::clock::from_micros;
use crate::scope::{Tenant, User};
use crate::store::tenants::{KEYS_MAX, TENANTS_MAX};
use crate::store::whose::Whose;
use crate::store::{Register, StoreError, StoreFuture, Tenants};
use crate::tenant::{Key, KeyId, Right, Seal, TenantRecord, TenantSettings, Usage};

const KEY_COLUMNS: &str =
    "id, name, tenant, user, rights, trust_identity, sealed, created_at, expires_at, revoked_at, replaced_by";

fn version(db: &Connection) -> Result<u64, StoreError> {
    let mut statement = db.prepare_cached("SELECT version FROM access").map_err(|error| meaning(&error))?;
    statement.query_row([], |row| row.get(0)).map_err(|error| meaning(&error))
}

/// Tells whoever holds tenants and keys in memory that they changed.
pub(super) fn changed(db: &Connection) -> Result<(), StoreError> {
    send(db, "UPDATE access SET version = version + 1", [])
}

fn register(db: &Connection) -> Result<Register, StoreError> {
    let sql = "SELECT name, settings, created_at, updated_at FROM tenant ORDER BY name";
    let tenants = all(db, sql, read_tenant)?;
    let keys = all(db, &format!("SELECT {KEY_COLUMNS} FROM api_key ORDER BY created_at, id"), read_key)?;
    Ok(Register { version: version(db)?, tenants, keys, age: std::time::Duration::ZERO })
}

fn all<T>(db: &Connection, sql: &str, read: fn(&Row<'_>) -> sql::Result<T>) -> Result<Vec<T>, StoreError> {
    let mut statement = db.prepare_cached(sql).map_err(|error| meaning(&error))?;
    let rows = statement.query_map([], read).map_err(|error| meaning(&error))?;
    rows.collect::<Result<_, _>>().map_err(|error| meaning(&error))
}

/// A name from a row, which was checked when it was written.
fn name<T>(text: &str, parse: fn(&str) -> Result<T, crate::scope::IdError>) -> sql::Result<T> {
    parse(text).map_err(|error| sql::Error::UserFunctionError(Box::new(error)))
}

fn read_tenant(row: &Row<'_>) -> sql::Result<TenantRecord> {
    Ok(TenantRecord {
        tenant: name(row.get_ref(0)?.as_str()?, Tenant::parse)?,
        settings: TenantSettings::stored(row.get_ref(1)?.as_str()?),
        created_at: from_micros(row.get(2)?),
        updated_at: from_micros(row.get(3)?),
    })
}

fn read_key(row: &Row<'_>) -> sql::Result<Key> {
    let text = |column: usize| Ok::<_, sql::Error>(row.get_ref(column)?.as_str_or_null()?);
    let time = |column: usize| Ok::<_, sql::Error>(row.get::<_, Option<i64>>(column)?.map(from_micros));
    let words = row.get_ref(4)?.as_str()?.split(',').filter_map(|word| word.parse::<Right>().ok());
    Ok(Key {
        id: key_id(row.get_ref(0)?.as_str()?)?,
        name: row.get(1)?,
        tenant: text(2)?.map(|text| name(text, Tenant::parse)).transpose()?,
        user: text(3)?.map(|text| name(text, User::parse)).transpose()?,
        rights: words.collect(),
        trust_identity: row.get(5)?,
        sealed: row.get(6)?,
        created_at: from_micros(row.get(7)?),
        expires_at: time(8)?,
        revoked_at: time(9)?,
        replaced_by: text(10)?.map(key_id).transpose()?,
    })
}

fn key_id(text: &str) -> sql::Result<KeyId> {
    KeyId::parse(text).ok_or_else(|| sql::Error::UserFunctionError(format!("`{text}` is no key's id").into()))
}

fn create(db: &Connection, record: &TenantRecord) -> Result<bool, StoreError> {
    let count = db.query_row("SELECT count(*) FROM tenant", [], |row| row.get::<_, usize>(0));
    if count.map_err(|error| meaning(&error))? >= TENANTS_MAX {
        return Err(StoreError::Refused(format!("there are {TENANTS_MAX} tenants already")));
    }
    let sql = "INSERT INTO tenant (name, settings, created_at, updated_at) VALUES (?1, '{}', ?2, ?2)
               ON CONFLICT DO NOTHING";
    let name = record.tenant.as_str();
    if execute(db, sql, params![name, record.created_at.as_microsecond()])? == 0 {
        return Ok(false);
    }
    update(db, name, &record.settings, record.updated_at)
}

fn update(db: &Connection, tenant: &str, settings: &TenantSettings, at: Timestamp) -> Result<bool, StoreError> {
    let ttl = ttl_column(settings.ttl);
    let before = db.query_row("SELECT ttl FROM tenant WHERE name = ?1", [tenant], |row| row.get::<_, Option<i64>>(0));
    let Some(before) = before.optional().map_err(|error| meaning(&error))? else { return Ok(false) };
    let set = "UPDATE tenant SET settings = ?2, ttl = ?3, updated_at = ?4 WHERE name = ?1";
    send(db, set, params![tenant, to_json(&settings.to_map()), ttl, at.as_microsecond()])?;
    if ttl != before {
        follow_ttl(db, tenant, ttl)?;
    }
    changed(db)?;
    Ok(true)
}

/// Gives a tenant's TTL to those of its sessions that have none of their own, and to the turns in them.
fn follow_ttl(db: &Connection, tenant: &str, ttl: Option<i64>) -> Result<(), StoreError> {
    let sessions = "UPDATE session SET ttl = ?2, ttl_of_tenant = 1
                    WHERE tenant = ?1 AND (ttl IS NULL OR ttl_of_tenant = 1)";
    send(db, sessions, params![tenant, ttl])?;
    // As `session::turn_expiry` says, and never beyond the end of time.
    let turns = "UPDATE turn SET expires_at =
                   iif(?2 IS NULL, NULL, iif(?2 < 0 OR created_at > ?3 - max(coalesce(?2, 0), 0), ?3, created_at + ?2))
                 WHERE session IN (SELECT key FROM session WHERE tenant = ?1 AND ttl_of_tenant = 1)";
    send(db, turns, params![tenant, ttl, i64::MAX])
}

fn usage(db: &Connection, tenant: &str, with_bytes: bool) -> Result<Usage, StoreError> {
    let sum = |sql: &str| db.query_row(sql, [tenant], |row| row.get::<_, u64>(0)).map_err(|error| meaning(&error));
    let sessions = sum("SELECT count(*) FROM session WHERE tenant = ?1")?;
    let turns = sum("SELECT coalesce(sum(turns), 0) FROM session WHERE tenant = ?1")?;
    if !with_bytes {
        return Ok(Usage { sessions, turns, bytes: 0 });
    }
    let rows = sum("SELECT coalesce(sum(octet_length(question) + coalesce(octet_length(answer), 0)
                      + coalesce(octet_length(extra), 0) + octet_length(turn.metadata)), 0)
                    FROM session CROSS JOIN turn ON turn.session = session.key WHERE tenant = ?1")?;
    let blocks = sum("SELECT coalesce(sum(octet_length(bytes)), 0)
                      FROM session CROSS JOIN block ON block.session = session.key WHERE tenant = ?1")?;
    let known = sum("SELECT coalesce(sum(bytes), 0) FROM document WHERE tenant = ?1")?;
    Ok(Usage { sessions, turns, bytes: rows + blocks + known })
}

fn add_key(db: &Connection, key: &Key) -> Result<(), StoreError> {
    let count = db.query_row("SELECT count(*) FROM api_key", [], |row| row.get::<_, usize>(0));
    if count.map_err(|error| meaning(&error))? >= KEYS_MAX {
        return Err(StoreError::Refused(format!("there are {KEYS_MAX} keys already; ended ones go after a while")));
    }
    let sql = format!("INSERT INTO api_key ({KEY_COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)");
    let time = |at: Option<Timestamp>| at.map(Timestamp::as_microsecond);
    let values = params![
        key.id.as_str(),
        key.name,
        key.tenant.as_ref().map(Tenant::as_str),
        key.user.as_ref().map(User::as_str),
        key.rights.words().join(","),
        key.trust_identity,
        key.sealed,
        key.created_at.as_microsecond(),
        time(key.expires_at),
        time(key.revoked_at),
        key.replaced_by.as_ref().map(KeyId::as_str),
    ];
    send(db, &sql, values)?;
    changed(db)
}

/// Forgets keys that ended before a time.
fn forget_ended(db: &Connection, before: Timestamp) -> Result<(), StoreError> {
    let sql = "DELETE FROM api_key WHERE coalesce(revoked_at, expires_at) < ?1";
    send(db, sql, [before.as_microsecond()])
}

fn replace_key(db: &Connection, old: &KeyId, ends_at: Timestamp, new: &Key) -> Result<bool, StoreError> {
    let sql = "UPDATE api_key SET expires_at = ?2, replaced_by = ?3 WHERE id = ?1 AND revoked_at IS NULL";
    if execute(db, sql, params![old.as_str(), ends_at.as_microsecond(), new.id.as_str()])? == 0 {
        return Ok(false);
    }
    add_key(db, new)?;
    Ok(true)
}

fn revoke_key(db: &Connection, id: &KeyId, at: Timestamp) -> Result<Option<Key>, StoreError> {
    let sql = "UPDATE api_key SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL";
    if execute(db, sql, params![id.as_str(), at.as_microsecond()])? > 0 {
        changed(db)?;
    }
    let find = format!("SELECT {KEY_COLUMNS} FROM api_key WHERE id = ?1");
    db.query_row(&find, [id.as_str()], read_key).optional().map_err(|error| meaning(&error))
}

impl Tenants for Backend {
    fn version(&self) -> StoreFuture<'_, u64> {
        self.read_here_for(Whose::Ours, version)
    }

    fn register(&self) -> StoreFuture<'_, Register> {
        self.read_for(Whose::Ours, register)
    }

    fn create(&self, tenant: TenantRecord) -> StoreFuture<'_, bool> {
        self.write_for(Whose::from(&tenant.tenant), move |db| create(db, &tenant))
    }

    fn update(&self, tenant: &Tenant, settings: TenantSettings, at: Timestamp) -> StoreFuture<'_, bool> {
        let tenant = tenant.clone();
        self.write_for(Whose::from(&tenant), move |db| update(db, tenant.as_str(), &settings, at))
    }

    fn usage(&self, tenant: &Tenant, with_bytes: bool) -> StoreFuture<'_, Usage> {
        let tenant = tenant.clone();
        self.read_for(Whose::from(&tenant), move |db| usage(db, tenant.as_str(), with_bytes))
    }

    fn add_key(&self, key: Key, ended_before: Timestamp) -> StoreFuture<'_, ()> {
        self.write_for(Whose::Ours, move |db| {
            forget_ended(db, ended_before)?;
            add_key(db, &key)
        })
    }

    fn replace_key(&self, old: &KeyId, ends_at: Timestamp, new: Key) -> StoreFuture<'_, bool> {
        let old = old.clone();
        self.write_for(Whose::Ours, move |db| replace_key(db, &old, ends_at, &new))
    }

    fn revoke_key(&self, id: &KeyId, at: Timestamp) -> StoreFuture<'_, Option<Key>> {
        let id = id.clone();
        self.write_for(Whose::Ours, move |db| revoke_key(db, &id, at))
    }

    fn seal(&self, fresh: [u8; 32]) -> StoreFuture<'_, Seal> {
        self.sealed(fresh)
    }
}
