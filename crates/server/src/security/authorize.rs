//! Authorization rules: the node ids that a client may claim, and the resources that it may receive.
//!
//! ```yaml
//! rules:
//! - identity: spiffe://prod/ns/shop/sa/*     # the URIs and DNS names of the client's certificate
//!   nodes: ["shop-*"]                        # the node ids that it may claim
//!   groups: [shop]                           # the node groups that such a node may be in
//!   secrets: [shop-certificate, ca]          # the SDS secrets that such a node may receive
//! - identity: spiffe://prod/ns/ops/sa/admin
//!   nodes: ["**"]
//!   groups: ["**"]
//!   inspect: true                            # CSDS and status: the state of all clients
//! ```
//!
//! All patterns are [`Glob`]s. A rule grants only what it names. If several rules apply, their grants add up. A client
//! to which no rule applies is denied.

use std::path::PathBuf;
use std::sync::Arc;

use oxds_settings::SettingsError;
use oxds_types::discovery::Node;
use oxds_types::reload::Contents;
use oxds_types::{Glob, Position};
use serde::Deserialize;

use super::error::SecurityError;
use super::identity::Identity;

/// All rules. Streams of one identity share them.
#[derive(Debug)]
pub(super) struct Authorization(Vec<Arc<Rule>>);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesFile {
    rules: Vec<Rule>,
}

/// One rule: the identities that it applies to, and its grants.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    identity: Glob,
    nodes: Vec<Glob>,
    #[serde(default)]
    groups: Vec<Glob>,
    #[serde(default)]
    secrets: Vec<Glob>,
    #[serde(default)]
    inspect: bool,
}

/// A denial by authorization. Its message reveals nothing that the client does not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    #[error("a client certificate is required")]
    NoCertificate,
    #[error("{identity} may not be node {node:?}")]
    Node { identity: String, node: String },
    #[error("{identity} may not be in group {group:?}, to which its node belongs")]
    Group { identity: String, group: String },
    #[error("{0} may not inspect other clients")]
    Inspect(String),
    #[error("the authorization of this client has changed: reconnect")]
    Changed,
}

/// The resources that a client may receive.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Grant {
    /// All resources: there are no rules.
    Everything,
    /// The sum of these rules, which apply to both the client and its node.
    Rules(Vec<Arc<Rule>>),
}

impl Authorization {
    /// Parses the one file.
    pub(super) fn read(paths: &[PathBuf], contents: &Contents) -> Result<Self, SecurityError> {
        let path = paths.first().cloned().unwrap_or_default();
        let text = contents.first().map_or(&[][..], Vec::as_slice);
        let file: RulesFile =
            oxds_settings::read(text).map_err(|SettingsError { position, reason }| {
                let at = position.unwrap_or(Position { line: 1, column: 1 });
                SecurityError::Rules {
                    path,
                    line: at.line,
                    column: at.column,
                    reason,
                }
            })?;
        Ok(Self(file.rules.into_iter().map(Arc::new).collect()))
    }

    /// Returns what this client may receive as this node, which is in these groups. A client without a node has the
    /// empty id.
    pub(super) fn admit(
        &self,
        identity: Option<&Identity>,
        node: Option<&Node>,
        groups: &[Arc<str>],
    ) -> Result<Grant, Denied> {
        let identity = identity.ok_or(Denied::NoCertificate)?;
        let id = node.map_or("", |node| &node.id);
        let applicable = self
            .of(identity)
            .filter(|rule| rule.nodes.iter().any(|node| node.matches(id)));
        let applicable: Vec<_> = applicable.cloned().collect();
        if applicable.is_empty() {
            return Err(Denied::Node {
                identity: identity.to_string(),
                node: id.chars().take(128).collect(),
            });
        }
        let grant = Grant::Rules(applicable);
        match groups.iter().find(|group| !grant.allows_group(group)) {
            None => Ok(grant),
            Some(group) => Err(Denied::Group {
                identity: identity.to_string(),
                group: group.to_string(),
            }),
        }
    }

    pub(super) fn may_inspect(&self, identity: Option<&Identity>) -> Result<(), Denied> {
        let identity = identity.ok_or(Denied::NoCertificate)?;
        if self.of(identity).any(|rule| rule.inspect) {
            Ok(())
        } else {
            Err(Denied::Inspect(identity.to_string()))
        }
    }

    fn of<'a>(&'a self, identity: &'a Identity) -> impl Iterator<Item = &'a Arc<Rule>> {
        self.0
            .iter()
            .filter(|rule| identity.names().any(|name| rule.identity.matches(name)))
    }
}

impl Grant {
    /// Whether the client may receive this secret. `*` stands for all secrets.
    pub(crate) fn allows_secret(&self, name: &str) -> bool {
        self.allows(|rule| &rule.secrets, name)
    }

    fn allows_group(&self, name: &str) -> bool {
        self.allows(|rule| &rule.groups, name)
    }

