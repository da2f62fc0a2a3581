//! Authorization of calls to a server by role-based access control (gRFC A41, A59).
//!
//! ```text
//!                      ┌──────────── Rbac: action, policies by name ────────────┐
//!  Call ─► evaluate ─► │ policy: any of its permissions and any of its principals │ ─► Verdict ─► call runs, or
//!                      └─────────────────────────────────────────────────────────┘      PERMISSION_DENIED
//! ```
//!
//! Rules are compiled when the resource is parsed ([`FilterConfig::Rbac`](crate::resource::FilterConfig)); conditions
//! that gRPC gives a fixed value, such as metadata of filters, are decided there. An evaluation takes time proportional
//! to the number of conditions, and allocates only for a header that has several values.
//!
//! It does not log: the driver calls the loggers that a verdict needs ([`AuditCondition::applies`]).

mod audit;
mod call;
mod rule;

use std::sync::Arc;

pub use audit::{AuditCondition, AuditEvent, AuditLogger};
pub use call::{Call, PeerIdentity, Security};
pub use rule::Rule;

/// Message of the status `PERMISSION_DENIED` of a denied call. As in C-core, it does not show callers the policies of a
/// server.
pub const DENIED: &str = "Unauthorized RPC rejected";

/// Effect of a policy that matches a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The call is allowed; calls without such a policy are denied.
    Allow,
    /// The call is denied; calls without such a policy are allowed.
    Deny,
}

/// Policies of an RBAC filter, compiled.
#[derive(Debug, Clone, PartialEq)]
pub struct Rbac {
    action: Action,
    policies: Box<[Policy]>,
}

/// Policy: calls that match one of the permissions and one of the principals.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Name of the policy in its filter.
    pub name: Arc<str>,
    /// Conditions on the call; without any, the policy matches no call.
    pub permissions: Box<[Rule]>,
    /// Conditions on the caller; without any, the policy matches no call.
    pub principals: Box<[Rule]>,
}

/// Decision about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict<'a> {
    /// Whether the call may run.
    pub is_allowed: bool,
    /// Name of the first policy that matches the call, in the order of names.
    pub policy: Option<&'a str>,
}

impl Verdict<'_> {
    /// Verdict without rules.
    pub const ALLOWED: Self = Self {
        is_allowed: true,
        policy: None,
    };
}

impl Rbac {
    /// Makes the rules of policies. Without policies, `Allow` denies every call, and `Deny` allows every call.
    #[must_use]
    pub fn new(action: Action, policies: impl IntoIterator<Item = Policy>) -> Self {
        let mut policies: Box<[Policy]> = policies.into_iter().collect();
        // `RBAC.policies`: policies are evaluated in the order of their names.
        policies.sort_by(|a, b| a.name.cmp(&b.name));
        Self { action, policies }
    }

    /// Returns the effect of a policy that matches.
    #[must_use]
    pub fn action(&self) -> Action {
        self.action
    }

    /// Returns the policies, in the order of their names.
    #[must_use]
    pub fn policies(&self) -> &[Policy] {
        &self.policies
    }

    /// Decides whether a call may run.
    #[must_use]
    pub fn evaluate(&self, call: &Call<'_>) -> Verdict<'_> {
        let mut policies = self.policies.iter();
        let policy = policies.find(|policy| policy.matches(call));
        Verdict {
            is_allowed: policy.is_some() == (self.action == Action::Allow),
            policy: policy.map(|policy| &*policy.name),
        }
    }
}

impl Policy {
    fn matches(&self, call: &Call<'_>) -> bool {
        let any = |rules: &[Rule]| rules.iter().any(|rule| rule.matches(call));
        any(&self.permissions) && any(&self.principals)
    }
}
