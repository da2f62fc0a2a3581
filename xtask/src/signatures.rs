//! Foreign types in the public signatures of the crates for users.
//!
//! A release of a foreign crate that is not compatible breaks the users of each signature that names its types, so each
//! such crate is a decision with a reason. Types of internal crates are re-exported, because users do not depend on
//! those crates.
//!
//! rustdoc's JSON shows the signatures. It is a format of nightly Rust, which stable rustdoc writes where
//! `RUSTC_BOOTSTRAP` is set.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::repository::root;

/// Crates for users. Their types may be in the signatures of each other: a program depends on crates of one release.
const FOR_USERS: [&str; 5] = [
    "oxds-types",
    "oxds-client",
    "oxds-server",
    "oxds-channel",
    "oxds-grpc-server",
];

/// A foreign crate whose types may be in signatures.
struct Allowed {
    name: &'static str,
    /// Crates for users that have it in their API.
    users: &'static [&'static str],
    reason: &'static str,
}

/// Types that users write or read, so their crates are part of the interface.
const ALLOWED: [Allowed; 19] = [
    Allowed {
        name: "bytes",
        users: &["oxds-types", "oxds-client", "oxds-channel"],
        reason: "bodies of resources and messages are shared, and not copied",
    },
    Allowed {
        name: "envoy_types",
        users: &["oxds-types", "oxds-client", "oxds-server"],
        reason: "the messages of the API; the server re-exports the crate",
    },
    Allowed {
        name: "futures_core",
        users: &["oxds-client"],
        reason: "the stream of the service CSDS",
    },
    Allowed {
        name: "http",
        users: &[
            "oxds-client",
            "oxds-server",
            "oxds-channel",
            "oxds-grpc-server",
        ],
        reason: "requests, responses and headers of tower services",
    },
    Allowed {
        name: "http_body",
        users: &["oxds-client", "oxds-channel"],
        reason: "bodies of tower services",
    },
    Allowed {
        name: "hyper",
        users: &["oxds-client"],
        reason: "the error of a connection to a control plane",
    },
    Allowed {
        name: "opentelemetry",
        users: &["oxds-client"],
        reason: "the meter of the recorder",
    },
    Allowed {
        name: "prometheus_client",
        users: &["oxds-client"],
        reason: "the registry of the recorder",
    },
    Allowed {
        name: "prost",
        users: &["oxds-types", "oxds-client"],
        reason: "messages that a program defines or encodes itself",
    },
    Allowed {
        name: "prost_reflect",
        users: &["oxds-types"],
        reason: "messages by descriptor: any API, without generated code",
    },
    Allowed {
        name: "rustls",
        users: &["oxds-client", "oxds-grpc-server"],
        reason: "TLS configurations of the program",
    },
    Allowed {
        name: "rustls_pki_types",
        users: &["oxds-types", "oxds-client", "oxds-grpc-server"],
        reason: "certificates and keys",
    },
    Allowed {
        name: "serde_core",
        users: &["oxds-types", "oxds-server"],
        reason: "types that a program reads from its own files or writes as JSON",
    },
    Allowed {
        name: "serde_json",
        users: &["oxds-types", "oxds-client"],
        reason: "trees of JSON: content of resources, metadata of a node",
    },
    Allowed {
        name: "tokio",
        users: &["oxds-client"],
        reason: "traits of byte streams, for TLS over a connection of the program",
    },
    Allowed {
        name: "tokio_rustls",
        users: &["oxds-client"],
        reason: "the stream of a TLS handshake",
    },
    Allowed {
        name: "tonic",
        users: &[
            "oxds-client",
            "oxds-server",
            "oxds-channel",
            "oxds-grpc-server",
        ],
        reason: "statuses, bodies and services: the gRPC implementation of the program",
    },
    Allowed {
        name: "tonic_health",
        users: &["oxds-client"],
        reason: "the health service beside the admin services",
    },
    Allowed {
        name: "tower_service",
        users: &["oxds-client", "oxds-channel", "oxds-grpc-server"],
        reason: "channels and services are tower services",
    },
];

