//! Files of `oxds route test`: requests with the clusters that are expected.

use std::collections::BTreeMap;

use oxds_core::explain::{Action, Decision};
use serde::Deserialize;

use super::request::{RequestArgs, Rules};
use super::text::percent;

/// Difference of a share that counts as none, in percent.
const TOLERANCE: f64 = 0.005;

/// A file of tests.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Suite {
    pub(super) tests: Vec<Case>,
}

/// One request, and what is expected.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    /// Name in reports; the request without one.
    #[serde(default)]
    name: String,
    #[serde(default)]
    pub(super) target: Option<String>,
    #[serde(default)]
    pub(super) listener: Option<String>,
    pub(super) request: String,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    authority: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    filter_chain: Option<String>,
    #[serde(default, rename = "as")]
    pub(super) rules: Option<Rules>,
    /// The cluster of all requests.
    #[serde(default)]
    cluster: Option<String>,
    /// Clusters with their shares in percent.
    #[serde(default)]
    clusters: BTreeMap<String, f64>,
    /// Status of a redirect or a direct response.
    #[serde(default)]
    status: Option<u32>,
    /// Whether the request fails.
    #[serde(default)]
    fails: bool,
}

impl Case {
    pub(super) fn name(&self) -> &str {
        match self.name.as_str() {
            "" => &self.request,
            name => name,
        }
    }

    pub(super) fn parts(&self) -> RequestArgs {
        let headers = self.headers.iter();
        RequestArgs {
            listener: self.listener.clone(),
            authority: self.authority.clone(),
            method: self.method.clone(),
            headers: headers
                .map(|(name, value)| (name.to_ascii_lowercase(), value.clone()))
                .collect(),
            filter_chain: self.filter_chain.clone(),
        }
    }

    /// Returns what is wrong with the test itself.
    pub(super) fn problem(&self) -> Option<&'static str> {
        let expected = [
            self.cluster.is_some(),
            !self.clusters.is_empty(),
            self.status.is_some(),
            self.fails,
        ];
        let count = expected.iter().filter(|is_set| **is_set).count();
        let targets = usize::from(self.target.is_some()) + usize::from(self.listener.is_some());
        match (count, targets) {
            (1, 1) => None,
            (1, _) => Some("expected either target or listener"),
            _ => Some("expected one of cluster, clusters, status and fails"),
        }
    }

    /// Returns what was expected and what was found, if they differ.
    pub(super) fn difference(&self, decision: &Decision) -> Option<String> {
        let found = outcome(decision);
        let expected = match (&self.cluster, self.status) {
            (Some(cluster), _) => BTreeMap::from([(format!("cluster {cluster}"), 100.0)]),
            (None, Some(status)) => BTreeMap::from([(format!("status {status}"), 100.0)]),
            (None, None) if self.fails => BTreeMap::from([("failure".to_owned(), 100.0)]),
            (None, None) => {
                let clusters = self.clusters.iter();
                let named = clusters.map(|(name, share)| (format!("cluster {name}"), *share));
                named.filter(|(_, share)| *share > 0.0).collect()
            }
        };
        let same = found.len() == expected.len()
            && found
                .iter()
                .zip(&expected)
                .all(|((a, found), (b, expected))| a == b && (found - expected).abs() < TOLERANCE);
        let text = |outcome: &BTreeMap<String, f64>| {
            let parts = outcome.iter().map(|(what, share)| match *share {
                100.0 => what.clone(),
                share => format!("{what} {}", percent(share / 100.0)),
            });
            parts.collect::<Vec<_>>().join(", ")
        };
        (!same).then(|| format!("expected {}, found {}", text(&expected), text(&found)))
    }
}

/// Returns where requests go, with shares in percent.
fn outcome(decision: &Decision) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    for one in &decision.destinations {
        let what = match &one.action {
            Action::Forward { cluster, .. } => format!("cluster {cluster}"),
            Action::Redirect { status, .. } | Action::DirectResponse { status } => {
                format!("status {status}")
            }
            Action::Fail { .. } => "failure".to_owned(),
            Action::Unknown { field } => format!("{field}, which is not examined"),
        };
        *found.entry(what).or_insert(0.0) += one.share * 100.0;
    }
    found
}
