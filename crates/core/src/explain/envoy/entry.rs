//! Listener as Envoy uses it: where routes come from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use envoy_types::pb::envoy::config::listener::v3::{FilterChain, Listener, filter::ConfigType};
use envoy_types::pb::envoy::config::route::v3::{RouteConfiguration, VirtualHost};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, http_connection_manager::RouteSpecifier,
};
use envoy_types::pb::google::protobuf::Any;
use oxds_types::{Decode, ResourceType};

use crate::explain::labels::Labels;
use crate::explain::model::{ListenerStep, RoutePlace};
use crate::explain::source::ResourceSource;

use super::table::Table;

const MANAGER: &str =
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";

/// A listener with the routes of its filter chains.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(super) name: String,
    /// Filter chains with HTTP, or the API listener; at least one.
    pub(super) parts: Vec<Part>,
}

/// A filter chain, or the API listener.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) is_tls: bool,
    pub(super) manager: HttpConnectionManager,
    /// Routes, or the reason for their absence.
    pub(super) table: Result<Table, NoTable>,
}

/// Reason for the absence of a route table.
#[derive(Debug, Clone)]
pub(super) enum NoTable {
    /// Envoy has none.
    Failed(String),
    /// Envoy may have one, by a field that is not examined.
    NotExamined(&'static str),
}

/// Whether the listener exists and has no part for gRPC clients.
pub(crate) fn has_socket_only(source: &impl ResourceSource, name: &str) -> bool {
    let value = source.find(&ResourceType::LISTENER, name);
    let listener = value.and_then(|value| Listener::from_bytes(&value).ok());
    listener.is_some_and(|listener| listener.api_listener.is_none())
}

impl Entry {
    /// Reads a listener and its route configurations.
    ///
    /// # Errors
    /// The reason why Envoy has no routes.
    pub(crate) fn read(source: &impl ResourceSource, name: &str) -> Result<Self, String> {
        let value = source.find(&ResourceType::LISTENER, name);
        let value = value.ok_or_else(|| format!("listener {name:?} does not exist"))?;
        let listener = Listener::from_bytes(&value);
        let listener = listener.map_err(|error| format!("listener {name:?}: {error}"))?;
        let mut tables = BTreeMap::new();
        let mut parts = Vec::new();
        let api = listener.api_listener.iter();
        let api = api.filter_map(|api| api.api_listener.as_ref());
        for any in api {
            parts.extend(part(
                "api_listener".to_owned(),
                false,
                any,
                source,
                &mut tables,
            ));
        }
        let chains = listener.filter_chains.iter().enumerate();
        let chains = chains.map(|(index, chain)| (format!("filter_chains[{index}]"), chain));
        let default = listener.default_filter_chain.iter();
        let default = default.map(|chain| ("default_filter_chain".to_owned(), chain));
        for (place, chain) in chains.chain(default) {
            parts.extend(of_chain(place, chain, source, &mut tables));
        }
        if parts.is_empty() {
            Err(format!("listener {name:?} has no HttpConnectionManager"))
        } else {
            Ok(Self {
                name: listener.name,
                parts,
            })
        }
    }

    /// Returns the part of this name, or the only one.
    ///
    /// # Errors
    /// The names to choose from.
    pub(super) fn part(&self, wanted: Option<&str>) -> Result<&Part, String> {
        let names = || {
            let names: Vec<_> = self.parts.iter().map(|part| part.name.as_str()).collect();
            names.join(", ")
        };
        match (wanted, &self.parts[..]) {
            (None, [only]) => Ok(only),
            (None, _) => Err(format!(
                "the connection decides the filter chain: {}",
                names()
            )),
            (Some(wanted), parts) => {
                let found = parts.iter().find(|part| part.name == wanted);
                found.ok_or_else(|| format!("no filter chain {wanted:?}: expected {}", names()))
            }
        }
    }

    /// Returns the names of the routes that clients get.
    pub(crate) fn labels(&self) -> Labels<'_> {
        let table = self.parts.first().and_then(|part| part.table.as_ref().ok());
        table.map(Table::labels).unwrap_or_default()
    }

