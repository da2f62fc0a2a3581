//! A case: one change of a valid configuration, and how clients differ about it.

/// A change of the base configuration, with the values that it draws.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    /// Number of the behaviour that it is about, as in the page of conformance.
    pub(super) row: &'static str,
    pub(super) target: PatchTarget,
    /// A flow mapping of YAML without its braces, which is merged into the target as by RFC 7386; a mapping with
    /// `@type` replaces the old one. `<0..9>` is a drawn number, `<a|b>` one of these texts; `NANOS` and `SECONDS` are
    /// durations out of range.
    pub(super) patch: &'static str,
    /// `None` if all clients must agree.
    pub(super) difference: Option<Difference>,
}

/// A difference between the clients, and the rule that decides which of them is right.
#[derive(Clone, Copy, Debug)]
pub(super) struct Difference {
    /// The clients that NACK, in the order of [`Party::ALL`].
    pub(super) nacked_by: &'static [Party],
    pub(super) rule: &'static str,
}

/// A client that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Party {
    Core,
    Go,
    Oxds,
}

impl Party {
    pub(super) const ALL: [Self; 3] = [Self::Core, Self::Go, Self::Oxds];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Core => "C-core",
            Self::Go => "grpc-go",
            Self::Oxds => "oxds",
        }
    }
}

/// Where a patch belongs in the base configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatchTarget {
    Listener,
    /// The `HttpConnectionManager` of the listener.
    Manager,
    /// The fault filter of the manager: its configuration.
    Fault,
    /// The route configuration.
    Routes,
    VirtualHost,
    Route,
    /// `match` of the route.
    Match,
    /// `route` of the route.
    Action,
    Cluster,
    Assignment,
    /// The first locality of the assignment.
    Locality,
    /// The first endpoint of the locality.
    Endpoint,
}

impl PatchTarget {
    /// Name in reports and in the page.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Listener => "listener",
            Self::Manager => "connection manager",
            Self::Fault => "fault filter",
            Self::Routes => "route configuration",
            Self::VirtualHost => "virtual host",
            Self::Route => "route",
            Self::Match => "match",
            Self::Action => "route action",
            Self::Cluster => "cluster",
            Self::Assignment => "assignment",
            Self::Locality => "locality",
            Self::Endpoint => "endpoint",
        }
    }
}

impl Case {
    /// Whether this client NACKs, if the clients differ.
    pub(super) fn differs_for(&self, party: Party) -> Option<bool> {
        self.difference
            .map(|difference| difference.nacked_by.contains(&party))
    }
}

/// A case about which all clients agree.
pub(super) const fn same(row: &'static str, target: PatchTarget, patch: &'static str) -> Case {
    Case {
        row,
        target,
        patch,
        difference: None,
    }
}

/// A case that only these clients NACK, and the rule that decides.
pub(super) const fn only(
    nacked_by: &'static [Party],
    row: &'static str,
    target: PatchTarget,
    patch: &'static str,
    rule: &'static str,
) -> Case {
    Case {
        row,
        target,
        patch,
        difference: Some(Difference { nacked_by, rule }),
    }
}

/// Clients that NACK, for the tables.
pub(super) const CORE: &[Party] = &[Party::Core];
pub(super) const GO: &[Party] = &[Party::Go];
pub(super) const OXDS: &[Party] = &[Party::Oxds];
pub(super) const CORE_GO: &[Party] = &[Party::Core, Party::Go];
pub(super) const CORE_OXDS: &[Party] = &[Party::Core, Party::Oxds];
pub(super) const GO_OXDS: &[Party] = &[Party::Go, Party::Oxds];
