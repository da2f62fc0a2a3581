//! Explanations: where a request goes, and why.
//!
//! ```text
//!  ResourceSource ─► Explainer ─┬─► gRPC's rules:  Resolver ─► XdsConfig ─► steps ─┐
//!       Request ────────────────┤                                                  ├─► equal? one answer : two answers
//!                               └─► Envoy's rules: route table ──────────► steps ──┘
//! ```
//!
//! By gRPC's rules, the resources pass through the parsers, the [`Resolver`] and the matchers
//! that a channel uses, so that an explanation and a channel cannot differ. By Envoy's rules, the same matchers are
//! used, with what Envoy has besides: query parameters, one random number per request, redirects.
//!
//! Nothing is guessed: a field that could change the answer and is not read is in [`Decision::not_examined`]. An
//! explanation is data; its texts contain names of resources and values of headers as they came, so a caller that
//! prints them must escape them.

mod addresses;
mod agreement;
mod check;
mod envoy;
mod grpc;
mod labels;
mod model;
mod request;
mod source;

use std::collections::BTreeMap;
use std::sync::Arc;

use oxds_types::ResourceType;

use crate::ads::{WatchError, WatchErrorReason};
use crate::resolve::{Resolution, Resolver, WatchCommand};
use crate::resource::{Listener, ParsedResource, ResourceParsers, RouteConfig, RouteSource};

pub use model::{
    Action, Answer, ClusterStep, Decision, Destination, EndpointStep, Explanation, FailureReason,
    HostStep, ListenerStep, LocalityStep, PriorityStep, RouteConfigStep, RouteOutcome, RoutePlace,
    RouteStep, RuleSet,
};
pub use request::Request;
pub use source::ResourceSource;

/// Explains where requests to one listener go. It reads each resource once.
#[derive(Debug)]
pub struct Explainer<S> {
    source: S,
    listener: Arc<str>,
    parsers: ResourceParsers,
    /// Answers to the resolver, by type and name.
    parsed: BTreeMap<(ResourceType, Arc<str>), Result<ParsedResource, WatchError>>,
    /// Configuration of the last authority.
    resolved: Option<(String, Resolution)>,
    envoy: Option<Result<envoy::Entry, String>>,
}

impl<S: ResourceSource> Explainer<S> {
    /// Makes an explainer of a listener. By gRPC's rules, resources are valid if `parsers` accept them.
    #[must_use]
    pub fn new(source: S, listener: impl Into<Arc<str>>, parsers: ResourceParsers) -> Self {
        Self {
            source,
            listener: listener.into(),
            parsers,
            parsed: BTreeMap::new(),
            resolved: None,
            envoy: None,
        }
    }

