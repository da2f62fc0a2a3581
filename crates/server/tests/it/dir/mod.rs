//! The folder store: an operator edits files, and the served resources follow.

mod follow;
mod load;
mod watched;
mod whole;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use oxds_server::dir::{self, Options, Report};
use tempfile::TempDir;

fn cluster(name: &str) -> String {
    format!(
        r#""@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
name: {name}
type: STATIC
"#
    )
}

fn changed(name: &str) -> String {
    format!("{}connect_timeout: 3s\n", cluster(name))
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let dir = TempDir::new().unwrap();
    for (name, text) in files {
        write(dir.path(), name, text);
    }
    dir
}

fn write(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn load(dir: &TempDir) -> Report {
    dir::load(dir.path(), &Options::default()).unwrap()
}

fn names(report: &Report) -> BTreeSet<&str> {
    report
        .resources
        .iter()
        .map(|resource| &**resource.name())
        .collect()
}

/// Returns the findings as lines, without the folder's own path.
fn lines(dir: &TempDir, findings: &[oxds_server::Finding]) -> Vec<String> {
    let root = format!("{}/", dir.path().display());
    findings
        .iter()
        .map(|finding| finding.to_string().replace(&root, ""))
        .collect()
}
