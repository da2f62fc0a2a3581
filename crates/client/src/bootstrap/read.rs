//! Reads the JSON form, field by field.

use std::collections::BTreeMap;

use oxds_core::ads::NameSyntax;
use oxds_net::transport::ServerUri;
use serde_json::Value;

use super::config::{AllowedGrpcService, Authority, Bootstrap, Server};
use super::credential_types::CredentialTypes;
use super::environment::Switches;
use super::error::{BootstrapError, Origin};
use super::field::{FieldError, JsonField};
use super::policy::{Features, TransportPolicy};
use super::{credentials, node, template};
use crate::certificates::CertificateProviders;

/// Reads the JSON form. `origin` is for error messages only.
pub(super) fn bootstrap(
    json: &str,
    origin: Origin,
    types: &CredentialTypes,
    switches: Switches,
) -> Result<Bootstrap, BootstrapError> {
    let value: Value = match serde_json::from_str(json) {
        Ok(value) => value,
        Err(error) => {
            return Err(BootstrapError::Syntax {
                origin,
                line: error.line(),
                // serde_json reports column 0 for an empty document.
                column: error.column().max(1),
                reason: without_position(&error.to_string()),
            });
        }
    };
    let reader = Reader { types, switches };
    reader
        .bootstrap(&JsonField::root(&value))
        .map_err(|FieldError { path, reason }| {
            let path = if path.is_empty() {
                "the document".to_owned()
            } else {
                path
            };
            BootstrapError::Field {
                origin,
                path,
                reason,
            }
        })
}

fn without_position(text: &str) -> String {
    text.split(" at line ").next().unwrap_or(text).to_owned()
}

struct Reader<'a> {
    types: &'a CredentialTypes,
    switches: Switches,
}

