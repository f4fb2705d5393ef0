//! `recalld backup`: a copy of the data file, taken while it is in use.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use http_body_util::BodyExt;
use hyper::Method;
use hyper::header::{CONTENT_LENGTH, HeaderMap};
use serde_json::json;

use super::Common;
use super::client::{Ask, Client, Need, with_client};
use super::failure::Failure;
use super::output;
use super::table::bytes;
use crate::store::{Manifest, backup};

/// Flags of `backup`.
#[derive(Debug, Args)]
pub(super) struct BackupArgs {
    /// The file to write.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write over a file that is there.
    #[arg(long)]
    force: bool,
}

pub(super) fn backup(common: &Common, args: &BackupArgs) -> anyhow::Result<ExitCode> {
    if args.file.exists() && !args.force {
        let told = format!("`{}` is there already; --force writes over it", args.file.display());
        return Err(Failure::Usage(told).into());
    }
    with_client(common, Need::Memory, async |client| {
        let manifest = write(client, &args.file).await?;
        tell(common, &args.file, &manifest)?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Writes under another name first, so that the name stands for a whole backup or for the one before.
async fn write(client: &Client, file: &Path) -> anyhow::Result<Manifest> {
    let mut name = file.file_name().context("the backup needs a file name")?.to_owned();
    name.push(".partial");
    let partial = file.with_file_name(name);
    let taken = take(client, &partial).await;
    if taken.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    let manifest = taken?;
    std::fs::rename(&partial, file).with_context(|| format!("cannot write `{}`", file.display()))?;
    #[cfg(unix)]
    {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).context("the folder cannot be written")?;
    }
    Ok(manifest)
}

async fn take(client: &Client, partial: &Path) -> anyhow::Result<Manifest> {
    let ask = Ask { method: Method::POST, path: "/api/v1/backup", headers: HeaderMap::new(), body: None };
    let response = client.send(ask).await?;
    let length = response.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let (mut body, bar) = (response.into_body(), super::import::bar(length));
    let mut file = make(partial).with_context(|| format!("cannot make `{}`", partial.display()))?;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Failure::BrokeOff(error.to_string()))?;
        let Some(piece) = frame.data_ref() else { continue };
        file.write_all(piece).with_context(|| format!("cannot write `{}`", partial.display()))?;
        bar.inc(piece.len() as u64);
    }
    bar.finish_and_clear();
    file.sync_all().with_context(|| format!("cannot write `{}`", partial.display()))?;
    drop(file);
    // What lies on the disk is read again: a backup is worth what can be read of it.
    Ok(backup::check(partial)?)
}

/// A file that nobody else can read: it holds what people said.
fn make(path: &Path) -> std::io::Result<File> {
    let _ = std::fs::remove_file(path);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn tell(common: &Common, file: &Path, manifest: &Manifest) -> anyhow::Result<()> {
    if common.json {
        return output::json(&json!({"file": file, "manifest": manifest}));
    }
    let turns = manifest.rows.get("turn").copied().unwrap_or(0);
    let keys = manifest.rows.get("api_key").copied().unwrap_or(0);
    let size = bytes(manifest.bytes);
    output::say(format!("{}: {} turns in {size}, as of {}", file.display(), turns, manifest.taken_at))?;
    if keys > 0 {
        output::note(
            "note: the secret of the keys is not in it; keep the file ending in .secret beside the data file, too",
        );
    }
    Ok(())
}
