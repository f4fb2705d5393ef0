//! Work in the background: how much waits, what failed, why, and what to do about it.

use super::Check;
use crate::cli::table::counted;
use crate::store::JobCounts;

/// What to think of the jobs there are.
pub(super) fn judge(jobs: &JobCounts) -> Check {
    let JobCounts { queued, failing, dead, .. } = *jobs;
    let why = jobs.last_error.as_deref().unwrap_or("the log says why");
    let told = format!("{} waiting", counted(queued, "job"));
    match (failing, dead) {
        (0, 0) => Check::ok("jobs", told),
        (_, 0) => Check::warn("jobs", format!("{told}, {failing} of them failed and will be tried again: {why}")),
        _ => Check::warn(
            "jobs",
            format!("{told}, {dead} given up: {why}; mend that, then `recalld digest --retry --everyone`"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn jobs_that_fail_are_a_warning_that_says_why() {
        let jobs =
            |failing, dead| JobCounts { queued: 3, failing, running: 0, dead, last_error: Some("no vectors".into()) };
        let well = judge(&jobs(0, 0));
        assert_eq!((well.status, well.detail.as_str()), (Status::Ok, "3 jobs waiting"));
        for check in [judge(&jobs(1, 0)), judge(&jobs(0, 2)), judge(&jobs(1, 2))] {
            assert_eq!(check.status, Status::Warn);
            assert!(check.detail.contains("no vectors"), "{}", check.detail);
        }
        for check in [judge(&jobs(0, 2)), judge(&jobs(1, 2))] {
            assert!(check.detail.ends_with("`recalld digest --retry --everyone`"), "{}", check.detail);
        }
    }
}
