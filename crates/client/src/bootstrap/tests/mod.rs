//! Tests of reading and writing bootstraps.

mod credentials;
mod environment;
mod node;
mod servers;
mod whole;

use serde_json::json;

use super::from_env::from_variables;
use super::*;

fn server(uri: &str) -> serde_json::Value {
    json!({ "server_uri": uri, "channel_creds": [{ "type": "insecure" }] })
}

fn minimal() -> serde_json::Value {
    json!({ "xds_servers": [server("cp:1")] })
}

fn with(field: &str, value: serde_json::Value) -> serde_json::Value {
    let mut whole = minimal();
    whole[field] = value;
    whole
}

fn read(json: &serde_json::Value) -> Result<Bootstrap, BootstrapError> {
    Bootstrap::from_json(&json.to_string())
}

fn error(json: &serde_json::Value) -> String {
    read(json).unwrap_err().to_string()
}

/// Reads a bootstrap with these environment variables and no others.
fn environment(variables: &[(&str, &str)]) -> Result<Bootstrap, BootstrapError> {
    let variable = |name: &str| {
        let found = variables.iter().find(|(variable, _)| *variable == name);
        found.map(|(_, value)| (*value).into())
    };
    from_variables(variable, None)
}