/// Crates whose types users need to call a function or to read its result, so that a crate with them in signatures
/// re-exports them.
const REEXPORTED: [&str; 3] = ["opentelemetry", "prometheus_client", "rustls"];

/// Crates of this repository that users do not depend on.
const INTERNAL: [&str; 5] = [
    "oxds_apicheck",
    "oxds_core",
    "oxds_etcd",
    "oxds_net",
    "oxds_settings",
];

/// Returns signatures with types of crates that are not allowed, or that are not re-exported.
pub(crate) fn check() -> Vec<String> {
    let folder = write_json();
    let mut findings = Vec::new();
    let json = |name: &str| -> Value {
        let file = folder.join(name.replace('-', "_") + ".json");
        let text =
            fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        serde_json::from_str(&text).expect("JSON")
    };
    let internal = INTERNAL.map(json);
    for name in FOR_USERS {
        let mut signatures = Signatures::of(&json(name));
        signatures.enter_modules(&internal);
        findings.extend(signatures.findings(name, &ALLOWED));
    }
    findings
}

/// Writes the JSON of all libraries, and returns its folder. The whole workspace has all features, and shares what
/// `cargo doc` compiles.
fn write_json() -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    // Only rustdoc is told: for rustc, cargo would compile dependencies again that ask for this variable.
    let rustdoc = target.join("rustdoc-json");
    let script = "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc -Z unstable-options --output-format json \"$@\"\n";
    fs::write(&rustdoc, script).expect("written");
    let mut executable = Command::new("chmod");
    executable.arg("+x").arg(&rustdoc);
    let mut doc = Command::new(env!("CARGO"));
    doc.args([
        "doc",
        "--locked",
        "--quiet",
        "--workspace",
        "--no-deps",
        "--lib",
    ]);
    doc.env("RUSTDOC", &rustdoc).current_dir(root());
    for mut command in [executable, doc] {
        let status = command.status();
        assert!(status.is_ok_and(|status| status.success()), "{command:?}");
    }
    target.join("doc")
}

/// A type or trait in a signature.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Foreign {
    /// Crate that defines it.
    package: String,
    /// Path in that crate.
    path: String,
    id: u64,
}

/// Foreign types of one crate.
#[derive(Debug, Default)]
struct Signatures {
    /// Types in signatures, each with the place of one.
    used: BTreeMap<Foreign, String>,
    /// Ids of items that are re-exported, modules among them.
    reexported: BTreeSet<u64>,
    /// Paths of items that re-exported modules re-export.
    paths: BTreeSet<String>,
    /// Paths of re-exported modules and crates: all in them is re-exported.
    modules: BTreeSet<String>,
}

impl Signatures {
    fn of(json: &Value) -> Self {
        let mut found = Self::default();
        for item in json["index"]
            .as_object()
            .into_iter()
            .flat_map(serde_json::Map::values)
        {
            let inner = &item["inner"];
            let implementation = &inner["impl"];
            let is_automatic = implementation["is_synthetic"] == true
                || implementation["blanket_impl"].is_object();
            if item["crate_id"] != 0 || is_automatic {
                continue;
            }
            if let Some(reexport) = inner.get("use") {
                found.reexport(json, reexport);
                continue;
            }
            let place = format!(
                "{}:{}",
                item["span"]["filename"].as_str().unwrap_or_default(),
                item["span"]["begin"][0]
            );
            found.walk(json, inner, &place);
        }
        found
    }

    fn reexport(&mut self, json: &Value, reexport: &Value) {
        let source = reexport["source"].as_str().unwrap_or_default();
        let Some(id) = reexport["id"].as_u64() else {
            // A whole crate.
            self.modules.insert(source.to_owned());
            return;
        };
        self.reexported.insert(id);
        let summary = &json["paths"][id.to_string()];
        if summary["kind"] == "module" {
            self.modules.insert(path_of(summary));
        } else if summary.is_null() {
            self.modules.insert(source.to_owned());
        }
    }

