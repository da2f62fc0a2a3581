//! Option for the schedule of the deprecation clock (V-43).

use clap::ValueEnum;
use oxds_apicheck::clock::Schedule;

/// Option for the events that advance the deprecation clock.
#[derive(Debug, clap::Args)]
pub(crate) struct ScheduleArgs {
    /// Schedule of the deprecation clock
    #[arg(long, value_enum, default_value_t)]
    schedule: ScheduleName,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum ScheduleName {
    /// Use fails from the second release on, removal is allowed with the second major
    #[default]
    Policy,
    /// Removal is allowed with the third release
    Releases,
    /// Use fails where annotated, removal is never allowed
    EnvoyToday,
}

impl ScheduleArgs {
    pub(crate) fn schedule(&self) -> Schedule {
        match self.schedule {
            ScheduleName::Policy => Schedule::Policy,
            ScheduleName::Releases => Schedule::Releases,
            ScheduleName::EnvoyToday => Schedule::EnvoyToday,
        }
    }
}
