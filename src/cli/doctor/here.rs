//! This machine: the binary, the settings, the data file, the clock.

use std::path::Path;

use jiff::Timestamp;

use super::{Check, jobs, webhooks};
use crate::cli::Common;
use crate::cli::config::look_closer;
use crate::cli::table::{bytes, counted, flat, short};
use crate::config::{Settings, file_in_use};
use crate::store::{Inspection, KeptLog, Sqlite, StoreError};

/// Less free space than this deserves a thought, and than this an end.
const SPACE_LOW: u64 = 1_000_000_000;
const SPACE_OUT: u64 = 20_000_000;
/// A file larger than this is not compared index by index.
const THOROUGH_BYTES_MAX: u64 = 256_000_000;
/// No clock that is right shows a time before this.
const EARLIEST: &str = "2025-01-01T00:00:00Z";
/// How far the file may lie ahead of the clock: file systems round.
const AHEAD_SECONDS_MAX: i64 = 60;

pub(super) fn version() -> Check {
    let (ours, sqlite) = (env!("CARGO_PKG_VERSION"), Sqlite::library_version());
    Check::ok("version", format!("recalld {ours}, SQLite {sqlite}"))
}

pub(super) fn settings(common: &Common, settings: &Settings) -> Check {
    let from = match file_in_use(common.config.as_deref()) {
        Some(file) => format!("{}, RECALLD_… variables and flags", file.display()),
        None => "RECALLD_… variables and flags; there is no settings file".into(),
    };
    match look_closer(settings) {
        Ok(()) => Check::ok("settings", format!("valid; from {from} (`recalld config show --origin` tells each)")),
        Err(error) => Check::fail("settings", format!("{error:#}; from {from}")),
    }
}

/// The file itself, its disk, its schema, its health.
pub(super) fn data_file(data: &Path, seen: &Result<Option<Inspection>, StoreError>) -> Vec<Check> {
    let mut checks = vec![file(data, seen), space(data)];
    if let Ok(Some(seen)) = seen {
        checks.push(schema(seen));
        checks.extend(log(seen.log_damage.as_deref(), &seen.kept_logs));
        checks.push(health(data, seen));
        // Whoever has the file counts for itself.
        checks.extend(seen.jobs.as_ref().filter(|_| seen.holder.is_none()).map(jobs::judge));
        checks.extend(seen.webhooks.as_ref().filter(|_| seen.holder.is_none()).and_then(webhooks::judge));
    }
    checks
}

fn file(data: &Path, seen: &Result<Option<Inspection>, StoreError>) -> Check {
    let shown = data.display();
    match seen {
        Err(error) => {
            Check::fail("data", format!("{error}; name another file with --data, or put a backup in its place"))
        }
        Ok(None) => Check::ok("data", format!("{shown} does not exist yet; it is made at the first start")),
        Ok(Some(_)) => match data.metadata() {
            Ok(file) => judge_file(&shown.to_string(), file.len(), mode(&file)),
            Err(error) => Check::fail("data", format!("cannot look at {shown}: {error}")),
        },
    }
}

/// The rights of others; none where the system has no such thing.
fn mode(file: &std::fs::Metadata) -> u32 {
    #[cfg(unix)]
    return std::os::unix::fs::PermissionsExt::mode(&file.permissions()) & 0o777;
    #[cfg(not(unix))]
    return 0o600;
}

fn judge_file(shown: &str, len: u64, mode: u32) -> Check {
    let size = bytes(len);
    match mode & 0o077 {
        0 => Check::ok("data", format!("{shown}, {size}, readable by you alone")),
        _ => Check::warn("data", format!("{shown}, {size}, can be read by others (mode {mode:o}); chmod 600 {shown}")),
    }
}

fn space(data: &Path) -> Check {
    let folder = data.ancestors().skip(1).find(|folder| folder.is_dir()).unwrap_or(Path::new("."));
    match free(folder) {
        Some(free) => judge_space(free),
        None => Check::warn("disk", format!("cannot tell how much space is left in {}", folder.display())),
    }
}

