//! Who reads strangers' files: a child process with little memory, little time and nothing to reach.
//!
//! A file may be made to break whoever reads it. So a program is started for each, which reads the file from its input, writes
//! passages to its output, and is killed when it takes too long. It inherits no environment, no folder and no open file of ours,
//! and limits its own memory, time and files before it looks at the first byte (`cli/parse.rs`).

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::knowledge::{Cut, ParseError};
use crate::store::KnowledgeBounds;

/// How files become knowledge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnowledgeSettings {
    /// The program that reads files: `recalld`, which is started as `recalld parse EXTENSION`. Without one, files are refused, and
    /// notes alone can be added.
    pub parser: Option<PathBuf>,
    /// Largest file.
    pub bytes_max: usize,
    /// How long reading a file may take.
    pub patience: Duration,
    /// How much a tenant may know.
    pub bounds: KnowledgeBounds,
}

impl Default for KnowledgeSettings {
    fn default() -> Self {
        let patience = Duration::from_secs(8);
        Self { parser: None, bytes_max: 20 << 20, patience, bounds: KnowledgeBounds::default() }
    }
}

/// Files that are read at one time; more wait.
const CHILDREN_MAX: usize = 2;
/// Uploads that are held in memory at one time; more are sent away.
const UPLOADS_MAX: usize = 16;
/// Most that a child may say.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Why a file was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The file's fault.
    #[error(transparent)]
    File(#[from] ParseError),
    /// Nobody can read files here.
    #[error("there is no program that reads files: set `knowledge_parser`; notes can be added without")]
    NoParser,
    /// The program that reads files cannot be used.
    #[error("the program that reads files (`knowledge_parser`) cannot be used: {0}")]
    Parser(String),
}

/// What a child says.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Said {
    Read(Cut),
    Refused(ParseError),
}

/// Starts children, a few at a time.
pub struct Reader {
    settings: KnowledgeSettings,
    children: Semaphore,
    uploads: std::sync::Arc<Semaphore>,
}

impl Reader {
    /// A reader with these settings.
    pub fn new(settings: KnowledgeSettings) -> Self {
        let uploads = std::sync::Arc::new(Semaphore::new(UPLOADS_MAX));
        Self { settings, children: Semaphore::new(CHILDREN_MAX), uploads }
    }

    /// A place for an upload, held while its bytes are; `None` when too many are under way.
    pub fn place(&self) -> Option<OwnedSemaphorePermit> {
        std::sync::Arc::clone(&self.uploads).try_acquire_owned().ok()
    }

    /// Reads a file in a child. To be called from a task that nobody cancels: a child is waited for, whatever becomes of it.
    pub async fn read(&self, name: &str, bytes: Bytes) -> Result<Cut, ReadError> {
        let parser = self.settings.parser.as_ref().ok_or(ReadError::NoParser)?;
        let _place = self.children.acquire().await.map_err(|error| ReadError::Parser(error.to_string()))?;
        let mut command = Command::new(parser);
        command.arg("parse").arg(extension(name)).env_clear().current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| ReadError::Parser(error.to_string()))?;
        match timeout(self.settings.patience, converse(&mut child, bytes)).await {
            Ok(said) => said,
            Err(_) => {
                // It is gone when this has passed, and its entry with it.
                let _ = child.kill().await;
                Err(ParseError::TooCostly { of: "time".to_owned() }.into())
            }
        }
    }
}

/// Hands the file over, hears what is said, and waits for the end.
async fn converse(child: &mut Child, bytes: Bytes) -> Result<Cut, ReadError> {
    let failed = |error: std::io::Error| ReadError::Parser(error.to_string());
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(ReadError::Parser("it has no input".to_owned()));
    };
    let hand_over = async move {
        // A child that has seen enough does not read to the end.
        let _ = input.write_all(&bytes).await;
        drop(input);
    };
    let mut said = Vec::new();
    let mut output = output.take(ANSWER_BYTES_MAX as u64 + 1);
    let ((), heard) = tokio::join!(hand_over, output.read_to_end(&mut said));
    heard.map_err(failed)?;
    if said.len() > ANSWER_BYTES_MAX {
        let _ = child.kill().await;
        return Err(ParseError::TooLarge { what: "there is too much text in it".to_owned() }.into());
    }
    let status = child.wait().await.map_err(failed)?;
    match serde_json::from_slice(&said) {
        Ok(Said::Read(cut)) if status.success() => Ok(cut),
        Ok(Said::Refused(error)) => Err(error.into()),
        _ => Err(ended(status)),
    }
}

/// What it means that a child ended without a word.
fn ended(status: std::process::ExitStatus) -> ReadError {
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal: Option<i32> = None;
    let costly = |of: &str| ReadError::File(ParseError::TooCostly { of: of.to_owned() });
    match (signal, status.code()) {
        // Aborted: there was no memory left. Killed, or told that its time is over.
        (Some(6), _) => costly("memory"),
        (Some(9 | 24), _) => costly("time"),
        (_, Some(126 | 127 | 2)) => ReadError::Parser(status.to_string()),
        _ => ParseError::Broken { what: "it cannot be read".to_owned() }.into(),
    }
}

/// The end of a name, if it is one that tells something.
fn extension(name: &str) -> &str {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let usual = extension.len() <= 8 && extension.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if usual { extension } else { "" }
}
