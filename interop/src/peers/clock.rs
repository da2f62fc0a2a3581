//! Wall clocks that a scenario steps: `peers/clock/clock.c` in a process.

use std::path::PathBuf;

use tokio::process::Command;

use crate::{Context, Fallible};

/// Wall clock of the processes that it rules. Their monotonic clocks and sleeps are those of the system.
#[derive(Debug)]
pub(crate) struct Clock {
    library: PathBuf,
    file: PathBuf,
}

impl Clock {
    /// A clock of this name that shows the time.
    pub(crate) fn new(cx: &Context, name: &str) -> Fallible<Self> {
        let clock = Self {
            library: cx.programs.clock.clone(),
            file: cx.dir.join(format!("{name}.clock")),
        };
        clock.step(0)?;
        Ok(clock)
    }

    /// Sets the clock ahead of the time by so many seconds, or behind it.
    pub(crate) fn step(&self, ahead: i64) -> Fallible {
        // A process reads the file whenever it asks for the time, so the file must be whole at any moment.
        let new = self.file.with_extension("new");
        std::fs::write(&new, ahead.to_string())?;
        Ok(std::fs::rename(new, &self.file)?)
    }

    /// Makes the process of a command go by this clock.
    pub(super) fn rule(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library);
        command.env("OXDS_CLOCK", &self.file);
    }
}
