//! O-3, O-4: commands of operators on large configurations.
//!
//! O-3: `oxds plan` of a folder in which one resource has changed, against a running server and against the folder from
//! before. It reads the folder as `oxds validate` does, and beside it what the server serves, or the other folder. O-4:
//! `oxds route` to the last of many routes: the explanation after loading, and the command as a whole.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use oxds_core::explain::{Action, Explainer, Request, ResourceSource, RuleSet};
use oxds_core::resource::ResourceParsers;
use oxds_server::dir;
use oxds_types::ResourceType;

use crate::command_line::CommandLine;
use crate::load;
use crate::plan::{Plan, Size};
use crate::program::program;
use crate::report::{Row, Table, Target, median};
use crate::roles::{Part, Role};

/// Largest ratio of a plan to the check of its folder.
const MOST_OF_VALIDATE: f64 = 2.0;
/// Longest explanation after loading, in milliseconds.
const MOST_EXPLAINED: f64 = 50.0;
/// Longest wait until the server of O-3 has loaded its folder.
const LIMIT: Duration = Duration::from_secs(60);
/// A part of the output of a plan of O-3.
const ONE_CHANGED: &str = ": 0 added, 1 changed, 0 removed";

pub(crate) fn plans(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    let (resources, rounds) = (size.many(), size.rounds);
    let work = tempfile::tempdir().map_err(text)?;
    let (now, next) = (work.path().join("now"), work.path().join("next"));
    for folder in [&now, &next] {
        std::fs::create_dir(folder).map_err(text)?;
        load::write(folder, resources).map_err(text)?;
    }
    change(&next)?;
    let server = Part::start(&Role::ControlPlane { folder: now })?;
    let program = program("OXDS_BENCH_OXDS")?;
    let validate = CommandLine::new(&program, &["validate", "."], 0);
    let arguments = ["plan", ".", "--server", server.hello()];
    let of_server = CommandLine::new(&program, &arguments, 0);
    let arguments = ["plan", ".", "--against", "../now"];
    let of_folder = CommandLine::new(&program, &arguments, 0);
    until_loaded(&of_server, &next)?;
    if !of_folder.output(&next)?.contains(ONE_CHANGED) {
        return Err("the plan against the folder has another change".to_owned());
    }
    let (mut checks, mut servers, mut folders) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        checks.push(validate.time(&next)?);
        servers.push(of_server.time(&next)?);
        folders.push(of_folder.time(&next)?);
    }
    let check = median(checks);
    for (what, times) in [("a server", servers), ("a folder", folders)] {
        table.row(&Row {
            id: "O-3",
            what: &format!("plan, 1 of {resources}, against {what} (ms)"),
            ours: median(times),
            peer: ("validate", check),
            target: Target::AtMost(MOST_OF_VALIDATE),
        });
    }
    Ok(())
}

/// Plans until the server serves its folder: before, everything would be added.
fn until_loaded(plan: &CommandLine<'_>, folder: &Path) -> Result<(), String> {
    let deadline = Instant::now() + LIMIT;
    while !plan.output(folder)?.contains(ONE_CHANGED) {
        if Instant::now() > deadline {
            return Err(format!("the server has not loaded within {LIMIT:?}"));
        }
    }
    Ok(())
}

/// Changes the timeout of the first cluster.
fn change(folder: &Path) -> Result<(), String> {
    let file = folder.join("000000.yaml");
    let old = std::fs::read_to_string(&file).map_err(text)?;
    let new = old.replacen("connect_timeout: 1s", "connect_timeout: 2s", 1);
    std::fs::write(&file, new).map_err(text)
}

