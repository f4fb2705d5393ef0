//! File descriptors. Each connection takes one, so a flood of connections could use up those of the data file and of the
//! upstream.

/// Descriptors for everything that is no connection of a client.
const RESERVED: u64 = 256;

/// Raises this process's limit as far as it may go. Answers how many connections there can be, of those that are wanted.
pub(super) fn connections_max(wanted: usize) -> usize {
    let connections = fitting(wanted, raise_limit());
    if connections < wanted {
        tracing::warn!(
            connections.max = connections,
            "`connections_max` is {wanted}, and the system allows {connections} (see `ulimit -Hn`)"
        );
    }
    connections
}

/// How many connections fit into a limit, beside everything else; at least a few.
fn fitting(wanted: usize, limit: Option<u64>) -> usize {
    let Some(limit) = limit else { return wanted };
    let left = limit.saturating_sub(RESERVED).max(limit / 2);
    usize::try_from(left).map_or(wanted, |left| wanted.min(left.max(1)))
}

#[cfg(unix)]
fn raise_limit() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // Some systems refuse to go without a limit; then the old one holds.
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    }
}

#[cfg(not(unix))]
fn raise_limit() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_the_rest() {
        assert_eq!(fitting(4_096, None), 4_096);
        assert_eq!(fitting(4_096, Some(65_536)), 4_096);
        assert_eq!(fitting(4_096, Some(1_024)), 768);
        assert_eq!(fitting(4_096, Some(100)), 50);
        assert_eq!(fitting(4_096, Some(0)), 1);
    }
}
