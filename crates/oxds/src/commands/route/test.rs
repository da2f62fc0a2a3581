//! `oxds route test`: requests with the clusters that are expected, and the routes that no test reaches.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use oxds_core::explain::{Answer, Explainer, RouteOutcome, RoutePlace};

use super::request::{Rules, check_listener, explainer, listener, request};
use super::resources::{Origin, Resources};
use super::suite::{Case, Suite};
use super::text::{percent, rules};

use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::table::one_line;

/// Number of routes without a test that are printed.
const MOST: usize = 20;

const EXAMPLES: &str = "\
Examples:
  oxds route test routes.yaml --dir ./config
  oxds route test routes.yaml --dir ./config --min-coverage 100   # in CI

The file has a list of tests:

  tests:
  - target: xds:///checkout             # or listener: NAME, with authority
    request: /shop.Checkout/Pay
    headers: { x-env: canary }
    cluster: checkout-v2                # or clusters: { checkout-v1: 90, checkout-v2: 10 },
                                        # status: 301, fails: true
    as: grpc                            # default: all rules that apply to the listener

Exit codes: 0 all tests pass; 1 a test fails, or less is covered than --min-coverage; 2 a file cannot be read.";

/// Check requests against the clusters that are expected
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// File of tests, in YAML
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Percent of the routes that tests must reach
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    min_coverage: f64,
    #[command(flatten)]
    origin: Origin,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let file = args.file.display();
    let text = std::fs::read(&args.file)
        .map_err(|error| Failure::usage(format_args!("{file}: {error}")))?;
    let suite: Suite = oxds_settings::read(&text)
        .map_err(|error| Failure::usage(format_args!("{}: {error}", error.place(&args.file))))?;
    let mut listeners = Vec::new();
    for (index, case) in suite.tests.iter().enumerate() {
        let at =
            |problem: String| Failure::usage(format_args!("{file}: tests[{index}]: {problem}"));
        if let Some(problem) = case.problem() {
            return Err(at(problem.to_owned()));
        }
        listeners.push(listener(case.target.as_deref(), case.listener.as_deref())?);
    }
    let names: Vec<_> = listeners.iter().map(String::as_str).collect();
    let resources = Resources::load(&args.origin, &names)?;
    let mut tested = Tested::default();
    let mut output = Output::new();
    let mut failed = 0_usize;
    for (case, name) in suite.tests.iter().zip(&listeners) {
        check_listener(&resources, name)?;
        let explainer = tested.explainer(name, &resources);
        let mut request = request(case.target.is_some(), &case.request, name, &case.parts())?;
        let own = case.rules.map(Rules::set);
        let rules = match &own {
            Some(rules) => std::slice::from_ref(rules),
            None => explainer.rules(),
        };
        request.headers.sort_unstable();
        let explanation = explainer.explain(&request, rules);
        tested.reach(name, &explanation.answers);
        for failure in failures(case, &explanation.answers) {
            failed += 1;
            output.line(&format!("FAIL {}: {failure}", one_line(case.name())))?;
        }
    }
    let covered = tested.report(&mut output)?;
    let count = suite.tests.len();
    output.line(&format!(
        "{count} tests, {failed} failures, {} of the routes covered",
        percent(covered)
    ))?;
    let is_enough = covered * 100.0 >= args.min_coverage;
    if !is_enough {
        output.line(&format!("coverage is below {}%", args.min_coverage))?;
    }
    Ok(if failed == 0 && is_enough {
        Exit::Success
    } else {
        Exit::Negative
    })
}

/// Returns a line for each answer that is not the expected one: what differs, and the step that decided.
fn failures(case: &Case, answers: &[Answer]) -> Vec<String> {
    let lines = answers.iter().filter_map(|answer| {
        let difference = case.difference(&answer.decision)?;
        let host = match &answer.decision.virtual_host {
            Some(host) => format!("virtual host {}", host.name),
            None => "no virtual host".to_owned(),
        };
        let taken = answer.decision.routes.iter();
        let taken = taken.filter(|route| matches!(route.outcome, RouteOutcome::Taken { .. }));
        let taken: Vec<_> = taken
            .map(|route| format!("route {} ({})", route.index, route.condition))
            .collect();
        let taken = if taken.is_empty() {
            "no route".to_owned()
        } else {
            taken.join(", ")
        };
        let rules = rules(&answer.rules);
        Some(one_line(&format!(
            "{difference} by the rules of {rules}: {host}, {taken}"
        )))
    });
    lines.collect()
}

/// Explainers of the listeners, and the routes that tests reached.
#[derive(Debug, Default)]
struct Tested {
    explainers: BTreeMap<String, Explainer<Resources>>,
    /// By listener: virtual host and route.
    reached: BTreeMap<String, BTreeSet<(usize, usize)>>,
}

impl Tested {
    fn explainer(&mut self, name: &str, resources: &Resources) -> &mut Explainer<Resources> {
        let known = self.explainers.entry(name.to_owned());
        known.or_insert_with(|| explainer(resources.clone(), name))
    }

    fn reach(&mut self, listener: &str, answers: &[Answer]) {
        let reached = self.reached.entry(listener.to_owned()).or_default();
        for decision in answers.iter().map(|answer| &answer.decision) {
            if let Some(host) = &decision.virtual_host {
                let routes = decision.destinations.iter().filter_map(|one| one.route);
                reached.extend(routes.map(|route| (host.index, route)));
            }
        }
    }

    /// Prints routes without a test. Returns the share of the routes that have one; 1 without routes.
    fn report(&mut self, output: &mut Output) -> Result<f64, Failure> {
        let (mut all, mut covered) = (0_usize, 0_usize);
        let mut printed = 0;
        for (listener, explainer) in &mut self.explainers {
            let reached = self.reached.get(listener);
            for RoutePlace {
                host,
                host_name,
                route,
                condition,
                ..
            } in explainer.places()
            {
                all += 1;
                if reached.is_some_and(|reached| reached.contains(&(host, route))) {
                    covered += 1;
                } else if printed < MOST {
                    printed += 1;
                    output.line(&one_line(&format!(
                        "not covered: listener {listener}, virtual host {host_name}, route {route} ({condition})"
                    )))?;
                }
            }
        }
        let hidden = all - covered - printed;
        if hidden > 0 {
            output.line(&format!("{hidden} routes more are not covered"))?;
        }
        Ok(match all {
            0 => 1.0,
            all => covered as f64 / all as f64,
        })
    }
}
