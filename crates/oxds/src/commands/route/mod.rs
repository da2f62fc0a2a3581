//! `oxds route`: where a request goes, and why.

mod nearest;
mod request;
mod resources;
mod suite;
mod test;
mod text;

use oxds_core::explain::{Action, Explanation};

use self::request::{RequestArgs, Rules, check_listener, explainer, listener, request};
use self::resources::{Origin, Resources};
use super::Format;
use crate::exit::{Exit, Failure};
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  oxds route --dir ./config xds:///checkout /shop.Checkout/Pay
  oxds route --dir ./config xds:///checkout /shop.Checkout/Pay -H 'x-env: canary'
  oxds route xds:///checkout /shop.Checkout/Pay              # what the control plane sends to a client
  oxds route --csds 127.0.0.1:50051 xds:///checkout /shop.Checkout/Pay
  oxds route --dir ./config --listener edge --authority shop.example '/buy?v=2'
  oxds route test routes.yaml --dir ./config --min-coverage 100

The steps are listener, route configuration, virtual host, routes, clusters, endpoints. For an API listener \
they are those of gRPC clients and of Envoy; if both lead to the same destinations, they are printed once. \
Shares hold while all endpoints can be reached. What could change the answer and was not examined is named.

With xds:///NAME the request is an RPC, and its authority is NAME. With --listener it is a GET request, or an RPC \
if METHOD-OR-PATH has no slash at its begin.

Exit codes: 0 at least a part of the requests reaches a cluster, or is answered by Envoy; 1 all requests fail; 2 the listener \
does not exist, or the arguments are wrong.";

/// Explain where a request goes, and why
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Target of the client, such as `xds:///checkout` (not with --listener); then method or path, such as
    /// `/shop.Checkout/Pay` or `/buy?v=2`
    #[arg(value_name = "TARGET METHOD-OR-PATH", num_args = 1..=2, required = true)]
    request: Vec<String>,
    #[command(flatten)]
    parts: RequestArgs,
    /// Rules to route by; default: those that apply to the listener
    #[arg(long = "as", value_enum, value_name = "RULES")]
    rules: Option<Rules>,
    /// Format of the explanation on stdout
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
    /// Print all routes that do not match, instead of the first 20
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    origin: Origin,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Test(Box<test::Args>),
}

pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    if let Some(Command::Test(test)) = &args.command {
        return test::run(test);
    }
    let (target, path) = match (&args.request[..], &args.parts.listener) {
        ([path], Some(_)) => (None, path),
        ([target, path], None) => (Some(target.as_str()), path),
        ([_], None) => {
            let problem = "expected a target and a method: xds:///NAME /pkg.Service/Method";
            return Err(Failure::usage(problem).hint("or --listener NAME and a path"));
        }
        _ => return Err(Failure::usage("expected a target or --listener, not both")),
    };
    let listener = listener(target, args.parts.listener.as_deref())?;
    let request = request(target.is_some(), path, &listener, &args.parts)?;
    let resources = Resources::load(&args.origin, &[&listener])?;
    check_listener(&resources, &listener)?;
    let mut explainer = explainer(resources, &listener);
    let rules = args.rules.map(Rules::set);
    let explanation = match &rules {
        Some(rules) => explainer.explain(&request, std::slice::from_ref(rules)),
        None => {
            let rules = explainer.rules();
            explainer.explain(&request, rules)
        }
    };
    let mut output = Output::new();
    match args.output {
        Format::Text => output.write(&text::explanation(&explanation, args.all))?,
        Format::Json => output.json(&explanation)?,
    }
    Ok(if all_fail(&explanation) {
        Exit::Negative
    } else {
        Exit::Success
    })
}

fn all_fail(explanation: &Explanation) -> bool {
    let answers = explanation.answers.iter();
    let mut actions = answers.flat_map(|answer| &answer.decision.destinations);
    actions.all(|one| matches!(one.action, Action::Fail { .. }))
}
