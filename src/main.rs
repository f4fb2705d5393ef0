//! The binary: everything is in the library, so that others can build on it.

use std::process::ExitCode;

fn main() -> ExitCode {
    recalld::cli::main()
}