pub(crate) fn route(_: &Plan, size: Size, table: &mut Table) -> Result<(), String> {
    /// Clusters and assignments.
    const RESOURCES: usize = 100;
    let (routes, rounds) = (size.many(), size.rounds);
    let folder = tempfile::tempdir().map_err(text)?;
    load::write(folder.path(), RESOURCES).map_err(text)?;
    let file = folder.path().join("routes.yaml");
    std::fs::write(file, listener(routes, RESOURCES / 2)).map_err(text)?;
    let path = format!("/service.{}/Get", routes - 1);

    let loaded = Loaded::of(folder.path())?;
    let (mut first, mut others) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let start = Instant::now();
        let mut explainer = Explainer::new(&loaded, "many", ResourceParsers::grpc());
        explain(&mut explainer, &path)?;
        first.push(millis(start));
        let start = Instant::now();
        explain(&mut explainer, &path)?;
        others.push(millis(start));
    }
    let what = format!("route, last of {routes}, after loading (ms)");
    table.limit("O-4", &what, median(first), MOST_EXPLAINED);
    let what = "the next request (ms)";
    table.limit("O-4", what, median(others), MOST_EXPLAINED);

    let program = program("OXDS_BENCH_OXDS")?;
    let arguments = ["route", "--dir", ".", "xds:///many", &path];
    let command = CommandLine::new(&program, &arguments, 0);
    let validate = CommandLine::new(&program, &["validate", "."], 0);
    let times = |command: &CommandLine<'_>| -> Result<f64, String> {
        let times = (0..rounds).map(|_| command.time(folder.path()));
        Ok(median(times.collect::<Result<_, _>>()?))
    };
    table.row(&Row {
        id: "O-4",
        what: "the whole command (ms)",
        ours: times(&command)?,
        peer: ("validate", times(&validate)?),
        target: Target::None,
    });
    Ok(())
}

/// Explains a request by both rule sets, and checks that it reaches a cluster.
fn explain(explainer: &mut Explainer<&Loaded>, path: &str) -> Result<(), String> {
    let request = Request::grpc(path, "many");
    let explanation = explainer.explain(&request, &[RuleSet::Grpc, RuleSet::Envoy]);
    let answers = explanation.answers.iter();
    let mut destinations = answers.flat_map(|answer| &answer.decision.destinations);
    if destinations.all(|one| matches!(one.action, Action::Forward { .. })) {
        Ok(())
    } else {
        Err(format!(
            "{path} reaches no cluster: {:?}",
            explanation.answers
        ))
    }
}

/// Returns an API listener and its routes, each to a service of its own.
fn listener(routes: usize, clusters: usize) -> String {
    let mut text = "\
\"@type\": type.googleapis.com/envoy.config.listener.v3.Listener
name: many
api_listener:
  api_listener:
    \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
    stat_prefix: many
    rds: { route_config_name: many, config_source: { ads: {}, resource_api_version: V3 } }
    http_filters:
    - name: router
      typed_config: { \"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
---
\"@type\": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: many
virtual_hosts:
- name: many
  domains: [\"*\"]
  routes:
"
    .to_owned();
    for index in 0..routes {
        let cluster = index % clusters;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "  - {{ match: {{ prefix: /service.{index}/ }}, route: {{ cluster: c{cluster} }} }}"
        );
    }
    text
}

/// Resources of a folder, as `oxds route` has them.
#[derive(Debug)]
struct Loaded(BTreeMap<ResourceType, BTreeMap<Arc<str>, Bytes>>);

impl Loaded {
    fn of(folder: &Path) -> Result<Self, String> {
        let report = dir::load(folder, &dir::Options::default()).map_err(text)?;
        let mut found: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for resource in report.of_all_nodes() {
            let of_type = found.entry(resource.resource_type().clone()).or_default();
            of_type.insert(Arc::clone(resource.name()), resource.value());
        }
        Ok(Self(found))
    }
}

impl ResourceSource for &Loaded {
    fn find(&self, resource_type: &ResourceType, name: &str) -> Option<Bytes> {
        self.0.get(resource_type)?.get(name).cloned()
    }

    fn names(&self, resource_type: &ResourceType) -> Vec<String> {
        let of_type = self.0.get(resource_type).into_iter().flatten();
        of_type.map(|(name, _)| name.to_string()).collect()
    }
}

fn millis(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "the form that `map_err` takes"
)]
fn text(error: impl ToString) -> String {
    error.to_string()
}
