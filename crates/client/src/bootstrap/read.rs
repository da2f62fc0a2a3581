//! Reads the JSON form, field by field, so that every complaint knows where it belongs.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    Authority, Bootstrap, BootstrapError, CertificateFiles, CredentialTypes, Features, NameSyntax,
    Origin, Server, SideService, Switches, TransportPolicy, credentials, node,
};
use crate::target;
use crate::transport::ServerUri;

/// What is wrong, and where.
pub(super) struct Fault {
    path: String,
    reason: String,
}

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
                // At the end of nothing it is 0.
                column: error.column().max(1),
                reason: without_position(&error.to_string()),
            });
        }
    };
    let reader = Reader { types, switches };
    reader
        .bootstrap(&At::root(&value))
        .map_err(|Fault { path, reason }| {
            let path = if path.is_empty() {
                "the whole".to_owned()
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
    fn bootstrap(&self, at: &At<'_>) -> Result<Bootstrap, Fault> {
        at.object()?;
        let servers = match at.optional("xds_servers") {
            Some(servers) => self.servers(&servers)?,
            None => return Err(at.field("xds_servers").fault("must be set")),
        };
        if servers.is_empty() {
            return Err(at.field("xds_servers").fault("must not be empty"));
        }
        // Without federation the field is an unknown one (C-48).
        let (authorities, names) = match self.switches.federation {
            true => (at.optional("authorities"), NameSyntax::Federated),
            false => (None, NameSyntax::Opaque),
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
            listener_template: listener_template.unwrap_or_else(|| "%s".to_owned()),
            server_listener_template: at.text("server_listener_resource_name_template")?,
            names,
            listed_metrics: self.switches.listed_metrics,
            certificate_providers: at
                .optional("certificate_providers")
                .map_or_else(|| Ok(BTreeMap::new()), |at| certificate_providers(&at))?,
            allowed_grpc_services: self.side_services(at)?,
        })
    }

    fn servers(&self, at: &At<'_>) -> Result<Vec<Server>, Fault> {
        let most = if self.switches.fallback {
            usize::MAX
        } else {
            1
        };
        at.items()?.take(most).map(|at| self.server(&at)).collect()
    }

    fn server(&self, at: &At<'_>) -> Result<Server, Fault> {
        at.object()?;
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
            transport: TransportPolicy::default(),
        })
    }

    fn authorities(&self, at: &At<'_>) -> Result<BTreeMap<String, Authority>, Fault> {
        at.entries()?
            .map(|(name, at)| {
                let authority = self.authority(&name, &at)?;
                Ok((name, authority))
            })
            .collect()
    }

    fn authority(&self, name: &str, at: &At<'_>) -> Result<Authority, Fault> {
        at.object()?;
        let template_at = at.field("client_listener_resource_name_template");
        let listener_template = at.text("client_listener_resource_name_template")?;
        let start = format!("xdstp://{}/", target::encode(name));
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
        // Unknown, and so ignored, unless turned on (C-36).
        let reachability_only = match self.switches.endpoint_fallback {
            true => at.boolean("fallback_on_reachability_only")?,
            false => None,
        };
        Ok(Authority {
            servers: servers.unwrap_or_default(),
            listener_template,
            fallback_on_reachability_only: reachability_only.unwrap_or_default(),
        })
    }

    fn side_services(&self, at: &At<'_>) -> Result<BTreeMap<String, SideService>, Fault> {
        let services = at.optional("allowed_grpc_services");
        let Some(at) = services.filter(|_| self.switches.side_services) else {
            return Ok(BTreeMap::new());
        };
        at.entries()?
            .map(|(target, at)| {
                at.object()?;
                let service = SideService {
                    credentials: credentials::channel(self.types, &at)?,
                    call_credentials: credentials::call(self.types, &at)?,
                };
                Ok((target, service))
            })
            .collect()
    }
}

/// Those of a kind that is unknown are passed over (C-26).
fn certificate_providers(at: &At<'_>) -> Result<BTreeMap<String, CertificateFiles>, Fault> {
    let mut providers = BTreeMap::new();
    for (name, at) in at.entries()? {
        at.object()?;
        match at.text("plugin_name")?.as_deref() {
            None | Some("") => return Err(at.field("plugin_name").fault("must be set")),
            Some("file_watcher") => {
                let config = at.field("config");
                let files = CertificateFiles::parse_watcher(config.present());
                providers.insert(name, files.map_err(|reason| config.fault(&reason))?);
            }
            Some(_) => {}
        }
    }
    Ok(providers)
}

/// Any JSON may stand in the list; only the texts that are known count (C-19).
fn features(at: &At<'_>) -> Result<Features, Fault> {
    let mut features = Features::default();
    for item in at.items()? {
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

/// A value and the path to it.
pub(super) struct At<'a> {
    path: String,
    value: Option<&'a Value>,
}

impl<'a> At<'a> {
    fn root(value: &'a Value) -> Self {
        Self {
            path: String::new(),
            value: Some(value),
        }
    }

    pub(super) fn field(&self, name: &str) -> Self {
        let path = if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        };
        Self {
            path,
            value: self.value.and_then(|value| value.get(name)),
        }
    }

    /// A field that is there; `null` is as good as absent.
    pub(super) fn optional(&self, name: &str) -> Option<Self> {
        Some(self.field(name)).filter(|field| field.present().is_some())
    }

    /// What stands here, unless it is `null`.
    pub(super) fn present(&self) -> Option<&'a Value> {
        self.value.filter(|value| !value.is_null())
    }

    pub(super) fn object(&self) -> Result<&'a Map<String, Value>, Fault> {
        self.value
            .and_then(Value::as_object)
            .ok_or_else(|| self.fault("must be an object"))
    }

    /// The fields of an object whose keys are names.
    fn entries(&self) -> Result<impl Iterator<Item = (String, At<'a>)>, Fault> {
        let keys = self.object()?.keys();
        Ok(keys.map(|key| (key.clone(), self.field(key))))
    }

    pub(super) fn items(&self) -> Result<impl Iterator<Item = At<'a>> + use<'a>, Fault> {
        let items = self
            .value
            .and_then(Value::as_array)
            .ok_or_else(|| self.fault("must be a list"))?;
        let path = self.path.clone();
        Ok(items.iter().enumerate().map(move |(index, item)| At {
            path: format!("{path}[{index}]"),
            value: Some(item),
        }))
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<String>, Fault> {
        let Some(field) = self.optional(name) else {
            return Ok(None);
        };
        let text = field.value.and_then(Value::as_str);
        text.map(|text| Some(text.to_owned()))
            .ok_or_else(|| field.fault("must be a string"))
    }

    fn boolean(&self, name: &str) -> Result<Option<bool>, Fault> {
        let Some(field) = self.optional(name) else {
            return Ok(None);
        };
        let boolean = field.value.and_then(Value::as_bool);
        boolean
            .map(Some)
            .ok_or_else(|| field.fault("must be true or false"))
    }

    pub(super) fn text_or_empty(&self, name: &str) -> Result<String, Fault> {
        Ok(self.text(name)?.unwrap_or_default())
    }

    /// Protobuf JSON allows both spellings.
    pub(super) fn text_either(&self, name: &str, other: &str) -> Result<String, Fault> {
        match self.text(name)? {
            Some(text) => Ok(text),
            None => self.text_or_empty(other),
        }
    }

    pub(super) fn fault(&self, reason: &str) -> Fault {
        Fault {
            path: self.path.clone(),
            reason: reason.to_owned(),
        }
    }
}