#[cfg(unix)]
fn free(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(not(unix))]
fn free(_: &Path) -> Option<u64> {
    None
}

fn judge_space(free: u64) -> Check {
    let told = format!("{} free", bytes(free));
    match free {
        ..SPACE_OUT => Check::fail("disk", format!("{told}; make room, new turns will soon wait in memory")),
        SPACE_OUT..SPACE_LOW => Check::warn("disk", format!("{told}; make room before it is full")),
        _ => Check::ok("disk", told),
    }
}

/// A newer schema than ours never gets here: such a file is an error when it is looked at.
fn schema(seen: &Inspection) -> Check {
    let Inspection { schema, schema_known, .. } = seen;
    match schema {
        0 => Check::ok("schema", "the file is empty; it is set up at the next start"),
        _ if schema == schema_known => Check::ok("schema", format!("version {schema}, the newest")),
        _ => Check::ok("schema", format!("version {schema}; the next start brings it to {schema_known}")),
    }
}

/// Damage in the write-ahead log: what was lost cannot be had back from the data file.
pub(super) fn log(damage: Option<&str>, kept: &[KeptLog]) -> Option<Check> {
    if let Some(damage) = damage {
        let told = format!("the write-ahead log is damaged: {damage}. Turns that were acknowledged may be lost");
        return Some(Check::fail(
            "log",
            format!("{told}; the next start keeps a copy of it and goes on with what is whole"),
        ));
    }
    let copies: Vec<String> = kept
        .iter()
        .map(|kept| {
            format!("{} (found {}, kept until {})", kept.path.display(), short(kept.found_at), short(kept.until()))
        })
        .collect();
    let told = "a damaged write-ahead log was found, and turns that were acknowledged may be lost; copies of it are kept, remove \
                them when you do not need them any more";
    (!copies.is_empty()).then(|| Check::warn("log", format!("{told}: {}", copies.join(", "))))
}

fn health(data: &Path, seen: &Inspection) -> Check {
    if let Some(holder) = &seen.holder {
        return Check::ok("integrity", format!("not checked, because the file is in use by {holder}"));
    }
    let thorough = data.metadata().is_ok_and(|file| file.len() <= THOROUGH_BYTES_MAX);
    let how = if thorough { "every table and index" } else { "every table; the file is large, so not its indexes" };
    match Sqlite::damage(data, thorough) {
        Ok(problems) if problems.is_empty() => Check::ok("integrity", format!("no damage found in {how}")),
        Ok(problems) => {
            let told = flat(&problems.join("; "));
            Check::fail("integrity", format!("the file is damaged; put a backup in its place, and keep it: {told}"))
        }
        Err(error) => Check::fail("integrity", format!("cannot be checked: {error}")),
    }
}

/// What is open. `keys` is how many the data file has.
pub(super) fn key(settings: &Settings, keys: u64, has_secret: bool) -> Check {
    if keys > 0 && !has_secret {
        let told = "the secret that keys are sealed with is gone (the file .secret beside the data file)";
        return Check::fail(
            "key",
            format!("{told}: none of the {keys} keys opens anything; put it back, or make new keys"),
        );
    }
    let made = counted(keys, "key");
    match (settings.api_key(), keys) {
        (Some(_), 0) => Check::ok("key", "clients must show `api_key`, as a bearer or as x-api-key"),
        (Some(_), _) => Check::ok("key", format!("clients must show `api_key` or one of {made} (`recalld keys list`)")),
        (None, 0) => match settings.check_reach(false) {
            Ok(()) => Check::ok("key", format!("none needed: only this machine can reach {}", settings.listen)),
            Err(reason) => Check::fail("key", reason),
        },
        (None, _) => Check::ok("key", format!("clients must show one of {made} (`recalld keys list`)")),
    }
}

pub(super) fn users(settings: &Settings, keyed: bool) -> Check {
    Check::ok(
        "users",
        match settings.share_unidentified(keyed) {
            _ if settings.openwebui_jwt_secret.is_some() => {
                "only Open WebUI's signed user token names a user; what else requests say about users is ignored"
            }
            true => {
                "requests that name no user share one memory, `anonymous`; with several people, have X-User-ID sent"
            }
            false => {
                "requests that name no user are remembered by session only, and one without a session id is never matched \
                 by its history; send X-User-ID. Open WebUI behind a key needs its user headers, a key bound to its one \
                 user, or `unidentified = \"shared\"`"
            }
        },
    )
}

