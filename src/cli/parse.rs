//! `recalld parse`: reads one file from standard input and says what is in it. The server starts it for every upload.
//!
//! Nothing of the settings, the data or the environment is looked at. Before the first byte is read, the process limits its own
//! memory, time, files and children; whatever a file does to it, it does to nobody else.

use std::io::{Read, Write};
use std::process::ExitCode;

use clap::Args;
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::json;

use crate::knowledge::{Hint, read};

/// Most bytes of a file.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Memory, our own program included.
const MEMORY_BYTES_MAX: u64 = 768 << 20;
/// Seconds of work.
const SECONDS_MAX: u64 = 6;

/// Flags of `parse`.
#[derive(Debug, Args)]
pub(super) struct ParseArgs {
    /// The end of the file's name.
    #[arg(default_value = "")]
    extension: String,
}

pub(super) fn parse(args: &ParseArgs) -> anyhow::Result<ExitCode> {
    limit()?;
    let mut bytes = Vec::new();
    std::io::stdin().lock().take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    let hint = Hint { name: format!("file.{}", args.extension) };
    let said = match read(&bytes, &hint) {
        Ok(cut) => json!({ "read": cut }),
        Err(error) => json!({ "refused": error }),
    };
    std::io::stdout().lock().write_all(said.to_string().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Lets go of what whoever started us had open and did not close for us: only standard input, output and errors stay.
#[cfg(unix)]
#[allow(
    unsafe_code,
    reason = "this process has just begun, with one thread, and owns no descriptor but its first three"
)]
fn close_others() {
    let listed: Vec<i32> = match std::fs::read_dir("/dev/fd") {
        Ok(entries) => entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect(),
        Err(_) => (3..1_024).collect(),
    };
    for descriptor in listed.into_iter().filter(|descriptor| *descriptor > 2) {
        // SAFETY: nothing here holds it; the list itself was closed above, and closing a number twice does nothing.
        unsafe { rustix::io::close(descriptor) };
    }
}

#[cfg(not(unix))]
fn close_others() {}

/// What is asked for here can never be had again.
fn limit() -> anyhow::Result<()> {
    close_others();
    let limits = [
        (Resource::Cpu, SECONDS_MAX),
        // Standard input, output and errors; no other file can be opened.
        (Resource::Nofile, 3),
        (Resource::Fsize, 0),
        (Resource::Core, 0),
        (Resource::Nproc, 0),
    ];
    for (resource, most) in limits {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    let memory = Rlimit { current: Some(MEMORY_BYTES_MAX), maximum: Some(MEMORY_BYTES_MAX) };
    // Not every system counts address space; time and the size of the file bound it there.
    if let Err(error) = setrlimit(Resource::As, memory)
        && cfg!(target_os = "linux")
    {
        return Err(error.into());
    }
    Ok(())
}
