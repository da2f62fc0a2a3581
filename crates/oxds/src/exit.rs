//! How a command ends. The codes are documented in `docs/cli.md` and in `oxds --help`.

use std::fmt::Display;
use std::io::Write as _;
use std::process::ExitCode;

/// What the exit code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command did what it was asked, and all was well.
    Success,
    /// The command ran, and the answer is no: findings, failed calls, an address in use.
    Negative,
    /// The command could not begin: wrong arguments, or an input they name is missing or malformed.
    Usage,
    /// `oxds api`: the protos that were to be judged do not compile.
    Broken,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(match exit {
            Exit::Success => 0,
            Exit::Negative => 1,
            Exit::Usage => 2,
            Exit::Broken => 3,
        })
    }
}

/// Why a command ended early, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    message: String,
    hint: Option<String>,
}

impl Failure {
    /// The command could not begin.
    pub(crate) fn usage(message: impl Display) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// The command failed at its work.
    pub(crate) fn negative(message: impl Display) -> Self {
        Self::new(Exit::Negative, message)
    }

    /// The protos that were to be judged do not compile.
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

    /// Adds what to do about it.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// Says so on stderr, in the form that clap gives its own errors.
    pub(crate) fn report(&self) {
        let mut stderr = std::io::stderr().lock();
        // Nobody is left to tell when stderr is closed.
        let _ = writeln!(stderr, "error: {}", self.message);
        if let Some(hint) = &self.hint {
            let _ = writeln!(stderr, "\n  tip: {hint}");
        }
    }
}