    /// Returns the rule sets that apply to the listener: to an API listener both; to a socket listener Envoy's, since
    /// gRPC clients cannot use it.
    pub fn rules(&mut self) -> &'static [RuleSet] {
        let listener = Arc::clone(&self.listener);
        if envoy::has_socket_only(&self.source, &listener) {
            &[RuleSet::Envoy]
        } else {
            &[RuleSet::Grpc, RuleSet::Envoy]
        }
    }

    /// Returns all routes of the listener, those that Envoy gets by VHDS included; none if it has no usable routes.
    pub fn places(&mut self) -> Vec<RoutePlace> {
        self.entry();
        match &self.envoy {
            Some(Ok(entry)) => entry.places(),
            _ => Vec::new(),
        }
    }

    /// Explains a request by these rule sets. If they lead to the same destinations, the explanation has one answer.
    pub fn explain(&mut self, request: &Request, rules: &[RuleSet]) -> Explanation {
        let decide = |rules: &RuleSet| match rules {
            RuleSet::Grpc => self.by_grpc(request),
            RuleSet::Envoy => self.by_envoy(request),
        };
        let decisions: Vec<_> = rules.iter().map(decide).collect();
        let answers = rules.iter().copied().zip(decisions).collect();
        Explanation {
            request: request.clone(),
            answers: agreement::joined(answers),
        }
    }

    fn by_grpc(&mut self, request: &Request) -> Decision {
        let resolution = match self.resolved.take() {
            Some((authority, resolution)) if authority == request.authority => resolution,
            _ => self.resolve(&request.authority),
        };
        self.entry();
        let entry = self.envoy.as_ref().and_then(|entry| entry.as_ref().ok());
        let labels = entry.map(envoy::Entry::labels).unwrap_or_default();
        let decision = match &resolution {
            Ok(config) => grpc::decide(config, request, &labels, &self.source),
            Err(error) => grpc::failed(self.found(), request, error),
        };
        self.resolved = Some((request.authority.clone(), resolution));
        decision
    }

    fn by_envoy(&mut self, request: &Request) -> Decision {
        self.entry();
        match &self.envoy {
            Some(Ok(entry)) => envoy::decide(entry, request, &self.source),
            Some(Err(problem)) => envoy::failed(problem),
            None => Decision::default(),
        }
    }

    /// Reads the listener as Envoy does, once.
    fn entry(&mut self) {
        let (source, listener) = (&self.source, &self.listener);
        let entry = &mut self.envoy;
        entry.get_or_insert_with(|| envoy::Entry::read(source, listener));
    }

    /// Returns the listener and its routes, as far as gRPC can read them.
    fn found(&self) -> (Option<Arc<Listener>>, Option<Arc<RouteConfig>>) {
        let parsed = |resource_type, name: &Arc<str>| {
            let key = (resource_type, Arc::clone(name));
            self.parsed.get(&key)?.as_ref().ok()
        };
        let listener = parsed(ResourceType::LISTENER, &self.listener);
        let listener = listener.and_then(ParsedResource::get::<Listener>);
        let api = listener.as_ref().and_then(|listener| listener.api.as_ref());
        let routes = api.and_then(|api| match &api.routes {
            RouteSource::Inline(routes) => Some(Arc::clone(routes)),
            RouteSource::Rds(name) => parsed(ResourceType::ROUTE, name)?.get(),
        });
        (listener, routes)
    }

    /// Returns the configuration that a channel would have.
    fn resolve(&mut self, authority: &str) -> Resolution {
        let mut resolver = Resolver::new(Arc::clone(&self.listener), authority);
        loop {
            let commands: Vec<_> = std::iter::from_fn(|| resolver.poll_command()).collect();
            if commands.is_empty() {
                break;
            }
            for command in commands {
                match command {
                    WatchCommand::Watch(resource_type, name) => {
                        let resource = self.parse(&resource_type, &name);
                        resolver.handle_resource(&resource_type, &name, resource);
                    }
                    // An explanation looks up no names: the cluster is shown with its host.
                    WatchCommand::Resolve(host) => {
                        resolver.handle_addresses(&host, Err(grpc::NOT_LOOKED_UP));
                    }
                    WatchCommand::Unwatch(..) | WatchCommand::Forget(_) => {}
                }
            }
        }
        let none = || WatchError::new(WatchErrorReason::Unusable, "no configuration");
        resolver.poll_config().unwrap_or_else(|| Err(none()))
    }

    fn parse(
        &mut self,
        resource_type: &ResourceType,
        name: &Arc<str>,
    ) -> &Result<ParsedResource, WatchError> {
        let key = (resource_type.clone(), Arc::clone(name));
        self.parsed.entry(key).or_insert_with(|| {
            let message = resource_type.message();
            let Some(value) = self.source.find(resource_type, name) else {
                let text = format!("{message} {name:?} does not exist");
                return Err(WatchError::new(WatchErrorReason::DoesNotExist, text));
            };
            self.parsers
                .parse(resource_type, &value)
                .map_err(|invalid| {
                    let text = format!("{message} {name:?} is invalid: {invalid}");
                    WatchError::new(WatchErrorReason::Invalid, text)
                })
        })
    }
}
