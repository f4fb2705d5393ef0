//! How commands fail: what is said, and with which exit code.

use std::error::Error;
use std::process::ExitCode;

use serde::Serialize;

use super::output::{self, Colours, NobodyReads, Tint};
use crate::store::StoreError;

/// The exit codes, as `recalld --help` tells them.
const FAILED: u8 = 1;
pub(super) const USAGE: u8 = 2;
const NOT_FOUND: u8 = 3;
const UNAVAILABLE: u8 = 4;

/// What `recalld --help` says about them.
pub(super) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  it failed
  2  the command line is wrong
  3  there is no such thing
  4  no server answers there, or the data file is in use";

/// What can go wrong between the command line and the doors.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The server answered with an error.
    #[error("{error}: {detail}")]
    Refused {
        /// The status; 200 when the error came inside a stream.
        status: u16,
        /// The stable code, if one came.
        code: String,
        error: String,
        detail: String,
    },
    /// Nobody answers there.
    #[error("cannot reach a server at {url}: {reason}")]
    Unreachable { url: String, reason: String },
    /// It is about what only a running server has.
    #[error("{0} are in the memory of a server, and none runs here")]
    NoServer(&'static str),
    /// Somebody else answers there.
    #[error("{url} does not answer as recalld does: {reason}")]
    Stranger { url: String, reason: String },
    /// An answer ended too early.
    #[error("the answer broke off: {0}")]
    BrokeOff(String),
    /// The flags do not go together, which clap cannot see.
    #[error("{0}")]
    Usage(String),
}

impl Failure {
    fn exit(&self) -> u8 {
        match self {
            Self::Refused { status: 404, .. } => NOT_FOUND,
            Self::Unreachable { .. } | Self::NoServer(_) => UNAVAILABLE,
            Self::Usage(_) => USAGE,
            _ => FAILED,
        }
    }

    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Refused { code, .. } if code == "invalid_user_token" => {
                Some("give this shell the server's secret, in the variable that `openwebui_jwt_secret_env` names")
            }
            Self::Refused { status: 401, .. } => {
                Some("show a key with --key or RECALLD_KEY (RECALLD_API_KEY, if it is the one of the settings)")
            }
            Self::Refused { code, .. } if code == "missing_right" => {
                Some("`recalld keys list` shows what each key may do")
            }
            Self::Refused { code, .. } if code == "unknown_tenant" => {
                Some("`recalld tenants create NAME` writes it down")
            }
            Self::Refused { code, .. } if code == "unknown_key" => Some("`recalld keys list` shows their ids"),
            Self::Refused { code, .. } if code == "no_user" => Some(
                "name yourself with --user NAME or RECALLD_USER (signed, where the server wants that: with its \
                 `openwebui_jwt_secret_env` in this shell)",
            ),
            Self::Refused { status: 404, code, .. } if code == "unknown_route" => {
                Some("the server may be of another version; see `recalld doctor`")
            }
            Self::Refused { code, .. } if code == "unknown_clarification" => {
                Some("`recalld clarifications` shows what is open (--user for whom)")
            }
            Self::Refused { status: 404, .. } => Some("`recalld sessions list` shows what there is (--user for whom)"),
            Self::Unreachable { .. } => Some("start one with `recalld serve`, or leave --server out to work without"),
            Self::NoServer(_) => Some("start one with `recalld serve`, or name one with --server"),
            _ => None,
        }
    }
}

/// A failure with advice. The advice is told last, after all causes.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub(super) struct Advised {
    what: String,
    hint: String,
    #[source]
    cause: Box<dyn Error + Send + Sync>,
}

impl Advised {
    pub(super) fn new(
        what: impl Into<String>,
        hint: impl Into<String>,
        cause: impl Error + Send + Sync + 'static,
    ) -> Self {
        Self { what: what.into(), hint: hint.into(), cause: Box::new(cause) }
    }
}

