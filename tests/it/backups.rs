//! Copies of a data file in use, and putting them back.
//!
//! `RECALLD_BACKUP_ROUNDS` says how many backups are taken under load; a few by default.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::house::{House, SESSION};
use crate::process::{Server, recalld};

const BUILTIN: [(&str, &str); 1] = [("RECALLD_UPSTREAM", "builtin")];

/// Runs the binary on `r.db`; answers its exit code and what it said.
fn run(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = recalld(folder, arguments, &BUILTIN);
    let done = command.args(["--data", "r.db"]).stdout(Stdio::piped()).output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (done.status.code().unwrap_or(-1), text(done.stdout), text(done.stderr))
}

fn rounds() -> usize {
    std::env::var("RECALLD_BACKUP_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(3)
}

fn chat(server: &Server, session: &str, words: &str) -> bool {
    let asked = json!({ "query": words }).to_string();
    server.try_send("POST", "/chat", &[("x-session-id", session)], &asked).is_some_and(|(status, _)| status == 200)
}

fn session(n: usize) -> String {
    format!("00000000-0000-4000-8000-{n:012}")
}

/// What a restored file has: turns of each session, numbered without a gap.
fn numbers(folder: &Path, session: &str) -> Vec<u64> {
    let (code, told, complaint) = run(folder, &["export"]);
    assert_eq!(code, 0, "{complaint}");
    let lines = told.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let turns = lines.filter(|line| line["type"] == "turn" && line["session"] == session);
    turns.filter_map(|turn| turn["number"].as_u64()).collect()
}

/// Four clients talk while backups are taken. Each restores to a state that was: whole, gapless, and with everything that was
/// acknowledged before it was begun.
#[test]
fn backups_under_load_restore_to_a_state_that_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Arc::new(Server::start(folder.path(), &BUILTIN));
    let stop = Arc::new(AtomicBool::new(false));
    let said: Arc<[std::sync::atomic::AtomicU64; 4]> = Arc::default();
    let talkers: Vec<_> = (0..4)
        .map(|n| {
            let (server, stop, said) = (Arc::clone(&server), Arc::clone(&stop), Arc::clone(&said));
            std::thread::spawn(move || {
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    count += 1;
                    assert!(chat(&server, &session(n), &format!("talker {n} says {count}")));
                    said[n].store(count, Ordering::SeqCst);
                }
            })
        })
        .collect();
    while said.iter().any(|count| count.load(Ordering::SeqCst) < 3) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let mut taken = Vec::new();
    for round in 0..rounds() {
        let before: Vec<u64> = said.iter().map(|count| count.load(Ordering::SeqCst)).collect();
        let name = format!("backup-{round}");
        let (code, told, complaint) = run(folder.path(), &["backup", &name]);
        assert_eq!(code, 0, "{told}{complaint}");
        taken.push((folder.path().join(&name), before));
    }
    stop.store(true, Ordering::Relaxed);
    talkers.into_iter().for_each(|talker| talker.join().expect("nobody was turned away"));
    for (backup, before) in &taken {
        let there = tempfile::tempdir().expect("a folder");
        let (code, told, complaint) = run(there.path(), &["restore", &backup.display().to_string()]);
        assert_eq!(code, 0, "{told}{complaint}");
        let (code, told, _) = run(there.path(), &["verify"]);
        assert_eq!(code, 0, "{told}");
        for (n, before) in before.iter().enumerate() {
            let numbers = numbers(there.path(), &session(n));
            assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "no gap");
            assert!(numbers.len() as u64 >= *before, "{} of {before} that were acknowledged", numbers.len());
        }
    }
    println!("{} of {} backups restored", taken.len(), rounds());
}

/// A backup whose process is killed, at any moment, leaves a whole one under its name or none; what it had begun is refused.
#[test]
fn a_killed_backup_is_whole_or_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path(), &BUILTIN);
    for n in 0..20 {
        assert!(chat(&server, SESSION, &format!("{n}: what is linseed oil? ").repeat(100)));
    }
    let (mut whole, mut begun) = (0, 0);
    for round in 0..rounds() {
        let name = format!("killed-{round}");
        let mut command = recalld(folder.path(), &["backup", &name], &BUILTIN);
        let mut child = command.args(["--data", "r.db"]).stdout(Stdio::null()).spawn().expect("it runs");
        let partial = folder.path().join(format!("{name}.partial"));
        let started = std::time::Instant::now();
        // Killed as soon as something of it is on the disk, or a moment later.
        while !partial.exists() && !folder.path().join(&name).exists() && started.elapsed().as_secs() < 20 {
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
        std::thread::sleep(std::time::Duration::from_micros(300 * round as u64));
        child.kill().expect("killed");
        child.wait().expect("ended");
        let there = tempfile::tempdir().expect("a folder");
        if folder.path().join(&name).exists() {
            let (code, told, complaint) =
                run(there.path(), &["restore", &folder.path().join(&name).display().to_string()]);
            assert_eq!(code, 0, "{told}{complaint}");
            assert_eq!(numbers(there.path(), SESSION).len(), 20);
            whole += 1;
        } else if partial.exists() {
            let (code, _, complaint) = run(there.path(), &["restore", &partial.display().to_string()]);
            let refused = complaint.contains("is not a whole backup") || complaint.contains("is damaged");
            assert!(code == 0 || refused, "{code} {complaint}");
            begun += usize::from(refused);
        }
    }
    println!("of {} killed backups {whole} were whole, {begun} were refused", rounds());
}

