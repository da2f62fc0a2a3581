//! Access to the state of other clients over CSDS.

use std::net::IpAddr;

/// Clients that CSDS answers. It shows the nodes of all clients, and their configuration without secrets (S-68).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CsdsAccess {
    /// No client: the service is not there.
    Off,
    /// With authorization rules, clients that a rule lets inspect others; without rules, clients of this machine.
    #[default]
    Local,
    /// With authorization rules, clients that a rule lets inspect others; without rules, every client.
    All,
}

impl CsdsAccess {
    /// Returns whether a client without a rule about it may ask.
    pub(crate) fn allows(self, client: IpAddr) -> bool {
        match self {
            Self::Off => false,
            // An IPv4 client of a socket that is bound to `::` has a mapped address.
            Self::Local => client.to_canonical().is_loopback(),
            Self::All => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s68_csds_without_rules_is_for_this_machine_only() {
        let of = |access: CsdsAccess, client: &str| access.allows(client.parse().unwrap());
        for local in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert!(of(CsdsAccess::default(), local), "{local}");
            assert!(!of(CsdsAccess::Off, local), "{local}");
        }
        for remote in [
            "10.0.0.7",
            "192.168.1.1",
            "2001:db8::1",
            "::ffff:10.0.0.7",
            "0.0.0.0",
        ] {
            assert!(!of(CsdsAccess::default(), remote), "{remote}");
            assert!(of(CsdsAccess::All, remote), "{remote}");
        }
    }
}