/// A failure as it is told.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Complaint {
    error: String,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl Complaint {
    fn of(error: &anyhow::Error) -> Self {
        let failure = find::<Failure>(error);
        let advice = find::<Advised>(error).map(|advised| advised.hint.clone());
        let hint = advice.or_else(|| failure.and_then(Failure::hint).map(str::to_owned));
        if let Some(Failure::Refused { error, detail, .. }) = failure {
            return Self { error: error.clone(), detail: detail.clone(), hint };
        }
        let causes: Vec<String> = error.chain().skip(1).map(ToString::to_string).collect();
        Self { error: error.to_string(), detail: causes.join(": "), hint }
    }
}

fn find<E: Error + 'static>(error: &anyhow::Error) -> Option<&E> {
    error.chain().find_map(|cause| cause.downcast_ref())
}

/// Tells what went wrong and answers the exit code. A reader that left early is nothing to tell.
pub(super) fn complain(error: &anyhow::Error, json: bool) -> ExitCode {
    if find::<NobodyReads>(error).is_some() {
        return ExitCode::SUCCESS;
    }
    tell(error, json);
    exit_code(error).into()
}

/// Tells what went wrong on stderr.
pub(super) fn tell(error: &anyhow::Error, json: bool) {
    let complaint = Complaint::of(error);
    if json {
        output::note(serde_json::to_string(&complaint).unwrap_or_default());
        return;
    }
    let colours = Colours::of(&std::io::stderr());
    let separator = if complaint.detail.is_empty() { "" } else { ": " };
    let sentence = output::harmless(&format!("{}{separator}{}", complaint.error, complaint.detail));
    output::note(format!("{} {sentence}", colours.paint(Tint::Red, "error:")));
    if let Some(hint) = complaint.hint {
        output::note(format!("{} {hint}", colours.paint(Tint::Bold, "hint:")));
    }
}

fn exit_code(error: &anyhow::Error) -> u8 {
    match (find::<Failure>(error), find::<StoreError>(error)) {
        (Some(failure), _) => failure.exit(),
        (None, Some(StoreError::InUse { .. })) => UNAVAILABLE,
        _ => FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Holder;
    use anyhow::Context;

    fn refused(status: u16, code: &str) -> anyhow::Error {
        let (error, detail) = ("No such thing".into(), "it is not there".into());
        Failure::Refused { status, code: code.into(), error, detail }.into()
    }

    #[test]
    fn exit_codes_tell_failures_apart() {
        let in_use = StoreError::InUse { path: "/x".into(), holder: Holder { pid: Some(7), url: None } };
        let unreachable = Failure::Unreachable { url: "http://x".into(), reason: "Connection refused".into() };
        assert_eq!(exit_code(&refused(404, "")), NOT_FOUND);
        assert_eq!(exit_code(&refused(502, "")), FAILED);
        assert_eq!(exit_code(&anyhow::Error::from(unreachable).context("asking")), UNAVAILABLE);
        assert_eq!(exit_code(&Advised::new("cannot open", "stop it", in_use).into()), UNAVAILABLE);
        assert_eq!(exit_code(&Failure::Usage("--yes is missing".into()).into()), USAGE);
        assert_eq!(exit_code(&anyhow::anyhow!("anything")), FAILED);
    }

    #[test]
    fn the_causes_come_before_the_hint() {
        let cause = std::io::Error::other("the disk is gone");
        let error = anyhow::Error::from(Advised::new("cannot open the file", "plug it in", cause));
        let expected = Complaint {
            error: "cannot open the file".into(),
            detail: "the disk is gone".into(),
            hint: Some("plug it in".into()),
        };
        assert_eq!(Complaint::of(&error), expected);
    }

    #[test]
    fn what_the_server_said_is_told_as_it_said_it() {
        let told = Complaint::of(&refused(400, "no_user"));
        assert_eq!((told.error.as_str(), told.detail.as_str()), ("No such thing", "it is not there"));
        assert!(told.hint.is_some_and(|hint| hint.contains("--user")));
        let unsigned = Complaint::of(&refused(401, "invalid_user_token"));
        assert!(unsigned.hint.is_some_and(|hint| hint.contains("openwebui_jwt_secret_env")));
    }

    #[test]
    fn a_reader_that_left_is_no_failure() {
        let left = Err::<(), _>(NobodyReads).context("while listing").expect_err("an error");
        assert_eq!(complain(&left, false), ExitCode::SUCCESS);
    }
}
