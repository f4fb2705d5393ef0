//! `recalld tenants`: who shares the server, and what each of them has of its own.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

use super::Common;
use super::client::{Client, Need, with_client};
use super::failure::Failure;
use super::output;
use super::table::{bytes, counted, flat, table};

/// What to do with tenants.
#[derive(Debug, Subcommand)]
pub(super) enum TenantsCommand {
    /// The tenants that something is written down about.
    List,
    /// Write a tenant down, with settings of its own.
    Create(SettingsArgs),
    /// One tenant, its settings and what it has stored.
    Show(NameArgs),
    /// Change settings of a tenant; without a value (`ttl=`) the server's counts again.
    Set(SettingsArgs),
    /// Forget a tenant and remove its keys.
    Delete(DeleteArgs),
}

/// Which tenant, and what it has of its own.
#[derive(Debug, Args)]
pub(super) struct SettingsArgs {
    #[arg(value_name = "TENANT")]
    name: String,
    /// Settings, such as ttl=24h or requests_per_minute=60; a value may be JSON.
    #[arg(value_name = "NAME=VALUE", value_parser = setting)]
    settings: Vec<(String, Value)>,
}

/// Which tenant.
#[derive(Debug, Args)]
pub(super) struct NameArgs {
    #[arg(value_name = "TENANT")]
    name: String,
}

/// Flags of `tenants delete`.
#[derive(Debug, Args)]
pub(super) struct DeleteArgs {
    #[arg(value_name = "TENANT")]
    name: String,
    /// Remove its conversations, too.
    #[arg(long)]
    everything: bool,
}

/// Numbers and objects are read as what they are; anything else is text, and nothing takes the setting away.
fn setting(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("a setting is written name=value")?;
    let value = value.trim();
    let typed = || serde_json::from_str(value).ok().filter(|value: &Value| value.is_number() || value.is_object());
    let value = if value.is_empty() { Value::Null } else { typed().unwrap_or_else(|| value.into()) };
    Ok((name.trim().to_owned(), value))
}

pub(super) fn tenants(common: &Common, command: &TenantsCommand) -> anyhow::Result<ExitCode> {
    with_client(common, Need::Memory, async |client| {
        match command {
            TenantsCommand::List => list(client, common).await?,
            TenantsCommand::Create(args) => {
                let body = json!({ "name": args.name, "settings": args.settings() });
                tell(common, &client.post_json("/api/v1/tenants", &body).await?)?;
            }
            TenantsCommand::Show(args) => tell(common, &client.get(&path(&args.name)).await?)?,
            TenantsCommand::Set(args) => {
                let body = json!({ "settings": args.settings() });
                tell(common, &client.patch(&path(&args.name), &body).await?)?;
            }
            TenantsCommand::Delete(args) => delete(client, common, args).await?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

impl SettingsArgs {
    fn settings(&self) -> Map<String, Value> {
        self.settings.iter().cloned().collect()
    }
}

fn path(name: &str) -> String {
    format!("/api/v1/tenants/{}", utf8_percent_encode(name, NON_ALPHANUMERIC))
}

async fn list(client: &Client, common: &Common) -> anyhow::Result<()> {
    let mut tenants = Vec::new();
    client.pages("/api/v1/tenants", "tenants", |page| tenants.extend(page)).await?;
    if common.json {
        return output::json(&json!({ "tenants": tenants }));
    }
    if tenants.is_empty() {
        output::note("nothing is written down about any tenant; `recalld tenants create NAME` does that");
        return Ok(());
    }
    let rows: Vec<_> =
        tenants.iter().map(|tenant| vec![text(&tenant["name"]), own(&tenant["settings"]).join(" ")]).collect();
    table(&["TENANT", "SETTINGS"], &rows, output::columns()).iter().try_for_each(output::say)
}

fn tell(common: &Common, tenant: &Value) -> anyhow::Result<()> {
    if common.json {
        return output::json(tenant);
    }
    output::say(format!("{:<10} {}", "tenant", text(&tenant["name"])))?;
    for line in own(&tenant["settings"]) {
        output::say(format!("{:<10} {line}", "setting"))?;
    }
    if let Some(usage) = tenant.get("usage") {
        let count = |name: &str| usage[name].as_u64().unwrap_or_default();
        let (sessions, turns) = (counted(count("sessions"), "session"), counted(count("turns"), "turn"));
        output::say(format!("{:<10} {sessions}, {turns}, {}", "stored", bytes(count("bytes"))))?;
    }
    Ok(())
}

/// Settings as they are given on the command line.
fn own(settings: &Value) -> Vec<String> {
    let settings = settings.as_object().into_iter().flatten();
    settings.map(|(name, value)| format!("{name}={}", text(value))).collect()
}

fn text(value: &Value) -> String {
    flat(&value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

async fn delete(client: &Client, common: &Common, args: &DeleteArgs) -> Result<(), anyhow::Error> {
    let deleted = client.delete(&format!("{}?everything={}", path(&args.name), args.everything)).await;
    let deleted = deleted.map_err(|failure| match failure {
        Failure::Refused { code, detail, .. } if code == "tenant_in_use" => {
            let told = detail.split(';').next().unwrap_or_default();
            Failure::Usage(format!("{told}; --everything removes them"))
        }
        failure => failure,
    })?;
    if common.json {
        return output::json(&deleted);
    }
    let sessions = counted(deleted["sessions_deleted"].as_u64().unwrap_or_default(), "session");
    output::say(format!("deleted tenant {} with {sessions}", flat(&args.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_people_write_them() {
        for (written, name, value) in [
            ("ttl=24h", "ttl", json!("24h")),
            ("requests_per_minute=60", "requests_per_minute", json!(60)),
            ("model=", "model", Value::Null),
            ("model=gpt=4", "model", json!("gpt=4")),
            (r#"templates={"en":{"system":"Hi."}}"#, "templates", json!({"en": {"system": "Hi."}})),
            ("language=true", "language", json!("true")),
        ] {
            assert_eq!(setting(written), Ok((name.to_owned(), value)), "{written}");
        }
        assert!(setting("ttl").is_err());
    }
}