    /// Adds what re-exported modules of these crates re-export themselves.
    fn enter_modules(&mut self, crates: &[Value]) {
        for json in crates {
            let paths = json["paths"].as_object().into_iter().flatten();
            let modules = paths.filter(|(_, summary)| self.modules.contains(&path_of(summary)));
            let items = modules.flat_map(|(id, _)| {
                let items = json["index"][id]["inner"]["module"]["items"].as_array();
                items.into_iter().flatten()
            });
            for item in items.map(Value::to_string) {
                let target = &json["index"][item]["inner"]["use"]["id"];
                let summary = &json["paths"][target.to_string()];
                self.paths.insert(path_of(summary));
            }
        }
    }

    /// Collects what a part of an item refers to: every path has the id of its item.
    fn walk(&mut self, json: &Value, part: &Value, place: &str) {
        match part {
            Value::Object(fields) => {
                if let (Some(id), Some(_)) = (part["id"].as_u64(), part["path"].as_str())
                    && let Some(foreign) = foreign(json, id)
                {
                    self.used.entry(foreign).or_insert_with(|| place.to_owned());
                }
                fields
                    .values()
                    .for_each(|field| self.walk(json, field, place));
            }
            Value::Array(parts) => parts.iter().for_each(|part| self.walk(json, part, place)),
            _ => {}
        }
    }

    fn findings(&self, name: &str, allowed: &[Allowed]) -> Vec<String> {
        let mut findings = Vec::new();
        for (foreign, place) in &self.used {
            let package = foreign.package.as_str();
            let is_internal = INTERNAL.contains(&package);
            let is_known = FOR_USERS.contains(&package.replace('_', "-").as_str());
            let mut allowed = allowed
                .iter()
                .filter(|allowed| allowed.users.contains(&name));
            if (is_internal || REEXPORTED.contains(&package)) && !self.has(foreign) {
                findings.push(format!(
                    "{place}: {name} has {} in its API, and does not re-export it",
                    foreign.path
                ));
            } else if !is_internal && !is_known && !allowed.any(|allowed| allowed.name == package) {
                findings.push(format!(
                    "{place}: {name} has {} in its API: allow {package}, with a reason",
                    foreign.path
                ));
            }
        }
        for allowed in allowed
            .iter()
            .filter(|allowed| allowed.users.contains(&name))
        {
            if !self
                .used
                .keys()
                .any(|foreign| foreign.package == allowed.name)
            {
                findings.push(format!(
                    "{name} has nothing of {} in its API, which is allowed because of this: {}",
                    allowed.name, allowed.reason
                ));
            }
        }
        findings
    }

    /// Whether an item, or a module with it, is re-exported.
    fn has(&self, foreign: &Foreign) -> bool {
        let is_below = |module: &String| {
            let rest = foreign.path.strip_prefix(module.as_str());
            rest.is_some_and(|rest| rest.starts_with("::"))
        };
        self.reexported.contains(&foreign.id)
            || self.paths.contains(&foreign.path)
            || self.modules.iter().any(is_below)
    }
}

/// The item with this id, if it is of another crate and not of the standard library.
fn foreign(json: &Value, id: u64) -> Option<Foreign> {
    let summary = &json["paths"][id.to_string()];
    let number = summary["crate_id"].as_u64().filter(|number| *number > 0)?;
    let package = json["external_crates"][number.to_string()]["name"].as_str()?;
    if ["std", "core", "alloc"].contains(&package) {
        return None;
    }
    let path = path_of(summary);
    Some(Foreign {
        package: package.to_owned(),
        path,
        id,
    })
}

