//! Hosts of `LOGICAL_DNS` clusters, and their addresses (gRFC A37).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use super::command::WatchCommand;
use super::slots::Slot;
use crate::ads::{WatchError, WatchErrorReason};
use crate::resource::{Assignment, DnsTarget};

/// Hosts that are looked up.
#[derive(Debug, Default)]
pub(super) struct DnsHosts {
    hosts: BTreeMap<DnsTarget, Slot<Assignment>>,
}

impl DnsHosts {
    /// Looks up exactly these hosts: adds commands for the differences.
    pub(super) fn want(
        &mut self,
        wanted: &BTreeSet<DnsTarget>,
        commands: &mut VecDeque<WatchCommand>,
    ) {
        self.hosts.retain(|host, _| {
            let keep = wanted.contains(host);
            if !keep {
                commands.push_back(WatchCommand::Forget(host.clone()));
            }
            keep
        });
        for host in wanted {
            self.hosts.entry(host.clone()).or_insert_with(|| {
                commands.push_back(WatchCommand::Resolve(host.clone()));
                Slot::Waiting
            });
        }
    }

    pub(super) fn get(&self, host: &DnsTarget) -> &Slot<Assignment> {
        self.hosts.get(host).unwrap_or(&Slot::Waiting)
    }

    /// Sets the addresses of a host. Returns whether they differ from those before.
    pub(super) fn set(&mut self, host: &DnsTarget, result: Result<&[SocketAddr], &str>) -> bool {
        let Some(slot) = self.hosts.get_mut(host) else {
            return false;
        };
        let error = |text: &str| {
            let text = format!("DNS lookup of {host}: {text}");
            WatchError::new(WatchErrorReason::Unusable, text)
        };
        let failed = match result {
            Ok([]) => error("no addresses"),
            Err(text) => error(text),
            Ok(addresses) => {
                let before = match slot {
                    Slot::Got(before) => Some(&**before),
                    _ => None,
                };
                let assignment = Assignment::of_host(&host.to_string(), addresses, before);
                if before == Some(&assignment) {
                    return false;
                }
                *slot = Slot::Got(Arc::new(assignment));
                return true;
            }
        };
        // gRFC A74: a failed lookup does not remove addresses that are known (C-220).
        match slot {
            Slot::Got(_) => false,
            Slot::Failed(before) if *before == failed => false,
            Slot::Waiting | Slot::Failed(_) => {
                *slot = Slot::Failed(failed);
                true
            }
        }
    }
}
