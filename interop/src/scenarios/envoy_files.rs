//! Envoy as a reader of files that `oxds serve --files` writes (S-57).

use std::path::{Path, PathBuf};

use super::envoy::resources;
use super::{SOON, Scenario, only_at};
use crate::backend::Backend;
use crate::config::{Folder, LISTENER, ROUTES, socket_listener};
use crate::http::HttpLoad;
use crate::peers::envoy::Envoy;
use crate::peers::oxds::Oxds;
use crate::wait::until;
use crate::{Context, Fallible};

/// The config source of routes and endpoints in every folder here.
const ADS: &str = "{ ads: {}, resource_api_version: V3 }";

pub(super) fn scenarios() -> Vec<Scenario> {
    let name = "envoy_files_follow_an_edit".to_owned();
    vec![Scenario::new(name, follow_an_edit)]
}

/// The `ConfigSource` of a file.
fn source(out: &Path, file: &str) -> String {
    let path = out.join(file);
    let path = path.display();
    format!("{{ resource_api_version: V3, path_config_source: {{ path: {path} }} }}")
}

fn bootstrap(cx: &Context, out: &Path) -> Fallible<PathBuf> {
    let file = format!(
        "node: {{ id: interop-1, cluster: interop }}\ndynamic_resources:\n  lds_config: {}\n  cds_config: {}\n",
        source(out, "lds.json"),
        source(out, "cds.json")
    );
    let path = cx.dir.join("bootstrap.yaml");
    std::fs::write(&path, file)?;
    Ok(path)
}

/// All resources, with references to files.
fn write(
    folder: &Folder,
    out: &Path,
    weights: &[(&str, u32)],
    (blue, green): (&Backend, &Backend),
) -> Fallible {
    let listener = socket_listener().replace(ADS, &source(out, &format!("rds/{ROUTES}.json")));
    let [routes, one, two, of_one, of_two] = resources(weights, blue, green);
    let clusters = [(one, "blue"), (two, "green")]
        .map(|(cluster, name)| cluster.replace(ADS, &source(out, &format!("eds/{name}.json"))));
    let [one, two] = clusters;
    let mut all = vec![listener, routes, of_one, of_two];
    // Removes a cluster that no route leads to.
    all.extend(
        [(one, "blue"), (two, "green")]
            .into_iter()
            .filter_map(|(cluster, name)| {
                let used = weights.iter().any(|(wanted, _)| *wanted == name);
                used.then_some(cluster)
            }),
    );
    folder.write("mesh.yaml", &all)
}

/// Given an Envoy that reads the files which `oxds serve --files` writes, and load on blue,
/// when one edit moves the route to green, adds green's cluster, and deletes blue's,
/// then the traffic follows, and no request fails.
async fn follow_an_edit(cx: Context) -> Fallible {
    let (blue, green) = (
        Backend::start("blue").await?,
        Backend::start("green").await?,
    );
    let (folder, out) = (Folder::create(&cx.dir)?, cx.dir.join("out"));
    write(&folder, &out, &[("blue", 1)], (&blue, &green))?;
    let _oxds = Oxds::serve_and_write(&cx, &folder, &out).await?;
    // It is written last.
    until("lds.json", SOON, async || {
        Ok(out.join("lds.json").exists().then_some(()))
    })
    .await?;
    let mut envoy = Envoy::start(&cx, &bootstrap(&cx, &out)?).await?;
    let load = HttpLoad::start(envoy.listener(LISTENER).await?, 3);
    let served_by = async |backend: &str| only_at(&load.calls, "traffic", &[backend]).await;
    served_by("blue").await?;
    write(&folder, &out, &[("green", 1)], (&blue, &green))?;
    served_by("green").await?;
    until("blue's cluster gone", SOON, async || {
        let clusters = envoy.clusters().await?;
        Ok((clusters == ["green"]).then_some(()))
    })
    .await?;
    load.calls.none_failed()
}
