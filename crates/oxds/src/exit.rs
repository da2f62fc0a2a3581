//! Exit codes and errors of commands. The codes are documented in `docs/cli.md` and in `oxds --help`.

use std::fmt::Display;
use std::process::ExitCode;

use oxds_types::text;

use crate::log;

/// Result of a command, as an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command completed without errors (0).
    Success,
    /// The command ran and completed with findings, failed calls, or an address in use (1).
    Negative,
    /// The command did not start: wrong arguments, or a missing or malformed input (2).
    Usage,
    /// Something would change; `oxds plan --detailed-exitcode` only (2).
    Changes,
    /// The protos to check do not compile; `oxds api` only (3).
    Broken,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(match exit {
            Exit::Success => 0,
            Exit::Negative => 1,
            Exit::Usage | Exit::Changes => 2,
            Exit::Broken => 3,
        })
    }
}

/// Error that ended a command early, with a message for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    message: String,
    hint: Option<String>,
}

impl Failure {
    /// Returns a failure of a command that did not start.
    pub(crate) fn usage(message: impl Display) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Returns a failure of a command that did start.
    pub(crate) fn negative(message: impl Display) -> Self {
        Self::new(Exit::Negative, message)
    }

    /// Returns a failure for protos that do not compile.
    pub(crate) fn broken(message: impl Display) -> Self {
        Self::new(Exit::Broken, message)
    }

    fn new(exit: Exit, message: impl Display) -> Self {
        Self {
            exit,
            message: message.to_string(),
            hint: None,
        }
    }

    /// Returns the message, without advice.
    #[cfg(feature = "etcd")]
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Adds advice for the user.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// Prints the error on stderr, in the format of clap's errors.
    pub(crate) fn report(&self) {
        let mut report = format!("error: {}\n", text::lines(&self.message));
        if let Some(hint) = &self.hint {
            report += &format!("\n  tip: {hint}\n");
        }
        log::write(&report);
    }
}
