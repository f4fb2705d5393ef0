//! `recalld forget`: erases a conversation, a message, a document, a fact, a user or a tenant, for good.

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::Common;
use super::client::{Client, Need, with_client};
use super::failure::Failure;
use super::output;
use super::table::{counted, flat};

/// Flags of `forget`. `--user` and `--tenant` say what is to be forgotten when nothing else does, and whose it is otherwise.
#[derive(Debug, Args)]
pub(super) struct ForgetArgs {
    /// A conversation: a UUID, or `tenant:session` for a visitor's.
    #[arg(long, value_name = "ID", group = "what")]
    session: Option<String>,
    /// A message, with the exchange it belongs to.
    #[arg(long, value_name = "ID", group = "what")]
    message: Option<String>,
    /// A document that the tenant knows.
    #[arg(long, value_name = "ID", group = "what")]
    document: Option<String>,
    /// A fact with its history, and every statement of its words.
    #[arg(long, value_name = "ID", group = "what")]
    fact: Option<String>,
    /// Do not ask whether you are sure.
    #[arg(long, short)]
    yes: bool,
}

/// What is to be forgotten, for people and for the door.
struct Target {
    told: String,
    path: String,
}

pub(super) fn forget(common: &Common, args: &ForgetArgs) -> anyhow::Result<ExitCode> {
    let target = target(common, args, &|flag| std::env::args().any(|said| is_flag(&said, flag)))?;
    with_client(common, Need::Memory, async |client| {
        if !args.yes && !is_sure(&target.told)? {
            output::note("nothing was forgotten");
            return Ok(ExitCode::SUCCESS);
        }
        erase(client, common, &target).await?;
        Ok(ExitCode::SUCCESS)
    })
}

fn is_flag(said: &str, flag: &str) -> bool {
    said == flag || said.strip_prefix(flag).is_some_and(|rest| rest.starts_with('='))
}

/// A user or a tenant is only meant when the command line itself names them: a variable says whose memory commands are about, not
/// that it is to go.
fn target(common: &Common, args: &ForgetArgs, is_said: &dyn Fn(&str) -> bool) -> Result<Target, Failure> {
    let encoded = |name: &str| utf8_percent_encode(name, NON_ALPHANUMERIC).to_string();
    let one = |noun: &str, id: &str, path: String| Target { told: format!("{noun} {}", flat(id)), path };
    if let Some(id) = &args.session {
        return Ok(one("session", id, format!("/api/v1/sessions/{}", encoded(id))));
    }
    if let Some(id) = &args.message {
        return Ok(one("message", id, format!("/api/v1/messages/{}", encoded(id))));
    }
    if let Some(id) = &args.document {
        return Ok(one("document", id, format!("/api/v1/knowledge/{}", encoded(id))));
    }
    if let Some(id) = &args.fact {
        return Ok(one("fact", id, format!("/api/v1/facts/{}/history", encoded(id))));
    }
    match (&common.user, &common.tenant) {
        (Some(user), _) if is_said("--user") => {
            Ok(one("everything of user", user, format!("/api/v1/users/{}", encoded(user))))
        }
        (_, Some(tenant)) if is_said("--tenant") => {
            Ok(one("everything of tenant", tenant, format!("/api/v1/tenants/{}?everything=true", encoded(tenant))))
        }
        _ => Err(Failure::Usage(
            "say what to forget: --session, --message, --document, --fact, --user or --tenant".to_owned(),
        )),
    }
}

/// Asks the person; nobody to ask is an error, because a script should say what it wants.
fn is_sure(told: &str) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::Usage(format!("without a terminal --yes is needed to forget {told}")).into());
    }
    output::prompt(&format!("Forget {told}? It is erased everywhere and cannot be brought back. [y/N] "));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes" | "j" | "ja"))
}

async fn erase(client: &Client, common: &Common, target: &Target) -> anyhow::Result<()> {
    let receipt = client.delete(&target.path).await?;
    if common.json {
        return output::json(&receipt);
    }
    output::say(format!("forgot {}", target.told))?;
    lines(&receipt).iter().try_for_each(output::say)
}

/// A receipt in words.
fn lines(receipt: &Value) -> Vec<String> {
    let erased = receipt["erased"].as_object().into_iter().flatten();
    let mut lines: Vec<String> = erased
        .map(|(kind, count)| format!("  {:<14} {}", kind.replace('_', " "), count.as_u64().unwrap_or_default()))
        .collect();
    if let (Some(line), Some(at)) = (receipt["ledger_id"].as_u64(), receipt["erased_at"].as_str()) {
        lines.push(format!("  line {line} of the book of what was erased, {at}"));
    } else if let Some(turns) = receipt["turns_deleted"].as_u64() {
        lines.push(format!("  {}; it was in memory only", counted(turns, "turn")));
    }
    if receipt["log_emptied"] == Value::Bool(false) {
        lines.push("  somebody reads the data file; its log is emptied when they are done".to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn args() -> ForgetArgs {
        ForgetArgs { session: None, message: None, document: None, fact: None, yes: false }
    }

    #[test]
    fn what_the_command_line_names_is_meant_and_what_a_variable_names_is_not() {
        let common = Common { user: Some("ann b".into()), tenant: Some("acme".into()), ..Common::default() };
        let path = |args: &ForgetArgs, said: &[&str]| {
            target(&common, args, &|flag| said.contains(&flag)).map(|target| target.path).ok()
        };
        let session = ForgetArgs { session: Some("x".into()), ..args() };
        assert_eq!(path(&session, &["--user"]).as_deref(), Some("/api/v1/sessions/x"));
        assert_eq!(path(&args(), &["--user", "--tenant"]).as_deref(), Some("/api/v1/users/ann%20b"));
        assert_eq!(path(&args(), &["--tenant"]).as_deref(), Some("/api/v1/tenants/acme?everything=true"));
        assert_eq!(path(&args(), &[]), None, "RECALLD_USER alone");
    }

    #[test]
    fn flags_are_seen_in_both_forms() {
        assert!(is_flag("--user", "--user") && is_flag("--user=ann", "--user") && !is_flag("--users", "--user"));
    }

    #[test]
    fn a_receipt_is_told_in_words() {
        let told = lines(&json!({"ledger_id": 3, "erased_at": "2026-08-01T10:00:00Z", "log_emptied": true,
                                 "erased": {"turns": 2, "recall_rows": 4}}));
        assert_eq!(
            told,
            [
                "  turns          2",
                "  recall rows    4",
                "  line 3 of the book of what was erased, 2026-08-01T10:00:00Z"
            ]
        );
    }
}
