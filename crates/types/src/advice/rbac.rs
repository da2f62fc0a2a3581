//! RBAC policies: those that never match, and conditions, which gRPC rejects (gRFC A41).

use envoy_types::pb::envoy::config::rbac::v3::{
    Permission, Policy, Principal, Rbac, permission::Rule, principal::Identifier,
};
use prost_reflect::DynamicMessage;

use super::report::{OnAdvice, report_at};
use crate::path::{FieldPath, Step};
use crate::schema::Message;

const RULE: &str = "rbac";

/// Requests that a rule matches, whatever they contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Matches {
    Never,
    Some,
    Always,
}

impl Matches {
    fn not(self) -> Self {
        match self {
            Self::Never => Self::Always,
            Self::Some => Self::Some,
            Self::Always => Self::Never,
        }
    }

    fn all(rules: impl Iterator<Item = Self>) -> Self {
        Self::any(rules.map(Self::not)).not()
    }

    fn any(rules: impl Iterator<Item = Self>) -> Self {
        rules.fold(Self::Never, |found, rule| match (found, rule) {
            (Self::Always, _) | (_, Self::Always) => Self::Always,
            (Self::Never, Self::Never) => Self::Never,
            _ => Self::Some,
        })
    }
}

/// Reports the policies of RBAC rules that never match, and those with a condition.
pub(super) fn check(
    schema: &'static Message,
    message: &DynamicMessage,
    path: &mut FieldPath,
    report: &mut OnAdvice<'_>,
) {
    if schema.full_name() != "envoy.config.rbac.v3.RBAC" {
        return;
    }
    let Ok(rules) = message.transcode_to::<Rbac>() else {
        return;
    };
    let mut policies: Vec<_> = rules.policies.iter().collect();
    policies.sort_unstable_by_key(|(name, _)| *name);
    for (name, policy) in policies {
        path.push(Step::Field("policies"));
        path.push(Step::Key(name.clone()));
        check_policy(policy, path, report);
        path.pop();
        path.pop();
    }
}

fn check_policy(policy: &Policy, path: &mut FieldPath, report: &mut OnAdvice<'_>) {
    let conditions = [
        ("condition", policy.condition.is_some()),
        ("checked_condition", policy.checked_condition.is_some()),
    ];
    for (field, _) in conditions.into_iter().filter(|(_, is_set)| *is_set) {
        let text = "gRPC clients and servers reject policies with a condition (gRFC A41)";
        report_at(path, [Step::Field(field)], RULE, text, report);
    }
    let parts = [
        (
            "permissions",
            Matches::any(policy.permissions.iter().map(permission)),
        ),
        (
            "principals",
            Matches::any(policy.principals.iter().map(principal)),
        ),
    ];
    for (field, _) in parts
        .into_iter()
        .filter(|(_, part)| *part == Matches::Never)
    {
        let text = format!("the policy never matches: no request meets its {field}");
        report_at(path, [Step::Field(field)], RULE, text, report);
    }
}

fn permission(permission: &Permission) -> Matches {
    match &permission.rule {
        Some(Rule::AndRules(set)) => Matches::all(set.rules.iter().map(self::permission)),
        Some(Rule::OrRules(set)) => Matches::any(set.rules.iter().map(self::permission)),
        Some(Rule::NotRule(inner)) => self::permission(inner).not(),
        Some(Rule::Any(_)) => Matches::Always,
        Some(Rule::DestinationPortRange(range)) if range.start >= range.end => Matches::Never,
        Some(_) => Matches::Some,
        None => Matches::Never,
    }
}

fn principal(principal: &Principal) -> Matches {
    match &principal.identifier {
        Some(Identifier::AndIds(set)) => Matches::all(set.ids.iter().map(self::principal)),
        Some(Identifier::OrIds(set)) => Matches::any(set.ids.iter().map(self::principal)),
        Some(Identifier::NotId(inner)) => self::principal(inner).not(),
        Some(Identifier::Any(_)) => Matches::Always,
        Some(_) => Matches::Some,
        None => Matches::Never,
    }
}
