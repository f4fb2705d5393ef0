//! Webhooks: what is yet to be delivered, what was given up, and why.

use serde_json::Value;

use super::Check;
use crate::cli::table::counted;
use crate::store::ParcelCounts;

/// What a running server says of its webhooks. One from before there were any does not, and keys of tenants are not told.
pub(super) fn of_stats(stats: &Value) -> Option<Check> {
    let count = |name: &str| stats[name].as_u64();
    let (queued, failing, dead) = (count("webhooks_queued")?, count("webhooks_failing")?, count("webhooks_dead")?);
    let last_error = stats["webhooks_last_error"].as_str().map(str::to_owned);
    judge(&ParcelCounts { queued, failing, dead, last_error })
}

/// What to think of the webhooks there are; nothing where there are none.
pub(super) fn judge(posted: &ParcelCounts) -> Option<Check> {
    let ParcelCounts { queued, failing, dead, .. } = *posted;
    let why = posted.last_error.as_deref().unwrap_or("the log says why");
    let told = format!("{} to deliver", counted(queued, "webhook"));
    match (queued, failing, dead) {
        (0, 0, 0) => None,
        (_, 0, 0) => Some(Check::ok("webhooks", told)),
        (_, _, 0) => {
            Some(Check::warn("webhooks", format!("{told}, {failing} of them failed and will be tried again: {why}")))
        }
        _ => {
            let next = "mend that, then POST /api/v1/webhooks/retry";
            Some(Check::warn("webhooks", format!("{told}, {dead} given up: {why}; {next}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;
    use serde_json::json;

    #[test]
    fn webhooks_that_fail_are_a_warning_that_says_why() {
        let posted = |queued, failing, dead| {
            judge(&ParcelCounts { queued, failing, dead, last_error: Some("it answered with 500".into()) })
        };
        assert!(posted(0, 0, 0).is_none());
        assert_eq!(posted(2, 0, 0).expect("told").status, Status::Ok);
        for check in [posted(2, 1, 0), posted(0, 0, 3)] {
            let check = check.expect("told");
            assert_eq!(check.status, Status::Warn);
            assert!(check.detail.contains("it answered with 500"), "{}", check.detail);
        }
        let stats = json!({"webhooks_queued": 1, "webhooks_failing": 1, "webhooks_dead": 0});
        assert!(of_stats(&stats).is_some() && of_stats(&json!({})).is_none());
    }
}