impl Reader<'_> {
    fn bootstrap(&self, at: &JsonField<'_>) -> Result<Bootstrap, FieldError> {
        at.object()?;
        // gRFC A27: top-level servers are required, even if every authority has its own (C-8).
        let servers = match at.optional("xds_servers") {
            Some(servers) => self.servers(&servers)?,
            None => return Err(at.field("xds_servers").fault("must be set")),
        };
        if servers.is_empty() {
            return Err(at.field("xds_servers").fault("must not be empty"));
        }
        // gRFC A47: without federation, `authorities` is an unknown field (C-48).
        let (authorities, names) = if self.switches.federation {
            (at.optional("authorities"), NameSyntax::Federated)
        } else {
            (None, NameSyntax::Opaque)
        };
        let authorities = authorities.map(|at| self.authorities(&at)).transpose()?;
        let listener_template = at.text("client_default_listener_resource_name_template")?;
        Ok(Bootstrap {
            servers,
            authorities: authorities.unwrap_or_default(),
            node: at.optional("node").map_or_else(
                || Ok(node::anonymous()),
                |at| {
                    at.object()?;
                    node::read(&at)
                },
            )?,
            // gRFC A47: the default template is the service itself (C-31).
            listener_template: listener_template.unwrap_or_else(|| "%s".to_owned()),
            server_listener_template: at.text("server_listener_resource_name_template")?,
            names,
            listed_metrics: self.switches.listed_metrics,
            certificate_providers: at
                .optional("certificate_providers")
                .map_or_else(|| Ok(BTreeMap::new()), |at| self.certificate_providers(&at))?,
            tls_features: self.switches.tls,
            allowed_grpc_services: self.allowed_grpc_services(at)?,
        })
    }

    fn servers(&self, at: &JsonField<'_>) -> Result<Vec<Server>, FieldError> {
        // gRFC A71: without fallback, only the first server of a list is used (C-35).
        let most = if self.switches.fallback {
            usize::MAX
        } else {
            1
        };
        at.items()?.take(most).map(|at| self.server(&at)).collect()
    }

    fn server(&self, at: &JsonField<'_>) -> Result<Server, FieldError> {
        at.object()?;
        // gRFC A27: an entry without `server_uri`, or with an empty one, is invalid (C-9).
        let uri_at = at.field("server_uri");
        let uri = at.text("server_uri")?.unwrap_or_default();
        if uri.is_empty() {
            return Err(uri_at.fault("must be set"));
        }
        let address = ServerUri::parse(&uri).map_err(|reason| uri_at.fault(&reason))?;
        Ok(Server {
            uri,
            address,
            credentials: credentials::channel(self.types, at)?,
            call_credentials: credentials::call(self.types, at)?,
            features: at
                .optional("server_features")
                .map(|at| features(&at))
                .transpose()?
                .unwrap_or_default(),
            transport: transport(at)?,
        })
    }

    fn authorities(&self, at: &JsonField<'_>) -> Result<BTreeMap<String, Authority>, FieldError> {
        at.entries()?
            .map(|(name, at)| {
                let authority = self.authority(&name, &at)?;
                Ok((name, authority))
            })
            .collect()
    }

    fn authority(&self, name: &str, at: &JsonField<'_>) -> Result<Authority, FieldError> {
        at.object()?;
        let template_at = at.field("client_listener_resource_name_template");
        let listener_template = at.text("client_listener_resource_name_template")?;
        let start = format!("xdstp://{}/", template::encode(name));
        // gRFC A47: the template of an authority must name that authority (C-30).
        if listener_template
            .as_ref()
            .is_some_and(|template| !template.starts_with(&start))
        {
            return Err(template_at.fault(&format!("must begin with {start:?}")));
        }
        let servers = at
            .optional("xds_servers")
            .map(|at| self.servers(&at))
            .transpose()?;
        // gRFC A95: an unknown field, and so ignored, unless the environment turns it on (C-36).
        let reachability_only = if self.switches.endpoint_fallback {
            at.boolean("fallback_on_reachability_only")?
        } else {
            None
        };
        Ok(Authority {
            servers: servers.unwrap_or_default(),
            listener_template,
            fallback_on_reachability_only: reachability_only.unwrap_or_default(),
        })
    }

    /// Reads `certificate_providers`. Instances of unknown plugins are skipped (C-26).
    fn certificate_providers(
        &self,
        at: &JsonField<'_>,
    ) -> Result<CertificateProviders, FieldError> {
        let mut providers = CertificateProviders::new();
        for (name, at) in at.entries()? {
            at.object()?;
            let plugin = at.text("plugin_name")?;
            let plugin = plugin.filter(|plugin| !plugin.is_empty());
            let plugin = plugin.ok_or_else(|| at.field("plugin_name").fault("must be set"))?;
            let config = at.field("config");
            if let Some(made) = self.types.certificate_provider(&plugin, config.present()) {
                // gRFC A29: an invalid config of a known plugin makes the whole bootstrap invalid (C-26, C-27).
                providers.insert(name, made.map_err(|reason| config.fault(&reason))?);
            }
        }
        Ok(providers)
    }

    fn allowed_grpc_services(
        &self,
        at: &JsonField<'_>,
    ) -> Result<BTreeMap<String, AllowedGrpcService>, FieldError> {
        let services = at.optional("allowed_grpc_services");
        // gRFC A102: without a filter that needs it, this is an unknown field (C-36).
        let Some(at) = services.filter(|_| self.switches.allowed_grpc_services) else {
            return Ok(BTreeMap::new());
        };
        at.entries()?
            .map(|(target, at)| {
                at.object()?;
                let service = AllowedGrpcService {
                    credentials: credentials::channel(self.types, &at)?,
                    call_credentials: credentials::call(self.types, &at)?,
                };
                Ok((target, service))
            })
            .collect()
    }
}

/// Reads `transport_api_version`, which is ours.
fn transport(at: &JsonField<'_>) -> Result<TransportPolicy, FieldError> {
    let name = at.text("transport_api_version")?;
    let Some(name) = name else {
        return Ok(TransportPolicy::default());
    };
    TransportPolicy::parse(&name).map_err(|reason| at.field("transport_api_version").fault(&reason))
}

/// Reads `server_features`. The list may contain any JSON; only known strings count (C-19).
fn features(at: &JsonField<'_>) -> Result<Features, FieldError> {
    let mut features = Features::default();
    for item in at.items()? {
        // gRFC A30: the list may contain any JSON value, so unknown values and types are not errors.
        match item.value.and_then(Value::as_str) {
            Some("xds_v3") => features.xds_v3 = true,
            Some("ignore_resource_deletion") => features.ignore_resource_deletion = true,
            Some("trusted_xds_server") => features.trusted_xds_server = true,
            Some("fail_on_data_errors") => features.fail_on_data_errors = true,
            Some("resource_timer_is_transient_error") => {
                features.resource_timer_is_transient_error = true;
            }
            _ => {}
        }
    }
    Ok(features)
}