    fn allows(&self, globs: impl Fn(&Rule) -> &Vec<Glob>, name: &str) -> bool {
        match self {
            Self::Everything => true,
            // A wildcard subscription needs the grant `**`: the glob `*` does not match names with a slash.
            Self::Rules(rules) => rules.iter().any(|rule| {
                let mut globs = globs(rule).iter();
                globs.any(|glob| glob.as_str() == "**" || name != "*" && glob.matches(name))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = r#"
rules:
- identity: spiffe://prod/ns/shop/sa/*
  nodes: ["shop-*"]
  groups: [shop]
  secrets: ["shop/*"]
- identity: spiffe://prod/ns/shop/sa/any
  nodes: [any-*]
  secrets: ["*"]
- identity: "*.ops.example.com"
  nodes: ["**"]
  secrets: ["**"]
  inspect: true
- identity: spiffe://prod/ns/shop/sa/admin
  nodes: [admin]
  secrets: [root]
"#;

    fn parse(text: &str) -> Result<Authorization, SecurityError> {
        Authorization::read(&["rules.yaml".into()], &[text.into()])
    }

    fn admit(names: &[&str], node: &str) -> Result<Grant, Denied> {
        admit_in(&[], names, node)
    }

    fn admit_in(groups: &[&str], names: &[&str], node: &str) -> Result<Grant, Denied> {
        let node = Node {
            id: node.into(),
            ..Node::default()
        };
        let identity = Identity::named(names);
        let groups: Vec<_> = groups.iter().map(|group| Arc::from(*group)).collect();
        let rules = parse(RULES).unwrap();
        rules.admit(Some(&identity), Some(&node), &groups)
    }

    #[test]
    fn s78_rule_grants_node_ids() {
        let shop = &["spiffe://prod/ns/shop/sa/web"];
        assert!(admit(shop, "shop-1").is_ok());
        let denied = admit(shop, "pay-1").unwrap_err();
        let text = r#"spiffe://prod/ns/shop/sa/web may not be node "pay-1""#;
        assert_eq!(denied.to_string(), text);
        assert!(admit(shop, "").is_err(), "without an id");
        assert!(admit(&["spiffe://prod/ns/pay/sa/web"], "shop-1").is_err());
        assert!(admit(&[], "shop-1").is_err());
        // Each name of a certificate counts.
        assert!(admit(&["spiffe://else", "a.ops.example.com"], "x/y").is_ok());
        let rules = parse(RULES).unwrap();
        assert_eq!(rules.admit(None, None, &[]), Err(Denied::NoCertificate));
    }

    #[test]
    fn s78_node_in_a_group_without_a_grant_is_denied() {
        let shop = &["spiffe://prod/ns/shop/sa/web"];
        assert!(admit_in(&["shop"], shop, "shop-1").is_ok());
        let denied = admit_in(&["shop", "pay"], shop, "shop-1").unwrap_err();
        let text =
            "spiffe://prod/ns/shop/sa/web may not be in group \"pay\", to which its node belongs";
        assert_eq!(denied.to_string(), text);
    }

    #[test]
    fn s78_rule_grants_secrets() {
        let web = admit(&["spiffe://prod/ns/shop/sa/web"], "shop-1").unwrap();
        assert!(web.allows_secret("shop/cert"));
        assert!(!web.allows_secret("root") && !web.allows_secret("*"));
        // The glob `*` does not grant the wildcard.
        let slashless = admit(&["spiffe://prod/ns/shop/sa/any"], "any-1").unwrap();
        assert!(slashless.allows_secret("root") && !slashless.allows_secret("*"));
        // Only rules for the claimed node id apply, not all rules of the identity.
        let admin = admit(&["spiffe://prod/ns/shop/sa/admin"], "admin").unwrap();
        assert!(admin.allows_secret("root") && !admin.allows_secret("shop/cert"));
        let ops = admit(&["a.ops.example.com"], "x").unwrap();
        assert!(ops.allows_secret("*") && ops.allows_secret("a/b"));
        assert!(Grant::Everything.allows_secret("*"));
    }

    #[test]
    fn s78_csds_needs_the_inspect_grant() {
        let rules = parse(RULES).unwrap();
        let ops = Identity::named(&["a.ops.example.com"]);
        assert_eq!(rules.may_inspect(Some(&ops)), Ok(()));
        let shop = Identity::named(&["spiffe://prod/ns/shop/sa/web"]);
        assert!(rules.may_inspect(Some(&shop)).is_err());
        assert!(rules.may_inspect(None).is_err());
    }

    #[test]
    fn s78_invalid_rules_are_reported_with_their_position() {
        let cases = [
            (
                "rules:\n- identity: a\n  node: [b]\n",
                "rules.yaml:3:3: unknown field `node`, expected",
            ),
            (
                "rules:\n- identity: a\n",
                "rules.yaml:2:3: missing field `nodes`",
            ),
            ("rules:\n- {identity: \"\", nodes: [a]}\n", "empty pattern"),
            ("{}", "missing field `rules`"),
            ("", "rules.yaml:1:1: the file is empty"),
            ("rules:\n- x\n  y: 1\n", "rules.yaml:"),
        ];
        for (text, expected) in cases {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }
}