/// Path of an item, by its summary.
fn path_of(summary: &Value) -> String {
    let parts = summary["path"].as_array().into_iter().flatten();
    let parts: Vec<_> = parts.filter_map(Value::as_str).collect();
    parts.join("::")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A crate whose function takes a list of a foreign type.
    fn with_foreign(package: &str, kind: &str, reexport: &Value) -> Value {
        let argument = json!({ "resolved_path": { "path": "Vec", "id": 1, "args": { "angle_bracketed": { "args": [
            { "type": { "resolved_path": { "path": "T", "id": 2, "args": null } } }
        ] } } } });
        let span = json!({ "filename": "src/lib.rs", "begin": [7, 1] });
        json!({
            "index": {
                "0": { "crate_id": 0, "span": span, "inner": { "function": { "sig": { "inputs": [["a", argument]] } } } },
                "9": { "crate_id": 0, "span": span, "inner": reexport },
            },
            "paths": {
                "1": { "crate_id": 1, "path": ["alloc", "vec", "Vec"], "kind": "struct" },
                "2": { "crate_id": 2, "path": [package, "m", "T"], "kind": "struct" },
                "3": { "crate_id": 2, "path": [package, "m"], "kind": kind },
            },
            "external_crates": { "1": { "name": "alloc" }, "2": { "name": package } },
        })
    }

    #[test]
    fn foreign_types_need_a_reason() {
        let found = Signatures::of(&with_foreign("http", "module", &json!({})));
        assert_eq!(
            found.findings("a", &[]),
            ["src/lib.rs:7: a has http::m::T in its API: allow http, with a reason"]
        );
        let allowed = |name| Allowed {
            name,
            users: &["a"],
            reason: "requests",
        };
        assert_eq!(
            found.findings("a", &[allowed("http")]),
            Vec::<String>::new()
        );
        assert_eq!(
            found.findings("a", &[allowed("http"), allowed("h2")]),
            ["a has nothing of h2 in its API, which is allowed because of this: requests"]
        );
    }

    #[test]
    fn internal_types_are_reexported() {
        let hidden = Signatures::of(&with_foreign("oxds_core", "module", &json!({})));
        assert_eq!(
            hidden.findings("a", &[]),
            ["src/lib.rs:7: a has oxds_core::m::T in its API, and does not re-export it"]
        );
        for reexport in [
            json!({ "use": { "source": "oxds_core::m::T", "id": 2 } }),
            json!({ "use": { "source": "oxds_core::m", "id": 3 } }),
            json!({ "use": { "source": "oxds_core", "id": null } }),
        ] {
            let shown = Signatures::of(&with_foreign("oxds_core", "module", &reexport));
            assert_eq!(shown.findings("a", &[]), Vec::<String>::new());
        }
    }

    #[test]
    fn modules_may_reexport_what_is_defined_elsewhere() {
        let reexport = json!({ "use": { "source": "oxds_core::front", "id": 5 } });
        let mut json = with_foreign("oxds_core", "module", &reexport);
        json["paths"]["5"] =
            json!({ "crate_id": 2, "path": ["oxds_core", "front"], "kind": "module" });
        let mut found = Signatures::of(&json);
        assert_eq!(found.findings("a", &[]).len(), 1);
        found.enter_modules(&[json!({
            "index": {
                "0": { "inner": { "module": { "items": [1] } } },
                "1": { "inner": { "use": { "source": "crate::m::T", "id": 2 } } },
            },
            "paths": {
                "0": { "path": ["oxds_core", "front"], "kind": "module" },
                "2": { "path": ["oxds_core", "m", "T"], "kind": "struct" },
            },
        })]);
        assert_eq!(found.findings("a", &[]), Vec::<String>::new());
    }

    #[test]
    fn automatic_implementations_are_not_signatures() {
        let reference = json!({ "path": "T", "id": 2 });
        let automatic = json!({ "impl": { "is_synthetic": true, "trait": reference } });
        let mut json = with_foreign("http", "module", &automatic);
        json["index"]["0"]["inner"] = json!({});
        assert_eq!(Signatures::of(&json).used, BTreeMap::new());
    }
}
