//! Options about the fields of resources that are received from a control plane (V-45, V-58).

use oxds_client::lifecycle::{FieldChecks, UnknownFields};
use oxds_core::resource::ResourceCheck;
use oxds_types::descriptor;
use oxds_types::lifecycle::{Clock, Policy};

use super::runtime_keys::RuntimeKeys;
use crate::exit::Failure;

/// Options about the fields of received resources.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct DynamicFieldArgs {
    /// NACK resources with fields that this version of the API does not have
    #[arg(long, conflicts_with = "ignore_unknown_dynamic_fields")]
    reject_unknown_dynamic_fields: bool,
    /// Do not warn of fields that this version of the API does not have
    #[arg(long)]
    ignore_unknown_dynamic_fields: bool,
    #[command(flatten)]
    runtime: RuntimeKeys,
}

/// Returns a check that only warns: of deprecated, unfinished and unknown fields. It is for commands that show what a
/// control plane serves, or that stand for a client without checks.
pub(crate) fn warnings() -> ResourceCheck {
    // Decoded here, and not while the first resource is waited for: a call has a deadline.
    descriptor::pool();
    let checks = FieldChecks::new(UnknownFields::Warn);
    checks.set_policy(Policy::undecided());
    checks.resource_check()
}

impl DynamicFieldArgs {
    /// Returns the check of received resources.
    pub(crate) fn check(&self) -> Result<ResourceCheck, Failure> {
        let unknown = match (
            self.reject_unknown_dynamic_fields,
            self.ignore_unknown_dynamic_fields,
        ) {
            (true, _) => UnknownFields::Reject,
            (false, true) => UnknownFields::Ignore,
            (false, false) => UnknownFields::Warn,
        };
        let checks = FieldChecks::new(unknown);
        checks.set_policy(Policy::new(self.runtime.snapshot()?, Clock::default()));
        Ok(checks.resource_check())
    }
}
