//! Options about deprecated and unknown fields in files: the ledger with the deprecation clock (V-43), and unknown
//! fields (V-58).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use jiff::civil::Date;
use oxds_apicheck::clock::{self, Schedule};
use oxds_apicheck::ledger::Ledger;
use oxds_server::dir;
use oxds_types::descriptor;
use oxds_types::lifecycle::{self, Clock, Entry, Phase, Policy};
use oxds_types::runtime::Snapshot;
use tracing::warn;

use super::runtime_keys::RuntimeKeys;
use super::schedule::ScheduleArgs;
use crate::commands::date::today;
use crate::commands::{dir_options, unreadable};
use crate::exit::Failure;

/// Options about deprecated and unknown fields in files.
#[derive(Debug, clap::Args)]
pub(crate) struct LifecycleArgs {
    /// Accept fields that this version of the API does not have: each is a warning instead of an error
    #[arg(long, alias = "allow-unknown-fields")]
    pub(crate) allow_unknown_static_fields: bool,
    /// Ledger of releases and deprecations, as for `oxds api clock`: a field that it deprecates is warned of from its
    /// release on, and disallowed from the next release on
    #[arg(long, value_name = "FILE")]
    pub(crate) ledger: Option<PathBuf>,
    #[command(flatten)]
    schedule: ScheduleArgs,
}

/// Options of commands that read a folder once.
#[derive(Debug, clap::Args)]
pub(crate) struct FolderFieldArgs {
    #[command(flatten)]
    pub(crate) lifecycle: LifecycleArgs,
    #[command(flatten)]
    runtime: RuntimeKeys,
}

impl FolderFieldArgs {
    /// Reads a folder with these options. `providers`: the certificate providers of the clients, if they are known.
    pub(crate) fn load(
        &self,
        folder: &Path,
        strict: bool,
        providers: Option<BTreeSet<String>>,
    ) -> Result<dir::Report, Failure> {
        let options = self.options(strict, providers)?;
        dir::load(folder, &options).map_err(|error| unreadable(&error))
    }

    /// Returns the options for reading a folder.
    pub(crate) fn options(
        &self,
        strict: bool,
        providers: Option<BTreeSet<String>>,
    ) -> Result<dir::Options, Failure> {
        let mut options = dir_options(self.lifecycle.allow_unknown_static_fields, strict);
        options.codec.certificate_providers = providers;
        options.codec.policy = self.lifecycle.policy(self.runtime.snapshot()?)?;
        Ok(options)
    }
}

impl LifecycleArgs {
    /// Returns the policy for today.
    pub(crate) fn policy(&self, runtime: Snapshot) -> Result<Policy, Failure> {
        let ledger = self.read_ledger().map_err(Failure::usage)?;
        if let Some(ledger) = &ledger {
            warn_of_others(ledger);
        }
        Ok(Policy::new(runtime, self.clock(ledger.as_ref())))
    }

    /// Reads the ledger; `None` without one.
    pub(crate) fn read_ledger(&self) -> Result<Option<Ledger>, String> {
        let Some(path) = &self.ledger else {
            return Ok(None);
        };
        match Ledger::read(path) {
            Ok(Some(ledger)) => Ok(Some(ledger)),
            Ok(None) => Err(missing(path)),
            Err(error) => Err(format!("--ledger: {error}")),
        }
    }

    /// Returns the phases of a ledger's deprecations today.
    pub(crate) fn clock(&self, ledger: Option<&Ledger>) -> Clock {
        ledger.map_or_else(Clock::default, |ledger| {
            of_ledger(ledger, self.schedule.schedule(), today())
        })
    }
}

fn missing(path: &Path) -> String {
    format!("--ledger: {}: no such file", path.display())
}

fn of_ledger(ledger: &Ledger, schedule: Schedule, today: Date) -> Clock {
    let entries = ledger.deprecated.iter().filter_map(|one| {
        let dates = clock::dates(ledger, schedule, &package(&one.element)?, &one.element);
        let (phase, until) = dates.phase(today);
        let phase = match phase {
            clock::Phase::Announced => Phase::Announced,
            clock::Phase::Warned => Phase::Warned,
            // A field that may be removed still exists here, so an override still works.
            clock::Phase::Disallowed | clock::Phase::Removable => Phase::Disallowed,
            clock::Phase::Unrecorded => return None,
        };
        let entry = Entry {
            phase,
            since: dates.since.map(|date| date.to_string()),
            until: until.map(|date| date.to_string()),
            replacement: Some(one.replacement.clone()),
        };
        Some((one.element.clone(), entry))
    });
    Clock::new(entries)
}

/// Returns the package of a field or an enum value; `None` if the descriptors do not have it.
fn package(element: &str) -> Option<String> {
    let (parent, _) = element.rsplit_once('.')?;
    let pool = descriptor::pool();
    let message = pool.get_message_by_name(parent);
    let message = message.map(|message| message.package_name().to_owned());
    message.or_else(|| Some(pool.get_enum_by_name(parent)?.package_name().to_owned()))
}

/// Warns of entries that have no effect: the API has the message, but its field is not deprecated.
fn warn_of_others(ledger: &Ledger) {
    let known = lifecycle::all();
    for entry in &ledger.deprecated {
        let is_known = known.iter().any(|one| one.name() == entry.element);
        if !is_known && package(&entry.element).is_some() {
            warn!(
                element = entry.element,
                "ledger entry without effect: this version of the API does not deprecate the element"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELD: &str = "envoy.config.cluster.v3.Cluster.http2_protocol_options";

    /// The schedule of the policy, day by day: announced, warned, disallowed; and still disallowed when it may be
    /// removed.
    #[test]
    fn v43_ledger_moves_a_field_through_its_phases() {
        let ledger = format!(
            "releases:
- {{version: 1.0.0, date: 2027-01-10}}
- {{version: 1.1.0, date: 2027-04-10}}
events:
- {{name: '2028', date: 2028-01-01, majors: [envoy.config.cluster.v4]}}
- {{name: '2029', date: 2029-01-01, majors: [envoy.config.cluster.v5]}}
deprecated:
- {{element: {FIELD}, since: 1.0.0, replacement: shop.New}}
- {{element: shop.v1.Other.field, since: 1.0.0, replacement: shop.New}}
"
        );
        let ledger = Ledger::parse(Path::new("ledger.yaml"), &ledger).unwrap();
        let entry = |day: &str| {
            let clock = of_ledger(&ledger, Schedule::Policy, day.parse().unwrap());
            assert_eq!(clock.elements().collect::<Vec<_>>(), [FIELD]);
            clock.entry(FIELD).unwrap().as_ref().clone()
        };
        let entries = ["2027-01-09", "2027-01-10", "2027-04-10", "2029-01-01"].map(entry);
        let phases = entries.clone().map(|entry| entry.phase);
        use Phase::{Announced, Disallowed, Warned};
        assert_eq!(phases, [Announced, Warned, Disallowed, Disallowed]);
        let until = entries.map(|entry| entry.until);
        let until: Vec<_> = until.iter().map(Option::as_deref).collect();
        assert_eq!(
            until,
            [
                Some("2027-01-10"),
                Some("2027-04-10"),
                Some("2029-01-01"),
                None
            ]
        );
    }
}