pub(super) fn clock(data: &Path) -> Check {
    let written = data.metadata().and_then(|file| file.modified()).ok();
    judge_clock(Timestamp::now(), written.and_then(|at| Timestamp::try_from(at).ok()))
}

fn judge_clock(now: Timestamp, written: Option<Timestamp>) -> Check {
    let told = short(now);
    let ahead = written.map_or(0, |written| written.duration_since(now).as_secs());
    match EARLIEST.parse::<Timestamp>() {
        Ok(earliest) if now < earliest => {
            Check::fail("clock", format!("{told}, which is long past; set the clock, turns are dated by it"))
        }
        _ if ahead > AHEAD_SECONDS_MAX => Check::warn(
            "clock",
            format!("{told}, but the data file was written {ahead} s later than that; was the clock set back?"),
        ),
        _ => Check::ok("clock", told),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn a_file_others_can_read_is_warned_about() {
        assert_eq!(judge_file("/x", 10, 0o600).status, Status::Ok);
        let open = judge_file("/x", 10, 0o644);
        assert_eq!(open.status, Status::Warn);
        assert!(open.detail.contains("chmod 600 /x"), "{}", open.detail);
    }

    #[test]
    fn what_is_open_is_told() {
        let (open, keyed) =
            (Settings::default(), Settings { api_key: "0123456789abcdef".into(), ..Settings::default() });
        let public = Settings { listen: ([0, 0, 0, 0], 7077).into(), ..Settings::default() };
        for (settings, keys, secret, status) in [
            (&open, 0, false, Status::Ok),
            (&open, 2, true, Status::Ok),
            (&open, 2, false, Status::Fail),
            (&keyed, 0, false, Status::Ok),
            (&public, 0, false, Status::Fail),
            (&public, 1, true, Status::Ok),
        ] {
            assert_eq!(key(settings, keys, secret).status, status, "{} with {keys} keys", settings.listen);
        }
    }

    #[test]
    fn a_full_disk_is_a_failure_before_it_is_one() {
        let judged = [SPACE_OUT - 1, SPACE_OUT, SPACE_LOW].map(|free| judge_space(free).status);
        assert_eq!(judged, [Status::Fail, Status::Warn, Status::Ok]);
    }

    #[test]
    fn a_damaged_log_is_told() {
        let kept = KeptLog { path: "/x/r.db-wal.damaged-1".into(), found_at: Timestamp::UNIX_EPOCH };
        assert_eq!(log(None, &[]), None);
        assert_eq!(log(Some("frame 3 is damaged"), &[]).map(|check| check.status), Some(Status::Fail));
        let told = log(None, &[kept]).expect("a copy is there");
        assert_eq!(told.status, Status::Warn);
        assert!(told.detail.contains("/x/r.db-wal.damaged-1"), "{}", told.detail);
    }

    #[test]
    fn a_clock_that_cannot_be_right_is_noticed() {
        let at = |text: &str| text.parse::<Timestamp>().expect("a time");
        let now = at("2026-08-01T12:00:00Z");
        assert_eq!(judge_clock(now, None).status, Status::Ok);
        assert_eq!(judge_clock(now, Some(at("2026-08-01T12:00:30Z"))).status, Status::Ok);
        assert_eq!(judge_clock(now, Some(at("2026-08-01T14:00:00Z"))).status, Status::Warn);
        assert_eq!(judge_clock(at("1970-01-01T00:00:10Z"), None).status, Status::Fail);
    }

    #[test]
    fn a_file_that_is_not_there_yet_is_well() {
        let checks = data_file(Path::new("/tmp/recalld-no-such-folder/r.db"), &Ok(None));
        assert_eq!(checks.len(), 2);
        assert_eq!(checks[0].status, Status::Ok);
    }
}
