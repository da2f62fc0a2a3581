//! The node of a bootstrap file.

/// Node id and cluster, which identify the client to the control plane.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeIdentity<'a> {
    pub(super) id: &'a str,
    pub(super) cluster: &'a str,
}

/// Returns the text as a JSON string, which in YAML is a string scalar for any content.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
