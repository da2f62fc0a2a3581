//! The request of a command line or of a test, and the explainer for it.

use oxds_core::explain::{Explainer, Request, ResourceSource as _, RuleSet};
use oxds_core::resource::ResourceParsers;
use oxds_types::ResourceType;

use super::nearest::nearest;
use super::resources::Resources;
use crate::commands::grpc_rules;
use crate::exit::Failure;

/// Parts of the request beside its path.
#[derive(Debug, clap::Args)]
pub(super) struct RequestArgs {
    /// Listener that the request arrives at, instead of a target
    #[arg(long, value_name = "NAME")]
    pub(super) listener: Option<String>,
    /// Authority: decides the virtual host; required with --listener
    #[arg(long, value_name = "NAME")]
    pub(super) authority: Option<String>,
    /// HTTP method
    #[arg(short = 'X', long, value_name = "METHOD")]
    pub(super) method: Option<String>,
    /// Header, such as 'x-env: canary'; repeatable
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header)]
    pub(super) headers: Vec<(String, String)>,
    /// Filter chain of the connection, if several chains have routes
    #[arg(long, value_name = "NAME")]
    pub(super) filter_chain: Option<String>,
}

/// A [`RuleSet`], by its name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Rules {
    /// Those of gRPC clients
    Grpc,
    /// Those of Envoy
    Envoy,
}

impl Rules {
    pub(super) fn set(self) -> RuleSet {
        match self {
            Self::Grpc => RuleSet::Grpc,
            Self::Envoy => RuleSet::Envoy,
        }
    }
}

pub(super) fn explainer(resources: Resources, listener: &str) -> Explainer<Resources> {
    let parsers = ResourceParsers::grpc_with(&grpc_rules::extensions());
    Explainer::new(resources, listener, parsers)
}

/// Returns the name of the listener of a target, or the given one.
pub(super) fn listener(target: Option<&str>, listener: Option<&str>) -> Result<String, Failure> {
    match (target, listener) {
        (None, Some(listener)) => Ok(listener.to_owned()),
        (Some(target), _) => match target.strip_prefix("xds:///") {
            Some(name) if !name.is_empty() => Ok(name.to_owned()),
            _ => Err(
                Failure::usage(format_args!("target {target:?}: expected xds:///NAME"))
                    .hint("--listener NAME names any listener"),
            ),
        },
        (None, None) => Err(Failure::usage(
            "expected a target xds:///NAME, or --listener NAME",
        )),
    }
}

/// Makes the request.
pub(super) fn request(
    is_rpc: bool,
    path: &str,
    listener: &str,
    parts: &RequestArgs,
) -> Result<Request, Failure> {
    let host = parts.headers.iter().find(|(name, _)| name == "host");
    let authority = parts.authority.as_ref().or(host.map(|(_, value)| value));
    let authority = match authority {
        Some(authority) => authority.as_str(),
        None if is_rpc => listener,
        None => {
            let problem = "--listener needs --authority: it decides the virtual host";
            return Err(Failure::usage(problem));
        }
    };
    let is_method = !path.starts_with('/');
    let absolute = if is_method {
        format!("/{path}")
    } else {
        path.to_owned()
    };
    let mut request = if is_rpc || is_method {
        Request::grpc(absolute, authority)
    } else {
        Request::http("GET", absolute, authority)
    };
    if let Some(method) = &parts.method {
        request.method.clone_from(method);
    }
    // A given header replaces those that every RPC has.
    let own = |name: &str| parts.headers.iter().any(|(given, _)| given == name);
    request.headers.retain(|(name, _)| !own(name));
    let headers = parts.headers.iter().filter(|(name, _)| name != "host");
    request.headers.extend(headers.cloned());
    request.filter_chain.clone_from(&parts.filter_chain);
    Ok(request)
}

/// Checks that the listener exists. The error has the nearest names.
pub(super) fn check_listener(resources: &Resources, name: &str) -> Result<(), Failure> {
    let names = resources.names(&ResourceType::LISTENER);
    if names.iter().any(|own| own == name) {
        return Ok(());
    }
    let failure = Failure::usage(format_args!("listener {name:?} not found"));
    Err(match &nearest(name, &names)[..] {
        [] => failure.hint("there are no listeners at all"),
        near => failure.hint(format_args!("there are: {}", near.join(", "))),
    })
}

/// Parses a header. Names are compared in lower case.
fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        }
        _ => Err("expected a name and a value: 'x-env: canary'".to_owned()),
    }
}