/// A copy that broke off at any point is refused, and what is there stays as it is.
#[test]
fn half_a_backup_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    run(folder.path(), &["ask", "--session", SESSION, "what is linseed oil?"]);
    assert_eq!(run(folder.path(), &["backup", "whole"]).0, 0);
    let whole = std::fs::read(folder.path().join("whole")).expect("read");
    let before = std::fs::read(folder.path().join("r.db")).expect("read");
    for part in [0, 1, 4_096, whole.len() / 2, whole.len() - 300, whole.len() - 1] {
        std::fs::write(folder.path().join("half"), &whole[..part]).expect("written");
        let (code, _, complaint) = run(folder.path(), &["restore", "half", "--yes"]);
        assert_eq!(code, 1, "{part} bytes of {}", whole.len());
        assert!(complaint.contains("is not a whole backup") || complaint.contains("is damaged"), "{complaint}");
    }
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 4;
    std::fs::write(folder.path().join("half"), &damaged).expect("written");
    let (code, _, complaint) = run(folder.path(), &["restore", "half", "--yes"]);
    assert!(code == 1 && complaint.contains("does not match its checksum"), "{complaint}");
    assert_eq!(run(folder.path(), &["verify", "half"]).0, 1);
    assert_eq!(std::fs::read(folder.path().join("r.db")).expect("read"), before, "nothing was replaced");
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("restor")), "nothing is left behind: {left:?}");
}

/// Backups overwrite nothing unless told to, are for their owner alone, and restoring asks nobody to stop but says who must.
#[test]
fn backups_are_careful() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path(), &BUILTIN);
    assert!(chat(&server, SESSION, "what is linseed oil?"));
    assert_eq!(run(folder.path(), &["backup", "copy"]).0, 0);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = folder.path().join("copy").metadata().expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let (code, _, complaint) = run(folder.path(), &["backup", "copy"]);
    assert!(code == 2 && complaint.contains("--force"), "{complaint}");
    assert!(chat(&server, SESSION, "and how long does it dry?"));
    assert_eq!(run(folder.path(), &["backup", "copy", "--force"]).0, 0);
    let (code, _, complaint) = run(folder.path(), &["restore", "copy", "--yes"]);
    assert!(code == 4 && complaint.contains("is in use"), "{code} {complaint}");
    let (code, told, _) = run(folder.path(), &["verify"]);
    assert!(code == 0 && told.contains("everything is what was written"), "beside a running server: {told}");
    assert!(chat(&server, SESSION, "said after the backup"));
    server.kill();
    let (code, _, complaint) = run(folder.path(), &["restore", "copy"]);
    assert!(code == 2 && complaint.contains("--yes"), "{complaint}");
    let book = folder.path().join("r.db.secret");
    std::fs::write(&book, [7; 32]).expect("written");
    let (code, told, complaint) = run(folder.path(), &["restore", "copy", "--yes"]);
    assert!(code == 0 && complaint.contains("erased again at the next start"), "{told}{complaint}");
    assert_eq!(numbers(folder.path(), SESSION), [1, 2], "what was said after the backup is gone");
    assert_eq!(std::fs::read(&book).expect("read"), [7; 32], "what lies beside stays as it is");
    assert!(!folder.path().join("r.db.before-restore").exists());
}

/// A backup holds everybody's memory: it takes a key for everybody.
#[tokio::test]
async fn the_door_streams_a_backup_to_its_owner() {
    let house = House::open();
    house.chat(SESSION, "what is linseed oil?").await;
    let answer = house.post("/api/v1/backup").send().await;
    assert_eq!(answer.status, 200);
    let length: usize = answer.header("content-length").parse().expect("a number");
    assert!(length > 4_096);
    let left = std::fs::read_dir(house.data().parent().expect("a folder")).expect("a folder").flatten();
    assert!(!left.into_iter().any(|entry| entry.file_name().to_string_lossy().contains("copy-")), "no copy is left");
}
