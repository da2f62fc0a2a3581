//! GB-13: `oxds publish` of a folder with one change, beside `oxds validate` of the same folder.

use std::path::Path;
use std::time::Instant;

use super::etcd::Etcd;
use super::text::text;
use crate::command_line::CommandLine;
use crate::load;
use crate::plan::{Plan, Size};
use crate::program::program;
use crate::report::{Row, Table, Target, median};

/// Allowed time beyond that of the check, in milliseconds.
const MOST_MILLIS: f64 = 1_000.0;
/// Allowed keys of a publish: the resource and the head.
const MOST_KEYS: f64 = 2.0;

pub(crate) async fn run(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let (resources, rounds) = (size.many(), size.rounds);
    let folder = tempfile::tempdir().map_err(text)?;
    load::write(folder.path(), resources).map_err(text)?;
    let etcd = Etcd::start().await?;
    let program = program("OXDS_BENCH_OXDS")?;
    let validate = CommandLine::new(&program, &["validate", "."], 0);
    let arguments = ["publish", ".", "--etcd", &etcd.urls];
    let publish = CommandLine::new(&program, &arguments, 0);
    millis(&publish, folder.path()).await?;

    let (mut checks, mut publishes, mut keys) = (Vec::new(), Vec::new(), 0);
    for round in 0..rounds {
        change(folder.path(), round)?;
        checks.push(millis(&validate, folder.path()).await?);
        let before = etcd.revision().await?;
        publishes.push(millis(&publish, folder.path()).await?);
        keys = keys.max(etcd.keys_since(before).await?);
    }
    let (check, publish) = (median(checks), median(publishes));
    table.row(&Row {
        id: "GB-13",
        what: &format!("publish 1 of {resources} (ms)"),
        ours: publish,
        peer: ("validate", check),
        target: Target::None,
    });
    let what = "publish beyond validate (ms)";
    table.limit("GB-13", what, publish - check, MOST_MILLIS);
    table.limit("GB-13", "keys written", keys as f64, MOST_KEYS);
    if keys == 0 {
        return Err("the publishes had no change".to_owned());
    }
    Ok(())
}

/// Milliseconds of one run. The connection to etcd stays alive.
async fn millis(command: &CommandLine<'_>, folder: &Path) -> Result<f64, String> {
    let start = Instant::now();
    let end = command.end(command.start(folder)?).await?;
    Ok(end.duration_since(start).as_secs_f64() * 1e3)
}

/// Changes the timeout of the first cluster.
fn change(folder: &Path, round: usize) -> Result<(), String> {
    let file = folder.join("000000.yaml");
    let old = std::fs::read_to_string(&file).map_err(text)?;
    let timeout = |seconds| format!("connect_timeout: {seconds}s");
    let new = old.replacen(&timeout(round + 1), &timeout(round + 2), 1);
    if new == old {
        Err(format!("{} has no {}", file.display(), timeout(round + 1)))
    } else {
        std::fs::write(&file, new).map_err(text)
    }
}
