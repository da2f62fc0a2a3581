//! Audit logging of verdicts (gRFC A59).

use super::{Call, Verdict};

/// Verdicts that are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuditCondition {
    /// None.
    #[default]
    Never,
    /// Denied calls.
    OnDeny,
    /// Allowed calls.
    OnAllow,
    /// All calls.
    OnDenyAndAllow,
}

impl AuditCondition {
    /// Returns whether a verdict is logged.
    #[must_use]
    pub fn applies(self, verdict: &Verdict<'_>) -> bool {
        match self {
            Self::Never => false,
            Self::OnDeny => !verdict.is_allowed,
            Self::OnAllow => verdict.is_allowed,
            Self::OnDenyAndAllow => true,
        }
    }
}

/// Verdict about a call, as audit loggers see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditEvent<'a> {
    /// Path of the call, as `/package.Service/Method`.
    pub rpc_method: &'a str,
    /// SPIFFE identity of the caller; empty without one.
    pub principal: &'a str,
    /// Name of the RBAC filter in its listener.
    pub policy_name: &'a str,
    /// Name of the policy that matches; empty without one.
    pub matched_rule: &'a str,
    /// Whether the call may run.
    pub authorized: bool,
}

impl<'a> AuditEvent<'a> {
    /// Makes the event of a verdict. `filter` is the name of the RBAC filter.
    #[must_use]
    pub fn new(filter: &'a str, call: &Call<'a>, verdict: &Verdict<'a>) -> Self {
        Self {
            rpc_method: call.path,
            principal: call.principal(),
            policy_name: filter,
            matched_rule: verdict.policy.unwrap_or_default(),
            authorized: verdict.is_allowed,
        }
    }
}

/// Logger of authorization verdicts that a program adds.
pub trait AuditLogger: Send + Sync + 'static {
    /// Logs an event. Called in the task of the call, before the call runs, so it must not block.
    fn log(&self, event: &AuditEvent<'_>);
}
