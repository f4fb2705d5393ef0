//! Processor time: what work costs whatever else the machine is doing.

use std::time::Duration;

/// What this process has spent of all processors.
pub(super) fn of_process() -> Duration {
    clock::process()
}

/// What this thread has spent.
pub(super) fn of_thread() -> Duration {
    clock::thread()
}

#[cfg(unix)]
mod clock {
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};

    fn read(clock: ClockId) -> Duration {
        let time = clock_gettime(clock);
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
    }

    pub(super) fn process() -> Duration {
        read(ClockId::ProcessCPUTime)
    }

    pub(super) fn thread() -> Duration {
        read(ClockId::ThreadCPUTime)
    }
}

/// Where nobody says, the time on the wall is the nearest.
#[cfg(not(unix))]
mod clock {
    use std::sync::OnceLock;
    use std::time::{Duration, Instant};

    static START: OnceLock<Instant> = OnceLock::new();

    pub(super) fn process() -> Duration {
        START.get_or_init(Instant::now).elapsed()
    }

    pub(super) use process as thread;
}
