//! `recalld keys`: making keys that open the doors, and ending them.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::Common;
use super::client::{Client, Need, with_client};
use super::output;
use super::table::{flat, table};

/// What to do with keys.
#[derive(Debug, Subcommand)]
pub(super) enum KeysCommand {
    /// The keys there are, and what each may do.
    List,
    /// Make a key. It is shown this once.
    Create(CreateArgs),
    /// Make a key like another one, which stays good for a while.
    Rotate(RotateArgs),
    /// End a key.
    Revoke(IdArgs),
}

/// Flags of `keys create`; --tenant and --user bind it.
#[derive(Debug, Args)]
pub(super) struct CreateArgs {
    /// What it is for, in your words.
    #[arg(value_name = "NAME", default_value = "")]
    name: String,
    /// What it may do: read, write, erase, files, admin.
    #[arg(long, value_delimiter = ',', default_value = "read,write", value_name = "RIGHTS")]
    rights: Vec<String>,
    /// Believe requests that name a user (X-User-ID and the like).
    #[arg(long)]
    trust_identity: bool,
    /// How long it is good for, such as 90d [default: for ever].
    #[arg(long, value_name = "PERIOD")]
    expires_in: Option<String>,
}

/// Flags of `keys rotate`.
#[derive(Debug, Args)]
pub(super) struct RotateArgs {
    /// The old key's id.
    #[arg(value_name = "ID")]
    id: String,
    /// How long the old key stays good.
    #[arg(long, value_name = "PERIOD", default_value = "24h")]
    overlap: String,
}

/// Which key.
#[derive(Debug, Args)]
pub(super) struct IdArgs {
    /// The key's id.
    #[arg(value_name = "ID")]
    id: String,
}

pub(super) fn keys(common: &Common, command: &KeysCommand) -> anyhow::Result<ExitCode> {
    with_client(common, Need::Memory, async |client| {
        match command {
            KeysCommand::List => list(client, common).await?,
            KeysCommand::Create(args) => {
                let body = Value::Object(wanted(common, args));
                show_once(common, &client.post_json("/api/v1/keys", &body).await?)?;
            }
            KeysCommand::Rotate(args) => {
                let path = format!("/api/v1/keys/{}/rotate?overlap={}", id(&args.id), args.overlap);
                let made = client.post(&path).await?;
                show_once(common, &made)?;
                if !common.json {
                    output::note(format!("the old key is good for another {}", args.overlap));
                }
            }
            KeysCommand::Revoke(args) => {
                let revoked = client.delete(&format!("/api/v1/keys/{}", id(&args.id))).await?;
                if common.json {
                    output::json(&revoked)?;
                } else {
                    output::say(format!("revoked key {}", id(&args.id)))?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// The id in a whole key, as people may paste it; a secret has no place in a URL.
fn id(text: &str) -> &str {
    match text.strip_prefix("rk_") {
        Some(rest) => rest.split('_').next().unwrap_or(rest),
        None => text,
    }
}

fn wanted(common: &Common, args: &CreateArgs) -> Map<String, Value> {
    let said = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty()).map(Value::from);
    let pairs = [
        ("name", Some(args.name.clone().into())),
        ("tenant", said(&common.tenant)),
        ("user_id", said(&common.user)),
        ("rights", Some(json!(args.rights))),
        ("trust_identity", args.trust_identity.then_some(true.into())),
        ("expires_in", said(&args.expires_in)),
    ];
    pairs.into_iter().filter_map(|(name, value)| value.map(|value| (name.to_owned(), value))).collect()
}

fn show_once(common: &Common, made: &Value) -> anyhow::Result<()> {
    if common.json {
        return output::json(made);
    }
    output::say(made["key"].as_str().unwrap_or_default())?;
    let told = format!("{} with {}", opens(made), words(&made["rights"]));
    output::note(format!("keep it: it cannot be shown again. It opens {told}."));
    Ok(())
}

async fn list(client: &Client, common: &Common) -> anyhow::Result<()> {
    let mut keys = Vec::new();
    client.pages("/api/v1/keys", "keys", |page| keys.extend(page)).await?;
    if common.json {
        return output::json(&json!({ "keys": keys }));
    }
    if keys.is_empty() {
        output::note("there are no keys; `recalld keys create --rights admin` makes the first");
        return Ok(());
    }
    let rows: Vec<_> = keys.iter().map(row).collect();
    table(&["ID", "STATE", "OPENS", "RIGHTS", "EXPIRES", "NAME"], &rows, output::columns())
        .iter()
        .try_for_each(output::say)
}

fn row(key: &Value) -> Vec<String> {
    let text = |name: &str| key[name].as_str().map(flat);
    let expires = text("expires_at").map_or("never".into(), |at| at.chars().take(16).collect());
    let part = |name: &str| text(name).unwrap_or_default();
    vec![part("id"), part("state"), opens(key), words(&key["rights"]), expires, part("name")]
}

fn opens(key: &Value) -> String {
    let tenant = key["tenant"].as_str().map_or("every tenant".into(), flat);
    key["user_id"].as_str().map_or(tenant.clone(), |user| format!("{tenant}/{}", flat(user)))
}

fn words(rights: &Value) -> String {
    let words = rights.as_array().into_iter().flatten().filter_map(Value::as_str);
    words.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_what_was_said() {
        let args = CreateArgs {
            name: "shop".into(),
            rights: vec!["read".into()],
            trust_identity: false,
            expires_in: Some("90d".into()),
        };
        let common = Common { tenant: Some("acme".into()), user: Some(" ".into()), ..Common::default() };
        let expected = json!({"name": "shop", "tenant": "acme", "rights": ["read"], "expires_in": "90d"});
        assert_eq!(Value::Object(wanted(&common, &args)), expected);
    }

    #[test]
    fn a_secret_does_not_go_into_a_path() {
        assert_eq!([id("rk_070707070707_0909"), id("070707070707")], ["070707070707"; 2]);
    }

    #[test]
    fn a_key_is_told_in_a_line() {
        let key = json!({"id": "070707070707", "state": "active", "tenant": "acme", "user_id": "ann", "name": "shop",
                         "rights": ["read", "write"], "expires_at": "2026-01-01T12:00:00.000000Z"});
        assert_eq!(row(&key), ["070707070707", "active", "acme/ann", "read,write", "2026-01-01T12:00", "shop"]);
        assert_eq!(opens(&json!({"tenant": null})), "every tenant");
    }
}