    /// Returns the routes of all parts, each route configuration once.
    pub(crate) fn places(&self) -> Vec<RoutePlace> {
        let tables = self
            .parts
            .iter()
            .filter_map(|part| part.table.as_ref().ok());
        let mut known = BTreeSet::new();
        let tables = tables.filter(|table| known.insert(Arc::as_ptr(&table.config)));
        tables.flat_map(Table::places).collect()
    }

    pub(super) fn step(&self, part: &Part) -> ListenerStep {
        ListenerStep {
            name: self.name.clone(),
            part: part.name.clone(),
        }
    }
}

/// Tables by the name of their RDS resource, so that chains with the same routes read them once.
type Tables = BTreeMap<String, Result<Table, NoTable>>;

fn of_chain(
    place: String,
    chain: &FilterChain,
    source: &impl ResourceSource,
    tables: &mut Tables,
) -> Option<Part> {
    let name = match chain.name.as_str() {
        "" => place,
        name => name.to_owned(),
    };
    let mut filters = chain.filters.iter();
    let manager = filters.find_map(|filter| match &filter.config_type {
        Some(ConfigType::TypedConfig(any)) if any.type_url.ends_with(MANAGER) => Some(any),
        _ => None,
    });
    part(
        name,
        chain.transport_socket.is_some(),
        manager?,
        source,
        tables,
    )
}

fn part(
    name: String,
    is_tls: bool,
    any: &Any,
    source: &impl ResourceSource,
    tables: &mut Tables,
) -> Option<Part> {
    if !any.type_url.ends_with(MANAGER) {
        return None;
    }
    let manager = HttpConnectionManager::from_bytes(&any.value);
    let (manager, table) = match manager {
        Err(error) => {
            let failed = NoTable::Failed(error.to_string());
            (HttpConnectionManager::default(), Err(failed))
        }
        Ok(mut manager) => {
            let table = routes(manager.route_specifier.take(), source, tables);
            (manager, table)
        }
    };
    Some(Part {
        name,
        is_tls,
        manager,
        table,
    })
}

fn routes(
    specifier: Option<RouteSpecifier>,
    source: &impl ResourceSource,
    tables: &mut Tables,
) -> Result<Table, NoTable> {
    match specifier {
        Some(RouteSpecifier::RouteConfig(routes)) => {
            let table = Table::new(routes, "inside the listener".to_owned(), &[]);
            table.map_err(NoTable::Failed)
        }
        Some(RouteSpecifier::Rds(rds)) => {
            let name = rds.route_config_name;
            let table = tables.entry(name.clone());
            let read = || by_rds(&name, source).map_err(NoTable::Failed);
            table.or_insert_with(read).clone()
        }
        Some(RouteSpecifier::ScopedRoutes(_)) => Err(NoTable::NotExamined("scoped_routes")),
        None => Err(NoTable::Failed(
            "the HttpConnectionManager has no routes".to_owned(),
        )),
    }
}

fn by_rds(name: &str, source: &impl ResourceSource) -> Result<Table, String> {
    let value = source.find(&ResourceType::ROUTE, name);
    let value = value.ok_or_else(|| format!("route configuration {name:?} does not exist"))?;
    let routes = RouteConfiguration::from_bytes(&value);
    let routes = routes.map_err(|error| format!("route configuration {name:?}: {error}"))?;
    // Envoy gets the virtual hosts of VHDS as requests need them; each is named ROUTE_CONFIGURATION/DOMAIN.
    let mut hosts = Vec::new();
    if routes.vhds.is_some() {
        for host in source.names(&ResourceType::VIRTUAL_HOST) {
            if host
                .strip_prefix(name)
                .is_some_and(|rest| rest.starts_with('/'))
            {
                let value = source.find(&ResourceType::VIRTUAL_HOST, &host);
                let decoded = value.map(|value| VirtualHost::from_bytes(&value));
                let decoded = decoded.transpose();
                hosts.extend(decoded.map_err(|error| format!("virtual host {host:?}: {error}"))?);
            }
        }
    }
    Table::new(routes, "RDS".to_owned(), &hosts)
}
