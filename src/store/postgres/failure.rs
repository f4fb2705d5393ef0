//! What a failure means for what was being done.

/// What a connection's last failure means for what was being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Failure {
    /// There was none, or nothing that trying again would change.
    #[default]
    None,
    /// The same may go well now: others were in the way.
    TryAgain,
    /// The connection is of no use any more.
    Lost,
}

impl Failure {
    /// Whether doing the same again may go well.
    pub(super) fn of(error: &tokio_postgres::Error) -> Self {
        let Some(said) = error.as_db_error() else {
            return if error.is_closed()
                || std::error::Error::source(error).is_some_and(|cause| cause.is::<std::io::Error>())
            {
                Failure::Lost
            } else {
                Failure::None
            };
        };
        match said.code().code() {
            // In each other's way.
            "40001" | "40P01" => Failure::TryAgain,
            // Two rows got the same key, or two made the same row at once; looking again, the other one's is seen.
            "23505" => Failure::TryAgain,
            // It is going down, or has just come up.
            "57P01" | "57P02" | "57P03" | "08006" | "08003" => Failure::Lost,
            _ => Failure::None,
        }
    }
}
